//! How fast lanes may go: at a rate that was asked for, and no faster than the database bears.
//!
//! A lane takes a turn for every write. There are as many turns as lanes; an overloaded database takes one away, down
//! to a single one, and every [`WRITES_TO_GROW`] committed writes bring one back. How far that went is kept for the
//! report.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};
use tonnage_core::{error::Error, report::OverloadReport, sync::Lock};

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
    overload: Mutex<Option<OverloadReport>>,
    rate: Option<Rate>,
    /// When the next write may begin; none before the first.
    next: Mutex<Option<Instant>>,
}

impl Throttle {
    /// A turn a lane, and a rate if one was asked for.
    pub fn new(lanes: usize, rate: Option<Rate>) -> Self {
        Self {
            lanes,
            turns: Semaphore::new(lanes),
            allowed: AtomicUsize::new(lanes),
            committed: AtomicUsize::new(0),
            overload: Mutex::default(),
            rate,
            next: Mutex::new(None),
        }
    }

    /// Waits for a turn.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// Whether rows are offered, whoever keeps up with them.
    pub fn offers(&self) -> bool {
        matches!(self.rate, Some(Rate::Offered(_)))
    }

    /// When a write of this size is to begin to keep the rate; none without one. Counts it as begun then, so it is asked
    /// once for rows, however often they are tried. Of rows that are [offered](Rate::Offered) it may be long ago.
    pub fn due(&self, rows: usize, bytes: usize) -> Option<Instant> {
        let rate = self.rate?;
        let takes = match rate {
            Rate::Rows(rate) | Rate::Offered(rate) => rows as f64 / rate as f64,
            Rate::Bytes(rate) => bytes as f64 / rate as f64,
        };
        let now = Instant::now();
        let mut next = self.next.locked();
        let planned = next.unwrap_or(now);
        let begins = match rate {
            Rate::Offered(_) => planned,
            Rate::Rows(_) | Rate::Bytes(_) => planned.max(now),
        };
        // A size and a rate that make more than a year are as good as for ever.
        *next = Some(begins + Duration::from_secs_f64(takes.min(3e7)));
        Some(begins)
    }

    /// The database asked for less, by `error`: one lane fewer works at a time. `turn` is the one held, `requests` are
    /// those that its writer still sends at once.
    pub fn shrink(&self, turn: SemaphorePermit<'_>, requests: Option<usize>, error: &Error) {
        let fewer = |allowed: usize| (allowed > 1).then_some(allowed - 1);
        if self
            .allowed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer)
            .is_ok()
        {
            turn.forget();
        }
        self.committed.store(0, Ordering::Relaxed);
        let mut overload = self.overload.locked();
        let known = overload.get_or_insert_with(|| OverloadReport {
            writes: 0,
            jobs_least: self.lanes,
            requests_least: None,
            error: String::new(),
        });
        known.writes += 1;
        known.jobs_least = known.jobs_least.min(self.allowed.load(Ordering::Relaxed));
        known.requests_least = known.requests_least.into_iter().chain(requests).min();
        known.error = error.to_string();
    }

    /// How far the run gave way; none where it never had to.
    pub fn overload(&self) -> Option<OverloadReport> {
        self.overload.locked().clone()
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
    use tonnage_core::error::ErrorKind;

    #[tokio::test(start_paused = true)]
    async fn a_rate_spaces_writes_out() {
        let throttle = Throttle::new(1, Some(Rate::Rows(1_000)));
        let began = Instant::now();
        let due = || throttle.due(500, 0).expect("there is a rate") - began;
        assert_eq!([due(), due(), due()].map(|due| due.as_millis()), [0, 500, 1_000]);
        // Rows are not caught up with.
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!([due(), due()].map(|due| due.as_millis()), [10_000, 10_500]);
        assert_eq!(Throttle::new(1, None).due(1, 1), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_offered_is_due_however_late_it_begins() {
        let throttle = Throttle::new(2, Some(Rate::Offered(1_000)));
        tokio::time::advance(Duration::from_secs(1)).await;
        let began = Instant::now();
        let due = |rows| throttle.due(rows, 0).expect("there is a rate") - began;
        // The first write begins the count.
        assert_eq!(due(100).as_millis(), 0);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(
            [due(100), due(300), due(1)].map(|due| due.as_millis()),
            [100, 200, 500]
        );
    }

    #[tokio::test]
    async fn turns_shrink_to_one_and_come_back() {
        let throttle = Throttle::new(3, None);
        assert_eq!(throttle.overload(), None);
        for requests in [None, Some(8), Some(2), Some(4), None] {
            let error = Error::new(ErrorKind::Overloaded, format!("no more than {requests:?}"));
            throttle.shrink(throttle.turn().await.expect("a turn"), requests, &error);
        }
        assert!(throttle.is_shrunk());
        let overload = throttle.overload().expect("it was overloaded");
        assert_eq!((overload.writes, overload.jobs_least), (5, 1));
        assert_eq!(
            (overload.requests_least, overload.error.as_str()),
            (Some(2), "no more than None")
        );
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
