//! Waiting for the rate that was asked for.

use std::time::{Duration, Instant};

use super::{lane::LaneTask, write::Write};

/// How often a lane that waits for its rate looks whether the run is to stop.
const STOP_LOOK: Duration = Duration::from_millis(50);

impl LaneTask {
    /// Waits until the rate allows the write, or the run is to stop; says when it was due if it was offered.
    pub(super) async fn keep_rate(&mut self, write: &Write) -> Option<Instant> {
        let shared = &self.shared;
        let (rows, bytes) = (write.rows.num_rows(), write.rows.get_array_memory_size());
        let due = shared.throttle.due(rows, bytes)?;
        let waiting = Instant::now();
        loop {
            let left = due.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() || shared.stopped() {
                break;
            }
            match shared.throttle.offers() && left < STOP_LOOK {
                true => exactly(left).await,
                false => tokio::time::sleep(left.min(STOP_LOOK)).await,
            }
        }
        shared.times.held(self.lane, waiting);
        shared.throttle.offers().then(|| due.into_std())
    }
}

/// Waits for so long and hardly longer, on a separate thread: timers of the runtime count whole milliseconds, and by as
/// much a write would seem slower.
async fn exactly(time: Duration) {
    // It fails where the runtime ends.
    let _ = tokio::task::spawn_blocking(move || std::thread::sleep(time)).await;
}
