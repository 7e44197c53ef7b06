//! The lease of an attempt, which is renewed while the attempt works.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinHandle;
use tonnage_core::{ledger::jobs::PartAttempt, stop::Stop, target::Target};

use super::LEASE_SECONDS_LEAST;

/// A lease that is kept until this is dropped.
pub(super) struct Lease {
    keeping: JoinHandle<()>,
    is_lost: Arc<AtomicBool>,
}

impl Lease {
    /// Renews the lease of `attempt` three times while it lasts. Where a later attempt has it, `stop` is requested: the epoch
    /// of the run fences this one off in any case. That the ledger cannot be reached ends nothing by itself: as long as
    /// nobody else has taken the part, it is this attempt's.
    pub(super) fn keep(target: Arc<dyn Target>, (attempt, seconds): (PartAttempt, u64), stop: Stop) -> Self {
        let is_lost = Arc::new(AtomicBool::new(false));
        let told = is_lost.clone();
        let seconds = seconds.max(LEASE_SECONDS_LEAST);
        let keeping = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(seconds) / 3).await;
                let Some(jobs) = target.ledger().jobs() else {
                    return;
                };
                match jobs.renew(&attempt, seconds).await {
                    Ok(true) => {}
                    Ok(false) => {
                        told.store(true, Ordering::Relaxed);
                        stop.request();
                        return;
                    }
                    Err(error) => tracing::warn!("the lease of {} was not renewed: {error}", attempt.of),
                }
            }
        });
        Self { keeping, is_lost }
    }

    /// Renews it no more; whether a later attempt has the part.
    pub(super) fn end(self) -> bool {
        self.keeping.abort();
        self.is_lost.load(Ordering::Relaxed)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}
