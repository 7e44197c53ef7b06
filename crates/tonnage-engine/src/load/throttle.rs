//! How fast lanes may go, and how much they send at once: at a rate that was asked for, no faster than the database bears,
//! and otherwise as the [`Controller`] has found to be best.
//!
//! A lane takes a turn for every write. There are as many turns as lanes may write at once; what is given back beyond that
//! is no longer there. How far a run gave way to a database that asked for less is kept for the report, as is what was
//! settled on.

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
use tonnage_core::{
    error::Error,
    report::{OverloadReport, TuneReport},
    sync::Lock,
};

use super::tune::{Bounds, Committed, Controller};
use crate::plan::Rate;

/// The turns, the sizes of writes and the rate of a run.
pub struct Throttle {
    bounds: Bounds,
    began: Instant,
    turns: Semaphore,
    /// Turns there are now, taken or not.
    there: AtomicUsize,
    controller: Mutex<Controller>,
    overload: Mutex<Option<OverloadReport>>,
    rate: Option<Rate>,
    /// When the next write may begin; none before the first.
    next: Mutex<Option<Instant>>,
}

/// A lane's turn at a write. It is given back when it is dropped.
pub struct Turn<'a> {
    throttle: &'a Throttle,
    permit: Option<SemaphorePermit<'a>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let allowed = self.throttle.controller.locked().lanes();
        let fewer = |there: usize| (there > allowed).then_some(there - 1);
        let there = &self.throttle.there;
        let is_too_many = there
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer)
            .is_ok();
        if let Some(permit) = self.permit.take().filter(|_| is_too_many) {
            permit.forget();
        }
    }
}

impl Throttle {
    /// Of `lanes` lanes, of which as many write at once as `bounds` have, and a rate if one was asked for.
    pub fn new(bounds: Bounds, lanes: usize, rate: Option<Rate>) -> Self {
        let controller = Controller::new(bounds, lanes);
        let allowed = controller.lanes();
        Self {
            bounds,
            began: Instant::now(),
            turns: Semaphore::new(allowed),
            there: AtomicUsize::new(allowed),
            controller: Mutex::new(controller),
            overload: Mutex::default(),
            rate,
            next: Mutex::new(None),
        }
    }

    /// Waits for a turn.
    pub async fn turn(&self) -> Option<Turn<'_>> {
        let permit = self.turns.acquire().await.ok()?;
        Some(Turn {
            throttle: self,
            permit: Some(permit),
        })
    }

    /// The most rows of the next write of a lane.
    pub fn rows(&self, lane: usize) -> usize {
        self.controller.locked().rows(lane)
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

    /// The database asked for less, by `error`: one lane fewer works at a time. `requests` are those that the writer still
    /// sends at once.
    pub fn shrink(&self, requests: Option<usize>, error: &Error) {
        let allowed = {
            let mut controller = self.controller.locked();
            controller.overloaded();
            controller.lanes()
        };
        let mut overload = self.overload.locked();
        let known = overload.get_or_insert_with(|| OverloadReport {
            writes: 0,
            jobs_least: self.bounds.lanes_max,
            requests_least: None,
            error: String::new(),
        });
        known.writes += 1;
        known.jobs_least = known.jobs_least.min(allowed);
        known.requests_least = known.requests_least.into_iter().chain(requests).min();
        known.error = error.to_string();
    }

    /// A write of so many rows was too much at once for a lane, which goes on with half of them.
    pub fn too_many(&self, lane: usize, rows: usize) {
        self.controller.locked().too_many(lane, rows);
    }

    /// How far the run gave way; none where it never had to.
    pub fn overload(&self) -> Option<OverloadReport> {
        self.overload.locked().clone()
    }

    /// A write was committed: sizes and lanes may change by what it took.
    pub fn committed(&self, lane: usize, (rows, full): (usize, bool), took: Duration, idle: Duration) {
        let allowed = {
            let mut controller = self.controller.locked();
            controller.committed(Committed {
                lane,
                rows,
                full,
                seconds: took.as_secs_f64(),
                idle_seconds: idle.as_secs_f64(),
                at_seconds: self.began.elapsed().as_secs_f64(),
            });
            controller.lanes()
        };
        let more = |there: usize| (there < allowed).then_some(allowed);
        let there = self
            .there
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if let Ok(there) = there {
            self.turns.add_permits(allowed - there);
        }
    }

    /// Whether fewer lanes than there are may work, as the database asked for less: then one that waits gives its
    /// connection back.
    pub fn is_shrunk(&self) -> bool {
        self.controller.locked().is_overloaded()
    }

    /// What the run has settled on; none where nothing was to be found.
    pub fn tuned(&self) -> Option<TuneReport> {
        let controller = self.controller.locked();
        let is_asked = self.bounds.rows || self.bounds.lanes;
        let is_any = !controller.moves().is_empty() || controller.trials_kept() > 0;
        (is_asked && is_any).then(|| TuneReport {
            batch_rows: controller.settled_rows(),
            jobs: controller.settled_lanes(),
            why: controller.moves().iter().map(ToString::to_string).collect(),
            trials_without_change: controller.trials_kept(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonnage_core::error::ErrorKind;

    fn of(lanes: usize, rate: Option<Rate>) -> Throttle {
        let bounds = Bounds {
            rows_max: 1_000,
            lanes_max: lanes,
            rows: false,
            lanes: false,
        };
        Throttle::new(bounds, lanes, rate)
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_spaces_writes_out() {
        let throttle = of(1, Some(Rate::Rows(1_000)));
        let began = Instant::now();
        let due = || throttle.due(500, 0).expect("there is a rate") - began;
        assert_eq!([due(), due(), due()].map(|due| due.as_millis()), [0, 500, 1_000]);
        // Rows are not caught up with.
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!([due(), due()].map(|due| due.as_millis()), [10_000, 10_500]);
        assert_eq!(of(1, None).due(1, 1), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_offered_is_due_however_late_it_begins() {
        let throttle = of(2, Some(Rate::Offered(1_000)));
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
        let throttle = of(3, None);
        assert_eq!(throttle.overload(), None);
        for requests in [None, Some(8), Some(2), Some(4), None] {
            let error = Error::new(ErrorKind::Overloaded, format!("no more than {requests:?}"));
            let turn = throttle.turn().await.expect("a turn");
            throttle.shrink(requests, &error);
            drop(turn);
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
        for _ in 0..160 {
            throttle.committed(0, (100, true), Duration::from_millis(1), Duration::ZERO);
        }
        drop(last);
        assert!(!throttle.is_shrunk());
        assert_eq!(throttle.turns.available_permits(), 3);
        assert_eq!(throttle.tuned(), None);
    }
}
