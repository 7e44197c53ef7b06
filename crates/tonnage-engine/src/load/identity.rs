//! Which run this is: a new one, one to go on with, or one that is not ours to touch.
//!
//! A run's **identity** is the names of its inputs, the table as created, the operation and its key; at most one
//! unfinished run has it. What may not change between attempts (sizes, times, options, columns, the table's shape) is
//! compared when a run is resumed, so that a change is named and not taken for another run.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{
        Emptied, FOUND_MAX, InputIdentity, Ledger, NewRun, OtherLedger, RunDetail, RunHandle, RunQuery,
        RunRecord, Sought,
        jobs::{NewPart, PartId, RunRole, WHOLE},
    },
    operation::Operation,
    preparation::{Pending, Preparation},
    report::{Counted, Grouped},
    slot::{Counts, Dealing, SlotState},
    table::{TableIdentity, is_making},
};

use super::{
    earlier::{self, TableRows},
    jobs::{PartOfJob, no_jobs},
    rejects::{self, RejectsFile},
};
use crate::plan::{Attempt, LoadOptions, OnError, Plan, SlotBy};

/// A run that this process owns.
pub struct Ownership {
    /// Proof of it; none without a ledger.
    pub handle: Option<RunHandle>,
    /// The positions of its slots.
    pub slots: Vec<SlotState>,
    /// Where its rejects go, if it has any.
    pub rejects: PathBuf,
    /// Whether an earlier attempt began it.
    pub resumed: bool,
    /// Whether it was finished before: there is nothing to do.
    pub finished: bool,
    /// Whether it can be resumed should it stop.
    pub resumable: bool,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl Ownership {
    /// Whether an earlier attempt has committed anything.
    pub fn has_begun(&self) -> bool {
        self.slots.iter().any(|slot| slot.counts.total() > 0)
    }

    /// A run that has been finished before.
    fn over(run: &RunRecord) -> Self {
        Self {
            handle: Some(RunHandle {
                run_id: run.run_id.clone(),
                epoch: run.epoch,
            }),
            slots: Vec::new(),
            rejects: PathBuf::from(&run.detail.rejects),
            resumed: true,
            finished: true,
            resumable: false,
            notes: vec![format!("run {} has loaded all of this already", run.run_id)],
        }
    }

    /// A run without a ledger.
    pub fn unrecorded(plan: &Plan, options: &LoadOptions) -> Self {
        Self {
            handle: None,
            slots: fresh(plan),
            rejects: rejects_path(plan, options, &run_id()),
            resumed: false,
            finished: false,
            resumable: false,
            notes: Vec::new(),
        }
    }
}

fn fresh(plan: &Plan) -> Vec<SlotState> {
    (0..plan.slots)
        .map(|slot| SlotState {
            slot,
            ..SlotState::default()
        })
        .collect()
}

pub(super) fn run_id() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

fn rejects_path(plan: &Plan, options: &LoadOptions, run_id: &str) -> PathBuf {
    let path = match &options.rejects {
        Some(path) => path.clone(),
        None => format!(
            "{}-{run_id}.rejects.jsonl",
            plan.table.name.name.replace(['/', '\\'], "_")
        )
        .into(),
    };
    RejectsFile::known_path(path)
}

/// What is read, and how.
pub struct Reading {
    /// The files; none for what cannot be read again.
    pub inputs: Option<Vec<InputIdentity>>,
    /// See [`Source::options`](tonnage_core::source::Source::options).
    pub options: Vec<String>,
}

/// Finds out which run this is, and takes it.
pub async fn own(
    ledger: &dyn Ledger,
    plan: &Plan,
    reading: Reading,
    options: &LoadOptions,
) -> Result<Ownership> {
    let new_id = run_id();
    let is_rereadable = reading.inputs.is_some();
    let detail = detail(plan, reading, options, &new_id);
    let (identity, notes) = match is_rereadable {
        true => match earlier_attempts(ledger, plan, &detail, options).await? {
            Earlier::Run(ownership) => return Ok(ownership),
            Earlier::Notes(notes) => (detail.identity(), notes),
        },
        false if options.attempt == Attempt::Resume => {
            return Err(
                Error::config("the input cannot be read again, so its run cannot be resumed")
                    .hint("load from a file, or leave --resume out"),
            );
        }
        false => {
            let notes = beside(ledger, plan, &detail, options).await?;
            (format!("pipe {new_id}"), notes)
        }
    };
    if is_rereadable && plan.on_error == OnError::Reject {
        check_rejects_unshared(ledger, plan, &identity, &detail).await?;
    }
    let run = NewRun {
        run_id: new_id,
        identity,
        table: plan.table.name.clone(),
        preparation: preparation(plan),
        role: RunRole::Alone,
        detail,
    };
    let ownership = start(ledger, plan, run, notes).await?;
    Ok(Ownership {
        resumable: is_rereadable,
        ..ownership
    })
}

/// Records a job with its parts, and prepares its table. `Config` where an unfinished run of the same is in the way and
/// was not to be forgotten.
pub async fn own_job(
    ledger: &dyn Ledger,
    plan: &Plan,
    reading: Reading,
    (options, parts): (&LoadOptions, Vec<NewPart>),
) -> Result<Ownership> {
    let job_id = run_id();
    let is_of_files = reading.inputs.is_some();
    let detail = detail(plan, reading, options, &job_id);
    let (identity, notes) = match is_of_files {
        false => (
            format!("pipe {job_id}"),
            beside(ledger, plan, &detail, options).await?,
        ),
        true => match earlier_attempts(ledger, plan, &detail, options).await? {
            Earlier::Run(_) => return Err(Error::bug("a job was planned in place of a run that goes on")),
            Earlier::Notes(notes) => (detail.identity(), notes),
        },
    };
    let run = NewRun {
        identity,
        table: plan.table.name.clone(),
        preparation: preparation(plan),
        role: RunRole::Job(parts),
        detail: RunDetail {
            slots: 0,
            rejects: String::new(),
            part: Some(PartId {
                job_id: job_id.clone(),
                part: WHOLE,
            }),
            ..detail
        },
        run_id: job_id,
    };
    let handle = started(ledger, plan, &run).await?;
    Ok(Ownership {
        handle: Some(handle),
        notes,
        ..Ownership::unrecorded(plan, options)
    })
}

/// Begins the run of a part, or goes on with that of an earlier attempt.
pub async fn own_part(
    ledger: &dyn Ledger,
    plan: &Plan,
    reading: Reading,
    (options, part): (&LoadOptions, &PartOfJob),
) -> Result<Ownership> {
    let of = &part.attempt.of;
    let new_id = run_id();
    let is_rereadable = reading.inputs.is_some();
    let detail = RunDetail {
        part: Some(of.clone()),
        ..detail(plan, reading, options, &new_id)
    };
    let identity = of.identity();
    let same = find(ledger, plan, &RunQuery::Identity(identity.clone())).await?;
    if let Some(run) = same.first() {
        if run.finished.is_some() {
            return Ok(Ownership::over(run));
        }
        if let Some(ownership) = go_on_with_part(ledger, plan, run, (&detail, part)).await? {
            return Ok(Ownership {
                resumable: false,
                ..ownership
            });
        }
    }
    let run = NewRun {
        run_id: new_id,
        identity,
        table: plan.table.name.clone(),
        preparation: Preparation::Keep,
        role: RunRole::Part(part.attempt.clone()),
        detail,
    };
    if !is_rereadable && !run.detail.single_transaction {
        return Err(Error::bug(
            "a part that cannot be read again is not one transaction",
        ));
    }
    let ownership = start(ledger, plan, run, Vec::new()).await?;
    Ok(Ownership {
        resumable: false,
        ..ownership
    })
}

/// Takes over what an earlier attempt has left. None where that is nothing, and it is forgotten.
async fn go_on_with_part(
    ledger: &dyn Ledger,
    plan: &Plan,
    run: &RunRecord,
    (detail, part): (&RunDetail, &PartOfJob),
) -> Result<Option<Ownership>> {
    let change = changed(&run.detail, detail);
    if let Some(change) = change.as_ref().filter(|_| !run.detail.single_transaction) {
        return Err(Error::input(change).hint(format!(
            "`tonnage runs TARGET --forget {}` has the part begin anew; rows that it has written stay",
            run.run_id
        )));
    }
    let jobs = ledger.jobs().ok_or_else(no_jobs)?;
    let mut attempts = plan.attempts();
    let (handle, slots) = loop {
        match jobs.take_over_part(&part.attempt, &run.run_id).await {
            Ok(taken) => break taken,
            Err(error) => attempts.after(error).await?,
        }
    };
    let mut counts = Counts::default();
    slots.iter().for_each(|slot| counts.add(slot.counts));
    let mut ownership = Ownership {
        handle: Some(handle.clone()),
        slots,
        rejects: PathBuf::from(&run.detail.rejects),
        resumed: true,
        finished: false,
        resumable: false,
        notes: vec![format!("going on with run {}", run.run_id)],
    };
    if !run.detail.single_transaction {
        return Ok(Some(ownership));
    }
    if counts.total() > 0 {
        // All of it was committed, and only its end was not recorded.
        let mut attempts = plan.attempts();
        while let Err(error) = ledger.finish(&handle, counts).await {
            attempts.after(error).await?;
        }
        ownership.finished = true;
        return Ok(Some(ownership));
    }
    if !ledger.forget_unbegun(&handle).await? {
        return Err(Error::fenced());
    }
    rejects::set_aside(Path::new(&run.detail.rejects))?;
    Ok(None)
}

/// What earlier attempts at the same leave to this one.
enum Earlier {
    /// A run to go on with, or one that has nothing left to do.
    Run(Ownership),
    /// Nothing: a new run begins, of which the user should know this.
    Notes(Vec<String>),
}

/// Goes on with the run of an earlier attempt, or clears it out of the way of a new one, as was asked for.
async fn earlier_attempts(
    ledger: &dyn Ledger,
    plan: &Plan,
    detail: &RunDetail,
    options: &LoadOptions,
) -> Result<Earlier> {
    let mut same = find(ledger, plan, &RunQuery::Identity(detail.identity())).await?;
    if let (true, Some(as_written)) = (same.is_empty(), as_written(plan, detail)) {
        same = find(ledger, plan, &RunQuery::Identity(as_written)).await?;
    }
    let unfinished = same.iter().find(|r| r.finished.is_none());
    let is_done = |run: &&RunRecord| run.finished.is_some() && changed(&run.detail, detail).is_none();
    let finished = same.iter().find(is_done);
    let elsewhere = |run: &RunRecord| options.rejects.is_some() && run.detail.rejects != detail.rejects;
    let attempt = match unfinished.filter(|run| is_void(run)) {
        Some(run) if changed(&run.detail, detail).is_some() || elsewhere(run) => Attempt::Restart,
        Some(_) if options.attempt == Attempt::New => Attempt::Resume,
        _ => options.attempt,
    };
    let mut notes = Vec::new();
    match (unfinished, attempt) {
        (Some(run), Attempt::New) => return Err(refuse_unfinished(run)),
        (Some(run), Attempt::Resume) if run.detail.part.is_some() => return Err(refuse_unfinished(run)),
        (Some(run), Attempt::Resume) => {
            let ownership = resume(ledger, plan, run, detail, options).await?;
            return Ok(Earlier::Run(ownership));
        }
        (Some(run), Attempt::Restart) => notes.extend(restart(ledger, plan, run, detail).await?),
        (None, Attempt::Resume) if finished.is_some() => {
            let run = intact(ledger, plan, same.iter().filter(is_done)).await?;
            // Its rows are there, whatever becomes of this.
            if let Err(error) = ledger.conclude(&run.run_id).await {
                tracing::warn!(
                    "a part of the ledger still has run {} as unfinished: {error}",
                    run.run_id
                );
            }
            return Ok(Earlier::Run(Ownership::over(run)));
        }
        (None, Attempt::Resume) => {
            notes.extend(begins_anew(ledger, plan, detail, options).await?);
            notes.extend(beside(ledger, plan, detail, options).await?);
        }
        (None, _) => {
            notes.extend(beside(ledger, plan, detail, options).await?);
            notes.extend(finished.map(|run| {
                format!(
                    "the same input was loaded into {} before, by run {}; its rows are loaded again",
                    plan.table.name, run.run_id
                )
            }));
        }
    }
    Ok(Earlier::Notes(notes))
}

/// Whether nothing of an unfinished run is there: of a single transaction that was never committed. It always begins again
/// from the start.
fn is_void(run: &RunRecord) -> bool {
    run.detail.single_transaction && run.counts.total() == 0
}

/// Has the ledger forget an unfinished run, in whose place a new one begins. Returns what the user should know.
async fn restart(
    ledger: &dyn Ledger,
    plan: &Plan,
    run: &RunRecord,
    detail: &RunDetail,
) -> Result<Option<String>> {
    let is_void = is_void(run);
    if !is_void && plan.on_error == OnError::Reject {
        // Refused before anything is forgotten.
        RejectsFile::check(Path::new(&detail.rejects))?;
    }
    // Taking the run over first shuts out a process that still works on it.
    let (_, slots) = take_over(ledger, plan, &run.run_id).await?;
    if is_void && slots.iter().any(|slot| slot.counts.total() > 0) {
        // Its transaction was committed while this waited for it.
        return Err(refuse_unfinished(run));
    }
    ledger.forget(&run.run_id).await?;
    if is_void {
        rejects::set_aside(Path::new(&run.detail.rejects))?;
    }
    let is_kept = run.detail.pending.as_ref().is_none_or(|p| p.shadow.is_none());
    let stays = is_kept && !plan.preparation.truncates() && run.counts.written > 0;
    Ok(stays.then(|| {
        format!(
            "the {} rows that run {} has written stay in {}",
            Grouped(run.counts.written),
            run.run_id,
            plan.table.name
        )
    }))
}

/// Refuses a rejects file that another unfinished run writes to: what a run finds in its file when it goes on must be its
/// own.
async fn check_rejects_unshared(
    ledger: &dyn Ledger,
    plan: &Plan,
    identity: &str,
    detail: &RunDetail,
) -> Result<()> {
    let is_shared = |run: &&RunRecord| {
        run.finished.is_none() && run.identity != identity && run.detail.rejects == detail.rejects
    };
    let unfinished = find(ledger, plan, &RunQuery::Unfinished).await?;
    let Some(other) = unfinished.iter().find(is_shared) else {
        return Ok(());
    };
    Err(Error::config(format!(
        "rejects file {} is that of run {}, which is unfinished",
        detail.rejects, other.run_id
    ))
    .hint(format!(
        "name another with --rejects, or finish that run first with --resume; if it is not to be finished, \
         `tonnage runs TARGET --forget {}` removes it from the ledger",
        other.run_id
    )))
}

/// The runs that `query` asks for.
async fn find(ledger: &dyn Ledger, plan: &Plan, query: &RunQuery) -> Result<Vec<RunRecord>> {
    let mut attempts = plan.attempts();
    loop {
        match ledger.runs(query).await {
            Ok(runs) => return Ok(runs),
            Err(error) => attempts.after(error).await?,
        }
    }
}

/// The newest of finished runs of the same whose rows are there. An error where none is.
async fn intact<'a>(
    ledger: &dyn Ledger,
    plan: &Plan,
    runs: impl Iterator<Item = &'a RunRecord>,
) -> Result<&'a RunRecord> {
    let runs: Vec<_> = runs.collect();
    let ids: Vec<_> = runs.iter().map(|run| run.run_id.clone()).collect();
    let emptied = emptied(ledger, plan, &ids).await?;
    let is_intact = |run: &RunRecord| {
        run.counts.written == 0 || !emptied.iter().any(|emptied| emptied.run_id == run.run_id)
    };
    match (runs.into_iter().find(|run| is_intact(run)), emptied.first()) {
        (Some(run), _) => Ok(run),
        (None, Some(emptied)) => Err(Error::config(format!(
            "run {} has loaded all of this, and {}",
            emptied.run_id, emptied.why
        ))
        .hint(format!(
            "--restart loads it again, as a new run; if its rows are there, there is nothing to do; `tonnage runs TARGET \
             --forget {}` has the ledger forget it",
            emptied.run_id
        ))),
        (None, None) => Err(Error::bug("no finished run among those that are")),
    }
}

