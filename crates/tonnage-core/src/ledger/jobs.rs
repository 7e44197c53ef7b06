//! Jobs: loads whose inputs are shared out in parts, which any number of processes carry out.
//!
//! A job is a run that moves no row itself: it prepares the table when it is planned and settles what is owed to the table
//! when it is finished. Its rows are those of its parts; each part is a run whose identity is the job and the part's number.
//! Next to the run the ledger has a row a part, and one for the job as a whole ([`WHOLE`]), which is carried out last.
//!
//! - A part is *claimed* before it is carried out. A claim is an *attempt*, whose numbers only rise, under a lease: time by
//!   the clock of the ledger's database, which the attempt extends while it works.
//! - While a lease lasts, no other attempt is given the part, unless its caller names a higher number. So two live attempts
//!   never fence each other in turn.
//! - The end of a lease proves nothing about the attempt that held it. What fences that one off is the epoch of the part's run.
//!   A run is started and taken over only by the newest attempt: both compare its number, in their transaction.
//! - A part is done in the transaction that finishes its run, and then stays so.
//! - Of connections a job has at most as many as it was planned with, where it was: what each attempt may open is part of its
//!   claim, and counts until the lease ends.
//!
//! Where rows are locked, that of a run comes before that of its part.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{InputIdentity, RunHandle};
use crate::{
    error::{Error, ErrorKind, Result},
    report::Counted,
    slot::{Counts, SlotState},
};

/// The number of the row that is the job as a whole. Its parts are numbered from 0 on.
pub const WHOLE: i64 = -1;

/// The most parts of a job.
pub const PARTS_MAX: usize = 100_000;

/// The fewest connections an attempt is given: one that writes, and one for the ledger.
pub const CONNECTIONS_LEAST: u64 = 2;

/// The most bytes that are kept of the error of an attempt.
const ERROR_BYTES_MAX: usize = 1_000;

/// A part of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartId {
    /// The job, which is the id of its run.
    pub job_id: String,
    /// Which one, from 0 on; [`WHOLE`] for the job as a whole.
    pub part: i64,
}

impl PartId {
    /// The identity of the part's run: at most one unfinished run has it.
    pub fn identity(&self) -> String {
        format!("job {} part {}", self.job_id, self.part)
    }

    /// Whether this is the job as a whole.
    pub fn is_whole(&self) -> bool {
        self.part == WHOLE
    }
}

impl fmt::Display for PartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_whole() {
            true => write!(f, "job {}", self.job_id),
            false => write!(f, "part {} of job {}", self.part, self.job_id),
        }
    }
}

/// An attempt at a part: proof of its claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartAttempt {
    /// The part.
    pub of: PartId,
    /// Which attempt, from 1 on.
    pub attempt: i64,
}

/// What a run is to jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunRole {
    /// Nothing.
    Alone,
    /// A job, with its parts and with the row of the whole.
    Job(Vec<NewPart>),
    /// A part of one, carried out by this attempt.
    Part(PartAttempt),
}

/// A row of a job that is to be put on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPart {
    /// Its number; [`WHOLE`] for the job as a whole.
    pub part: i64,
    /// [`PartDetail`], or [`JobDetail`] of the whole, as JSON.
    pub detail: String,
    /// The most connections of the whole job; of the row of the whole.
    pub connections_max: Option<u64>,
}

/// What a part consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartDetail {
    /// Its files as they were when the job was planned; empty where its rows come from a program.
    pub inputs: Vec<InputIdentity>,
}

/// What a job is, beyond its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDetail {
    /// What whoever carries out a part needs to know of how rows are read and written, in the words of whoever planned it.
    pub arguments: Vec<String>,
    /// The parts that it has; 0 where it gets one with each number that is claimed, as of a program that does not know
    /// beforehand how many there are.
    pub parts: u64,
    /// The files of all parts.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The directory of rejects, an absolute path; none where a bad row stops a part.
    pub rejects: Option<String>,
    /// The most connections at once.
    pub connections_max: Option<u64>,
}

/// How far a part has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartState {
    /// Nobody has begun it.
    Open,
    /// An attempt was begun, and has not ended by itself.
    Running,
    /// The last attempt ended before all of its rows were done.
    Failed,
    /// All of its rows are done.
    Done,
}

