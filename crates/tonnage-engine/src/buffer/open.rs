//! Opening a buffer: its table, its journal, its run in the ledger, and then its threads and tasks.
//!
//! Nothing is accepted before all of it is known to be in order, and nothing on disk is changed before the database has
//! said how far it has come; but for a journal whose database is away: see [`attach`](super::attach).

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, OnceLock, atomic::AtomicU64},
    time::Instant,
};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    stop::Stop,
};

use super::{
    Buffer, BufferOptions, Inner, JournalOptions, Recovery,
    area::{Area, Limits},
    attach::{Attached, Away, Parts, arrive, begin, columns, reach, take, used_twice},
    journal::{Journal, Lost, Reader, Store},
    metrics::Speed,
    own::{Claim, refused},
    report,
    shape::Shape,
};
use crate::load::Progress;

/// Rows wait for the journal in at most this much memory, or in the area's bound if that is less.
const PENDING_BYTES_MAX: usize = 8 << 20;
/// Bytes of a segment of the journal, unless its bound asks for smaller ones.
const SEGMENT_BYTES: u64 = 32 << 20;
/// A journal has room for at least this many segments.
const SEGMENTS_LEAST: u64 = 8;

impl Buffer {
    pub(super) async fn open(options: BufferOptions) -> Result<Self> {
        Self::open_on(options, Arc::new(|file| Box::new(file))).await
    }

    pub(super) async fn open_on(options: BufferOptions, store: Store) -> Result<Self> {
        let started = Instant::now();
        let (planner, plan) = match (reach(&options).await, &options.journal) {
            (Ok(reached), _) => reached,
            (Err(error), Some(asked)) if error.is_transient() => {
                return Self::open_away(&options, asked, error, store, started);
            }
            (Err(error), _) => return Err(error),
        };
        let journal = match &options.journal {
            Some(asked) => Some(Journal::open(&asked.directory)?),
            None => None,
        };
        let opened = journal.as_ref().zip(options.journal.as_ref());
        let marker = journal.as_ref().map(Journal::marker);
        let check = |position| match opened {
            Some((journal, asked)) => recover(journal, asked, position).map(|_| ()),
            None => Ok(()),
        };
        let claim = marker.as_ref().zip(opened).map(|(marker, (_, asked))| Claim {
            marker,
            check: &check,
            accept_loss: asked.accept_loss,
        });
        let (owned, rejects) = take(&options, &planner, &plan, claim.as_ref()).await?;
        let position = owned.position;
        let mut recovery = Recovery::default();
        if let Some((journal, asked)) = opened {
            recovery = recover(journal, asked, position)?;
            recovery.uncertain = owned.uncertain.or(recovery.uncertain);
            journal.marker().record_run(&columns(&planner.table))?;
            tell(journal, &recovery);
        }
        let columns = columns(&planner.table);
        let attached = Attached {
            target: planner.target.clone(),
            handle: owned.handle,
            shape: Shape::new(planner),
            plan,
            rejects,
            position,
            rejected: owned.rejected,
            recovery: recovery.clone(),
        };
        let opened = report::Opened {
            started,
            url: options.place.shown(),
            table: attached.plan.table.name.to_string(),
            operation: attached.plan.operation.name(),
            position,
            recovery,
            columns,
        };
        let (parts, buffer, reader) = assemble(&options, journal, opened, store)?;
        let (drain, forms) = begin(&parts, attached)?;
        tokio::spawn(drain.run(forms, reader));
        Ok(buffer)
    }

    /// With a journal whose rows the database has a record of.
    fn open_away(
        options: &BufferOptions,
        asked: &JournalOptions,
        error: Error,
        store: Store,
        started: Instant,
    ) -> Result<Self> {
        if !Journal::has_begun(&asked.directory) {
            return Err(error);
        }
        let journal = Journal::open(&asked.directory)?;
        let (position, last) = (journal.position_least(), journal.last());
        let is_whole = journal.lost(position).is_empty() && journal.uncertain(position).is_none();
        if !journal.begun() || journal.is_headless() || !is_whole {
            return Err(error);
        }
        tracing::warn!("rows go to the journal until the database answers: {error}");
        let marker = journal.marker();
        marker.unsure(last.max(position) + 1)?;
        let opened = report::Opened {
            started,
            url: options.place.shown(),
            table: options.load.table.to_string(),
            operation: options.load.mode.name(),
            position,
            recovery: Recovery {
                rows: last.saturating_sub(position),
                torn: journal.torn().cloned(),
                ..Recovery::default()
            },
            columns: journal.columns().to_vec(),
        };
        let (parts, buffer, reader) = assemble(options, Some(journal), opened, store)?;
        let reader = reader.ok_or_else(|| Error::bug("a journal without a reader"))?;
        let away = Away {
            options: options.clone(),
            marker,
            last,
            reader,
        };
        tokio::spawn(arrive(parts, away));
        Ok(buffer)
    }
}

