//! Opening a buffer: its table, its journal, its run in the ledger, and then its threads and tasks.
//!
//! Nothing is accepted before all of it is known to be in order, and nothing on disk is changed before the database has
//! said how far it has come.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Instant,
};

use super::{
    Buffer, BufferOptions, Inner, JournalOptions, Recovery, Speed,
    area::{Area, Limits},
    drain::Drain,
    form::{Forms, Planner},
    journal::{Journal, Store},
    own::{JournalIdentity, own},
    report,
};
use crate::{
    error::{Error, ErrorKind, Result},
    load::{Progress, RejectsFile, Stop},
    parse::{ParseContext, timezone},
    plan::{LedgerPlace, LoadOptions, OnError, RejectsMax, Sort},
    table::{Table, nearest},
    target::Target,
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
        let BufferOptions { database, load, .. } = &options;
        let target = database.target().clone();
        let table = find_table(&*target, load).await?;
        let planner = Planner {
            context: ParseContext {
                timezone: load.timezone.as_deref().map(timezone).transpose()?,
            },
            shown: format!("rows for {}", table.name).into(),
            table: Arc::new(table),
            target: target.clone(),
            options: Arc::new(LoadOptions {
                // One lane and one slot keep the order of all rows; a sort would break it.
                sort: Some(Sort::None),
                jobs: Some(1),
                on_error: OnError::Reject,
                // Counted by the drain, over all plans of the buffer.
                rejects_max: RejectsMax::Rows(u64::MAX),
                ledger: LedgerPlace::Target,
                ..load.clone()
            }),
        };
        let plan = Forms::new(planner.clone(), 0)?.plan().clone();

        let mut journal = match &options.journal {
            Some(asked) => Some(Journal::open(&asked.directory)?),
            None => None,
        };
        let identity = journal.as_ref().map(|journal| JournalIdentity {
            directory: journal.directory(),
            id: journal.id(),
            begun: journal.begun(),
        });
        let owned = own(&*target, &plan, identity.as_ref(), load.rejects.as_deref()).await?;
        let position = owned.position;
        let mut recovery = Recovery::default();
        let rejects = match owned.rejected + position {
            0 => RejectsFile::create(&owned.rejects),
            _ => {
                let before = [(0, owned.rejected)].into_iter().filter(|(_, n)| *n > 0);
                RejectsFile::resume(&owned.rejects, &before.collect())
            }
        };
        let rejects = match rejects {
            Ok(rejects) => Arc::new(rejects),
            Err(error) => {
                // A run that has not begun keeps no path that cannot be written to.
                if owned.is_new {
                    target.ledger().forget(&owned.handle.run_id).await?;
                }
                return Err(error);
            }
        };
        if let (Some(journal), Some(asked)) = (&mut journal, &options.journal) {
            journal.begin()?;
            recovery = recover(journal, asked, position)?;
        }
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
        let drain = Arc::new(Drain {
            area: area.clone(),
            target,
            handle: owned.handle.clone(),
            rejects,
            rejects_max: options.rejects_max,
            on_reject: options.on_reject.clone(),
            progress: Arc::<Progress>::default(),
            stop: Stop::default(),
            rejected: Arc::new(AtomicU64::new(owned.rejected)),
        });
        tokio::spawn(drain.clone().run(Forms::new(planner.clone(), position)?, reader));
        let opened = report::Opened {
            started,
            url: database.url().to_owned(),
            run_id: owned.handle.run_id.clone(),
            position,
            rejected: owned.rejected,
            plan,
            recovery,
        };
        Ok(Self {
            shared: Arc::new(Inner {
                area,
                ack: options.ack,
                when_full: options.when_full,
                drain,
                planner,
                opened,
                fits: Mutex::new(None),
                speed: Mutex::new(Speed {
                    at: started,
                    rows_in: 0,
                    rows_out: 0,
                    in_per_second: 0.0,
                    out_per_second: 0.0,
                }),
                journal: Mutex::new(thread),
                has_journal,
            }),
            written: AtomicU64::new(0),
        })
    }
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

async fn find_table(target: &dyn Target, load: &LoadOptions) -> Result<Table> {
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
