//! One run of a setting that puts single rows into a buffer.
//!
//! - A producer has a thread of its own and waits for the answer to each put before it makes the next, as a thread of a service
//!   does. Rows are turned into JSON on it, within the time that is measured.
//! - A run is over when all rows that were put are in the table: rows a second are those of the table, like those of any other
//!   setting. How soon puts were answered is reported beside it.
//! - A row that is refused ends the run. The journal and the rejects are in a directory of their own, next to which the
//!   process runs, and are removed with it.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arrow::array::RecordBatch;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tonnage_core::{
    error::{Error, ErrorKind, Result, arrow_bug},
    stop::Stop,
};
use tonnage_engine::{
    buffer::{Ack, Buffer},
    connected::Connected,
    load::WriteTimes,
};
use tonnage_formats::{row::Row, sinks::json::Encoder};

use super::{
    Running, instruments, processors,
    run::{PATIENCE, disk_bytes, log},
    tables::Made,
};
use crate::measure::{
    figures::{Acknowledged, Bound, Load, Run},
    left::SCRATCH,
    rows::{Batches, Rows},
    setting::Setting,
};

/// Rows that a producer turns into JSON at once.
const ENCODED_ROWS: usize = 256;
/// How often a run is asked whether it is over.
const LOOK: Duration = Duration::from_millis(5);
/// Seconds of a run below which it is not judged how many processors were busy: the system counts hundredths.
const JUDGED_SECONDS: f64 = 0.2;

/// A producer with its rows.
struct Producer {
    buffer: Buffer,
    rows: Batches,
    /// The columns that are put; none for all.
    columns: Option<Vec<String>>,
    counted: Counted,
    over: Stop,
}

/// The puts of a run that were answered.
#[derive(Clone, Default)]
struct Counted {
    times: Arc<WriteTimes>,
    put: Arc<AtomicU64>,
}

