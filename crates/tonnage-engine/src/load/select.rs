//! `--new-files`: of the files that are named, those that no finished run has loaded into the table.
//!
//! - A file is left out only if a finished run has loaded the same file into this very table, by the table's object id; one
//!   that a run has loaded into an earlier table of the name is refused, as nobody knows whether its rows are there.
//! - A file that has changed since it was loaded is refused: some of its rows are there.
//! - An unfinished run that has taken up any of the files is gone on with first, when asked to; what is new is left for
//!   the next time.
//! - Two processes that look at the same time may both find a file new. So each looks again once its own run is on
//!   record, and withdraws if another one has appeared.

use std::collections::HashSet;
use std::sync::Arc;

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{Emptied, InputIdentity, RunQuery, RunRecord, inputs::InputRecord},
    operation::OperationKind,
    report::Counted,
    retry::Attempts,
    table::Table,
    target::Target,
};
use tonnage_formats::sources::{self, Format, InputFile, TextOptions, files};

use super::{
    Prepared,
    earlier::{InputMatch, Into, keys},
    identity::Ownership,
    prepare, prepare_source,
};
use crate::plan::{ATTEMPTS_MAX, ATTEMPTS_TIME_MAX, Attempt, LedgerPlace, LoadOptions, Plan};

/// The run and the file of a record.
fn of_record(record: &InputRecord) -> (String, String) {
    (record.run_id.clone(), record.detail.input.path.clone())
}

/// What is left of the files.
pub(super) struct Selection {
    /// Whether nothing is: all were loaded before.
    pub nothing: bool,
    /// What the user should know.
    pub notes: Vec<String>,
    /// The runs that were known to have taken up files before this one was put on record, each with the path of one. A look
    /// may see a run that begins with some of its files only, where the ledger is read in several statements.
    known: HashSet<(String, String)>,
    inputs: Vec<InputIdentity>,
    kind: Use,
}

/// How often the records are read again because runs that they call unfinished have ended meanwhile.
const READINGS_MAX: usize = 100;

/// [`prepare`] of files: all that `inputs` name, or those that are new ([`LoadOptions::new_files`]).
pub async fn prepare_files(
    target: Arc<dyn Target>,
    url: String,
    inputs: &[String],
    format: Option<Format>,
    text: &TextOptions,
    options: LoadOptions,
) -> Result<Prepared> {
    if !options.new_files {
        let source = sources::open(inputs, format, text)?;
        return prepare(target, url, source, options).await;
    }
    let (files, format) = files::find(inputs, format)?;
    let (files, selection) = select(&*target, files, &options).await?;
    let source = sources::open_files(files, format, text)?;
    let mut prepared = prepare_source(target, url, source, options).await?;
    prepared.selection = Some(selection);
    Ok(prepared)
}

/// Refuses what does not go with [`LoadOptions::new_files`].
pub(super) fn check(options: &LoadOptions) -> Result<()> {
    let other = match (&options.statement, options.attempt, options.ledger) {
        (Some(_), ..) => "a statement",
        (_, Attempt::Restart, _) => "--restart",
        (.., LedgerPlace::None) => "--ledger none",
        _ if options.truncate => "--truncate",
        _ if options.recreate => "--recreate",
        _ if options.limit.is_some() => "--limit",
        _ => return Ok(()),
    };
    Err(
        Error::config(format!("--new-files and {other} do not go together")).hint(
            "--new-files adds to a table the files that the ledger does not know yet; leave it out to load all of them",
        ),
    )
}

/// What kind of thing a mode does with a file: a file that was inserted and then deleted has had two of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Load,
    Update,
    Delete,
    Statement,
}

impl Use {
    fn of(operation: OperationKind) -> Self {
        match operation {
            OperationKind::Insert | OperationKind::Upsert | OperationKind::Ignore => Self::Load,
            OperationKind::Update => Self::Update,
            OperationKind::Delete => Self::Delete,
            OperationKind::Statement => Self::Statement,
        }
    }
}

async fn records(target: &dyn Target, inputs: &[InputIdentity]) -> Result<Vec<InputRecord>> {
    let keys = keys(inputs);
    let mut attempts = Attempts::of(ATTEMPTS_MAX, ATTEMPTS_TIME_MAX);
    loop {
        match target.ledger().inputs(&keys).await {
            Ok(records) => return Ok(records),
            Err(error) => attempts.after(error).await?,
        }
    }
}