/// Those of `run_ids` of whose rows it is not certain that they are there: [`Ledger::emptied`].
pub(super) async fn emptied(ledger: &dyn Ledger, plan: &Plan, run_ids: &[String]) -> Result<Vec<Emptied>> {
    let mut attempts = plan.attempts();
    loop {
        match ledger.emptied(run_ids).await {
            Ok(emptied) => return Ok(emptied),
            Err(error) => attempts.after(error).await?,
        }
    }
}

/// The refusal to go on behind rows of which it is not certain that they are there.
fn refuse_emptied(run: &RunRecord, emptied: &Emptied) -> Error {
    Error::config(format!(
        "run {} has written {} that it would not write again, and {}",
        run.run_id,
        Counted(run.counts.written, "row"),
        emptied.why
    ))
    .hint(format!(
        "--restart loads all of it, as a new run; `tonnage runs TARGET --forget {}` has the ledger forget the run",
        run.run_id
    ))
}

/// The identity of a run of a statement as an earlier version recorded it: by its text, not by its tokens.
fn as_written(plan: &Plan, detail: &RunDetail) -> Option<String> {
    let Operation::Statement { statement, .. } = &plan.operation else {
        return None;
    };
    let object = detail.table_identity.object.strip_suffix(statement.normal())?;
    let mut earlier = detail.clone();
    earlier.table_identity.object = format!("{object}{}", statement.text());
    Some(earlier.identity())
}

