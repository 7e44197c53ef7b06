//! What earlier runs have done with the inputs of this one: whether a file is one that was loaded, and in what a run
//! differs that shares an input.
//!
//! A file is the same where path, size, time and content are those on record, and where a file of the same content was
//! moved. Of a file of more than [`SAMPLE_BYTES`] only parts are compared, so there the content alone proves nothing: it
//! counts together with the time, which moving keeps.

use tonnage_core::{
    error::{Error, Result},
    ledger::{
        InputIdentity, Ledger, OtherLedger, RunDetail, RunQuery, RunRecord,
        inputs::{InputRecord, object_key},
    },
    operation::OperationKind,
    preparation::Preparation,
    report::Grouped,
};
use tonnage_formats::sources::files::SAMPLE_BYTES;

use crate::plan::Plan;

/// What an input is to one on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InputMatch {
    /// The same, under the same name.
    Same,
    /// The same, under another name than it has now.
    Moved,
    /// Another content under the same name, or one that may be another; what has changed.
    Changed(String),
    /// The same symbolic link, to another file.
    Retargeted(String),
    /// The same content, under another name and of another time: a copy, or a file that happens to hold the same.
    Copy,
    /// Another file.
    Other,
}

impl InputMatch {
    /// What `now` is to `before`.
    pub(super) fn of(before: &InputIdentity, now: &InputIdentity) -> Self {
        let same_size = before.bytes == now.bytes;
        let same_time = before.modified_nanos == now.modified_nanos;
        let same_content = match (&before.sample, &now.sample) {
            (Some(before), Some(now)) => Some(same_size && before == now),
            _ => None,
        };
        let is_whole = now.bytes <= SAMPLE_BYTES;
        let path = &now.path;
        if before.path == *path {
            return match same_content {
                Some(true) if same_time || is_whole => Self::Same,
                None if same_size && same_time => Self::Same,
                _ if !same_size => Self::Changed(format!(
                    "{path} has changed: {} bytes then, {} now",
                    Grouped(before.bytes),
                    Grouped(now.bytes)
                )),
                _ => Self::Changed(format!("{path} has been written to since")),
            };
        }
        let asked = |input: &InputIdentity| input.named.clone().unwrap_or_else(|| input.path.clone());
        let same_name = before.file_name() == now.file_name();
        match same_content {
            Some(true) if now.bytes > 0 && (same_time || (same_name && is_whole)) => return Self::Moved,
            Some(true) if now.bytes > 0 && same_name => {
                return Self::Changed(format!(
                    "{path} has the name, the size and, as far as was compared, the content of {}, and another time",
                    before.path
                ));
            }
            None if same_size && same_name && same_time => return Self::Moved,
            None if same_size && same_name => {
                return Self::Changed(format!(
                    "{path} has the name and the size of {}, and another time",
                    before.path
                ));
            }
            _ => {}
        }
        if asked(before) == asked(now) {
            return Self::Retargeted(format!(
                "{} led to {} then and leads to {path} now",
                asked(now),
                before.path
            ));
        }
        match same_content {
            Some(true) if now.bytes > 0 => Self::Copy,
            _ => Self::Other,
        }
    }

    /// Whether a run that has taken up the one on record has, or may have, taken up this one.
    pub(super) fn is_shared(&self) -> bool {
        !matches!(self, Self::Copy | Self::Other)
    }
}

/// Whether a record is of this table: by its object, or by its name only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Into {
    Object,
    Name,
    Another,
}

impl Into {
    pub(super) fn of(record: &InputRecord, table: &str, object: &str) -> Self {
        match (
            record.detail.object == object_key(object),
            record.detail.table == table,
        ) {
            (true, _) => Self::Object,
            (false, true) => Self::Name,
            (false, false) => Self::Another,
        }
    }
}