impl PartState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Open, Self::Running, Self::Failed, Self::Done];

    /// As the ledger stores it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Running => "running",
            Self::Failed => "failed",
            Self::Done => "done",
        }
    }

    /// Of its [name](Self::name).
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// A part as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRecord {
    /// Which one.
    pub part: i64,
    /// How far it is.
    pub state: PartState,
    /// Attempts at it; 0 before the first.
    pub attempt: i64,
    /// Who made the last attempt, in that one's own words.
    pub owner: Option<String>,
    /// Seconds until the lease of the last attempt ends; 0 or less where it has ended.
    pub lease_seconds: i64,
    /// Connections that the last attempt may open; of the whole the most that the job may have, 0 for no bound.
    pub connections: u64,
    /// The run that carries it out.
    pub run_id: Option<String>,
    /// Its account, once it is done.
    pub counts: Counts,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// See [`NewPart::detail`].
    pub detail: String,
}

impl PartRecord {
    /// Whether an attempt is at work whose lease lasts.
    pub fn is_held(&self) -> bool {
        self.state == PartState::Running && self.lease_seconds > 0
    }

    /// What it consists of. `Schema` where another hand has written the record.
    pub fn inputs(&self) -> Result<Vec<InputIdentity>> {
        Self::inputs_of(self.part, &self.detail)
    }

    /// The same of a part that was claimed.
    pub fn inputs_of(part: i64, detail: &str) -> Result<Vec<InputIdentity>> {
        let detail: Result<PartDetail, _> = serde_json::from_str(detail);
        detail
            .map(|detail| detail.inputs)
            .map_err(|cause| unreadable(part, cause))
    }

    /// What the job is, of the row of the whole. `Schema` where another hand has written the record.
    pub fn job(&self) -> Result<JobDetail> {
        serde_json::from_str(&self.detail).map_err(|cause| unreadable(self.part, cause))
    }
}

fn unreadable(part: i64, cause: serde_json::Error) -> Error {
    let what = match part {
        WHOLE => "a job".to_owned(),
        part => format!("part {part} of a job"),
    };
    Error::new(
        ErrorKind::Schema,
        format!("the ledger's record of {what} cannot be read: {cause}"),
    )
    .hint("another version of tonnage wrote it, or another hand; plan the job again")
    .caused_by(cause)
}

/// Which part is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichPart {
    /// This one; [`WHOLE`] is given only once all others are done.
    Numbered(i64),
    /// One that nobody holds, those of the fewest attempts first.
    Next,
}

/// A claim that is asked for.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The job.
    pub job_id: String,
    /// Of which part.
    pub which: WhichPart,
    /// The number of the attempt, where the caller counts them: a part that is held is given to a higher one.
    pub attempt: Option<i64>,
    /// Who asks, for people: a host and a process.
    pub owner: String,
    /// How long the lease lasts, unless it is renewed.
    pub lease_seconds: u64,
    /// Connections that are wanted; fewer are given where the job has a bound.
    pub connections: u64,
}

/// What is answered to a [`ClaimRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartClaim {
    /// It is the caller's.
    Held(HeldPart),
    /// It was done before.
    Done(PartRecord),
    /// Not now.
    Busy(Busy),
    /// There is no part that is not done.
    NothingLeft,
}

/// A part that was claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPart {
    /// The attempt.
    pub attempt: PartAttempt,
    /// Connections that it may open.
    pub connections: u64,
    /// See [`NewPart::detail`].
    pub detail: String,
}

/// Why a claim is not given now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// The reason, as a sentence.
    pub why: String,
    /// Seconds after which it may be another one.
    pub seconds: u64,
}

/// What is decided about a part that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is given, as this attempt and with so many connections.
    Given {
        /// Its number.
        attempt: i64,
        /// What it may open.
        connections: u64,
    },
    /// It is not.
    Refused(PartClaim),
}

/// The connections of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse {
    /// Those of all attempts whose leases last, this part's own left out.
    pub connections: u64,
    /// The most there may be; none for no bound.
    pub max: Option<u64>,
}

