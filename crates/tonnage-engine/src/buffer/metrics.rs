//! What a buffer says of itself while it works.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;

/// Speeds are taken over at least this long.
const SPEED_OVER: Duration = Duration::from_secs(1);

/// The state of a buffer at one moment, for whoever exports it: [`Metrics::each`] names every number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Metrics {
    /// Rows accepted that are not yet durable in the table or in the rejects.
    pub depth_rows: u64,
    /// Bytes of rows in memory.
    pub depth_bytes: u64,
    /// The most bytes of rows that were queued or on their way to the database at one time.
    pub depth_bytes_peak: u64,
    /// Seconds since the oldest of them was accepted; 0 where there is none.
    pub oldest_seconds: f64,
    /// Rows accepted since the buffer was opened.
    pub rows_in: u64,
    /// Bytes of rows accepted.
    pub bytes_in: u64,
    /// Rows that have become durable in the table or in the rejects since.
    pub rows_out: u64,
    /// Rows a second accepted, between the last two looks that are a second or more apart.
    pub rows_in_per_second: f64,
    /// Rows a second that became durable.
    pub rows_out_per_second: f64,
    /// Rows that a named producer sent again and that were not taken twice.
    pub duplicates: u64,
    /// Rows put aside, over all openings of a journal.
    pub rejected: u64,
    /// Puts that failed at once for want of room.
    pub refused: u64,
    /// Times that rows were taken from the area to be written.
    pub drains: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Writes tried again: more and more of them mean that the database is away.
    pub retries: u64,
    /// Groups of rows written to the journal, each with one fsync.
    pub journal_groups: u64,
    /// Bytes of the journal's files, those included that are prepared for rows to come.
    pub journal_bytes: u64,
    /// The sequence number of the last row accepted.
    pub mark_accepted: u64,
    /// Rows up to here are in the journal; without a journal, accepted.
    pub mark_journaled: u64,
    /// The low mark: rows up to here are durable in the table or in the rejects.
    pub mark_committed: u64,
}

impl Metrics {
    /// Calls `each` with the name and value of every number; `true` where it only grows.
    pub fn each(&self, mut each: impl FnMut(&'static str, f64, bool)) {
        let grows: [(&'static str, u64); 13] = [
            ("rows_in", self.rows_in),
            ("bytes_in", self.bytes_in),
            ("rows_out", self.rows_out),
            ("duplicates", self.duplicates),
            ("rejected", self.rejected),
            ("refused", self.refused),
            ("drains", self.drains),
            ("commits", self.commits),
            ("retries", self.retries),
            ("journal_groups", self.journal_groups),
            ("mark_accepted", self.mark_accepted),
            ("mark_journaled", self.mark_journaled),
            ("mark_committed", self.mark_committed),
        ];
        let others: [(&'static str, f64); 7] = [
            ("depth_rows", self.depth_rows as f64),
            ("depth_bytes", self.depth_bytes as f64),
            ("depth_bytes_peak", self.depth_bytes_peak as f64),
            ("oldest_seconds", self.oldest_seconds),
            ("rows_in_per_second", self.rows_in_per_second),
            ("rows_out_per_second", self.rows_out_per_second),
            ("journal_bytes", self.journal_bytes as f64),
        ];
        grows
            .into_iter()
            .for_each(|(name, value)| each(name, value as f64, true));
        others
            .into_iter()
            .for_each(|(name, value)| each(name, value, false));
    }
}

/// How fast rows come and go: `N` counters at the last look that counted, and what they grew by a second before it.
#[derive(Debug)]
pub(super) struct Speed<const N: usize> {
    at: Instant,
    counts: [u64; N],
    per_second: [f64; N],
}

impl<const N: usize> Speed<N> {
    /// From `started` on, when all counters were 0.
    pub fn from(started: Instant) -> Self {
        Self {
            at: started,
            counts: [0; N],
            per_second: [0.0; N],
        }
    }

    /// What the counters grow by a second. A look that comes too soon after one that counted gets the same answer again.
    pub fn look(&mut self, now: Instant, counts: [u64; N]) -> [f64; N] {
        let passed = now.saturating_duration_since(self.at);
        if passed >= SPEED_OVER {
            let grown = |at: usize| counts[at].saturating_sub(self.counts[at]) as f64;
            self.per_second = std::array::from_fn(|at| grown(at) / passed.as_secs_f64());
            (self.at, self.counts) = (now, counts);
        }
        self.per_second
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn speeds_are_those_between_the_last_two_looks_that_count() {
        let started = Instant::now();
        let at = |millis| started + Duration::from_millis(millis);
        let mut speed = Speed::from(started);
        // Milliseconds, rows in and out by then, and the speeds that are reported.
        for (millis, counts, told) in [
            (0, [0, 0], [0.0, 0.0]),
            (999, [500, 100], [0.0, 0.0]),
            (1_000, [600, 100], [600.0, 100.0]),
            (1_500, [9_000, 9_000], [600.0, 100.0]),
            (3_000, [1_600, 100], [500.0, 0.0]),
            (7_000, [1_600, 1_600], [0.0, 375.0]),
            // A clock that does not move, and an idle hour.
            (7_000, [2_000, 1_700], [0.0, 375.0]),
            (3_607_000, [1_600, 1_600], [0.0, 0.0]),
            (3_608_250, [1_625, 1_601], [20.0, 0.8]),
        ] {
            assert_eq!(speed.look(at(millis), counts), told, "after {millis} ms");
        }
    }

    #[test]
    fn each_number_is_named_once_with_its_value() {
        let metrics = Metrics {
            depth_rows: 1,
            depth_bytes: 2,
            depth_bytes_peak: 3,
            oldest_seconds: 4.5,
            rows_in: 5,
            bytes_in: 6,
            rows_out: 7,
            rows_in_per_second: 8.5,
            rows_out_per_second: 9.5,
            duplicates: 10,
            rejected: 11,
            refused: 12,
            drains: 13,
            commits: 14,
            retries: 15,
            journal_groups: 16,
            journal_bytes: 17,
            mark_accepted: 18,
            mark_journaled: 19,
            mark_committed: 20,
        };
        let (mut found, mut grows) = (BTreeMap::new(), Vec::new());
        metrics.each(|name, value, only_grows| {
            assert_eq!(found.insert(name.to_owned(), value), None, "{name} comes twice");
            if only_grows {
                grows.push(name);
            }
        });
        // As a report has them: whatever is added there is named here.
        let written = serde_json::to_value(metrics).unwrap();
        let written = written.as_object().unwrap().iter();
        let written: BTreeMap<String, f64> = written
            .map(|(name, value)| (name.clone(), value.as_f64().unwrap()))
            .collect();
        assert_eq!(found, written);
        grows.sort_unstable();
        assert_eq!(
            grows,
            [
                "bytes_in",
                "commits",
                "drains",
                "duplicates",
                "journal_groups",
                "mark_accepted",
                "mark_committed",
                "mark_journaled",
                "refused",
                "rejected",
                "retries",
                "rows_in",
                "rows_out"
            ]
        );
    }
}