/// Keys under which any of `inputs` may be on record.
pub(super) fn keys<'a>(inputs: impl IntoIterator<Item = &'a InputIdentity>) -> Vec<String> {
    let mut keys: Vec<String> = inputs.into_iter().flat_map(InputIdentity::keys).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// What is on record of other runs that share an input with a run that is about to begin.
#[derive(Debug, Default)]
pub(super) struct SharedInputs {
    /// The run into this table that shares one: the unfinished one, else the newest.
    pub obstacle: Option<Obstacle>,
    /// What to say of runs that share one and are no obstacle.
    pub note: Option<String>,
}

/// A run whose rows would come to be there twice.
#[derive(Debug)]
pub(super) struct Obstacle {
    record: InputRecord,
    /// None where it was pruned.
    run: Option<RunRecord>,
}

impl Obstacle {
    /// Whether the run is unfinished.
    pub(super) fn is_unfinished(&self) -> bool {
        !self.record.finished
    }

    /// The run and what it loads, for a message.
    pub(super) fn shown(&self) -> String {
        format!(
            "run {} of {}",
            self.record.run_id,
            shown_inputs(self.run.as_ref(), &self.record)
        )
    }

    /// Whether rows of it may be there. Of a run that has written nothing, or a single transaction that was never
    /// committed, no row is.
    fn has_rows(&self) -> bool {
        let is_void = |run: &RunRecord| {
            run.counts.written == 0 && (run.finished.is_some() || run.detail.single_transaction)
        };
        !self.run.as_ref().is_some_and(is_void)
    }
}

/// What becomes of the rows that a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableRows {
    Kept,
    /// The table is emptied first, so rows of finished runs cannot come to be there twice.
    Replaced,
}

impl TableRows {
    pub fn of(plan: &Plan) -> Self {
        match plan.preparation.truncates() || plan.preparation == Preparation::Recreate {
            true => Self::Replaced,
            false => Self::Kept,
        }
    }
}

/// Looks for runs that share an input with `detail`.
pub(super) async fn shared(
    ledger: &dyn Ledger,
    detail: &RunDetail,
    table_rows: TableRows,
) -> Result<SharedInputs> {
    let records = ledger.inputs(&keys(&detail.inputs)).await?;
    let (mut shared, obstacles) = sift(records, detail, table_rows);
    for record in obstacles {
        // One that was pruned is known by its inputs only.
        let run = ledger.runs(&RunQuery::Id(record.run_id.clone())).await?;
        let run = run.into_iter().next();
        let obstacle = Some(Obstacle { record, run }).filter(Obstacle::has_rows);
        if obstacle.is_some() {
            shared.obstacle = obstacle;
            break;
        }
    }
    Ok(shared)
}

/// The same of a ledger that the connection does not use.
pub(super) fn shared_in(other: &OtherLedger, detail: &RunDetail, table_rows: TableRows) -> SharedInputs {
    let (mut shared, obstacles) = sift(other.inputs.clone(), detail, table_rows);
    let obstacles = obstacles.into_iter().map(|record| {
        let run = other.runs.iter().find(|run| run.run_id == record.run_id);
        Obstacle {
            run: run.cloned(),
            record,
        }
    });
    shared.obstacle = obstacles.into_iter().find(Obstacle::has_rows);
    shared
}

/// Of records of inputs those of runs that may be an obstacle, unfinished ones first, then the newest; and what to say of
/// the others.
fn sift(
    records: Vec<InputRecord>,
    detail: &RunDetail,
    table_rows: TableRows,
) -> (SharedInputs, Vec<InputRecord>) {
    let mut shared = SharedInputs::default();
    let mut obstacles: Vec<InputRecord> = Vec::new();
    for record in records {
        let is_shared = |now: &InputIdentity| InputMatch::of(&record.detail.input, now).is_shared();
        let Some(input) = detail.inputs.iter().find(|now| is_shared(now)) else {
            continue;
        };
        let done = match record.finished {
            true => "has loaded",
            false => "has begun to load",
        };
        match Into::of(&record, &detail.table, &detail.table_identity.object) {
            Into::Another => {
                shared.note = Some(format!(
                    "run {} {done} {} into {}",
                    record.run_id, input.path, record.detail.table
                ));
            }
            // Another thing that is done with the same rows, as a delete after an insert.
            _ if record.finished
                && (table_rows == TableRows::Replaced || record.detail.operation != detail.operation) =>
            {
                shared.note = Some(format!(
                    "run {} {done} {} into {} before ({})",
                    record.run_id, input.path, record.detail.table, record.detail.operation
                ));
            }
            _ if obstacles.iter().any(|known| known.run_id == record.run_id) => {}
            _ => obstacles.push(record),
        }
    }
    obstacles.sort_by(|a, b| (a.finished, &b.run_id).cmp(&(b.finished, &a.run_id)));
    (shared, obstacles)
}

