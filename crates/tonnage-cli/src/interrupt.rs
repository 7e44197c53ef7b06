//! Ctrl-C and SIGTERM, and how a command ends that they stopped.
//!
//! The process listens from the first wait on and until its end: a request that comes between two waits, while files are
//! made or a load begins, is there for the next one.

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Mutex,
};
use tonnage::{Error, ErrorKind, Result};

use crate::{Ending, exit::Exit};

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
    pub fn exit(self) -> Exit {
        match self {
            Self::Typed => Exit::Interrupted,
            Self::Terminate => Exit::Terminated,
        }
    }
}

/// Those of Ctrl-C and of SIGTERM, once somebody has listened.
static LISTENERS: Mutex<Option<[Option<Signal>; 2]>> = Mutex::const_new(None);

fn listeners() -> [Option<Signal>; 2] {
    [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok())
}

/// Listens from now on: a request that comes before anybody waits is kept for who waits first, and ends nothing by itself.
pub async fn listen() {
    LISTENERS.lock().await.get_or_insert_with(listeners);
}

/// The next request to stop that nobody has been told of. One waits at a time.
pub async fn requested() -> Interrupt {
    let mut held = LISTENERS.lock().await;
    let [typed, terminate] = held.get_or_insert_with(listeners);
    tokio::select! {
        () = next(typed) => Interrupt::Typed,
        () = next(terminate) => Interrupt::Terminate,
    }
}

/// Without a listener the signal ends the process by itself.
async fn next(listener: &mut Option<Signal>) {
    match listener {
        Some(signals) => {
            signals.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Does `work`, which writes no rows, unless it is told to stop before.
pub async fn unless_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T, Interrupted> {
    tokio::select! {
        // Listened for before the work begins.
        biased;
        interrupt = requested() => Err(Interrupted::By(interrupt)),
        done = work => done.map_err(Interrupted::Failed),
    }
}

/// Why there is no result.
pub enum Interrupted {
    /// The work failed.
    Failed(Error),
    /// It was told to stop.
    By(Interrupt),
}

impl From<Error> for Interrupted {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
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
