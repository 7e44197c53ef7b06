//! The account of a run.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::operation::{Durability, Method};

/// What a run did. Serialises to the object that `--report` writes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Report {
    /// The run in the ledger; none without one.
    pub run_id: Option<String>,
    /// How it ended.
    pub state: RunState,
    /// The target's URL, its password removed.
    pub target: String,
    /// The table.
    pub table: String,
    /// What happened to rows.
    pub operation: &'static str,
    /// How they travelled.
    pub method: Method,
    /// The rows.
    pub rows: Rows,
    /// The bytes.
    pub bytes: Bytes,
    /// Wall-clock seconds of this attempt.
    pub seconds: f64,
    /// Rows written a second, this attempt.
    pub rows_per_second: f64,
    /// Lanes that write at a time.
    pub jobs: usize,
    /// The shards of a table that lies in several places, and what each has taken; empty for another.
    pub shards: Vec<ShardReport>,
    /// The most rows of a write.
    pub batch_rows: usize,
    /// The most bytes of a write.
    pub batch_bytes: usize,
    /// What its commits promise.
    pub durability: Durability,
    /// Statements sent.
    pub statements: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Writes tried again.
    pub retries: u64,
    /// How far it gave way to a database that asked for less; none where it never had to.
    pub overload: Option<OverloadReport>,
    /// What sizes of writes and how many lanes it settled on; none where nothing was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuned: Option<TuneReport>,
    /// Session settings changed.
    pub settings_changed: Vec<String>,
    /// Guarantees given up.
    pub guarantees_lost: Vec<String>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Where rejects are, if there are any.
    pub rejects: Option<String>,
    /// Processor seconds of this process so far; none where the system does not tell.
    pub client_cpu_seconds: Option<f64>,
    /// Peak resident memory of this process; none where the system does not tell.
    pub peak_memory_bytes: Option<u64>,
    /// What the run waited for most.
    #[schemars(with = "String")]
    pub bound_by: BoundBy,
    /// Where the time went.
    pub stages: Stages,
    /// Why it stopped, where it did.
    pub error: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum RunState {
    /// All rows are done.
    #[serde(rename = "finished")]
    Finished,
    /// By request or by an error; it can go on where its input can be read again.
    #[serde(rename = "stopped")]
    Stopped,
    /// An earlier attempt had finished it.
    #[serde(rename = "nothing to do")]
    NothingToDo,
}

/// What a run waits for most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bottleneck {
    /// Reading and parsing the source.
    Source,
    /// Converting, sorting and encoding rows in this process.
    Encoder,
    /// Round trips.
    Network,
    /// The database.
    Target,
    /// One shard of several, by its name.
    Shard(String),
    /// The rate that was asked for, too few jobs, or retries.
    Pace,
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source => f.write_str("the source"),
            Self::Encoder => f.write_str("the encoder"),
            Self::Network => f.write_str("the network"),
            Self::Target => f.write_str("the target"),
            Self::Shard(name) => write!(f, "the shard {name}"),
            Self::Pace => f.write_str("the pace"),
        }
    }
}

/// What more of would have made a run faster, and why that is thought. Serialises to its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundBy {
    /// What it waited for.
    pub bottleneck: Bottleneck,
    /// The figures behind it: `lanes waited for it 80% of the time`.
    pub why: String,
}

impl fmt::Display for BoundBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.bottleneck, self.why)
    }
}

impl Serialize for BoundBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where the time went. Stages work at the same time, so their seconds add up to more than the run took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Stages {
    /// Wall-clock seconds.
    #[serde(skip)]
    pub seconds: f64,
    /// The source reading and parsing, by one thread.
    pub reading_seconds: f64,
    /// Converting rows to the columns' types, sorting and dealing them, by one thread.
    pub dealing_seconds: f64,
    /// That thread waiting since lanes had all that they may hold.
    pub full_seconds: f64,
    /// The shortest opening of a transaction: a round trip to the database, and little else.
    pub round_trip_seconds: f64,
    /// The lanes.
    pub lanes: Vec<LaneReport>,
}

/// What a lane spent its time on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct LaneReport {
    /// The shard that it writes to, where it is one only.
    pub shard: Option<String>,
    /// Waiting for rows.
    pub idle_seconds: f64,
    /// Waiting for a turn, for the rate that was asked for, or before another attempt.
    pub held_seconds: f64,
    /// At work in this process: encoding rows, above all.
    pub encoding_seconds: f64,
    /// Waiting for the network and the database.
    pub target_seconds: f64,
    /// Of these two, in commits.
    pub commit_seconds: f64,
}

