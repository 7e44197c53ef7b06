//! Ctrl-C and SIGTERM, and how a command ends that they stopped.

use tokio::signal::unix::{SignalKind, signal};
use tonnage::{Error, ErrorKind, Result};

use crate::Ending;

/// A request to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// SIGINT: Ctrl-C.
    Typed,
    /// SIGTERM.
    Terminate,
}

impl Interrupt {
    /// What a shell reports of a process that this signal has ended.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Typed => 130,
            Self::Terminate => 143,
        }
    }
}

/// The next request to stop.
pub async fn requested() -> Interrupt {
    let next = async |kind| match signal(kind) {
        Ok(mut signals) => {
            signals.recv().await;
        }
        // Without a listener the signal ends the process by itself.
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = next(SignalKind::interrupt()) => Interrupt::Typed,
        () = next(SignalKind::terminate()) => Interrupt::Terminate,
    }
}

/// Does `work`, which writes no rows, unless it is told to stop before.
pub async fn unless_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T, Interrupted> {
    tokio::select! {
        done = work => done.map_err(Interrupted::Failed),
        interrupt = requested() => Err(Interrupted::By(interrupt)),
    }
}

/// Why there is no result.
pub enum Interrupted {
    /// The work failed.
    Failed(Error),
    /// It was told to stop.
    By(Interrupt),
}

impl Interrupted {
    /// How the command ends.
    pub fn ending(self) -> Result<Ending> {
        match self {
            Self::Failed(error) => Err(error),
            Self::By(interrupt) => Ok(Ending::Interrupted(interrupt, nothing_done())),
        }
    }
}

/// Stopped before anything was written.
pub fn nothing_done() -> Error {
    Error::new(ErrorKind::Cancelled, "interrupted; no rows were written")
}
