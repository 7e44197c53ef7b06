//! Which run of the ledger the rows of a buffer belong to.
//!
//! Without a journal every opening is a separate run, as a pipe is; if its process dies, the next opening of any buffer
//! finishes it. With one, the run goes on from opening to
//! opening: its identity is the journal's own, the table as created, the operation and its key.
//!
//! Of several copies of a journal one is gone on with. Each opening has its own name, which the ledger's record of the
//! run gets by compare-and-set against the name of the opening before, as the journal knows it; docs/journal.md has the
//! steps. A copy, or an older state, knows another one and is refused before anything is changed.

use std::path::{Path, PathBuf};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{
        Emptied, InputIdentity, NewRun, Opening, RUNS_KEPT, RUNS_PRUNED_MAX, RunDetail, RunHandle, RunQuery,
        RunRecord, jobs::RunRole,
    },
    preparation::Preparation,
    retry::Attempts,
    target::Target,
};
use xxhash_rust::xxh3::xxh3_128;

use super::{
    journal::{Marker, Uncertain},
    process::{self, is_abandoned},
};
use crate::{
    load::RejectsFile,
    plan::{ATTEMPTS_MAX, ATTEMPTS_TIME_MAX, Plan},
};

/// A journal that is to be gone on with.
pub(super) struct Claim<'a> {
    pub marker: &'a Marker,
    /// What is not as the database knows it, once that has said how far it has come. An error where it is not to be gone
    /// on with so.
    pub check: &'a (dyn Fn(u64) -> Result<()> + Send + Sync),
    /// Whether to go on also with a copy.
    pub accept_loss: bool,
}

/// A run that this process owns.
pub(super) struct Owned {
    pub handle: RunHandle,
    /// Rows up to here are accounted for.
    pub position: u64,
    /// Rows put aside so far.
    pub rejected: u64,
    /// Where bad rows go.
    pub rejects: PathBuf,
    /// Whether it was begun just now.
    pub is_new: bool,
    /// Of a journal of which another copy was opened since: what nobody knows.
    pub uncertain: Option<Uncertain>,
}

/// Takes the run of a journal over, or begins a new one.
pub(super) async fn own(
    target: &dyn Target,
    plan: &Plan,
    journal: Option<&Claim<'_>>,
    rejects: Option<&Path>,
) -> Result<Owned> {
    let run_id = uuid::Uuid::now_v7().simple().to_string();
    let identity = match journal {
        Some(journal) => identity(&journal.marker.id(), plan),
        None => format!("{}{run_id}", process::IDENTITY),
    };
    settle_abandoned(target).await;
    // Of this opening.
    let opening = uuid::Uuid::now_v7().simple().to_string();
    if let Some(journal) = journal {
        if let Some(named) = name_opening(target, journal, &identity, &opening).await? {
            return take_over(target, plan, named).await;
        }
        if journal.marker.begun() {
            return Err(Error::config(format!(
                "journal {} belongs to another table, operation or database than {} of {}",
                journal.marker.directory().display(),
                plan.operation.name(),
                plan.table.name
            ))
            .hint(
                "open it as it was made; or if that table is gone, or its run was forgotten, name a new journal",
            ));
        }
        (journal.check)(0)?;
        journal.marker.note_opening(None, &opening)?;
    }
    let rejects = match rejects {
        Some(path) => path.to_owned(),
        None => {
            let table = plan.table.name.name.replace(['/', '\\'], "_");
            format!("{table}-{run_id}.rejects.jsonl").into()
        }
    };
    let rejects = RejectsFile::known_path(rejects);
    RejectsFile::check(&rejects)?;
    let run = NewRun {
        identity,
        table: plan.table.name.clone(),
        preparation: Preparation::Keep,
        role: RunRole::Alone,
        detail: RunDetail {
            opening: journal.map(|_| opening),
            ..detail(plan, journal, &rejects)
        },
        run_id,
    };
    let mut attempts = Attempts::of(ATTEMPTS_MAX, ATTEMPTS_TIME_MAX);
    let handle = loop {
        match target.ledger().start(&run).await {
            Ok(handle) => break handle,
            Err(error) => attempts.after(error).await?,
        }
    };
    Ok(Owned {
        handle,
        position: 0,
        rejected: 0,
        rejects,
        is_new: true,
        uncertain: None,
    })
}