/// What is said of a run that was to go on with an earlier one and finds none. An error where an earlier one into this
/// table has taken up an input of it: its rows would be there twice.
async fn begins_anew(
    ledger: &dyn Ledger,
    plan: &Plan,
    detail: &RunDetail,
    options: &LoadOptions,
) -> Result<Vec<String>> {
    if options.new_files {
        // Each of its files was looked up before, and none is among those of an earlier run.
        return Ok(Vec::new());
    }
    let mut attempts = plan.attempts();
    let shared = loop {
        match earlier::shared(ledger, detail, TableRows::of(plan)).await {
            Ok(shared) => break shared,
            Err(error) => attempts.after(error).await?,
        }
    };
    if let Some(obstacle) = &shared.obstacle {
        return Err(earlier::refusal(obstacle, detail, changed));
    }
    let mut notes = vec!["no earlier run found: began anew".to_owned()];
    notes.extend(shared.note);
    Ok(notes)
}

/// What is said of ledgers that this connection does not use and that have runs into this table. An error where a run
/// of such a ledger would have to be gone on with, or looked at, instead.
async fn beside(
    ledger: &dyn Ledger,
    plan: &Plan,
    detail: &RunDetail,
    options: &LoadOptions,
) -> Result<Vec<String>> {
    let sought = Sought {
        identity: detail.identity(),
        table: detail.table.clone(),
        keys: earlier::keys(&detail.inputs),
    };
    let mut attempts = plan.attempts();
    let others = loop {
        match ledger.elsewhere(&sought).await {
            Ok(others) => break others,
            Err(error) => attempts.after(error).await?,
        }
    };
    let mut notes = Vec::new();
    for other in &others {
        let OtherLedger { place, used_with, .. } = other;
        let table = &detail.table;
        let shared = earlier::shared_in(other, detail, TableRows::of(plan));
        let into_table =
            |run: &&RunRecord| run.identity == sought.identity || run.detail.own_table() == *table;
        let count = other.runs.iter().filter(into_table).count();
        let unfinished = shared
            .obstacle
            .as_ref()
            .filter(|obstacle| obstacle.is_unfinished());
        if count == 0 && shared.obstacle.is_none() {
            continue;
        }
        match (options.attempt, unfinished) {
            (Attempt::New, Some(unfinished)) => {
                return Err(Error::config(format!(
                    "the ledger in {place}, which this connection does not use, has {} into {table}, which is \
                     unfinished",
                    unfinished.shown()
                ))
                .hint(format!(
                    "{used_with}, with --resume, goes on with it; --restart loads all of this as a new run in a ledger \
                     of this connection's own"
                )));
            }
            (Attempt::New, None) if options.new_files && shared.obstacle.is_some() => {
                return Err(unused(other, table));
            }
            (Attempt::Resume, _) => return Err(unused(other, table)),
            (Attempt::New | Attempt::Restart, _) => notes.push(format!(
                "the ledger in {place}, which this connection does not use, has {}{} into {table}; {used_with} uses it",
                if count >= FOUND_MAX { "at least " } else { "" },
                Counted(count.max(1) as u64, "run")
            )),
        }
    }
    Ok(notes)
}

