//! Standard output. Whoever reads it may leave early (`tonnage runs .. | head`), which is no failure.

use std::{
    fmt::Arguments,
    io::{ErrorKind, Write, stdout},
    process::exit,
};

use tonnage::{Error, Result};

/// Writes to standard output. Ends the process, successfully, where nobody reads any more; what is printed is the last
/// thing that a command does.
pub fn write(text: Arguments<'_>) -> Result<()> {
    let mut out = stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(0),
        Err(error) => {
            Err(Error::input(format!("standard output cannot be written: {error}")).caused_by(error))
        }
    }
}

/// Writes formatted text to standard output: see [`write()`].
macro_rules! out {
    ($($format:tt)*) => { $crate::output::write(format_args!($($format)*)) };
}

/// The same with a line end.
macro_rules! outln {
    ($($format:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($format)*))) };
}

pub(crate) use {out, outln};
