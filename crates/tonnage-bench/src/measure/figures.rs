//! What was measured: runs, the cells that they are of, and all of it as one report.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use tonnage_core::operation::Durability;

use super::{
    answer::Answer,
    judge::ByMethod,
    setting::{RuledOut, Setting},
    statistics::{Estimate, Steadiness, quantile, sorted},
    verdict::Taken,
};

/// The version of the form of [`BenchReport`]; it changes with every field that is renamed or means something else.
pub const REPORT_VERSION: u32 = 1;

/// How much of a rate must be reached for it to be held.
const HELD: f64 = 0.95;

/// What kept a run from being faster, as far as this process can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Rows were not made fast enough: nothing is learnt about the database.
    Generator,
    /// The processors of this process, or the one thread of it that deals rows to lanes.
    Client,
    /// Round trips that were waited for, one after another.
    RoundTrip,
    /// The processors of the database's processes.
    ServerCpu,
    /// Commits, which waited for the log to be flushed to disk.
    LogFlush,
    /// The rate at which rows were offered, which was held.
    Rate,
    /// The database, by what is not known, or the way to it.
    Database,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generator => "the generator of rows",
            Self::Client => "client CPU",
            Self::RoundTrip => "the round trip",
            Self::ServerCpu => "server CPU",
            Self::LogFlush => "the log flush",
            Self::Rate => "the rate",
            Self::Database => "the database",
        })
    }
}

/// What [`Bound::of`] decides from.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Rows a second that were written.
    pub rows_per_second: f64,
    /// Rows a second at which the generator by itself would bring the rows of this run, those that were made before at no
    /// cost; none where all were.
    pub ceiling: Option<f64>,
    /// The share of the run that the thread which brings rows was at work; none where it is not to be judged.
    pub bringing: Option<f64>,
    /// The same of the thread that deals them.
    pub dealing: Option<f64>,
    /// Processors that this process kept busy; none where that is not known.
    pub client: Option<f64>,
    /// Processors that the database's processes kept busy; none where that is not known.
    pub server: Option<f64>,
    /// The share of their time that lanes waited for round trips.
    pub away: f64,
    /// The share of their time that lanes waited for commits, without the round trips of these; none where nothing says
    /// that anything was flushed.
    pub flushing: Option<f64>,
    /// Whether rows were offered at a rate, and it was held.
    pub holds_rate: bool,
    /// Lanes.
    pub jobs: usize,
    /// Processors of this machine.
    pub processors: usize,
}

impl Bound {
    /// The first that applies: the rate that was offered, where it was held; the round trip where more than half of the
    /// time went into round trips, also by connecting; the generator where it made rows at 80 % of its ceiling, or for nine
    /// tenths of the run; client or server, whichever took more, where it kept nine tenths of a processor a job busy, or
    /// both together nine tenths of all processors; the client where it brought or dealt rows that were there for nine
    /// tenths of the run; the log flush where more than half of the time went into commits, beyond their round trips.
    ///
    /// That lanes waited for rows says nothing by itself: they do while connections are made, and where there are fewer
    /// rows than lanes could take.
    pub fn of(load: &Load) -> Self {
        let near = |ceiling: f64| load.rows_per_second >= 0.8 * ceiling;
        if load.holds_rate {
            return Self::Rate;
        }
        if load.away > 0.5 {
            return Self::RoundTrip;
        }
        let is_all = |share: Option<f64>| share.is_some_and(|share| share >= 0.9);
        if load
            .ceiling
            .is_some_and(|ceiling| near(ceiling) || is_all(load.bringing))
        {
            return Self::Generator;
        }
        let (client, server) = (load.client.unwrap_or_default(), load.server.unwrap_or_default());
        let of_jobs = 0.9 * load.jobs.min(load.processors).max(1) as f64;
        let of_all = 0.9 * load.processors.max(1) as f64;
        if client.max(server) >= of_jobs || client + server >= of_all {
            return match server > client {
                true => Self::ServerCpu,
                false => Self::Client,
            };
        }
        if is_all(load.bringing) || is_all(load.dealing) {
            return Self::Client;
        }
        match load.flushing {
            Some(share) if share > 0.5 => Self::LogFlush,
            _ => Self::Database,
        }
    }
}