async fn take_over(target: &dyn Target, plan: &Plan, named: NamedRun) -> Result<Owned> {
    let NamedRun {
        run,
        uncertain,
        is_emptied,
    } = named;
    let mut attempts = Attempts::of(ATTEMPTS_MAX, ATTEMPTS_TIME_MAX);
    let (handle, slots) = loop {
        let taken = async {
            let taken = target.ledger().take_over(&run.run_id).await?;
            if is_emptied {
                target.ledger().accept_emptied(&taken.0).await?;
            }
            Ok(taken)
        };
        match taken.await {
            Ok(taken) => break taken,
            Err(error) => attempts.after(error).await?,
        }
    };
    if run.detail.table_identity.shape != plan.table.identity.shape {
        tracing::info!(
            "table {} has been altered since the journal was begun",
            plan.table.name
        );
    }
    Ok(Owned {
        handle,
        position: slots.first().map_or(0, |slot| slot.position.rows),
        rejected: slots.first().map_or(0, |slot| slot.counts.rejected),
        rejects: PathBuf::from(&run.detail.rejects),
        is_new: false,
        uncertain,
    })
}

/// The run of a journal, whose record names this opening.
struct NamedRun {
    run: RunRecord,
    /// What nobody knows, where a copy of the journal was opened since, or the table was emptied, and that is accepted.
    uncertain: Option<Uncertain>,
    /// Whether the table was emptied by a crash, or may have been.
    is_emptied: bool,
}

/// Finds the unfinished run of a journal and has its record name this opening.
async fn name_opening(
    target: &dyn Target,
    journal: &Claim<'_>,
    identity: &str,
    opening: &str,
) -> Result<Option<NamedRun>> {
    let marker = journal.marker;
    let mut uncertain = None;
    let mut is_emptied = false;
    let mut attempts = Attempts::of(ATTEMPTS_MAX, ATTEMPTS_TIME_MAX);
    loop {
        let named = async {
            let found = RunQuery::Identity(identity.to_owned());
            let mut runs = target.ledger().runs(&found).await?.into_iter();
            let Some(run) = runs.find(|run| run.finished.is_none()) else {
                return Ok(None);
            };
            let before = run.detail.opening.clone();
            if before.as_deref() == Some(opening) {
                return Ok(Some((run, true)));
            }
            let slots = target.ledger().slots(&run.run_id).await?;
            let position = slots.first().map_or(0, |slot| slot.position.rows);
            if !marker.knows(before.as_deref()) {
                let found = copied(marker, position);
                if !journal.accept_loss {
                    return Err(refused(marker, &found).hint(
                        "go on with the journal that was opened last; or accept the loss, and the rows of this one that \
                         have higher numbers than those in the table are drained",
                    ));
                }
                uncertain = Some(found);
            }
            let emptied = target.ledger().emptied(std::slice::from_ref(&run.run_id)).await?;
            is_emptied = !emptied.is_empty();
            if let Some(Emptied { why, .. }) = emptied.into_iter().find(|_| position > 0) {
                let found = Uncertain {
                    first: 1,
                    last: Some(position),
                    reason: why,
                };
                if !journal.accept_loss {
                    return Err(refused(marker, &found)
                        .hint("accept the loss, and the rows that are only in the journal are drained"));
                }
                uncertain.get_or_insert(found);
            }
            (journal.check)(position)?;
            marker.note_opening(before.as_deref(), opening)?;
            let now = opening.to_owned();
            let is_named = target
                .ledger()
                .note_opening(&run.run_id, &Opening { before, now })
                .await?;
            Ok::<_, Error>(Some((run, is_named)))
        };
        match named.await {
            Ok(None) => return Ok(None),
            Ok(Some((run, true))) => {
                return Ok(Some(NamedRun {
                    run,
                    uncertain,
                    is_emptied,
                }));
            }
            // It is looked at again.
            Ok(Some((_, false))) => {
                let between = "another opening of the journal came between";
                attempts.after(Error::new(ErrorKind::Unsent, between)).await?;
            }
            Err(error) => attempts.after(error).await?,
        }
    }
}

