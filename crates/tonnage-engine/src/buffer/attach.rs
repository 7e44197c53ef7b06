//! The database's side of a buffer: its table, its run in the ledger, and how far that has come.
//!
//! A buffer with a journal opens also while the database is away, if a run of the journal was begun before: its rows go
//! to the journal, and the database is asked again until it answers. What it would have said at once it says then.
//!
//! Invariants:
//! - Nothing is drained before the database has said how far it has come.
//! - Rows that were taken without knowing it are marked in the journal as such, until it is known that the database has
//!   not seen their numbers before.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::RunHandle,
    parse::{ParseContext, timezone},
    retry::pause,
    stop::Stop,
    table::{Table, nearest},
    target::{Routed, Target},
};

use super::{
    BufferOptions, OnReject, Recovery,
    area::Area,
    drain::Drain,
    form::{Forms, Planner},
    journal::{Marker, Reader, Uncertain},
    own::{Claim, Owned, own, refused},
    shape::Shape,
};
use crate::{
    load::{Progress, RejectsFile, check_owned},
    plan::{LedgerPlace, LoadOptions, OnError, Plan, RejectsMax, Sort},
};

/// What the database has said.
pub(super) struct Attached {
    pub target: Arc<dyn Target>,
    pub handle: RunHandle,
    /// The table, and how rows go to it.
    pub shape: Arc<Shape>,
    pub plan: Arc<Plan>,
    pub rejects: Arc<RejectsFile>,
    /// Rows up to here were accounted for.
    pub position: u64,
    /// Rows put aside by then.
    pub rejected: u64,
    pub recovery: Recovery,
}

/// What the two sides of a buffer share.
#[derive(Clone)]
pub(super) struct Parts {
    pub area: Arc<Area>,
    pub stop: Stop,
    pub progress: Arc<Progress>,
    /// Rows put aside, over all openings of the journal.
    pub rejected: Arc<AtomicU64>,
    pub on_reject: Option<OnReject>,
    /// Set once.
    pub attached: Arc<OnceLock<Attached>>,
}

/// A journal while the database is away.
pub(super) struct Away {
    pub options: BufferOptions,
    pub marker: Marker,
    /// The last row that it had when it was opened.
    pub last: u64,
    pub reader: Reader,
}

/// Connects and finds the table, and how rows go to it.
pub(super) async fn reach(options: &BufferOptions) -> Result<(Planner, Arc<Plan>)> {
    let load = &options.load;
    let database = options.place.connected().await?;
    let target = database.target().clone();
    let table = find_table(&*target, load).await?;
    if let Routed::By(router) = target.router(&table).await?
        && router.separate_databases()
    {
        return Err(Error::config(format!(
            "a buffer keeps the order of all its rows, which {} databases cannot commit together",
            router.shards().len()
        ))
        .hint("load files, put streams, or open a buffer for each database"));
    }
    let planner = Planner {
        context: ParseContext {
            timezone: load.timezone.as_deref().map(timezone).transpose()?,
            bytes_as_written: false,
            ..ParseContext::default()
        },
        shown: format!("rows for {}", table.name).into(),
        table: Arc::new(table),
        target,
        options: Arc::new(LoadOptions {
            // One lane and one slot keep the order of all rows; a sort would break it.
            sort: Some(Sort::None),
            jobs: Some(1),
            on_error: OnError::Reject,
            rejects_max: RejectsMax::Rows(options.rejects_max),
            ledger: LedgerPlace::Target,
            ..load.clone()
        }),
    };
    let plan = Forms::new(planner.clone(), 0)?.plan().clone();
    Ok((planner, plan))
}

/// Takes the run over, or begins one, and opens its rejects.
pub(super) async fn take(
    options: &BufferOptions,
    planner: &Planner,
    plan: &Plan,
    journal: Option<&Claim<'_>>,
) -> Result<(Owned, Arc<RejectsFile>)> {
    let target = &*planner.target;
    let owned = own(target, plan, journal, options.load.rejects.as_deref()).await?;
    let rejects = match owned.is_new {
        true => RejectsFile::create(&owned.rejects),
        // Also where nothing was committed: a process that was killed may have left records.
        false => {
            let before = [(0, owned.rejected)].into_iter().filter(|(_, n)| *n > 0);
            let check = check_owned(target.ledger(), plan, &owned.handle);
            RejectsFile::resume(&owned.rejects, &before.collect(), check).await
        }
    };
    match rejects {
        Ok(rejects) => Ok((owned, Arc::new(rejects))),
        Err(error) => {
            // A run that has not begun keeps no path that cannot be written to.
            if owned.is_new {
                target.ledger().forget_unbegun(&owned.handle).await?;
            }
            Err(error)
        }
    }
}