/// What a run costs in addition to its time; each none where it is not known, see [`BenchReport::unmeasured`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// The share of the time of all processors of this machine that this process took, connecting included.
    pub client_cpu_share: Option<f64>,
    /// Processor seconds of the server's processes on this machine, or as the database counts them, whoever they worked
    /// for.
    pub server_cpu_seconds: Option<f64>,
    /// Their share of the time of all processors of this machine.
    pub server_cpu_share: Option<f64>,
    /// Peak resident memory of this process during the run: rows that were made beforehand, and a database that works
    /// within it, are among it.
    pub client_memory_bytes: Option<u64>,
    /// Flushes of the database's log to disk (fsync), whoever asked for them.
    pub log_flushes: Option<u64>,
    /// Bytes that the database wrote to its files, log and pages, whoever asked for them.
    pub written_bytes: Option<u64>,
    /// Seconds that lanes spent in commits, all together.
    pub commit_seconds: Option<f64>,
    /// The shortest opening of a transaction: a round trip and little else.
    pub opening_seconds: Option<f64>,
}

/// How rows went that were offered at a rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// Rows a second that were offered.
    pub rows_per_second: f64,
    /// Rows a second of which writes began; less than were offered where these began ever later.
    pub reached: f64,
    /// Seconds of a write, from when it was due to its commit, at most: half of them, 95 %, 99 %, all.
    pub response_seconds: [f64; 4],
}

impl Offered {
    /// Of `rate` rows a second, where the last write was due and began so long after the first was due.
    pub fn of(rate: u64, kept: Option<(Duration, Duration)>, response_seconds: [f64; 4]) -> Self {
        let share = kept.filter(|(_, began)| !began.is_zero());
        let share = share.map_or(1.0, |(due, began)| due.as_secs_f64() / began.as_secs_f64());
        Self {
            rows_per_second: rate as f64,
            reached: rate as f64 * share,
            response_seconds,
        }
    }

    /// Whether 95 % of the rate were reached.
    pub fn holds(&self) -> bool {
        self.reached >= HELD * self.rows_per_second
    }
}

/// What a run read by key between its writes. Every key was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// Keys that were read, repeated ones too: as many as [`Setting::reads`] asks for.
    pub keys: u64,
    /// Those that differ within their request: each is asked for once.
    pub distinct: u64,
    /// Rows that came.
    pub rows: u64,
    /// Times that the database was asked.
    pub requests: u64,
    /// Requests tried again.
    pub retries: u64,
    /// Keys over the seconds of the run, its writes among them.
    pub keys_per_second: f64,
    /// Seconds of a request, from its begin to its last row, at most: half of them, 95 %, 99 %, all.
    pub request_seconds: [f64; 4],
}

/// How puts into a buffer were answered, while its drain wrote rows to the table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// Rows over the seconds from the first put to the last answer: faster than the table takes them as long as the
    /// buffer has room.
    pub rows_per_second: f64,
    /// Seconds from the last answer to when all rows were in the table.
    pub behind_seconds: f64,
}

/// A figure that no run has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmeasured {
    /// Which: `server CPU`.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// One run of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Seconds since the first run of all, when it began.
    pub at_seconds: f64,
    /// Rows committed.
    pub rows: u64,
    /// From the first write to the last commit, or to the last read of a mix; of rows that were offered at a rate at least
    /// the time that they take.
    pub seconds: f64,
    /// Rows over seconds.
    pub rows_per_second: f64,
    /// Seconds of a write, from its begin to its commit, of a put into a buffer to its answer, at most: half of them, 95 %,
    /// 99 %, all.
    pub write_seconds: [f64; 4],
    /// Processor seconds of this process; none where the system does not tell.
    pub client_cpu_seconds: Option<f64>,
    /// Payload bytes handed to the driver.
    pub bytes_sent: u64,
    /// Statements sent.
    pub statements: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Writes tried again.
    pub retries: u64,
    /// Bytes of the table and its indexes on disk afterwards; none where the database does not tell.
    pub disk_bytes: Option<u64>,
    /// Bytes that the database's log grew by meanwhile, whoever wrote them; none where the database does not tell.
    pub log_bytes: Option<u64>,
    /// Round trips that were waited for on a way that was made longer, all connections together, connecting among them;
    /// none on the way as it is.
    #[serde(default)]
    pub round_trips: Option<u64>,
    /// What kept it from being faster.
    pub bound_by: Bound,
    /// What it cost in addition to its time.
    #[serde(flatten)]
    pub costs: Costs,
    /// How rows went that were offered at a rate; none where each write began as soon as it could.
    #[serde(default)]
    pub offered: Option<Offered>,
    /// What was read between the writes; none of no mix.
    #[serde(default)]
    pub reads: Option<Reads>,
    /// How puts into a buffer were answered; none of a load.
    #[serde(default)]
    pub acknowledged: Option<Acknowledged>,
}