/// The files to load; all of them where there is nothing to do, so that the load can be planned.
async fn select(
    target: &dyn Target,
    files: Vec<InputFile>,
    options: &LoadOptions,
) -> Result<(Vec<InputFile>, Selection)> {
    check(options)?;
    let mut inputs = Vec::with_capacity(files.len());
    for file in &files {
        inputs.push(file.identity.clone().ok_or_else(|| {
            Error::config(format!(
                "--new-files: {} is not a file that can be known again",
                file.shown
            ))
            .hint("name files, directories or globs")
        })?);
    }
    let mut selection = Selection {
        nothing: false,
        notes: Vec::new(),
        known: HashSet::new(),
        inputs,
        kind: Use::of(options.mode.kind()),
    };
    let Some(table) = target.table(&options.table).await? else {
        // Nothing is there of what was loaded into a table of this name.
        return Ok((files, selection));
    };
    let (records, unfinished) = on_record(target, &table, &selection).await?;
    selection
        .known
        .extend(records.iter().map(|(_, record)| of_record(record)));

    if let Some(run) = unfinished {
        let files = of_run(&run, files, options)?;
        let new = selection.inputs.len() - files.len();
        if new > 0 {
            selection.notes.push(format!(
                "{} left for the next load: run {} goes on first",
                Counted(new as u64, "file"),
                run.run_id
            ));
        }
        return Ok((files, selection));
    }

    let finished: Vec<_> = records.iter().filter(|(_, record)| record.finished).collect();
    let emptied = emptied(target, finished.iter().map(|(_, record)| record)).await?;
    let mut new = Vec::new();
    for (file, input) in files.iter().zip(&selection.inputs) {
        if is_new(&table, (file, input), &finished, &emptied, &mut selection.notes)? {
            new.push(file.clone());
        }
    }
    let left_out = files.len() - new.len();
    if left_out > 0 {
        selection.notes.insert(
            0,
            format!("{} left out, loaded before", Counted(left_out as u64, "file")),
        );
    }
    match new.is_empty() {
        true => {
            selection.nothing = true;
            Ok((files, selection))
        }
        false => Ok((new, selection)),
    }
}

/// What the ledger has of the files and of this table, and the run that is to go on first.
async fn on_record(
    target: &dyn Target,
    table: &Table,
    selection: &Selection,
) -> Result<(Vec<(Into, InputRecord)>, Option<RunRecord>)> {
    let name = table.name.to_string();
    let mut readings = 0;
    loop {
        readings += 1;
        let records: Vec<_> = records(target, &selection.inputs)
            .await?
            .into_iter()
            .filter(|record| Use::of(record.detail.operation) == selection.kind)
            .map(|record| (Into::of(&record, &name, &table.identity.object), record))
            .filter(|(into, _)| *into != Into::Another)
            .collect();
        match unfinished(target, &records, &selection.inputs).await? {
            Unfinished::None => return Ok((records, None)),
            Unfinished::Run(run) => return Ok((records, Some(*run))),
            // Its files are loaded by now, or free again: what was read says neither.
            Unfinished::Ended(_) if readings < READINGS_MAX => {}
            Unfinished::Ended(record) => return Err(not_on_record(&record)),
        }
    }
}

/// Whether a file was not loaded yet, by what the ledger has of finished runs.
fn is_new(
    table: &Table,
    (file, input): (&InputFile, &InputIdentity),
    finished: &[&(Into, InputRecord)],
    emptied: &[Emptied],
    notes: &mut Vec<String>,
) -> Result<bool> {
    let found = finished
        .iter()
        .map(|(into, record)| (*into, InputMatch::of(&record.detail.input, input), record));
    let found: Vec<_> = found.collect();
    let is_same = |input_match: &InputMatch| matches!(input_match, InputMatch::Same | InputMatch::Moved);
    let of_run = |record: &InputRecord| emptied.iter().find(|emptied| emptied.run_id == record.run_id);
    let loaded = || {
        let loaded = found.iter();
        loaded.filter(|(into, input_match, _)| *into == Into::Object && is_same(input_match))
    };
    if loaded().any(|(.., record)| of_run(record).is_none()) {
        return Ok(false);
    }
    if let Some(emptied) = loaded().find_map(|(.., record)| of_run(record)) {
        return Err(was_emptied(file, emptied));
    }
    for (into, input_match, record) in &found {
        match input_match {
            InputMatch::Same | InputMatch::Moved => {
                return Err(another_table(&table.name.to_string(), input, record));
            }
            InputMatch::Changed(change) => return Err(has_changed(change, *into, record)),
            InputMatch::Copy => notes.push(format!(
                "{} holds the same as {}, which run {} has loaded; it is loaded as a file of its own",
                file.shown, record.detail.input.path, record.run_id
            )),
            InputMatch::Retargeted(_) | InputMatch::Other => {}
        }
    }
    Ok(true)
}

/// Of the runs of `records`, those of whose rows it is not certain that they are there.
async fn emptied<'a>(
    target: &dyn Target,
    records: impl Iterator<Item = &'a InputRecord>,
) -> Result<Vec<Emptied>> {
    let mut run_ids: Vec<_> = records.map(|record| record.run_id.clone()).collect();
    run_ids.sort_unstable();
    run_ids.dedup();
    let mut attempts = Attempts::of(ATTEMPTS_MAX, ATTEMPTS_TIME_MAX);
    loop {
        match target.ledger().emptied(&run_ids).await {
            Ok(emptied) => return Ok(emptied),
            Err(error) => attempts.after(error).await?,
        }
    }
}

fn was_emptied(file: &InputFile, emptied: &Emptied) -> Error {
    let run_id = &emptied.run_id;
    Error::config(format!("run {run_id} has loaded {}, and {}", file.shown, emptied.why)).hint(format!(
        "--restart in the place of --new-files loads all that is named, as a new run; `tonnage runs TARGET --forget \
         {run_id}` makes the files of that run new; if its rows are there, leave the file out"
    ))
}

