//! What a run was bound by, from what its lanes waited for and what it cost.

use std::collections::HashMap;

use tonnage_core::report::LaneReport;
use tonnage_engine::load::Progress;

use super::{BenchOptions, processors, run::Together};
use crate::measure::{
    figures::{Bound, Costs, Load, Offered},
    rows::Rows,
    setting::Setting,
};

/// Seconds of a run below which it is not judged how many processors were busy: the system counts hundredths.
const JUDGED_SECONDS: f64 = 0.2;
/// Seconds that a round trip takes at least to somewhere else.
const FAR_SECONDS: f64 = 500e-6;
/// Writes that must be due within the time of a run for anything to be said of their times.
const WRITES_MIN: f64 = 10.0;

/// The shortest opening of a transaction so far, by each way to the database: the shortest of one run is that of few.
pub(super) type RoundTrips = HashMap<u64, f64>;

/// A run that is over.
pub(super) struct Over<'a> {
    pub(super) setting: &'a Setting,
    pub(super) together: &'a Together,
    pub(super) rows: &'a Rows,
    pub(super) rows_per_second: f64,
    /// Times that the database was asked for keys.
    pub(super) requests: u64,
    /// Seconds from before connecting to after the last commit.
    pub(super) wall: f64,
    /// Processor seconds of this process.
    pub(super) client: Option<f64>,
    /// Round trips that were counted on a way that was made longer.
    pub(super) round_trips: Option<u64>,
    /// How many writers the database takes at once. One that bounds them is a library in this process: there is no way to it,
    /// and opening a transaction takes its lock.
    pub(super) writers_max: Option<usize>,
}

impl Over<'_> {
    /// Adds what lanes say of the costs, and says what the run was bound by.
    pub(super) fn bound(
        &self,
        costs: &mut Costs,
        offered: Option<&Offered>,
        shortest: &mut RoundTrips,
    ) -> Bound {
        let together = self.together;
        let sum = |of: fn(&LaneReport) -> f64| together.lanes.iter().map(of).sum::<f64>();
        let time = (self.wall * self.setting.jobs as f64).max(1e-9);
        let commits = sum(|lane| lane.commit_seconds);
        costs.commit_seconds = Some(commits);
        costs.opening_seconds = Some(together.opening_seconds).filter(|seconds| *seconds > 0.0);
        let round_trip = costs.opening_seconds.map(|seconds| {
            let known = shortest.entry(self.setting.round_trip_micros).or_insert(seconds);
            *known = known.min(seconds);
            *known
        });
        let round_trip = round_trip.unwrap_or_default();
        let away = match self.round_trips {
            Some(counted) => counted as f64 * self.setting.round_trip_micros as f64 / 1e6,
            // A transaction is opened and committed besides; keys are asked for between them.
            None if self.writers_max.is_none() && round_trip > FAR_SECONDS => {
                (together.statements + 2 * together.commits + self.requests) as f64 * round_trip
            }
            None => 0.0,
        };
        let flushed = costs.log_flushes.or(costs.written_bytes).is_some_and(|n| n > 0);
        let flushing = (commits - together.commits as f64 * round_trip).max(0.0) / time;
        let busy = |seconds: Option<f64>| {
            let seconds = seconds.filter(|_| self.wall >= JUDGED_SECONDS);
            seconds.map(|seconds| seconds / self.wall)
        };
        Bound::of(&Load {
            rows_per_second: self.rows_per_second,
            ceiling: self.rows.ceiling_of(&together.parts),
            bringing: busy(Some(together.reading_seconds)),
            dealing: busy(Some(together.dealing_seconds)),
            client: busy(self.client),
            server: busy(costs.server_cpu_seconds),
            away: away / time,
            flushing: flushed.then_some(flushing),
            holds_rate: offered.is_some_and(Offered::holds),
            jobs: self.setting.jobs,
            processors: processors(),
        })
    }
}

/// How rows went that were offered at a rate.
pub(super) fn offered(rate: Option<u64>, progress: &Progress) -> Option<Offered> {
    let quantile = |share| {
        let time = progress.pace.responses.quantile(share);
        time.unwrap_or_default().as_secs_f64()
    };
    let responses = [0.5, 0.95, 0.99, 1.0].map(quantile);
    rate.map(|rate| Offered::of(rate, progress.pace.kept(), responses))
}

/// Why a setting tells nothing of which hardly a write would be due within a run.
pub(super) fn too_seldom(options: &BenchOptions, setting: &Setting) -> Option<String> {
    let every = setting.batch_rows as f64 / options.rate? as f64;
    (every * WRITES_MIN > options.budget.duration.as_secs_f64()).then(|| {
        format!(
            "at that rate a write of so many rows is due every {every:.1} s, and {WRITES_MIN} must be within a run; \
             --duration gives it more"
        )
    })
}