/// How rows of a cell reach the pages and the log, looked at once on a table of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WritePath {
    /// How they were taken.
    pub taken: Taken,
    /// Why, a sentence each.
    pub why: Vec<String>,
    /// What a record is; none where none could be counted.
    pub record: Option<String>,
    /// Records of the table's rows, a row.
    pub row_records: Option<f64>,
    /// Records of its indexes, a row.
    pub index_records: Option<f64>,
    /// Bytes of log a row, without images of pages; none where it is not known which are this table's.
    pub log_bytes: Option<f64>,
}

impl From<ByMethod> for WritePath {
    fn from(found: ByMethod) -> Self {
        let mut why = found.why;
        why.extend(found.refused);
        Self {
            taken: found.taken,
            why,
            record: found.record.map(str::to_owned),
            row_records: found.row_records,
            index_records: found.index_records,
            log_bytes: found.log_bytes,
        }
    }
}

/// A cell and its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What was measured.
    pub setting: Setting,
    /// Rows a second.
    pub rows_per_second: Estimate,
    /// The runs that count, in the order in which they were made.
    pub runs: Vec<Run>,
    /// How its rows are written; none where it was not looked at.
    #[serde(default)]
    pub write_path: Option<WritePath>,
}

impl Cell {
    /// The median over the runs that have it.
    pub fn median(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.runs.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| quantile(&sorted(&values), 0.5))
    }

    /// The median of something over its rows.
    pub fn a_row(&self, of: impl Fn(&Run) -> Option<u64>) -> Option<f64> {
        self.median(|run| Some(of(run)? as f64 / run.rows.max(1) as f64))
    }

    /// The median of something over its commits.
    pub fn a_commit(&self, of: impl Fn(&Run) -> Option<u64>) -> Option<f64> {
        self.median(|run| Some(of(run)? as f64 / run.commits.max(1) as f64))
    }

    /// The median of something that a million of its rows would take.
    pub fn a_million_rows(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        self.median(|run| Some(of(run)? * 1e6 / run.rows.max(1) as f64))
    }

    /// The median of something of what its runs read; none of no mix.
    pub fn read(&self, of: impl Fn(&Reads) -> f64) -> Option<f64> {
        self.median(|run| run.reads.as_ref().map(&of))
    }

    /// What most of its runs were bound by.
    pub fn bound_by(&self) -> Bound {
        let count = |bound| self.runs.iter().filter(|run| run.bound_by == bound).count();
        let all = [
            Bound::Database,
            Bound::LogFlush,
            Bound::ServerCpu,
            Bound::RoundTrip,
            Bound::Client,
            Bound::Generator,
            Bound::Rate,
        ];
        all.into_iter()
            .max_by_key(|bound| count(*bound))
            .unwrap_or(Bound::Database)
    }
}

/// How fast rows of a workload are made by one thread that does nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The workload's name.
    pub workload: String,
    /// Rows a second.
    pub rows_per_second: f64,
    /// Rows that were made before the first run and kept in memory for all of them.
    pub rows_kept: u64,
}

/// The cell that was measured again and again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// It.
    pub setting: Setting,
    /// When each run began, in seconds since the first, and its rows a second.
    pub runs: Vec<(f64, f64)>,
    /// How they varied; none of fewer than two runs.
    pub steadiness: Option<Steadiness>,
}

impl Reference {
    /// Of runs in the order in which they were made.
    pub(super) fn of(setting: Setting, runs: Vec<(f64, f64)>) -> Self {
        let rates: Vec<f64> = runs.iter().map(|(_, rate)| *rate).collect();
        Self {
            setting,
            steadiness: Steadiness::of(&rates),
            runs,
        }
    }
}