/// Decides about a claim of `part`, of which nobody may change the record meanwhile: the one rule of all ledgers.
pub fn decide(part: &PartRecord, request: &ClaimRequest, used: InUse) -> Decision {
    if part.state == PartState::Done {
        return Decision::Refused(PartClaim::Done(part.clone()));
    }
    let is_later = request.attempt.is_some_and(|attempt| attempt > part.attempt);
    if part.is_held() && !is_later {
        let what = match part.part {
            WHOLE => "the job is being finished".to_owned(),
            number => format!("part {number} is being carried out"),
        };
        return Decision::Refused(PartClaim::Busy(Busy {
            why: format!(
                "{what} by {}, whose lease ends in {}",
                part.owner.as_deref().unwrap_or("somebody"),
                Counted(part.lease_seconds.unsigned_abs(), "second")
            ),
            seconds: part.lease_seconds.unsigned_abs(),
        }));
    }
    let attempt = (part.attempt + 1).max(request.attempt.unwrap_or(0));
    if part.part == WHOLE {
        return Decision::Given {
            attempt,
            connections: part.connections,
        };
    }
    let left = used
        .max
        .map_or(u64::MAX, |max| max.saturating_sub(used.connections));
    if left < CONNECTIONS_LEAST {
        return Decision::Refused(PartClaim::Busy(Busy {
            why: format!(
                "{} of the job's {} connections are in use",
                used.connections,
                used.max.unwrap_or_default()
            ),
            seconds: request.lease_seconds,
        }));
    }
    Decision::Given {
        attempt,
        connections: request.connections.max(CONNECTIONS_LEAST).min(left),
    }
}

/// The answer to a claim of the job as a whole, of which parts are not done; `total` is [`JobDetail::parts`].
pub fn missing(parts: &[i64], total: u64) -> Error {
    let of = match total {
        0 => String::new(),
        total => format!(" of {total}"),
    };
    Error::config(format!(
        "{}{of} not done: {}",
        Counted(parts.len() as u64, "part"),
        numbers(parts)
    ))
    .hint("`tonnage job run JOB` carries out what is missing; `tonnage job status JOB` says what became of each")
}

/// Numbers in order, as people write them: `3, 17 to 19`.
pub fn numbers(parts: &[i64]) -> String {
    /// Ranges that are written out.
    const RANGES_MAX: usize = 20;
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for part in parts {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *part => *last = *part,
            _ => ranges.push((*part, *part)),
        }
    }
    let shown = ranges
        .iter()
        .take(RANGES_MAX)
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first}, {last}"),
            _ => format!("{first} to {last}"),
        });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if ranges.len() > RANGES_MAX {
        text.push_str(" ..");
    }
    text
}

/// A job that is not in the ledger.
pub fn no_job(job_id: &str) -> Error {
    Error::config(format!("there is no job {job_id} in this ledger"))
        .hint("a job that was forgotten, or pruned, is gone; and the database has to be the one that it was planned for")
}

/// The part of this number of a job that gets one with each that is claimed. `Config` where the job is not such, or has come
/// to its end.
pub fn added_part(part: i64, whole: &PartRecord) -> Result<NewPart> {
    let job = whole.job()?;
    if job.parts > 0 || part < 0 || part >= PARTS_MAX as i64 {
        return Err(no_part(part, job.parts));
    }
    if whole.state != PartState::Open {
        return Err(Error::config(format!(
            "part {part} comes too late: the job is being finished, or was"
        )));
    }
    Ok(NewPart {
        part,
        detail: r#"{"inputs":[]}"#.to_owned(),
        connections_max: None,
    })
}

/// A part that a job does not have.
fn no_part(part: i64, parts: u64) -> Error {
    Error::config(format!(
        "there is no part {part}: the job has {}, numbered from 0 to {}",
        Counted(parts, "part"),
        parts.saturating_sub(1)
    ))
}

/// An attempt after which there was another one.
pub fn superseded(attempt: &PartAttempt) -> Error {
    Error::new(
        ErrorKind::Fenced,
        format!(
            "{} was taken over by a later attempt than this one, which is number {}",
            attempt.of, attempt.attempt
        ),
    )
    .hint("its lease had ended, or a higher attempt was named; the later one carries the part out")
}

/// An error's text as a record keeps it.
pub fn kept_error(text: &str) -> String {
    let end = text.floor_char_boundary(ERROR_BYTES_MAX.min(text.len()));
    text[..end].to_owned()
}