/// The drain that goes on after the last row that the database has.
pub(super) fn begin(parts: &Parts, attached: Attached) -> Result<(Arc<Drain>, Forms)> {
    let (_, planner) = attached.shape.planner();
    let forms = Forms::new(planner, attached.position)?;
    let drain = Drain {
        area: parts.area.clone(),
        target: attached.target.clone(),
        handle: attached.handle.clone(),
        rejects: attached.rejects.clone(),
        rejects_taken: Arc::new(AtomicU64::new(attached.rejected)),
        on_reject: parts.on_reject.clone(),
        progress: parts.progress.clone(),
        stop: parts.stop.clone(),
        rejected: parts.rejected.clone(),
        shape: attached.shape.clone(),
    };
    parts.rejected.store(attached.rejected, Ordering::Relaxed);
    // Nobody else sets it.
    let _ = parts.attached.set(attached);
    Ok((Arc::new(drain), forms))
}

/// Waits for a database that is away, and drains when it is back.
pub(super) async fn arrive(parts: Parts, away: Away) {
    let over = |area: Arc<Area>| async move {
        area.until(|state| state.failed.is_some().then_some(())).await;
    };
    let mut attempts = 0;
    let attached = loop {
        let tried = tokio::select! {
            tried = attach(&away) => tried,
            () = over(parts.area.clone()) => break None,
        };
        match tried {
            Ok(attached) => break Some(attached),
            // Refusals for reasons such as a full disk are waited out, as they are by the drain.
            Err(error) if error.is_transient() || error.kind() == ErrorKind::Refused => {
                attempts += 1;
                tracing::warn!("attempt {attempts}: {error}");
            }
            Err(error) => {
                parts.area.fail(&error);
                break None;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause(attempts)) => {}
            () = over(parts.area.clone()) => break None,
        }
    };
    let Some(attached) = attached else {
        return parts.area.end();
    };
    let position = attached.position;
    match begin(&parts, attached) {
        Ok((drain, forms)) => {
            // Behind what it counts from, so that metrics never take rows of earlier openings for this one's.
            parts.area.attach(position);
            drain.run(forms, Some(away.reader)).await;
        }
        Err(error) => {
            parts.area.fail(&error);
            parts.area.end();
        }
    }
}

async fn attach(away: &Away) -> Result<Attached> {
    let (planner, plan) = reach(&away.options).await?;
    let claim = Claim {
        marker: &away.marker,
        check: &|position| match used_twice(&away.marker, position) {
            Some(uncertain) => Err(refused(&away.marker, &uncertain)),
            None => Ok(()),
        },
        // Rows have numbers already that go by what was known before.
        accept_loss: false,
    };
    let (owned, rejects) = take(&away.options, &planner, &plan, Some(&claim)).await?;
    (claim.check)(owned.position)?;
    away.marker.record_run(&columns(&planner.table))?;
    Ok(Attached {
        target: planner.target.clone(),
        handle: owned.handle,
        shape: Shape::new(planner),
        plan,
        rejects,
        position: owned.position,
        rejected: owned.rejected,
        recovery: Recovery {
            rows: away.last.saturating_sub(owned.position),
            ..Recovery::default()
        },
    })
}

/// The names of a table's columns.
pub(super) fn columns(table: &Table) -> Vec<String> {
    table.columns.iter().map(|column| column.name.clone()).collect()
}

async fn find_table(target: &dyn Target, load: &LoadOptions) -> Result<Table> {
    // Its rows would have the time at which its run began, maybe long ago: whatever is newer would hide them.
    if target.ledger_file().is_some() {
        let product = &target.capabilities().product;
        return Err(Error::config(format!(
            "a buffer cannot be drained into {product} yet: its rows and the ledger cannot move together"
        ))
        .hint("collect rows in files and load them"));
    }
    if let Some(table) = target.table(&load.table).await? {
        return Ok(table);
    }
    let error = Error::schema(format!("there is no table {}", load.table));
    let names = target.table_names().await.unwrap_or_default();
    let close = nearest(&load.table.name, names.iter().map(String::as_str));
    Err(match close.is_empty() {
        false => error.hint(format!("did you mean {}?", close.join(" or "))),
        true => error.hint("make it first: rows that come one at a time do not say which types they are"),
    })
}

/// Rows of the journal that have numbers by which the database has others.
pub(super) fn used_twice(marker: &Marker, position: u64) -> Option<Uncertain> {
    marker.used_twice(position).map(|first| Uncertain {
        first,
        last: Some(position),
        reason: format!(
            "rows {first} and on were taken while the database was away, which has row {position} already"
        ),
    })
}