impl Producer {
    /// Puts its rows until they are used up or the run is over. Blocks.
    fn run(self) -> Result<()> {
        let mut encoder: Option<Encoder> = None;
        let mut text = Vec::new();
        for batch in self.rows {
            let batch = projected(&batch, self.columns.as_deref())?;
            let mut first = 0;
            while first < batch.num_rows() {
                let rows = batch.slice(first, ENCODED_ROWS.min(batch.num_rows() - first));
                first += rows.num_rows();
                text.clear();
                let encoder = match &mut encoder {
                    Some(encoder) => encoder,
                    none => none.insert(Encoder::new(rows.schema_ref())?),
                };
                encoder.encode(&rows, &mut text)?;
                for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    if self.over.requested() {
                        return Ok(());
                    }
                    let begun = Instant::now();
                    self.buffer.put_blocking(Row::json(line))?;
                    self.counted.times.record(begun, Instant::now());
                    self.counted.put.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }
}

/// The batch with these columns only.
fn projected(batch: &RecordBatch, columns: Option<&[String]>) -> Result<RecordBatch> {
    let Some(columns) = columns else {
        return Ok(batch.clone());
    };
    let at: Vec<usize> = columns
        .iter()
        .map(|name| batch.schema_ref().index_of(name).map_err(arrow_bug))
        .collect::<Result<_>>()?;
    batch.project(&at).map_err(arrow_bug)
}

/// A buffer that is open, and where its files are.
struct Open {
    buffer: Buffer,
    run: Option<String>,
    files: TempDir,
}

/// Why a setting of a buffer cannot be measured so.
pub(super) fn not_buffered(setting: &Setting, options: &super::BenchOptions) -> Option<String> {
    let why = match setting.method.is_buffer() {
        false => return None,
        true if options.single_transaction => "a buffer commits as it drains, never all rows at once",
        true if options.rate.is_some() => "rows are offered at a rate to loads only",
        true if setting.reads > 0 => "nothing is read between the puts of a buffer",
        true if setting.table.tables > 1 => "a buffer is that of one table",
        true => return None,
    };
    Some(why.to_owned())
}

/// What a run was bound by: client or server, where one of them was at work all the time.
fn bound(
    rows_per_second: f64,
    (client, server): (Option<f64>, Option<f64>),
    wall: f64,
    jobs: usize,
) -> Bound {
    let busy = |seconds: Option<f64>| seconds.filter(|_| wall >= JUDGED_SECONDS).map(|s| s / wall);
    Bound::of(&Load {
        rows_per_second,
        ceiling: None,
        bringing: None,
        dealing: None,
        client: busy(client),
        server: busy(server),
        away: 0.0,
        flushing: None,
        holds_rate: false,
        jobs,
        processors: processors(),
    })
}

impl Running<'_> {
    async fn open(&self, setting: &Setting, ack: Ack, made: &Made) -> Result<Open> {
        let bench = self.bench;
        let remote = self.ways.of(setting);
        let target = remote.map_or(&made.target, |remote| &remote.target);
        let files = tempfile::Builder::new().prefix(SCRATCH).tempdir_in(".");
        let files = files.map_err(|error| {
            Error::config(format!("no directory for a journal can be made here: {error}"))
                .hint("run it where files can be written")
        })?;
        let mut options = Connected::new(target.clone(), bench.url.clone())
            .buffer(made.table.name.clone())
            .mode(setting.operation, Vec::<String>::new())
            .durability(setting.durability)
            .ack(ack)
            .rejects(files.path().join("rejects.jsonl"), 0);
        if let Some(schema) = &made.table.schema {
            options = options.schema(schema);
        }
        if ack == Ack::Journaled {
            options = options.journal(files.path().join("journal"));
        }
        let buffer = options.open().await?;
        let run = buffer.report().run_id;
        Ok(Open { buffer, run, files })
    }

    /// One run by a buffer, on a table that is made.
    pub(super) async fn by_buffer(&mut self, setting: &Setting, ack: Ack, made: Made) -> Result<Run> {
        let rows = 0..self.bench.options.budget.rows;
        self.fill(setting, &made.target, &made.table, rows.clone())
            .await?;
        let Open { buffer, run, files } = self.open(setting, ack, &made).await?;
        let ran = self.through(setting, &made, &buffer, rows).await;
        let ended = match &ran {
            Ok(_) => buffer.close().await.map(|_| ()),
            Err(_) => {
                buffer.stop().await;
                Ok(())
            }
        };
        let forgotten = match &run {
            Some(run) => made.target.ledger().forget(run).await.map(|_| ()),
            None => Ok(()),
        };
        drop(files);
        let run = ran?;
        ended?;
        forgotten?;
        Ok(run)
    }

    /// Puts rows by all producers and waits until the table has them.
    async fn through(
        &mut self,
        setting: &Setting,
        made: &Made,
        buffer: &Buffer,
        rows: Range<u64>,
    ) -> Result<Run> {
        let target = made.target.clone();
        let counted = Counted::default();
        let over = Stop::default();
        let round_trips = |running: &Self| running.ways.of(setting).map(|remote| remote.way.round_trips());

        let log_before = log(&*target).await?;
        let at_seconds = self.first_run.elapsed().as_secs_f64();
        let before = self.meter.begin(instruments(&*target)?).await?;
        let round_trips_before = round_trips(self);
        let began = Instant::now();
        let producers = self.producers(setting, buffer, rows, (&counted, &over))?;
        let ended = self.put_all(producers, buffer, (&over, began)).await;
        let done = Instant::now();
        let wall = began.elapsed().as_secs_f64();
        let after = self.meter.processors().await?;
        let client = after.client_since(&before);
        let log_after = log(&*target).await?;
        let taken = (instruments(&*target)?, before, after);
        let costs = self.meter.end(taken, (wall, processors())).await?;
        ended?;
        let report = buffer.report();
        self.note_settings(report.settings_changed.clone());
        let Some((begun, answered)) = counted.times.span() else {
            return Err(
                Error::new(ErrorKind::Refused, "nothing was put within the time of a run")
                    .hint("--duration gives it more"),
            );
        };
        let since = |moment: Instant| moment.saturating_duration_since(begun).as_secs_f64().max(1e-6);
        let put = counted.put.load(Ordering::Relaxed);
        let quantile = |share| counted.times.quantile(share).unwrap_or_default().as_secs_f64();
        let rows_per_second = put as f64 / since(done);
        Ok(Run {
            at_seconds,
            rows: put,
            seconds: since(done),
            rows_per_second,
            write_seconds: [0.5, 0.95, 0.99, 1.0].map(quantile),
            client_cpu_seconds: client,
            bytes_sent: report.bytes_sent,
            statements: report.statements,
            commits: report.metrics.commits,
            retries: report.metrics.retries,
            disk_bytes: disk_bytes(&[(target, made.table.clone())]).await?,
            log_bytes: log_after
                .zip(log_before)
                .map(|(after, before)| after.saturating_sub(before)),
            round_trips: round_trips(self)
                .zip(round_trips_before)
                .map(|(after, before)| after - before),
            bound_by: bound(
                rows_per_second,
                (client, costs.server_cpu_seconds),
                wall,
                setting.jobs,
            ),
            costs,
            offered: None,
            reads: None,
            acknowledged: Some(Acknowledged {
                rows_per_second: put as f64 / since(answered),
                behind_seconds: done.saturating_duration_since(answered).as_secs_f64(),
            }),
        })
    }

    /// Starts the producers, each with an equal part of the rows.
    fn producers(
        &self,
        setting: &Setting,
        buffer: &Buffer,
        rows: Range<u64>,
        (counted, over): (&Counted, &Stop),
    ) -> Result<JoinSet<Result<()>>> {
        let all = self.rows_of(setting)?;
        let columns = self.columns(setting, setting.operation);
        let mut producers = JoinSet::new();
        for at in 0..setting.jobs {
            let part = Rows::part(rows.end, at as u64, setting.jobs as u64);
            let producer = Producer {
                buffer: buffer.clone(),
                rows: all.batches(part),
                columns: columns.clone(),
                counted: counted.clone(),
                over: over.clone(),
            };
            producers.spawn_blocking(move || producer.run());
        }
        Ok(producers)
    }

    /// Ends the producers when their time is over, and drains what they have put. One that fails ends the others.
    async fn put_all(
        &self,
        mut producers: JoinSet<Result<()>>,
        buffer: &Buffer,
        (over, began): (&Stop, Instant),
    ) -> Result<()> {
        let duration = self.bench.options.budget.duration;
        let putting = async {
            let mut failed = Ok(());
            while let Some(ended) = producers.join_next().await {
                let ended =
                    ended.unwrap_or_else(|e| Err(Error::bug(format!("a producer ended unexpectedly: {e}"))));
                if ended.is_err() {
                    over.request();
                }
                failed = failed.and(ended);
            }
            failed?;
            buffer.flush_all().await
        };
        let watch = async {
            loop {
                tokio::time::sleep(LOOK).await;
                if began.elapsed() >= duration {
                    over.request();
                }
                if self.stop.requested() {
                    return Error::new(ErrorKind::Cancelled, "interrupted");
                }
                if began.elapsed() >= duration * PATIENCE {
                    let put = buffer.accepted();
                    return Error::new(
                        ErrorKind::Refused,
                        format!("of {put} rows that were put {} were committed within {PATIENCE} times the time of a run", buffer.committed()),
                    )
                    .hint("--rows gives a run fewer");
                }
            }
        };
        let failure = tokio::select! {
            ended = putting => return ended,
            failure = watch => failure,
        };
        // Producers that wait for room or an answer get the end of the buffer, and none is left behind.
        over.request();
        buffer.clone().stop().await;
        while producers.join_next().await.is_some() {}
        Err(failure)
    }
}