/// Why a run that is to go on cannot, as the one that shares an input with it is not the same.
pub(super) fn refusal(
    Obstacle { record, run }: &Obstacle,
    detail: &RunDetail,
    changed: impl Fn(&RunDetail, &RunDetail) -> Option<String>,
) -> Error {
    let run_id = &record.run_id;
    let mut differences = match run {
        Some(run) => differences(run, detail),
        None => of_inputs(std::slice::from_ref(&record.detail.input), &detail.inputs),
    };
    if let Some(run) = run
        && differences.is_empty()
    {
        differences.extend(changed(&run.detail, detail));
    }
    if differences.is_empty() {
        differences.push("the order of the files is another".to_owned());
    }
    let (state, hint) = match record.finished {
        true => (
            "has loaded",
            format!(
                "--new-files loads only the files that no run has loaded; --restart loads all of them as a new run; \
                 `tonnage runs TARGET --forget {run_id}` first, if its rows are not there"
            ),
        ),
        false => (
            "has begun, and not finished, to load",
            format!(
                "--resume with what it began with goes on with it; --restart loads all of this as a new run, and \
                 `tonnage runs TARGET --forget {run_id}` removes that one; its rows stay"
            ),
        ),
    };
    Error::config(format!(
        "run {run_id} {state} {} into {}, but not the same: {}",
        shown_inputs(run.as_ref(), record),
        record.detail.table,
        differences.join("; ")
    ))
    .hint(hint)
}

fn shown_inputs(run: Option<&RunRecord>, record: &InputRecord) -> String {
    match run.map(|run| run.detail.inputs.len()) {
        Some(count @ 2..) => format!("{} and {} more", record.detail.input.path, count - 1),
        _ => record.detail.input.path.clone(),
    }
}

/// In what a run and what is asked for now differ, as far as it decides which run it is.
fn differences(run: &RunRecord, now: &RunDetail) -> Vec<String> {
    let before = &run.detail;
    let mut differences = of_inputs(&before.inputs, &now.inputs);
    let (object, object_now) = (&before.table_identity.object, &now.table_identity.object);
    if before.table != now.table {
        differences.push(format!(
            "the table was {} then and is {} now",
            before.table, now.table
        ));
    } else if before.operation != now.operation {
        differences.push(format!(
            "it was {} then and is {} now",
            before.operation, now.operation
        ));
    } else if object != object_now {
        // Of a statement the table's own id comes first.
        let split = |object: &str| -> (String, String) {
            let (id, statement) = object.split_once(' ').unwrap_or((object, ""));
            (id.to_owned(), statement.to_owned())
        };
        match now.operation == OperationKind::Statement && split(object).0 == split(object_now).0 {
            true => differences.push("the statement is another".to_owned()),
            false => differences.push(format!(
                "table {} is not the one that it was: it was created again, or restored from a dump",
                now.table
            )),
        }
    }
    if before.key != now.key {
        differences.push(format!(
            "the key was '{}' then and is '{}' now",
            before.key.join(","),
            now.key.join(",")
        ));
    }
    differences
}

/// The most files that are named one by one.
const NAMED_MAX: usize = 5;

