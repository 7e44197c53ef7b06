//! Trying again where a connection was lost.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};

/// The attempts at one write, or at one step of a run's ledger.
pub struct Attempts {
    max: u32,
    /// Another attempt does not begin after that.
    until: Instant,
    failed: u32,
}

impl Attempts {
    /// At most `max`, none of which begins after `time_max`.
    pub fn of(max: u32, time_max: Duration) -> Self {
        Self {
            max,
            until: Instant::now() + time_max,
            failed: 0,
        }
    }

    /// How long to wait before the next attempt, now that one has failed; none where there is none left.
    pub fn pause(&mut self) -> Option<Duration> {
        self.failed += 1;
        let pause = pause(self.failed);
        (self.failed < self.max && Instant::now() + pause < self.until).then_some(pause)
    }

    /// Attempts start again, as of a smaller write; the time does not.
    pub fn smaller(&mut self) {
        self.failed = 0;
    }

    /// Waits before the next attempt, or gives `error` back. Only a lost connection is worth one: the ledger's steps
    /// wait for locks themselves, and each can be taken twice.
    pub async fn after(&mut self, error: Error) -> Result<()> {
        if !matches!(error.kind(), ErrorKind::Unsent | ErrorKind::InDoubt) {
            return Err(error);
        }
        let Some(pause) = self.pause() else {
            return Err(error);
        };
        self.warn(&error);
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Logs that the attempt which ended with `error` is not the last.
    pub fn warn(&self, error: &Error) {
        match self.max {
            u32::MAX => tracing::warn!("attempt {}: {error}", self.failed),
            max => tracing::warn!("attempt {} of {max}: {error}", self.failed),
        }
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