/// The jobs of a ledger. A job is recorded by [`Ledger::start`](super::Ledger::start) of its run, a part is done by
/// [`Ledger::finish`](super::Ledger::finish) of its own.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// The job's row of the whole and its parts, in their order; empty where there is no such job.
    async fn parts(&self, job_id: &str) -> Result<Vec<PartRecord>>;

    /// One of them; none where there is no such job or part.
    async fn part(&self, of: &PartId) -> Result<Option<PartRecord>>;

    /// Claims a part. `Config` where there is no such job or part, or where the whole is asked for and parts are not done.
    async fn claim(&self, request: &ClaimRequest) -> Result<PartClaim>;

    /// Extends the lease of an attempt from now on; false where there was a later one, or the part is done.
    async fn renew(&self, attempt: &PartAttempt, lease_seconds: u64) -> Result<bool>;

    /// Ends the lease of an attempt that has stopped, and keeps why. Nothing where there was a later one, or the part is
    /// done.
    async fn release(&self, attempt: &PartAttempt, error: Option<&str>) -> Result<()>;

    /// [`Ledger::take_over`](super::Ledger::take_over) of the run of a part, by an attempt. `Fenced` where there was a later
    /// one.
    async fn take_over_part(
        &self,
        attempt: &PartAttempt,
        run_id: &str,
    ) -> Result<(RunHandle, Vec<SlotState>)>;

    /// Parts that are done and whose accounts are not those of their runs, as far as these are still on record.
    async fn disagreeing(&self, job_id: &str) -> Result<Vec<i64>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(state: PartState, attempt: i64, lease_seconds: i64) -> PartRecord {
        PartRecord {
            part: 3,
            state,
            attempt,
            owner: Some("a".to_owned()),
            lease_seconds,
            connections: 0,
            run_id: None,
            counts: Counts::default(),
            error: None,
            detail: String::new(),
        }
    }

    fn request(attempt: Option<i64>, connections: u64) -> ClaimRequest {
        ClaimRequest {
            job_id: "j".to_owned(),
            which: WhichPart::Numbered(3),
            attempt,
            owner: "b".to_owned(),
            lease_seconds: 60,
            connections,
        }
    }

    #[test]
    fn a_part_is_given_once_at_a_time() {
        use PartState::{Done, Failed, Open, Running};
        let free = InUse {
            connections: 0,
            max: None,
        };
        let cases = [
            (part(Open, 0, 0), None, Some(1)),
            (part(Open, 0, 0), Some(7), Some(7)),
            (part(Failed, 4, 0), None, Some(5)),
            (part(Failed, 4, 0), Some(2), Some(5)),
            (part(Running, 1, 30), None, None),
            (part(Running, 1, 30), Some(1), None),
            (part(Running, 1, 30), Some(2), Some(2)),
            (part(Running, 1, 0), None, Some(2)),
            (part(Running, 1, -5), Some(1), Some(2)),
            (part(Done, 1, 0), Some(9), None),
        ];
        for (record, attempt, expected) in cases {
            let given = match decide(&record, &request(attempt, 4), free) {
                Decision::Given { attempt, .. } => Some(attempt),
                Decision::Refused(_) => None,
            };
            assert_eq!(given, expected, "{record:?} {attempt:?}");
        }
    }

    #[test]
    fn connections_are_shared_out_down_to_two() {
        let of = |connections, max, wanted| {
            let used = InUse {
                connections,
                max: Some(max),
            };
            match decide(&part(PartState::Open, 0, 0), &request(None, wanted), used) {
                Decision::Given { connections, .. } => Some(connections),
                Decision::Refused(_) => None,
            }
        };
        assert_eq!(of(0, 10, 5), Some(5));
        assert_eq!(of(7, 10, 5), Some(3));
        assert_eq!(of(8, 10, 5), Some(2));
        assert_eq!(of(9, 10, 5), None);
        assert_eq!(of(12, 10, 5), None);
        assert_eq!(of(0, 10, 1), Some(2));
    }

    #[test]
    fn numbers_are_written_as_ranges() {
        assert_eq!(numbers(&[3, 17, 18, 19, 21, 22]), "3, 17 to 19, 21, 22");
        let every_other: Vec<i64> = (0..100).map(|n| n * 2).collect();
        assert!(
            numbers(&every_other).ends_with("38 .."),
            "{}",
            numbers(&every_other)
        );
    }

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let text = "ä".repeat(ERROR_BYTES_MAX);
        let kept = kept_error(&text);
        assert!(kept.len() <= ERROR_BYTES_MAX && text.starts_with(&kept));
        assert_eq!(kept_error("short"), "short");
    }
}
