//! How fast lanes may go: at a rate that was asked for, and no faster than the database bears.
//!
//! A lane takes a turn for every write. There are as many turns as lanes; an overloaded database takes one away, down
//! to a single one, and every [`WRITES_TO_GROW`] committed writes bring one back.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

use crate::plan::Rate;

/// Committed writes after which a turn that was taken away comes back.
const WRITES_TO_GROW: usize = 16;

/// The turns and the rate of a run.
pub struct Throttle {
    lanes: usize,
    turns: Semaphore,
    /// Turns there are now.
    allowed: AtomicUsize,
    committed: AtomicUsize,
    rate: Option<Rate>,
    /// When the next write may begin.
    next: Mutex<Instant>,
}

impl Throttle {
    /// A turn a lane, and a rate if one was asked for.
    pub fn new(lanes: usize, rate: Option<Rate>) -> Self {
        Self {
            lanes,
            turns: Semaphore::new(lanes),
            allowed: AtomicUsize::new(lanes),
            committed: AtomicUsize::new(0),
            rate,
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits for a turn.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// How long a write of this size has to wait, from now, to keep the rate. Counts it as begun then, so it is asked
    /// once for rows, however often they are tried.
    pub fn wait(&self, rows: usize, bytes: usize) -> Duration {
        let Some(rate) = self.rate else {
            return Duration::ZERO;
        };
        let takes = match rate {
            Rate::Rows(rate) => rows as f64 / rate as f64,
            Rate::Bytes(rate) => bytes as f64 / rate as f64,
        };
        let now = Instant::now();
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = (*next).max(now);
        // A size and a rate that make more than a year are as good as for ever.
        *next = begins + Duration::from_secs_f64(takes.min(3e7));
        begins - now
    }

    /// The database asked for less: one lane fewer works at a time. `turn` is the one held.
    pub fn shrink(&self, turn: SemaphorePermit<'_>) {
        let fewer = |allowed: usize| (allowed > 1).then_some(allowed - 1);
        if self
            .allowed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer)
            .is_ok()
        {
            turn.forget();
        }
        self.committed.store(0, Ordering::Relaxed);
    }

    /// A write was committed: now and then this brings a lane back.
    pub fn grow(&self) {
        if self.allowed.load(Ordering::Relaxed) == self.lanes {
            return;
        }
        if self.committed.fetch_add(1, Ordering::Relaxed) + 1 >= WRITES_TO_GROW {
            self.committed.store(0, Ordering::Relaxed);
            let more = |allowed: usize| (allowed < self.lanes).then_some(allowed + 1);
            if self
                .allowed
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
                .is_ok()
            {
                self.turns.add_permits(1);
            }
        }
    }

    /// Whether fewer lanes than there are may work: then one that waits gives its connection back.
    pub fn is_shrunk(&self) -> bool {
        self.allowed.load(Ordering::Relaxed) < self.lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_spaces_writes_out() {
        let throttle = Throttle::new(1, Some(Rate::Rows(1_000)));
        assert_eq!(throttle.wait(500, 0), Duration::ZERO);
        let second = throttle.wait(2_000, 0);
        assert!(second <= Duration::from_millis(500) && second > Duration::from_millis(300));
        assert!(throttle.wait(1, 0) > Duration::from_millis(2_000));
        let throttle = Throttle::new(1, None);
        assert_eq!(
            (throttle.wait(1, 1), throttle.wait(1, 1)),
            (Duration::ZERO, Duration::ZERO)
        );
    }

    #[tokio::test]
    async fn turns_shrink_to_one_and_come_back() {
        let throttle = Throttle::new(3, None);
        for _ in 0..5 {
            throttle.shrink(throttle.turn().await.expect("a turn"));
        }
        assert!(throttle.is_shrunk());
        let last = throttle.turn().await.expect("one is left");
        assert_eq!(throttle.turns.available_permits(), 0);
        for _ in 0..10 * WRITES_TO_GROW {
            throttle.grow();
        }
        drop(last);
        assert!(!throttle.is_shrunk());
        assert_eq!(throttle.turns.available_permits(), 3);
    }
}
