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
    match ask(&format!("{what} makes {}, and removes them. Go on?", place.shown)) {
        Some(true) => Ok(()),
        Some(false) => Err(Error::new(ErrorKind::Cancelled, "not allowed; nothing was made")),
        None => Err(Error::config(format!(
            "{what} makes {}, and nobody is there to be asked",
            place.shown
        ))
        .hint("--yes allows it; they are removed afterwards")),
    }
}

/// Asks whether what has these names may be removed, unless `yes` was said. `Config` where there is nobody to ask,
/// `Cancelled` where the answer is no. Blocks until it is there.
pub fn removal(names: &[String], yes: bool) -> Result<()> {
    let names = names.join(", ");
    match yes
        || ask(&format!("This removes {names}. Go on?")).ok_or_else(|| {
            Error::config(format!(
                "{names} would be removed, and nobody is there to be asked"
            ))
            .hint("--yes allows it; not while a bench or an explain runs there")
        })? {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Cancelled,
            "not allowed; nothing was removed",
        )),
    }
}

/// The answer to a question; none where there is nobody to ask.
fn ask(question: &str) -> Option<bool> {
    let (stdin, stderr) = (std::io::stdin(), std::io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return None;
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = stdin.lock().read_line(&mut answer);
    let answer = answer.trim().to_ascii_lowercase();
    Some(read.is_ok() && matches!(answer.as_str(), "y" | "yes"))
}
