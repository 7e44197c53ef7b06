//! Trying again where a connection was lost.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// The attempts at one step of a run's ledger.
pub struct Attempts {
    max: u32,
    failed: u32,
}

impl Attempts {
    /// None has been made yet; `max` may be.
    pub fn new(max: u32) -> Self {
        Self { max, failed: 0 }
    }

    /// Waits before the next attempt, or gives `error` back. Only a lost connection is worth one: the ledger's steps
    /// wait for locks themselves, and each can be taken twice.
    pub async fn after(&mut self, error: Error) -> Result<()> {
        self.failed += 1;
        let lost = matches!(error.kind(), ErrorKind::Unsent | ErrorKind::InDoubt);
        if !lost || self.failed >= self.max {
            return Err(error);
        }
        tracing::warn!("attempt {} of {}: {error}", self.failed, self.max);
        tokio::time::sleep(pause(self.failed)).await;
        Ok(())
    }
}

/// Before attempt `attempt + 1`: 50 ms doubled each time, at most 5 s, spread by half so that lanes do not meet again.
pub fn pause(attempt: u32) -> Duration {
    let most = Duration::from_millis(50)
        .saturating_mul(1 << attempt.min(10))
        .min(Duration::from_secs(5));
    let spread = uuid::Uuid::now_v7().as_bytes()[15];
    most.mul_f64(0.5 + f64::from(spread) / 512.0)
}