/// The refusal of a run that depends on what earlier ones have done, where another ledger knows of some.
fn unused(other: &OtherLedger, table: &str) -> Error {
    Error::config(format!(
        "the ledger in {} has runs into {table}, and this connection does not use it",
        other.place
    ))
    .hint(format!(
        "{} uses it; --restart begins anew in a ledger of this connection's own",
        other.used_with
    ))
}

/// What is done when the run starts; a single transaction empties the table itself.
fn preparation(plan: &Plan) -> Preparation {
    match plan.single_transaction {
        true => Preparation::Keep,
        false => plan.preparation,
    }
}

/// Begins a new run.
async fn start(ledger: &dyn Ledger, plan: &Plan, run: NewRun, notes: Vec<String>) -> Result<Ownership> {
    if plan.on_error == OnError::Reject
        && let Err(error) = RejectsFile::check(Path::new(&run.detail.rejects))
    {
        // It may be that of another process, which has begun the same load just now.
        let same = ledger.runs(&RunQuery::Identity(run.identity.clone())).await;
        let same = same.unwrap_or_default();
        let rival = same.iter().find(|r| r.finished.is_none());
        return Err(rival.map_or(error, refuse_unfinished));
    }
    let handle = started(ledger, plan, &run).await?;
    Ok(Ownership {
        handle: Some(handle),
        slots: fresh(plan),
        rejects: run.detail.rejects.into(),
        resumed: false,
        finished: false,
        resumable: false,
        notes,
    })
}