/// What nobody knows of a journal of which another copy was opened since.
fn copied(marker: &Marker, position: u64) -> Uncertain {
    let (first, last) = marker.rows();
    Uncertain {
        first: first.max(1),
        last: Some(last.max(position)),
        reason: format!(
            "it is a copy or an older state of one that was opened since, of which the database has row {position}"
        ),
    }
}

/// The refusal of a journal that is not what the database knows it as.
pub(super) fn refused(marker: &Marker, what: &Uncertain) -> Error {
    let journal = marker.directory().display();
    Error::new(ErrorKind::Uncertain, format!("journal {journal}: {what}"))
}

/// Finishes the runs of buffers without a journal whose processes have ended.
async fn settle_abandoned(target: &dyn Target) {
    let finished = async {
        for run in target
            .ledger()
            .runs(&RunQuery::Unfinished)
            .await?
            .iter()
            .filter(|run| is_abandoned(run))
        {
            // What it has written is gone, or may be.
            if !target
                .ledger()
                .emptied(std::slice::from_ref(&run.run_id))
                .await?
                .is_empty()
            {
                target.ledger().forget(&run.run_id).await?;
                continue;
            }
            let (handle, slots) = target.ledger().take_over(&run.run_id).await?;
            let counts = slots.first().map_or(run.counts, |slot| slot.counts);
            target.ledger().finish(&handle, counts).await?;
        }
        Ok::<_, Error>(())
    };
    // The next opening can do it as well, and another may be doing it now.
    if let Err(error) = finished.await {
        tracing::debug!("a buffer's run is left unfinished: {error}");
    }
}

/// Ends the run of a buffer that has no journal.
pub(super) async fn finish(target: &dyn Target, handle: &RunHandle) -> Result<()> {
    let mut attempts = Attempts::of(ATTEMPTS_MAX, ATTEMPTS_TIME_MAX);
    loop {
        let finished = async {
            let slots = target.ledger().slots(&handle.run_id).await?;
            // Where the answer to the first time was lost the slots are gone, and it is finished already.
            match slots.first() {
                Some(slot) => target.ledger().finish(handle, slot.counts).await,
                None => Ok(()),
            }
        };
        match finished.await {
            Ok(()) => break,
            Err(error) => attempts.after(error).await?,
        }
    }
    // What stays for now is pruned by a later one.
    if let Err(error) = target.ledger().prune(RUNS_KEPT, RUNS_PRUNED_MAX).await {
        tracing::debug!("the ledger was not pruned: {error}");
    }
    Ok(())
}

fn identity(journal: &str, plan: &Plan) -> String {
    let mut text = String::new();
    let fixed = [
        "journal",
        journal,
        &plan.table.identity.object,
        plan.operation.name(),
    ];
    for part in fixed
        .into_iter()
        .chain(plan.operation.key().iter().map(String::as_str))
    {
        text.push_str(part);
        text.push('\0');
    }
    format!("{:032x}", xxh3_128(text.as_bytes()))
}

fn detail(plan: &Plan, journal: Option<&Claim<'_>>, rejects: &Path) -> RunDetail {
    let path = match journal {
        Some(journal) => {
            let directory = std::path::absolute(journal.marker.directory());
            let directory = directory.unwrap_or_else(|_| journal.marker.directory().to_owned());
            format!("journal {}", directory.display())
        }
        None => "a buffer".to_owned(),
    };
    RunDetail {
        inputs: vec![InputIdentity {
            path,
            bytes: 0,
            modified_nanos: 0,
            ..InputIdentity::default()
        }],
        options: match journal {
            Some(_) => Vec::new(),
            None => process::option().into_iter().collect(),
        },
        table: plan.table.name.to_string(),
        table_identity: plan.table.identity.clone(),
        operation: plan.operation.kind(),
        key: plan.operation.key().to_vec(),
        columns: Vec::new(),
        block_rows: 0,
        block_bytes: 0,
        slots: plan.slots,
        slot_by: plan.slot_by.into(),
        sort: plan.sort,
        rejects: rejects.display().to_string(),
        single_transaction: false,
        prepared_by: None,
        pending: None,
        member: None,
        opening: None,
        emptied_by_crash: plan.table.is_emptied_by_crash(),
        part: None,
    }
}