/// The area, the journal's thread and what the clones of the buffer share.
fn assemble(
    options: &BufferOptions,
    journal: Option<Journal>,
    opened: report::Opened,
    store: Store,
) -> Result<(Parts, Buffer, Option<Reader>)> {
    let position = opened.position;
    let last = journal.as_ref().map_or(0, Journal::last);
    let next = last.max(position) + 1;
    let spilled = (last > position).then_some(position + 1);
    let producers = journal
        .as_ref()
        .map_or_else(Default::default, |j| j.producers().clone());
    let bytes_max = options.journal.as_ref().map_or(0, |journal| journal.bytes_max);
    let area = Arc::new(Area::new(
        Limits {
            area_bytes_max: options.area_bytes_max,
            pending_bytes_max: PENDING_BYTES_MAX
                .min(options.area_bytes_max)
                .min((bytes_max / SEGMENTS_LEAST) as usize),
            journal_bytes_max: bytes_max,
            drain_bytes: options.drain_bytes,
            drain_age: options.drain_age,
            has_journal: journal.is_some(),
        },
        next,
        position,
        spilled,
        producers,
    ));
    let has_journal = journal.is_some();
    let mut reader = None;
    let mut thread = None;
    if let Some(journal) = journal {
        let segment_bytes = SEGMENT_BYTES.min(bytes_max / SEGMENTS_LEAST);
        let (writer, from_disk) = journal.start(next, segment_bytes, store)?;
        area.lock().journal_bytes = writer.bytes();
        let area = area.clone();
        let started = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                let ran = catch_unwind(AssertUnwindSafe(|| writer.run(&area)));
                if ran.is_err() {
                    area.fail(&Error::bug("the journal's thread ended unexpectedly"));
                }
            });
        let started = started.map_err(|e| {
            Error::new(
                ErrorKind::Refused,
                format!("the journal's thread cannot start: {e}"),
            )
        })?;
        reader = Some(from_disk);
        thread = Some(started);
    }
    let parts = Parts {
        area,
        stop: Stop::default(),
        progress: Arc::<Progress>::default(),
        rejected: Arc::new(AtomicU64::new(0)),
        on_reject: options.on_reject.clone(),
        attached: Arc::<OnceLock<Attached>>::default(),
    };
    let speed = Speed::from(opened.started);
    let buffer = Buffer {
        shared: Arc::new(Inner {
            parts: parts.clone(),
            ack: options.ack,
            when_full: options.when_full,
            opened,
            fits: Mutex::new(None),
            speed: Mutex::new(speed),
            journal: Mutex::new(thread),
            has_journal,
        }),
        written: AtomicU64::new(0),
    };
    Ok((parts, buffer, reader))
}

/// Looks at what the journal holds behind `position`. `Input` or `Uncertain` where rows are gone or may be, unless that is
/// accepted.
fn recover(journal: &Journal, asked: &JournalOptions, position: u64) -> Result<Recovery> {
    let lost = journal.lost(position);
    let rows_lost: u64 = lost.iter().map(|lost| lost.last - lost.first + 1).sum();
    if let Some(lost) = lost.first()
        && !asked.accept_loss
    {
        return Err(Error::input(format!(
            "journal {}: {}; {rows_lost} rows are lost in all",
            asked.directory.display(),
            unreadable(lost)
        ))
        .hint("put the file back if there is a copy of it; or accept the loss, and the rest is drained"));
    }
    let marker = journal.marker();
    let uncertain = used_twice(&marker, position).or_else(|| journal.uncertain(position));
    if let Some(uncertain) = &uncertain
        && !asked.accept_loss
    {
        return Err(refused(&marker, uncertain).hint(
            "put back what is missing, if there is a copy of it; or accept the loss, and what is there is drained",
        ));
    }
    Ok(Recovery {
        rows: journal.last().saturating_sub(position).saturating_sub(rows_lost),
        torn: journal.torn().cloned(),
        lost,
        uncertain,
    })
}

fn unreadable(lost: &Lost) -> String {
    format!(
        "rows {} to {} cannot be read: {} at byte {}",
        lost.first, lost.last, lost.segment, lost.offset
    )
}

/// Warns of what was found.
fn tell(journal: &Journal, recovery: &Recovery) {
    let marker = journal.marker();
    let directory = marker.directory().display();
    for lost in &recovery.lost {
        tracing::warn!("journal {directory}: {}", unreadable(lost));
    }
    if let Some(uncertain) = &recovery.uncertain {
        tracing::warn!("journal {directory}: {uncertain}");
    }
    if let Some(torn) = &recovery.torn {
        tracing::warn!(
            "{}: a write was interrupted; {} bytes after byte {} are cut off",
            torn.segment,
            torn.bytes,
            torn.offset
        );
    }
}