/// Starts a run; again where the ledger could not be asked.
async fn started(ledger: &dyn Ledger, plan: &Plan, run: &NewRun) -> Result<RunHandle> {
    let mut attempts = plan.attempts();
    loop {
        match ledger.start(run).await {
            Ok(handle) => return Ok(handle),
            Err(error) => attempts.after(error).await?,
        }
    }
}

/// The rejects file of a run: needed where bad rows are put aside, and wherever an earlier attempt has put some aside.
pub(super) async fn rejects_file(
    ledger: &dyn Ledger,
    ownership: &Ownership,
    plan: &Plan,
) -> Result<Option<RejectsFile>> {
    let before: HashMap<u16, u64> = ownership
        .slots
        .iter()
        .filter(|s| s.counts.rejected > 0)
        .map(|s| (s.slot, s.counts.rejected))
        .collect();
    match (ownership.resumed, plan.on_error) {
        (false, OnError::Stop) => Ok(None),
        (false, OnError::Reject) => RejectsFile::create(&ownership.rejects).map(Some),
        (true, OnError::Stop) if before.is_empty() => Ok(None),
        (true, _) => {
            let owned = async {
                match &ownership.handle {
                    Some(handle) => check_owned(ledger, plan, handle).await,
                    None => Ok(()),
                }
            };
            let resumed = RejectsFile::resume(&ownership.rejects, &before, owned).await;
            resumed.map(Some)
        }
    }
}

