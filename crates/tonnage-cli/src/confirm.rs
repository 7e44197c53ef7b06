//! Asking before something is made in a database of the user's.

use std::io::{BufRead, IsTerminal, Write};

use tonnage::{Error, ErrorKind, Result, measure::gauge::ScratchPlace};

/// Asks whether `what` may be made at `place` and removed again, unless `yes` was said or nothing of the database is
/// touched. `Config` where there is nobody to ask, `Cancelled` where the answer is no. Blocks until it is there.
pub fn allowed(what: &str, place: &ScratchPlace, yes: bool) -> Result<()> {
    if yes || place.apart {
        eprintln!("makes {}, and removes them", place.shown);
        return Ok(());
    }
    let (stdin, stderr) = (std::io::stdin(), std::io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Err(Error::config(format!(
            "{what} makes {}, and nobody is there to be asked",
            place.shown
        ))
        .hint("--yes allows it; they are removed afterwards"));
    }
    eprint!("{what} makes {}, and removes them. Go on? [y/N] ", place.shown);
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = stdin.lock().read_line(&mut answer);
    match (read, answer.trim().to_ascii_lowercase().as_str()) {
        (Ok(_), "y" | "yes") => Ok(()),
        _ => Err(Error::new(ErrorKind::Cancelled, "not allowed; nothing was made")),
    }
}