/// Everything that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// See [`REPORT_VERSION`].
    pub version: u32,
    /// The database and its version.
    pub product: String,
    /// Its URL, the password removed.
    pub target: String,
    /// When it began, in UTC: `2024-02-29T23:59:58Z`; empty in a report of an earlier release.
    #[serde(default)]
    pub started: String,
    /// Processors of the client's machine.
    pub processors: usize,
    /// Seconds that all of it took.
    pub seconds: f64,
    /// The seed of rows and order.
    pub seed: u64,
    /// Rows of a run at most.
    pub rows_max: u64,
    /// Seconds of a run at most.
    pub run_seconds_max: f64,
    /// Runs of a cell that count.
    pub repeats: usize,
    /// Whether positions were kept in the ledger, as a load does by default.
    pub ledger: bool,
    /// Whether each run was one transaction.
    #[serde(default)]
    pub single_transaction: bool,
    /// Bytes a second that the way was limited to, each way.
    #[serde(default)]
    pub bandwidth: Option<u64>,
    /// What the user's own rows are and where they went; none where all were made up.
    #[serde(default)]
    pub own_rows: Option<String>,
    /// Rows a second that every run was offered; none where each was as fast as it could be.
    #[serde(default)]
    pub rate: Option<u64>,
    /// Databases that the rows of a table are spread over.
    #[serde(default = "one_database")]
    pub databases: usize,
    /// Whose processor time is the server's: `postgres (process 1234)` and its children; none where it is not known.
    #[serde(default)]
    pub server_processes: Option<String>,
    /// Figures that no run has, and why.
    #[serde(default)]
    pub unmeasured: Vec<Unmeasured>,
    /// The levels of durability that the database keeps, weakest first.
    pub durability_levels: Vec<Durability>,
    /// The answers, one for each workload and operation.
    pub answers: Vec<Answer>,
    /// The cells that were measured, in the order of the matrix.
    pub cells: Vec<Cell>,
    /// Those that were not, and why.
    pub ruled_out: Vec<RuledOut>,
    /// The one that shows noise and drift.
    pub reference: Reference,
    /// What the generator can do.
    pub generator: Vec<Ceiling>,
    /// Settings of sessions that the runs changed, a line each.
    pub settings_changed: Vec<String>,
    /// What the user should know, a sentence each.
    pub notes: Vec<String>,
}

/// Reports of earlier releases do not say it: theirs were of one database.
fn one_database() -> usize {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_bound_by_the_first_that_applies() {
        let load = Load {
            rows_per_second: 100.0,
            ceiling: Some(1_000.0),
            bringing: Some(0.1),
            dealing: Some(0.1),
            client: Some(0.3),
            server: None,
            away: 0.2,
            flushing: None,
            holds_rate: false,
            jobs: 1,
            processors: 2,
        };
        let cases = [
            (load, Bound::Database),
            (
                Load {
                    bringing: Some(0.95),
                    ..load
                },
                Bound::Generator,
            ),
            // Without rows that had to be made the generator has nothing to do with it.
            (
                Load {
                    ceiling: None,
                    bringing: Some(0.95),
                    ..load
                },
                Bound::Client,
            ),
            (
                Load {
                    dealing: Some(0.95),
                    ..load
                },
                Bound::Client,
            ),
            (
                Load {
                    away: 0.6,
                    bringing: Some(0.95),
                    ..load
                },
                Bound::RoundTrip,
            ),
            (
                Load {
                    ceiling: Some(120.0),
                    ..load
                },
                Bound::Generator,
            ),
            (
                Load {
                    ceiling: None,
                    client: Some(0.95),
                    ..load
                },
                Bound::Client,
            ),
            (
                Load {
                    client: Some(0.95),
                    jobs: 4,
                    ..load
                },
                Bound::Database,
            ),
            (
                Load {
                    client: Some(1.9),
                    jobs: 4,
                    ..load
                },
                Bound::Client,
            ),
            (Load { client: None, ..load }, Bound::Database),
            (
                Load {
                    server: Some(0.92),
                    ..load
                },
                Bound::ServerCpu,
            ),
            // Of two processors with four jobs both must be busy, by whomever.
            (
                Load {
                    server: Some(0.92),
                    jobs: 4,
                    ..load
                },
                Bound::Database,
            ),
            (
                Load {
                    server: Some(1.6),
                    jobs: 4,
                    ..load
                },
                Bound::ServerCpu,
            ),
            (
                Load {
                    client: Some(1.2),
                    server: Some(0.7),
                    jobs: 4,
                    ..load
                },
                Bound::Client,
            ),
            // By turns, so that neither is what the other waits for.
            (
                Load {
                    client: Some(0.5),
                    server: Some(0.5),
                    flushing: Some(0.4),
                    ..load
                },
                Bound::Database,
            ),
            (
                Load {
                    flushing: Some(0.6),
                    ..load
                },
                Bound::LogFlush,
            ),
            (
                Load {
                    flushing: Some(0.6),
                    server: Some(0.95),
                    ..load
                },
                Bound::ServerCpu,
            ),
            (
                Load {
                    flushing: Some(0.6),
                    away: 0.6,
                    ..load
                },
                Bound::RoundTrip,
            ),
            (
                Load {
                    away: 0.6,
                    holds_rate: true,
                    ..load
                },
                Bound::Rate,
            ),
        ];
        for (load, bound) in cases {
            assert_eq!(Bound::of(&load), bound, "{load:?}");
        }
    }
}