/// `Fenced` where another process has taken the run over.
pub async fn check_owned(ledger: &dyn Ledger, plan: &Plan, handle: &RunHandle) -> Result<()> {
    let mut attempts = plan.attempts();
    loop {
        match ledger.is_owned(handle).await {
            Ok(true) => return Ok(()),
            Ok(false) => return Err(Error::fenced()),
            Err(error) => attempts.after(error).await?,
        }
    }
}

/// Has the run go on although its table was emptied.
async fn accept_emptied(ledger: &dyn Ledger, plan: &Plan, handle: &RunHandle) -> Result<()> {
    let mut attempts = plan.attempts();
    loop {
        match ledger.accept_emptied(handle).await {
            Ok(()) => return Ok(()),
            Err(error) => attempts.after(error).await?,
        }
    }
}

/// Raises the run's epoch. Twice does no harm: nobody works under the epoch whose number was lost on the way.
async fn take_over(ledger: &dyn Ledger, plan: &Plan, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
    let mut attempts = plan.attempts();
    loop {
        match ledger.take_over(run_id).await {
            Ok(taken) => return Ok(taken),
            Err(error) => attempts.after(error).await?,
        }
    }
}

async fn resume(
    ledger: &dyn Ledger,
    plan: &Plan,
    run: &RunRecord,
    detail: &RunDetail,
    options: &LoadOptions,
) -> Result<Ownership> {
    if let Some(change) = changed(&run.detail, detail) {
        return Err(Error::input(change).hint("--restart loads it from the beginning, as a new run"));
    }
    let found = emptied(ledger, plan, std::slice::from_ref(&run.run_id)).await?;
    let found = found.first();
    if let Some(emptied) = found.filter(|_| run.counts.total() > 0) {
        return Err(refuse_emptied(run, emptied));
    }
    if options.truncate && !plan.single_transaction {
        tracing::info!("--truncate: the table was emptied when the run started and is not emptied again");
    }
    let (handle, slots) = match take_over(ledger, plan, &run.run_id).await {
        Err(error) if error.kind() == ErrorKind::Fenced => {
            // Its process may have come to the end just now.
            let runs = ledger
                .runs(&RunQuery::Id(run.run_id.clone()))
                .await
                .unwrap_or_default();
            let over = runs.iter().find(|r| r.finished.is_some());
            return over.map(Ownership::over).ok_or(error);
        }
        taken => taken?,
    };
    if let Some(emptied) = found {
        if slots.iter().any(|slot| slot.counts.total() > 0) {
            return Err(refuse_emptied(run, emptied));
        }
        // Nothing of it could be lost.
        accept_emptied(ledger, plan, &handle).await?;
    }
    let mut notes = vec![format!("going on with run {}", run.run_id)];
    let begun = PathBuf::from(&run.detail.rejects);
    let is_another = |asked: &PathBuf| RejectsFile::known_path(asked.clone()) != begun;
    if options.rejects.as_ref().is_some_and(is_another) {
        notes.push(format!(
            "rejects go on in {}, where the run began them",
            begun.display()
        ));
    }
    Ok(Ownership {
        handle: Some(handle),
        slots,
        rejects: begun,
        resumed: true,
        finished: false,
        resumable: true,
        notes,
    })
}

