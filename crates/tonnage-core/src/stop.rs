//! The request to stop a run, which whoever works for it looks at.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How often it is looked whether the run was stopped.
pub const STOP_LOOK: Duration = Duration::from_millis(100);

/// Asks a run to stop: what is being written is finished, the rest is left for a resume.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked for.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Does `work` unless it is asked for before; none then.
    pub async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let asked = async {
            while !self.requested() {
                tokio::time::sleep(STOP_LOOK).await;
            }
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = asked => None,
        }
    }
}
