//! A thread of its own for something that blocks.
//!
//! Work is sent as closures and done one after another in the order sent. Work that was sent is done, also
//! when nobody waits for its result any more. Dropping the [`Thread`] lets the work that was sent come to its
//! end, drops the state and returns once that is done, so that whoever comes next meets no locks of this one.

use std::{sync::mpsc, thread::JoinHandle};

use tokio::sync::oneshot;
use tonnage_core::error::{Error, Result};

type Work<S> = Box<dyn FnOnce(&mut S) + Send>;

/// Owns a state `S` that only its own operating system thread touches.
pub struct Thread<S> {
    /// None only while dropping.
    work: Option<mpsc::Sender<Work<S>>>,
    thread: Option<JoinHandle<()>>,
}

impl<S: 'static> Thread<S> {
    /// Starts the thread; the state is made on it by `open`, whose error is this function's.
    pub async fn start(name: &str, open: impl FnOnce() -> Result<S> + Send + 'static) -> Result<Self> {
        let (work, queue) = mpsc::channel::<Work<S>>();
        let (opened, ready) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let mut state = match open() {
                    Ok(state) => state,
                    Err(error) => {
                        // Nobody waiting means nobody to tell.
                        let _ = opened.send(Err(error));
                        return;
                    }
                };
                let _ = opened.send(Ok(()));
                while let Ok(work) = queue.recv() {
                    work(&mut state);
                }
            })
            .map_err(|error| {
                Error::new(
                    tonnage_core::error::ErrorKind::Refused,
                    format!("no thread could be started: {error}"),
                )
            })?;
        let thread = Self {
            work: Some(work),
            thread: Some(thread),
        };
        ready.await.map_err(|_| ended())??;
        Ok(thread)
    }

    /// Does `work` on the thread and returns its result.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce(&mut S) -> T + Send + 'static) -> Result<T> {
        let (result, ready) = oneshot::channel();
        let work: Work<S> = Box::new(move |state| {
            let _ = result.send(work(state));
        });
        self.queue(work)?;
        ready.await.map_err(|_| ended())
    }

    /// Does `work` on the thread, without waiting for it.
    pub fn send(&self, work: impl FnOnce(&mut S) + Send + 'static) -> Result<()> {
        self.queue(Box::new(work))
    }

    fn queue(&self, work: Work<S>) -> Result<()> {
        let queue = self.work.as_ref().ok_or_else(ended)?;
        queue.send(work).map_err(|_| ended())
    }
}

/// The thread is gone while its owner is not: it panicked.
fn ended() -> Error {
    Error::bug("the database thread ended before its work was done")
}

impl<S> Drop for Thread<S> {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // A panic on the thread has been reported to whoever waited for its work.
            let _ = thread.join();
        }
    }
}