fn refuse_unfinished(run: &RunRecord) -> Error {
    if run.detail.part.is_some() {
        return Error::config(format!(
            "job {} of these inputs into {} is unfinished",
            run.run_id, run.detail.table
        ))
        .hint(
            "`tonnage job run` carries out its parts and `tonnage job finish` ends it; --restart forgets it and begins \
             anew (what it has written stays in the table, unless --truncate)",
        );
    }
    let kept = match &run.detail.pending {
        Some(Pending { shadow: Some(_), .. }) => "it has written nothing that readers see",
        _ => "what it has written stays in the table, unless --truncate",
    };
    let inputs: Vec<_> = run.detail.inputs.iter().map(|i| i.path.as_str()).collect();
    Error::new(
        ErrorKind::Config,
        format!(
            "run {} of {} into {} is unfinished, {} written",
            run.run_id,
            inputs.join(", "),
            run.detail.table,
            Counted(run.counts.written, "row")
        ),
    )
    .hint(format!(
        "--resume goes on where it stopped; --restart forgets it and loads from the beginning ({kept})"
    ))
}

fn detail(plan: &Plan, reading: Reading, options: &LoadOptions, run_id: &str) -> RunDetail {
    let mut read = reading.options;
    read.push(format!(
        "timezone={}",
        options.timezone.as_deref().unwrap_or_default()
    ));
    if let Some(limit) = options.limit {
        read.push(format!("limit={limit}"));
    }
    RunDetail {
        inputs: reading.inputs.unwrap_or_default(),
        options: read,
        table: plan.table.name.to_string(),
        table_identity: plan.table.identity.clone(),
        operation: plan.operation.kind(),
        key: plan.operation.key().to_vec(),
        columns: plan
            .columns
            .iter()
            .map(|c| format!("{}={}", c.source_name, c.name))
            .collect(),
        block_rows: plan.block_rows as u64,
        block_bytes: plan.block_bytes as u64,
        slots: plan.slots,
        slot_by: Dealing {
            by: plan.slot_by,
            router: plan
                .routing
                .as_ref()
                .filter(|routing| plan.slot_by == SlotBy::Shard || routing.separate_databases())
                .map(|routing| routing.router.identity()),
        },
        sort: plan.sort,
        rejects: rejects_path(plan, options, run_id).display().to_string(),
        single_transaction: plan.single_transaction,
        prepared_by: plan.preparation.option().map(str::to_owned),
        pending: None,
        member: None,
        opening: None,
        emptied_by_crash: plan.table.is_emptied_by_crash(),
        part: None,
    }
}

/// How the shape of a table, a property a line, has changed since a run began, as the end of a sentence about it.
fn reshaped(before: &str, now: &str) -> String {
    /// Differences that are named; the first ones say enough.
    const NAMED_MAX: usize = 3;
    /// The most bytes of one: SQLite has a table's whole definition in a line, of which a beginning says nothing.
    const LINE_BYTES_MAX: usize = 200;
    let only_in = |one: &str, other: &str| -> Vec<String> {
        let lines = one
            .lines()
            .filter(|line| !other.lines().any(|known| known == *line));
        lines.take(NAMED_MAX).map(str::to_owned).collect()
    };
    let (gone, new) = (only_in(before, now), only_in(now, before));
    if !new.is_empty() && new.iter().chain(&gone).all(|line| is_making(line)) {
        return "has been rebuilt, created again or restored from a dump since the run began".to_owned();
    }
    let is_short = gone.iter().chain(&new).all(|line| line.len() <= LINE_BYTES_MAX);
    let of = |when: &str, lines: Vec<String>| match lines.is_empty() || !is_short {
        true => String::new(),
        false => format!("; {when}: {}", lines.join(", ")),
    };
    format!(
        "has been altered since the run began{}{}",
        of("then", gone),
        of("now", new)
    )
}