/// What has become of runs that were unfinished when the records were read.
enum Unfinished {
    /// There are none that matter.
    None,
    /// One is.
    Run(Box<RunRecord>),
    /// This one has finished or was forgotten since, so that the records are out of date.
    Ended(Box<InputRecord>),
}

/// The unfinished run that has taken up any of the inputs; not one of a single transaction of which nothing is there.
async fn unfinished(
    target: &dyn Target,
    records: &[(Into, InputRecord)],
    inputs: &[InputIdentity],
) -> Result<Unfinished> {
    for (_, record) in records.iter().filter(|(_, record)| !record.finished) {
        let is_shared = |now| InputMatch::of(&record.detail.input, now).is_shared();
        if !inputs.iter().any(is_shared) {
            continue;
        }
        let found = target.ledger().runs(&RunQuery::Id(record.run_id.clone())).await?;
        match found.into_iter().find(|run| run.finished.is_none()) {
            None => return Ok(Unfinished::Ended(Box::new(record.clone()))),
            Some(run) if run.detail.single_transaction && run.counts.total() == 0 => {}
            Some(run) => return Ok(Unfinished::Run(Box::new(run))),
        }
    }
    Ok(Unfinished::None)
}

/// The files with which an unfinished run goes on.
fn of_run(run: &RunRecord, files: Vec<InputFile>, options: &LoadOptions) -> Result<Vec<InputFile>> {
    let paths: Vec<_> = run
        .detail
        .inputs
        .iter()
        .map(|input| input.path.as_str())
        .collect();
    if options.attempt != Attempt::Resume {
        return Err(Error::config(format!(
            "run {} has begun to load {} of these files into {} and is unfinished",
            run.run_id,
            paths.len(),
            run.detail.table
        ))
        .hint(format!(
            "--new-files --resume goes on with it first; `tonnage runs TARGET --forget {}` leaves what it has written",
            run.run_id
        )));
    }
    paths
        .iter()
        .map(|path| {
            let is_it = |file: &&InputFile| file.identity.as_ref().is_some_and(|input| input.path == *path);
            files.iter().find(is_it).cloned().ok_or_else(|| {
                Error::config(format!(
                    "run {} is to go on first, and {path}, which it began with, is not among the files",
                    run.run_id
                ))
                .hint(format!(
                    "name it too; `tonnage runs TARGET --forget {}` leaves what the run has written",
                    run.run_id
                ))
            })
        })
        .collect()
}

/// The refusal of a ledger that has the files of a run and not the run: whether their rows are there it cannot say.
fn not_on_record(record: &InputRecord) -> Error {
    Error::config(format!(
        "run {} has taken up {} and is itself not on record",
        record.run_id, record.detail.input.path
    ))
    .hint("look whether the rows of that file are there; without --new-files it is loaded whatever the ledger knows")
}

fn has_changed(change: &str, into: Into, record: &InputRecord) -> Error {
    let earlier = match into {
        Into::Name => "; that table was another one of this name",
        _ => "",
    };
    Error::config(format!(
        "{change} (run {} has loaded it into {}{earlier})",
        record.run_id, record.detail.table
    ))
    .hint(
        "the ledger cannot tell which of its rows are new: load them from a file of their own; or load this file alone \
         without --new-files, where its rows may come again (--mode upsert) or were removed",
    )
}

fn another_table(table: &str, input: &InputIdentity, record: &InputRecord) -> Error {
    Error::config(format!(
        "run {} has loaded {} into a table {table} that was not this one: it was created again since, or restored from a \
         dump",
        record.run_id, input.path
    ))
    .hint(format!(
        "if its rows are there, leave the file out; if they are not, `tonnage runs TARGET --forget {}` makes the files of \
         that run new",
        record.run_id
    ))
}

impl Selection {
    /// Withdraws the run that was just put on record if another one has taken up any of its files meanwhile.
    pub(super) async fn confirm(
        &self,
        target: &dyn Target,
        plan: &Plan,
        ownership: &Ownership,
    ) -> Result<()> {
        let Some(handle) = ownership.handle.as_ref().filter(|_| !ownership.resumed) else {
            return Ok(());
        };
        let name = plan.table.name.to_string();
        let records = records(target, &self.inputs).await?;
        let rival = records.into_iter().find(|record| {
            record.run_id != handle.run_id
                && !self.known.contains(&of_record(record))
                && Use::of(record.detail.operation) == self.kind
                && Into::of(record, &name, &plan.table.identity.object) != Into::Another
                && self
                    .inputs
                    .iter()
                    .any(|now| InputMatch::of(&record.detail.input, now).is_shared())
        });
        let Some(rival) = rival else { return Ok(()) };
        target.ledger().forget_unbegun(handle).await?;
        Err(Error::new(
            ErrorKind::Fenced,
            format!(
                "run {} has taken up {} meanwhile",
                rival.run_id, rival.detail.input.path
            ),
        )
        .hint("the same command again finds what is left"))
    }
}
