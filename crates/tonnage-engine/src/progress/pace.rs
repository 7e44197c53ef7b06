//! Where rows are offered at a rate: whether writes began when they were due, and how long after that they were committed.
//!
//! What is offered at a rate waits where the database does not keep up. Counted from its beginning, a write looks as fast
//! as ever; counted from when it was due, it has waited (Gil Tene calls the difference coordinated omission).

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use tonnage_core::sync::Lock;

use super::times::WriteTimes;

/// The writes of a run whose rows are offered at a rate.
#[derive(Debug, Default)]
pub struct Pace {
    /// From when a write was due to its commit.
    pub responses: WriteTimes,
    begun: Mutex<Option<Begun>>,
}

#[derive(Debug, Clone, Copy)]
struct Begun {
    /// When the first write was due, which begins the count.
    first: Instant,
    /// When the last one was.
    due: Instant,
    /// When it began.
    last: Instant,
}

impl Pace {
    /// Counts a write that was due at `due`, began at `begun` and was committed at `committed`.
    pub fn record(&self, due: Instant, begun: Instant, committed: Instant) {
        self.responses.record(due, committed);
        let mut held = self.begun.locked();
        let one = Begun {
            first: due,
            due,
            last: begun,
        };
        let known = held.get_or_insert(one);
        known.first = known.first.min(due);
        if due > known.due {
            (known.due, known.last) = (due, begun);
        }
    }

    /// From when the first write was due to when the last was, and to when that began, which is no less: with who keeps
    /// up these are the same. None before the first.
    pub fn kept(&self) -> Option<(Duration, Duration)> {
        let held = self.begun.locked();
        let known = (*held)?;
        let due = known.due - known.first;
        Some((due, known.last.saturating_duration_since(known.first).max(due)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_when_writes_were_due() {
        let pace = Pace::default();
        assert_eq!(pace.kept(), None);
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let millis = |(due, began): (Duration, Duration)| (due.as_millis(), began.as_millis());
        pace.record(at(0), at(0), at(30));
        assert_eq!(pace.kept().map(millis), Some((0, 0)));
        // Each takes 30 ms and is due every 10: one lane falls behind by 20 a write.
        pace.record(at(20), at(60), at(90));
        pace.record(at(10), at(30), at(60));
        assert_eq!(pace.kept().map(millis), Some((20, 60)));
        assert_eq!(pace.responses.count(), 3);
        let longest = pace.responses.quantile(1.0).unwrap().as_secs_f64();
        assert!((0.070..0.071).contains(&longest), "{longest}");
        // Who begins a little early keeps up.
        pace.record(at(100), at(99), at(101));
        assert_eq!(pace.kept().map(millis), Some((100, 100)));
    }
}
