//! Which run of the ledger the rows of a buffer belong to.
//!
//! Without a journal every opening is a run of its own, as a pipe is; if its process dies, the next opening of any buffer
//! finishes it. With one, the run goes on from opening to
//! opening: its identity is the journal's own, the table as created, the operation and its key.

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use super::process::{self, is_abandoned};
use crate::{
    error::{Error, Result},
    ledger::{InputIdentity, NewRun, RunDetail, RunHandle},
    load::{Attempts, RejectsFile},
    plan::{ATTEMPTS_MAX, ATTEMPTS_TIME_MAX, Plan},
    preparation::Preparation,
    target::Target,
};

/// A journal, as far as a run's identity goes.
pub(super) struct JournalIdentity<'a> {
    /// Where it is.
    pub directory: &'a Path,
    /// Its own identity.
    pub id: &'a str,
    /// Whether a run of it was begun before.
    pub begun: bool,
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
}

/// Takes the run of a journal over, or begins a new one.
pub(super) async fn own(
    target: &dyn Target,
    plan: &Plan,
    journal: Option<&JournalIdentity<'_>>,
    rejects: Option<&Path>,
) -> Result<Owned> {
    let run_id = uuid::Uuid::now_v7().simple().to_string();
    let identity = match journal {
        Some(journal) => identity(journal.id, plan),
        None => format!("{}{run_id}", process::IDENTITY),
    };
    settle_abandoned(target).await;
    if let Some(journal) = journal {
        let mut attempts = Attempts::of(ATTEMPTS_MAX, ATTEMPTS_TIME_MAX);
        let runs = loop {
            match target.ledger().runs().await {
                Ok(runs) => break runs,
                Err(error) => attempts.after(error).await?,
            }
        };
        let found = runs
            .iter()
            .find(|r| r.identity == identity && r.finished.is_none());
        if let Some(run) = found {
            let mut attempts = Attempts::of(ATTEMPTS_MAX, ATTEMPTS_TIME_MAX);
            let (handle, slots) = loop {
                match target.ledger().take_over(&run.run_id).await {
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
            return Ok(Owned {
                handle,
                position: slots.first().map_or(0, |slot| slot.position.rows),
                rejected: slots.first().map_or(0, |slot| slot.counts.rejected),
                rejects: PathBuf::from(&run.detail.rejects),
                is_new: false,
            });
        }
        if journal.begun {
            return Err(Error::config(format!(
                "journal {} belongs to another table, operation or database than {} of {}",
                journal.directory.display(),
                plan.operation.name(),
                plan.table.name
            ))
            .hint(
                "open it as it was made; or if that table is gone, or its run was forgotten, name a new journal",
            ));
        }
    }
    let rejects = match rejects {
        Some(path) => path.to_owned(),
        None => {
            let table = plan.table.name.name.replace(['/', '\\'], "_");
            format!("{table}-{run_id}.rejects.jsonl").into()
        }
    };
    let rejects = std::path::absolute(&rejects).unwrap_or(rejects);
    RejectsFile::check(&rejects)?;
    let run = NewRun {
        identity,
        table: plan.table.name.clone(),
        preparation: Preparation::Keep,
        detail: detail(plan, journal, &rejects),
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
    })
}

/// Finishes the runs of buffers without a journal whose processes have ended.
async fn settle_abandoned(target: &dyn Target) {
    let settled = async {
        for run in target
            .ledger()
            .runs()
            .await?
            .iter()
            .filter(|run| is_abandoned(run))
        {
            let (handle, slots) = target.ledger().take_over(&run.run_id).await?;
            let counts = slots.first().map_or(run.counts, |slot| slot.counts);
            target.ledger().finish(&handle, counts).await?;
        }
        Ok::<_, Error>(())
    };
    // The next opening can do it as well, and another may be doing it now.
    if let Err(error) = settled.await {
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
            Ok(()) => return Ok(()),
            Err(error) => attempts.after(error).await?,
        }
    }
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

fn detail(plan: &Plan, journal: Option<&JournalIdentity<'_>>, rejects: &Path) -> RunDetail {
    let path = match journal {
        Some(journal) => {
            let directory = std::path::absolute(journal.directory);
            let directory = directory.unwrap_or_else(|_| journal.directory.to_owned());
            format!("journal {}", directory.display())
        }
        None => "a buffer".to_owned(),
    };
    RunDetail {
        inputs: vec![InputIdentity {
            path,
            bytes: 0,
            modified_nanos: 0,
        }],
        options: match journal {
            Some(_) => Vec::new(),
            None => process::option().into_iter().collect(),
        },
        table: plan.table.name.to_string(),
        table_identity: plan.table.identity.clone(),
        operation: plan.operation.name().to_owned(),
        key: plan.operation.key().to_vec(),
        columns: Vec::new(),
        block_rows: 0,
        block_bytes: 0,
        slots: plan.slots,
        slot_by: plan.slot_by.name().to_owned(),
        sort: plan.sort.name().to_owned(),
        rejects: rejects.display().to_string(),
        single_transaction: false,
        prepared_by: None,
        pending: None,
        member: None,
    }
}
