//! The account of a job.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use tonnage_core::{
    error::Result,
    ledger::{
        RunRecord,
        jobs::{JobDetail, PartRecord, PartState},
    },
    report::{Counted, Grouped},
    slot::Counts,
};

use super::part_rejects;

/// How far a job has come. Serialises to the object that `--report` writes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct JobReport {
    /// The job, which is the id of its run in the ledger.
    pub job_id: String,
    /// How far it is.
    pub state: JobState,
    /// The target's URL, its password removed.
    pub target: String,
    /// The table.
    pub table: String,
    /// What happens to rows.
    pub operation: String,
    /// The parts, by how far they are.
    pub parts: PartCounts,
    /// The files of all parts.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The rows of parts that are done.
    pub rows: JobRows,
    /// The directory, or the prefix of objects, that has the rejects, if there are any.
    pub rejects: Option<String>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Each part.
    pub list: Vec<PartReport>,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum JobState {
    /// Some parts are not done.
    #[serde(rename = "unfinished")]
    Unfinished,
    /// All parts are done, and what is owed to the table is not.
    #[serde(rename = "to be finished")]
    Unsettled,
    /// All is done.
    #[serde(rename = "finished")]
    Finished,
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unfinished => "unfinished",
            Self::Unsettled => "to be finished",
            Self::Finished => "finished",
        })
    }
}

/// Parts by how far they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PartCounts {
    /// All of them.
    pub total: u64,
    /// All rows of these are done.
    pub done: u64,
    /// An attempt whose lease lasts is at work.
    pub running: u64,
    /// An attempt ended early, or without a word.
    pub failed: u64,
    /// Nobody has begun them.
    pub open: u64,
}

/// Rows of parts that are done: `read = written + skipped + rejected`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JobRows {
    /// Rows of the source seen.
    pub read: u64,
    /// Applied and committed.
    pub written: u64,
    /// Left out for a reason.
    pub skipped: u64,
    /// Put aside.
    pub rejected: u64,
}

impl JobRows {
    fn of(counts: Counts) -> Self {
        Self {
            read: counts.total(),
            written: counts.written,
            skipped: counts.skipped,
            rejected: counts.rejected,
        }
    }
}

impl fmt::Display for JobRows {
    /// The equation, with the terms that are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} read = {} written",
            Grouped(self.read),
            Grouped(self.written)
        )?;
        for (count, name) in [(self.skipped, "skipped"), (self.rejected, "rejected")] {
            if count > 0 {
                write!(f, " + {} {name}", Grouped(count))?;
            }
        }
        Ok(())
    }
}

/// A part.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PartReport {
    /// Its number.
    pub part: i64,
    /// How far it is: open, running, failed or done.
    pub state: &'static str,
    /// Attempts at it.
    pub attempts: i64,
    /// Who made the last one.
    pub owner: Option<String>,
    /// Seconds until the lease of the last one ends, while it lasts.
    pub lease_seconds: Option<i64>,
    /// Its run in the ledger, once it was begun.
    pub run_id: Option<String>,
    /// Its files, as they were when the job was planned.
    pub files: Vec<String>,
    /// Their bytes.
    pub bytes: u64,
    /// Its rows, once it is done.
    pub rows: JobRows,
    /// Where its rejects are, if it has any.
    pub rejects: Option<String>,
    /// Why the last attempt ended early.
    pub error: Option<String>,
}

/// What is said of a part whose attempt has ended without a word.
const LOST: &str = "its lease ended before it did: the process was killed, or cannot reach the database";

impl PartReport {
    /// Of a part of the job that `detail` describes.
    pub(super) fn of(record: &PartRecord, detail: &JobDetail) -> Result<Self> {
        let inputs = record.inputs()?;
        let is_lost = record.state == PartState::Running && !record.is_held();
        let rejects = detail.rejects.as_deref().filter(|_| record.counts.rejected > 0);
        Ok(Self {
            part: record.part,
            state: if is_lost { PartState::Failed } else { record.state }.name(),
            attempts: record.attempt,
            owner: record.owner.clone(),
            lease_seconds: record.is_held().then_some(record.lease_seconds),
            run_id: record.run_id.clone(),
            bytes: inputs.iter().map(|input| input.bytes).sum(),
            files: inputs.into_iter().map(|input| input.path).collect(),
            rows: JobRows::of(record.counts),
            rejects: rejects.map(|directory| part_rejects(directory, record.part)),
            error: match is_lost {
                true => Some(LOST.to_owned()),
                false => record.error.clone(),
            },
        })
    }
}

impl JobReport {
    /// Of the job's run, of its row of the whole and of its parts.
    pub(super) fn of(
        (run, target): (&RunRecord, &str),
        (whole, detail): (&PartRecord, &JobDetail),
        records: &[PartRecord],
    ) -> Result<Self> {
        let list: Vec<_> = records
            .iter()
            .map(|record| PartReport::of(record, detail))
            .collect::<Result<_>>()?;
        let count = |state: PartState| list.iter().filter(|part| part.state == state.name()).count() as u64;
        let parts = PartCounts {
            total: list.len() as u64,
            done: count(PartState::Done),
            running: count(PartState::Running),
            failed: count(PartState::Failed),
            open: count(PartState::Open),
        };
        let mut counts = Counts::default();
        records.iter().for_each(|record| counts.add(record.counts));
        Ok(Self {
            job_id: run.run_id.clone(),
            state: match (whole.state, parts.done == parts.total) {
                (PartState::Done, _) => JobState::Finished,
                (_, true) => JobState::Unsettled,
                (_, false) => JobState::Unfinished,
            },
            target: target.to_owned(),
            table: run.detail.table.clone(),
            operation: run.detail.operation.to_string(),
            parts,
            files: detail.files,
            bytes: detail.bytes,
            rows: JobRows::of(counts),
            rejects: detail.rejects.clone().filter(|_| counts.rejected > 0),
            notes: whole
                .error
                .iter()
                .map(|error| format!("it was not finished: {error}"))
                .collect(),
            list,
        })
    }
}

impl fmt::Display for JobReport {
    /// A few lines, and one for each part that is at work or has failed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "job {} into {} {}: {}, {} of {} done",
            self.job_id,
            self.target,
            self.table,
            self.state,
            Grouped(self.parts.done),
            Counted(self.parts.total, "part")
        )?;
        writeln!(f, "  {}", self.rows)?;
        for (count, what) in [
            (self.parts.running, "running"),
            (self.parts.failed, "failed"),
            (self.parts.open, "not begun"),
        ] {
            if count > 0 {
                writeln!(f, "  {} {what}", Counted(count, "part"))?;
            }
        }
        for part in &self.list {
            let owner = part.owner.as_deref().unwrap_or("somebody");
            match (part.lease_seconds, &part.error) {
                (Some(seconds), _) => writeln!(
                    f,
                    "  part {}: attempt {} by {owner}, whose lease ends in {}",
                    part.part,
                    part.attempts,
                    Counted(seconds.unsigned_abs(), "second")
                )?,
                (None, Some(error)) if part.state != PartState::Done.name() => {
                    writeln!(
                        f,
                        "  part {}: attempt {} by {owner}: {error}",
                        part.part, part.attempts
                    )?;
                }
                _ => {}
            }
        }
        if let Some(rejects) = &self.rejects {
            writeln!(f, "  rejects in {rejects}")?;
        }
        for note in &self.notes {
            writeln!(f, "  note: {note}")?;
        }
        Ok(())
    }
}
