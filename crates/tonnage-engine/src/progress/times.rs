//! How long the writes of a run took, from their begin to their commit, counted while the run goes on.
//!
//! The counts of an HdrHistogram of two digits: one falls into one of 128 parts of a power of two of nanoseconds, so a
//! percentile is less than a hundredth above the time that it represents; memory is fixed, and no thread waits for another.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Parts of a power of two, as a power of two.
const PARTS_BITS: u32 = 7;
const PARTS: usize = 1 << PARTS_BITS;
/// Each power of two from that of [`PARTS`] to that of 2^63, and below them one part a nanosecond.
const BUCKETS: usize = (u64::BITS - PARTS_BITS + 1) as usize * PARTS;

/// Times of writes that were committed.
pub struct WriteTimes {
    base: Instant,
    buckets: Box<[AtomicU64]>,
    /// Nanoseconds since `base` at which the first write began; `u64::MAX` before.
    first: AtomicU64,
    /// Nanoseconds since `base` at which the last commit was known.
    last: AtomicU64,
}

impl Default for WriteTimes {
    fn default() -> Self {
        Self {
            base: Instant::now(),
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            first: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
        }
    }
}

impl std::fmt::Debug for WriteTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WriteTimes({} writes)", self.count())
    }
}

impl WriteTimes {
    /// Counts a write that began at `begun` and was committed at `committed`.
    pub fn record(&self, begun: Instant, committed: Instant) {
        let since = |moment: Instant| nanos(moment.saturating_duration_since(self.base));
        self.first.fetch_min(since(begun), Ordering::Relaxed);
        self.last.fetch_max(since(committed), Ordering::Relaxed);
        let taken = nanos(committed.saturating_duration_since(begun));
        self.buckets[bucket(taken)].fetch_add(1, Ordering::Relaxed);
    }

    /// Writes counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|b| b.load(Ordering::Relaxed)).sum()
    }

    /// From the beginning of the first write to the last commit; none before the first.
    pub fn window(&self) -> Option<Duration> {
        let (first, last) = self.span()?;
        Some(last.saturating_duration_since(first))
    }

    /// When the first write began, and when the last commit was known; none before the first.
    pub fn span(&self) -> Option<(Instant, Instant)> {
        let at = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed));
        (self.first.load(Ordering::Relaxed) != u64::MAX)
            .then(|| (self.base + at(&self.first), self.base + at(&self.last)))
    }

    /// Counts what `other` has counted as well, whichever of the two was made first.
    pub fn add(&mut self, other: &Self) {
        let Some((first, last)) = other.span() else {
            return;
        };
        let (first, last) = match self.span() {
            Some(own) => (own.0.min(first), own.1.max(last)),
            None => (first, last),
        };
        self.base = self.base.min(other.base);
        let since = |moment: Instant| nanos(moment.saturating_duration_since(self.base));
        self.first = AtomicU64::new(since(first));
        self.last = AtomicU64::new(since(last));
        for (bucket, other) in self.buckets.iter().zip(&other.buckets) {
            bucket.fetch_add(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The time that this share of the writes (0 to 1) took at most; none before the first.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let counts: Vec<u64> = self.buckets.iter().map(|b| b.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return None;
        }
        let wanted = ((share.clamp(0.0, 1.0) * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        reached.map(|at| Duration::from_nanos(upper(at)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn bucket(nanos: u64) -> usize {
    if nanos < PARTS as u64 {
        return nanos as usize;
    }
    let power = u64::BITS - 1 - nanos.leading_zeros();
    let part = (nanos >> (power - PARTS_BITS)) as usize & (PARTS - 1);
    (power - PARTS_BITS + 1) as usize * PARTS + part
}

/// The largest time that falls into a bucket.
fn upper(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64;
    }
    let shift = (bucket / PARTS - 1) as u32;
    let low = ((PARTS + bucket % PARTS) as u64) << shift;
    low + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_into_the_bucket_that_ends_at_it_or_a_hundredth_above() {
        for power in 0..u64::BITS {
            for offset in [0, 1, 7] {
                let nanos = (1_u64 << power).saturating_add(offset);
                let at = bucket(nanos);
                assert!(at < BUCKETS, "{nanos}");
                let upper = upper(at);
                assert!(
                    upper >= nanos && upper - nanos <= nanos / 100,
                    "{nanos} in {upper}"
                );
                assert_eq!(bucket(upper), at, "{nanos}");
            }
        }
        assert_eq!(upper(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn quantiles_and_window_are_those_of_what_was_counted() {
        let times = WriteTimes::default();
        assert_eq!((times.quantile(0.5), times.window()), (None, None));
        let begin = times.base;
        for millis in 1..=100 {
            let begun = begin + Duration::from_millis(millis);
            times.record(begun, begun + Duration::from_millis(millis));
        }
        assert_eq!(times.count(), 100);
        assert_eq!(times.window(), Some(Duration::from_millis(199)));
        for (share, millis) in [(0.0, 1.0), (0.5, 50.0), (0.95, 95.0), (1.0, 100.0)] {
            let found = times.quantile(share).unwrap().as_secs_f64() * 1e3;
            assert!(found >= millis && found <= millis * 1.01, "{share}: {found}");
        }
    }

    #[test]
    fn times_of_several_are_counted_together_whichever_was_made_first() {
        let origin = Instant::now();
        let at = |millis| origin + Duration::from_millis(millis);
        // Of each when it was made, and when its writes began and were committed.
        let of = |(made, writes): (u64, &[(u64, u64)])| {
            let times = WriteTimes {
                base: at(made),
                ..WriteTimes::default()
            };
            for (begun, committed) in writes {
                times.record(at(*begun), at(*committed));
            }
            times
        };
        let all: [(u64, &[(u64, u64)]); 4] = [
            (30, &[(40, 50), (60, 90)]),
            (5, &[(20, 70)]),
            (80, &[(80, 95)]),
            (0, &[]),
        ];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
            let mut together = of((100, &[]));
            order.iter().for_each(|one| together.add(&of(all[*one])));
            assert_eq!(together.count(), 4, "{order:?}");
            assert_eq!(together.span(), Some((at(20), at(95))), "{order:?}");
            assert_eq!(together.window(), Some(Duration::from_millis(75)), "{order:?}");
            let longest = together.quantile(1.0).unwrap_or_default();
            assert_eq!(longest, of(all[1]).quantile(1.0).unwrap_or_default(), "{order:?}");
        }
        let mut nothing = WriteTimes::default();
        nothing.add(&WriteTimes::default());
        assert_eq!((nothing.count(), nothing.span()), (0, None));
    }
}
