//! Opening a buffer: its table, its journal, its run in the ledger, and then its threads and tasks.
//!
//! Nothing is accepted before all of it is known to be in order, and nothing on disk is changed before the database has
//! said how far it has come; but for a journal whose database is away: see [`attach`](super::attach).

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, OnceLock, atomic::AtomicU64},
    time::Instant,
};

use super::{
    Buffer, BufferOptions, Inner, JournalOptions, Recovery,
    area::{Area, Limits},
    attach::{Attached, Away, Parts, arrive, begin, columns, reach, take},
    journal::{Journal, Reader, Store},
    metrics::Speed,
    own::JournalIdentity,
    report,
};
use crate::{
    error::{Error, ErrorKind, Result},
    load::{Progress, Stop},
};

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
        let identity = journal.as_ref().map(|journal| JournalIdentity {
            directory: journal.directory(),
            id: journal.id(),
            begun: journal.begun(),
        });
        let (owned, rejects) = take(&options, &planner, &plan, identity.as_ref()).await?;
        let position = owned.position;
        let mut recovery = Recovery::default();
        if let (Some(journal), Some(asked)) = (&journal, &options.journal) {
            let marker = journal.marker();
            marker.check(position)?;
            marker.settle(&columns(&planner.table))?;
            recovery = recover(journal, asked, position)?;
        }
        let columns = columns(&planner.table);
        let attached = Attached {
            target: planner.target.clone(),
            handle: owned.handle,
            planner,
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

    /// With a journal whose rows the database has been told of before.
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
        if !journal.begun() || journal.is_headless() || !journal.lost(position).is_empty() {
            return Err(error);
        }
        tracing::warn!("rows go to the journal until the database answers: {error}");
        let mut marker = journal.marker();
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
                lost: Vec::new(),
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

/// Looks at what the journal holds behind `position`. `Input` where rows are gone, unless that is accepted.
fn recover(journal: &Journal, asked: &JournalOptions, position: u64) -> Result<Recovery> {
    let lost = journal.lost(position);
    let rows_lost: u64 = lost.iter().map(|lost| lost.last - lost.first + 1).sum();
    for lost in &lost {
        let place = format!("{} at byte {}", lost.segment, lost.offset);
        let what = format!("rows {} to {} cannot be read: {place}", lost.first, lost.last);
        match asked.accept_loss {
            true => tracing::warn!("journal {}: {what}", asked.directory.display()),
            false => {
                return Err(Error::input(format!(
                    "journal {}: {what}; {rows_lost} rows are lost in all",
                    asked.directory.display()
                ))
                .hint(
                    "put the file back if there is a copy of it; or accept the loss, and the rest is drained",
                ));
            }
        }
    }
    if let Some(torn) = journal.torn() {
        tracing::warn!(
            "{}: a write was interrupted; {} bytes after byte {} are cut off",
            torn.segment,
            torn.bytes,
            torn.offset
        );
    }
    let last = journal.last();
    if last < position && last > 0 {
        tracing::warn!(
            "journal {} ends at row {last} and the database has row {position}: its end was lost",
            asked.directory.display()
        );
    }
    Ok(Recovery {
        rows: last.saturating_sub(position).saturating_sub(rows_lost),
        torn: journal.torn().cloned(),
        lost,
    })
}