impl LaneReport {
    /// Seconds at work: encoding, and waiting for the target.
    pub fn busy(&self) -> f64 {
        self.encoding_seconds + self.target_seconds
    }
}

/// How far a run gave way to a database that asked for less.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OverloadReport {
    /// How often a write was tried again for that, smaller where it had several rows.
    pub writes: u64,
    /// The fewest lanes that wrote at a time.
    pub jobs_least: usize,
    /// The fewest requests that a lane had under way at once; none where it sends one after another.
    pub requests_least: Option<usize>,
    /// What the database said last.
    pub error: String,
}

/// What a run settled on while its rows went in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TuneReport {
    /// The most rows of a write.
    pub batch_rows: usize,
    /// Lanes that write at a time.
    pub jobs: usize,
    /// Each change and what it was worth, a phrase each, in their order; empty where the first settings were kept.
    pub why: Vec<String>,
    /// Trials of other settings that have changed nothing.
    pub trials_without_change: u64,
}

/// What has become of the rows of a shard in this attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShardReport {
    /// A partition, or a database without its password.
    pub name: String,
    /// Rows applied and committed.
    pub written: u64,
    /// Rows left out.
    pub skipped: u64,
    /// Rows put aside.
    pub rejected: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Why the rest of its rows is undone, where it failed.
    pub error: Option<String>,
}

/// Rows by what became of them: `read = written + skipped + rejected + unfinished`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rows {
    /// Rows of the source seen.
    pub read: u64,
    /// Applied and committed.
    pub written: u64,
    /// Left out for a reason.
    pub skipped: Skipped,
    /// Put aside in the rejects file.
    pub rejected: u64,
    /// Read, but neither committed nor put aside when the run stopped.
    pub unfinished: u64,
}

/// Rows left out, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Skipped {
    /// Their key was there already.
    pub conflict: u64,
    /// Their key was not there.
    pub unmatched: u64,
    /// A later row of the same input and key replaced them before they were sent.
    pub superseded: u64,
    /// An earlier attempt of the run handled them.
    pub resumed: u64,
}

impl Rows {
    /// Whether the account balances.
    pub fn balances(&self) -> bool {
        let Skipped {
            conflict,
            unmatched,
            superseded,
            resumed,
        } = self.skipped;
        self.read
            == self.written + conflict + unmatched + superseded + resumed + self.rejected + self.unfinished
    }
}

impl fmt::Display for Rows {
    /// The equation, with the terms that are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} read = {} written",
            Grouped(self.read),
            Grouped(self.written)
        )?;
        for (count, name) in [
            (self.skipped.conflict, "skipped (key exists)"),
            (self.skipped.unmatched, "skipped (no such key)"),
            (self.skipped.superseded, "superseded"),
            (self.skipped.resumed, "resumed"),
            (self.rejected, "rejected"),
            (self.unfinished, "unfinished"),
        ] {
            if count > 0 {
                write!(f, " + {} {name}", Grouped(count))?;
            }
        }
        Ok(())
    }
}

/// Bytes moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Bytes {
    /// From the source, as stored (compressed files count compressed).
    pub read: u64,
    /// Payload handed to drivers.
    pub sent: u64,
}

/// A count with thousands separated: `1,000,000`.
pub struct Grouped(pub u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// How many of a thing there are, as people say it: `1 row`, `1,234 rows`. Its plural ends in `s`.
pub struct Counted(pub u64, pub &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} {}{ending}", Grouped(self.0), self.1)
    }
}

/// Processor seconds of this process, from `/proc/self/stat`.
pub fn processor_seconds() -> Option<f64> {
    // Ticks a second are 100 on every Linux that Rust's standard library supports.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

/// Has the [peak of memory](peak_memory_bytes) count from now on; false where the system does not.
pub fn forget_peak_memory() -> bool {
    // What is written is what proc(5) has for it.
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Peak resident memory of this process in bytes, from `/proc/self/status`.
pub fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equation_names_what_there_is() {
        let rows = Rows {
            read: 1_234_567,
            written: 1_234_560,
            skipped: Skipped {
                superseded: 2,
                ..Skipped::default()
            },
            rejected: 5,
            unfinished: 0,
        };
        assert!(rows.balances());
        assert_eq!(
            rows.to_string(),
            "1,234,567 read = 1,234,560 written + 2 superseded + 5 rejected"
        );
    }
}