fn of_inputs(before: &[InputIdentity], now: &[InputIdentity]) -> Vec<String> {
    let mut differences = Vec::new();
    let mut taken = vec![false; before.len()];
    let mut added = Vec::new();
    for input in now {
        let found = before.iter().enumerate().find_map(|(at, known)| {
            let input_match = InputMatch::of(known, input);
            (!taken[at] && input_match.is_shared()).then_some((at, input_match))
        });
        let Some((at, input_match)) = found else {
            added.push(input.path.as_str());
            continue;
        };
        taken[at] = true;
        let known = &before[at];
        match input_match {
            InputMatch::Changed(change) | InputMatch::Retargeted(change) => differences.push(change),
            InputMatch::Moved => differences.push(format!("{} was {} then", input.path, known.path)),
            _ if known.modified_nanos != input.modified_nanos => {
                differences.push(format!(
                    "{} has been written to since, though it holds the same",
                    input.path
                ));
            }
            _ => {}
        }
    }
    let removed: Vec<_> = before
        .iter()
        .zip(&taken)
        .filter(|(_, taken)| !**taken)
        .map(|(input, _)| input.path.as_str())
        .collect();
    let more = differences.len().saturating_sub(NAMED_MAX);
    differences.truncate(NAMED_MAX);
    if more > 0 {
        differences.push(format!("{more} more files have changed"));
    }
    for (paths, what) in [
        (added, "was not among its files"),
        (removed, "was among its files and is not now"),
    ] {
        let more = paths.len().saturating_sub(NAMED_MAX);
        differences.extend(paths.iter().take(NAMED_MAX).map(|path| format!("{path} {what}")));
        if more > 0 {
            differences.push(format!("so with {more} more files"));
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(path: &str, bytes: u64, time: i128, sample: &str) -> InputIdentity {
        InputIdentity {
            path: path.to_owned(),
            bytes,
            modified_nanos: time,
            named: None,
            sample: (!sample.is_empty()).then(|| sample.to_owned()),
        }
    }

    #[test]
    fn a_file_is_known_again() {
        let large = SAMPLE_BYTES + 1;
        let same = ["same"];
        for (before, now, wanted) in [
            (input("/d/a", 9, 1, "x"), input("/d/a", 9, 1, "x"), "same"),
            (input("/d/a", 9, 1, "x"), input("/d/a", 9, 2, "x"), "same"),
            (
                input("/d/a", large, 1, "x"),
                input("/d/a", large, 2, "x"),
                "changed",
            ),
            (input("/d/a", 9, 1, "x"), input("/d/a", 9, 1, "y"), "changed"),
            (input("/d/a", 9, 1, "x"), input("/d/a", 12, 2, "y"), "changed"),
            // Records of earlier versions have no content.
            (input("/d/a", 9, 1, ""), input("/d/a", 9, 1, "x"), "same"),
            (input("/d/a", 9, 1, ""), input("/d/a", 9, 2, "x"), "changed"),
            (input("/d/a", 9, 1, ""), input("/e/a", 9, 1, "x"), "moved"),
            (input("/d/a", 9, 1, ""), input("/e/a", 9, 2, "x"), "changed"),
            (input("/d/a", 9, 1, ""), input("/e/a", 8, 2, "x"), "other"),
            (input("/d/a", 9, 1, "x"), input("/e/b", 9, 1, "x"), "moved"),
            (input("/d/a", 9, 1, "x"), input("/e/a", 9, 2, "x"), "moved"),
            (
                input("/d/a", large, 1, "x"),
                input("/e/b", large, 1, "x"),
                "moved",
            ),
            (
                input("/d/a", large, 1, "x"),
                input("/e/a", large, 2, "x"),
                "changed",
            ),
            (input("/d/a", 9, 1, "x"), input("/e/b", 9, 2, "x"), "copy"),
            (input("/d/a", 9, 1, "x"), input("/e/a", 9, 1, "y"), "other"),
            // Files without content are alike, and nothing of them is loaded.
            (input("/d/a", 0, 1, "x"), input("/e/b", 0, 1, "x"), "other"),
        ] {
            let found = match InputMatch::of(&before, &now) {
                InputMatch::Same => same[0],
                InputMatch::Moved => "moved",
                InputMatch::Changed(_) => "changed",
                InputMatch::Retargeted(_) => "retargeted",
                InputMatch::Copy => "copy",
                InputMatch::Other => "other",
            };
            assert_eq!(found, wanted, "{before:?} {now:?}");
        }
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_told() {
        let link = |path: &str, sample| InputIdentity {
            named: Some("/d/latest".to_owned()),
            ..input(path, 9, 1, sample)
        };
        let told = InputMatch::of(&link("/d/a", "x"), &link("/d/b", "y"));
        assert_eq!(
            told,
            InputMatch::Retargeted("/d/latest led to /d/a then and leads to /d/b now".to_owned())
        );
    }
}