/// What differs between a run and this attempt at it, where it may not.
fn changed(run: &RunDetail, now: &RunDetail) -> Option<String> {
    changed_input(run, now)
        .or_else(|| changed_request(run, now))
        .or_else(|| changed_dealing(run, now))
}

/// Which file is not as it was.
fn changed_input(run: &RunDetail, now: &RunDetail) -> Option<String> {
    let pairs = run.inputs.iter().zip(&now.inputs);
    pairs
        .into_iter()
        .find_map(|(before, after)| changed_file(before, after, "the run began"))
}

/// How a file differs from what it was when something else happened, as a sentence.
pub fn changed_file(before: &InputIdentity, after: &InputIdentity, when: &str) -> Option<String> {
    let path = &after.path;
    if before.bytes != after.bytes {
        return Some(format!(
            "{path} has changed since {when}: {} bytes then, {} now",
            Grouped(before.bytes),
            Grouped(after.bytes)
        ));
    }
    if before.modified_nanos != after.modified_nanos {
        return Some(format!("{path} has been written to since {when}"));
    }
    // Times of a store are whole seconds, and those of a disk can be set.
    match (&before.sample, &after.sample) {
        (Some(before), Some(now)) if before != now => Some(format!(
            "{path} has changed since {when}: it holds something else"
        )),
        _ => None,
    }
}

fn differs(what: &str, before: &str, after: &str) -> Option<String> {
    Some(format!(
        "{what} was '{before}' when the run began and is '{after}' now"
    ))
}

/// What is asked for otherwise, or of a table that is not as it was.
fn changed_request(run: &RunDetail, now: &RunDetail) -> Option<String> {
    if run.options != now.options {
        let only = |these: &[String], others: &[String]| {
            let only = these.iter().filter(|option| !others.contains(option));
            only.map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        return Some(format!(
            "the run began with {} and is now asked to go on with {}",
            only(&run.options, &now.options),
            only(&now.options, &run.options)
        ));
    }
    if run.columns != now.columns {
        return differs(
            "the list of columns",
            &run.columns.join(","),
            &now.columns.join(","),
        );
    }
    // SQLite quotes the name of a table that is renamed, and leaves it so when the table gets its old name back.
    let unquoted = |identity: &TableIdentity| identity.shape.replace('"', "");
    if unquoted(&run.table_identity) != unquoted(&now.table_identity) {
        let change = reshaped(&run.table_identity.shape, &now.table_identity.shape);
        return Some(format!("table {} {change}", now.table));
    }
    if run.prepared_by != now.prepared_by {
        let option = |option: &Option<String>| match option {
            Some(option) => format!("with {option}"),
            None => "without".to_owned(),
        };
        return Some(format!(
            "the run began {} and is now asked to go on {}",
            option(&run.prepared_by),
            option(&now.prepared_by)
        ));
    }
    if run.single_transaction != now.single_transaction {
        return Some(format!(
            "the run began {} --single-transaction and is now asked to go on {} it",
            if run.single_transaction { "with" } else { "without" },
            if now.single_transaction { "with" } else { "without" },
        ));
    }
    None
}

/// What would give rows to other slots, or in another order.
fn changed_dealing(run: &RunDetail, now: &RunDetail) -> Option<String> {
    if run.part.as_ref().is_some_and(PartId::is_whole) {
        // A job deals no rows.
        return None;
    }
    if run.sort != now.sort {
        return differs("--sort", run.sort.name(), now.sort.name());
    }
    if run.slot_by != now.slot_by || run.slots != now.slots {
        return differs(
            "the dealing of rows",
            &run.slot_by.to_string(),
            &now.slot_by.to_string(),
        );
    }
    if run.block_rows != now.block_rows || run.block_bytes != now.block_bytes {
        return differs(
            "the size of blocks",
            &run.block_rows.to_string(),
            &now.block_rows.to_string(),
        );
    }
    None
}
