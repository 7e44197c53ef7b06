//! The native module `tonnage._tonnage` of the Python package.
//!
//! It has the engine's calls as the package needs them: options come as arguments of the command line, which has the one
//! list of them, and accounts go as JSON; what they look like in Python is written in Python, beside this crate.
//!
//! What always holds: the interpreter is released while the engine works, and no thread of the engine waits for it but the
//! one that reads a source of the program's and those that call the program back; signals are looked at every
//! 100 ms by the thread that called, and no handler is installed; a forked process is refused, for it has none of the
//! threads.

mod acknowledged;
mod buffer;
mod cut;
mod database;
mod errors;
mod jobs;
mod log;
mod rows;
mod runtime;
mod source;
mod stream;
mod values;

use std::{ffi::OsString, process::ExitCode};

use pyo3::prelude::*;

use crate::errors::Failed;

/// Does what the command `tonnage` does; `arguments` begin with its name. The exit code.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let ended = py.detach(|| tonnage_cli::run(arguments));
    // There is no other way to look into it.
    (0..=u8::MAX)
        .find(|code| ExitCode::from(*code) == ended)
        .unwrap_or(u8::MAX)
}

/// An option: name, how it is written (`flag`, `value`, `value?`, `values`), values, help.
type OptionShown = (String, &'static str, Vec<String>, String);

/// The options of a command.
#[pyfunction]
fn options(py: Python<'_>, command: &str) -> PyResult<Vec<OptionShown>> {
    use tonnage_cli::described::{self, Takes};
    let found = described::options(command).map_err(|error| Failed::of(error).raise(py))?;
    let shown = found.into_iter().map(|option| {
        let takes = match option.takes {
            Takes::Nothing => "flag",
            Takes::Value => "value",
            Takes::ValueOrNothing => "value?",
            Takes::Values => "values",
        };
        (option.name, takes, option.values, option.help)
    });
    Ok(shown.collect())
}

/// A place without its password.
#[pyfunction]
fn redact(place: &str) -> String {
    tonnage::targets::redact(place)
}

#[pymodule(gil_used = false)]
mod _tonnage {
    #[pymodule_export]
    use super::{
        buffer::Buffer,
        cut::Cut,
        database::Database,
        jobs::Jobs,
        log::log_debug,
        main, options, redact,
        runtime::Stop,
        source::Source,
        stream::{Batch, Found, Stream, columns},
    };
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
