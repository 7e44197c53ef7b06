//! Asking before something is made in a database of the user's.

use std::{
    io::{IsTerminal, Write},
    thread,
};

use tokio::sync::oneshot;
use tonnage::{Error, ErrorKind, instruments::ScratchPlace};

use crate::interrupt::{Interrupted, unless_interrupted};

/// Whether somebody has agreed beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// By --yes.
    Given,
    /// It is to be asked for.
    Asked,
}

/// Asks whether `what` may be made at `place` and removed again, unless `consent` was given or nothing of the database is
/// touched. `Config` where there is nobody to ask, `Cancelled` where the answer is no.
pub async fn allowed(what: &str, place: &ScratchPlace, consent: Consent) -> Result<(), Interrupted> {
    if consent == Consent::Given || place.outside_database {
        eprintln!("makes {}, and removes them", place.shown);
        return Ok(());
    }
    let shown = &place.shown;
    let nobody = || {
        Error::config(format!("{what} makes {shown}, and nobody is there to be asked"))
            .hint("--yes allows it; they are removed afterwards")
    };
    match ask(&format!("{what} makes {shown}, and removes them. Go on?"), nobody).await? {
        true => Ok(()),
        false => Err(refused("not allowed; nothing was made")),
    }
}

/// Asks whether what has these names may be removed, unless `consent` was given. `Config` where there is nobody to ask,
/// `Cancelled` where the answer is no.
pub async fn removal(names: &[String], consent: Consent) -> Result<(), Interrupted> {
    let names = names.join(", ");
    let nobody = || {
        Error::config(format!(
            "{names} would be removed, and nobody is there to be asked"
        ))
        .hint("--yes allows it; not while a bench or an explain runs there")
    };
    match consent == Consent::Given || ask(&format!("This removes {names}. Go on?"), nobody).await? {
        true => Ok(()),
        false => Err(refused("not allowed; nothing was removed")),
    }
}

fn refused(what: &str) -> Interrupted {
    Interrupted::Failed(Error::new(ErrorKind::Cancelled, what))
}

/// Whether a question was answered with yes; `nobody` where there is no one to ask.
async fn ask(question: &str, nobody: impl FnOnce() -> Error) -> Result<bool, Interrupted> {
    let (stdin, stderr) = (std::io::stdin(), std::io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Err(Interrupted::Failed(nobody()));
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    // A thread that nothing waits for: whoever is interrupted leaves it behind in its read.
    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        let mut answer = String::new();
        let read = stdin.read_line(&mut answer);
        let answer = answer.trim().to_ascii_lowercase();
        tell.send(read.is_ok() && matches!(answer.as_str(), "y" | "yes"))
    });
    let answer = unless_interrupted(async { Ok(told.await.unwrap_or(false)) }).await;
    if let Err(Interrupted::By(_)) = answer {
        // What is said next begins a line.
        eprintln!();
    }
    answer
}
