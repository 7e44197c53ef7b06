//! What the buffer is measured by, and what it is measured against: single rows from eight producers into a table
//! of PostgreSQL.
//!
//!     buffer_puts URL BYTES JOURNALS WAY
//!
//!     commits ROWS UNDER_WAY           a prepared INSERT and a commit a row, over a connection a producer
//!     accepted ROWS                    a put a row, on a thread a producer, each acknowledged in memory
//!     journaled ROWS UNDER_WAY         the same from tasks, each acknowledged by the journal
//!     sustained SECONDS                puts on a thread a producer, until all rows of that time are in the table
//!     copy ROWS                        the same rows by one COPY of text, in one transaction
//!     paced-accepted RATE SECONDS      puts at so many rows a second, on a thread a producer
//!     paced-journaled RATE SECONDS     the same from tasks, with fsyncs of a file of its own meanwhile
//!
//! UNDER_WAY is the number of calls of each producer that wait for their answers at once; 1 is a producer that waits
//! for each. A row has BYTES bytes as COPY sends it, and JSON's quotes and keys on top where it is put. Rows are made
//! within the time that is measured, by every way alike. `single_rows` is the table (see `TABLE`); JOURNALS is the
//! directory in which journals and the fsynced file are made, and removed again.
//!
//! Prints an object of figures, then a line with the seconds until the last row was answered for and the processor
//! seconds of the whole process, drains included.

use std::{
    error::Error,
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{SinkExt, Stream, StreamExt, TryStreamExt, stream};
use tokio_postgres::NoTls;
use tonnage::{
    Buffer, Database, Row,
    buffer::{AREA_BYTES_MAX, Ack, BufferOptions},
};

/// The table, as it has to be there.
const TABLE: &str = "single_rows (id bigint, device text, value double precision, note text)";
const PRODUCERS: u64 = 8;
/// Rows that are due are put at this pace.
const TICK: Duration = Duration::from_millis(1);
/// Calls of a paced producer that wait at once: far more than a journal that keeps up leaves waiting.
const UNDER_WAY_MAX: usize = 16_384;
/// The file beside the journal is fsynced this often.
const FSYNC_EVERY: Duration = Duration::from_millis(10);
const FSYNC_BYTES: usize = 4_096;
/// Text that is sent at once by a COPY.
const COPY_BYTES: usize = 256 << 10;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(&arguments)) {
        Ok((seconds, figures)) => {
            println!("{figures}");
            println!("{seconds:.4} {:.2}", processor_seconds());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[String]) -> Outcome<(f64, serde_json::Value)> {
    let [url, bytes, journals, way, numbers @ ..] = arguments else {
        return Err(format!("buffer_puts URL BYTES JOURNALS WAY, into the table {TABLE}").into());
    };
    let numbers: Vec<u64> = numbers.iter().map(|n| n.parse()).collect::<Result<_, _>>()?;
    let rows = Rows {
        bytes: bytes.parse()?,
    };
    let journals = PathBuf::from(journals);
    fs::create_dir_all(&journals)?;
    match (way.as_str(), numbers.as_slice()) {
        ("commits", [count, under_way]) => commits(url, rows, *count, *under_way as usize).await,
        ("accepted", [count]) => accepted(url, rows, *count).await,
        ("journaled", [count, under_way]) => {
            journaled(url, rows, &journals, *count, *under_way as usize).await
        }
        ("sustained", [seconds]) => sustained(url, rows, Duration::from_secs(*seconds)).await,
        ("copy", [count]) => copy(url, rows, *count).await,
        ("paced-accepted", [rate, seconds]) => {
            paced_accepted(url, rows, *rate, Duration::from_secs(*seconds)).await
        }
        ("paced-journaled", [rate, seconds]) => {
            paced_journaled(url, rows, &journals, *rate, Duration::from_secs(*seconds)).await
        }
        _ => Err(format!("'{way}' with {} numbers is no way to put rows", numbers.len()).into()),
    }
}

/// Makes rows of one length.
#[derive(Clone, Copy)]
struct Rows {
    bytes: usize,
}

impl Rows {
    /// The values of a row but for the last, and the length that the last one has to have.
    fn values(self, id: u64) -> (u64, u64, usize) {
        let device = id % 1_000;
        let digits = |n: u64| n.checked_ilog10().unwrap_or(0) as usize + 1;
        // `id \t device-NNN \t V.5 \t note \n`
        let others = digits(id) + 1 + 10 + 1 + digits(device) + 2 + 1 + 1;
        (id, device, self.bytes.saturating_sub(others).max(1))
    }

    fn note(length: usize) -> &'static str {
        const TEXT: &str = "the quick brown fox jumps over the lazy dog and is gone before it has seen him; ";
        static LONG: std::sync::OnceLock<String> = std::sync::OnceLock::new();
        let long = LONG.get_or_init(|| TEXT.repeat(1_000));
        &long[..length.min(long.len())]
    }

    fn put(self, id: u64) -> Row {
        let (id, device, length) = self.values(id);
        let note = Self::note(length);
        let mut text = String::with_capacity(self.bytes + 64);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            r#"{{"id":{id},"device":"device-{device:03}","value":{device}.5,"note":"{note}"}}"#
        );
        Row::json(text)
    }

    fn copied(self, id: u64, to: &mut Vec<u8>) -> std::io::Result<()> {
        let (id, device, length) = self.values(id);
        let note = Self::note(length);
        writeln!(to, "{id}\tdevice-{device:03}\t{device}.5\t{note}")
    }
}

/// The ids of one producer's rows.
fn share(producer: u64, rows: u64) -> std::ops::Range<u64> {
    rows * producer / PRODUCERS..rows * (producer + 1) / PRODUCERS
}

async fn commits(url: &str, rows: Rows, count: u64, under_way: usize) -> Outcome<(f64, serde_json::Value)> {
    let mut connected = Vec::new();
    for _ in 0..PRODUCERS {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let statement = client
            .prepare("INSERT INTO single_rows VALUES ($1, $2, $3, $4)")
            .await?;
        connected.push((client, statement));
    }
    let started = Instant::now();
    let mut producers = tokio::task::JoinSet::new();
    for (producer, (client, statement)) in (0..).zip(connected) {
        producers.spawn(async move {
            let insert = |id| {
                let (client, statement) = (&client, &statement);
                async move {
                    let (id, device, length) = rows.values(id);
                    let (name, value) = (format!("device-{device:03}"), device as f64 + 0.5);
                    let note = Rows::note(length);
                    client
                        .execute(statement, &[&(id as i64), &name, &value, &note])
                        .await
                }
            };
            stream::iter(share(producer, count))
                .map(insert)
                .buffer_unordered(under_way)
                .try_fold((), |(), _| async { Ok(()) })
                .await
        });
    }
    while let Some(done) = producers.join_next().await {
        done??;
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok((seconds, serde_json::json!({ "rows": count })))
}

async fn options(url: &str) -> Outcome<BufferOptions> {
    let options = Database::connect(url).await?.buffer("single_rows");
    Ok(options.rejects(std::env::temp_dir().join("buffer_puts.rejects.jsonl"), 0))
}

/// Puts rows on a thread a producer; `more` says whether a producer is to put its next row.
fn put_on_threads(
    buffer: &Buffer,
    rows: Rows,
    more: impl Fn(u64, u64) -> Option<u64> + Send + Sync + 'static,
) -> Vec<std::thread::JoinHandle<tonnage::Result<u64>>> {
    let more = Arc::new(more);
    let threads = (0..PRODUCERS).map(|producer| {
        let (buffer, more) = (buffer.clone(), more.clone());
        std::thread::spawn(move || {
            let mut put = 0;
            while let Some(id) = more(producer, put) {
                buffer.put_blocking(rows.put(id))?;
                put += 1;
            }
            Ok(put)
        })
    });
    threads.collect()
}

/// Waits for threads without holding up the runtime, on which the drain works.
async fn joined<T: Send + 'static>(
    threads: Vec<std::thread::JoinHandle<tonnage::Result<T>>>,
) -> Outcome<Vec<T>> {
    let all = tokio::task::spawn_blocking(move || {
        let ended = threads.into_iter().map(|thread| {
            let ended = thread.join().map_err(|_| "a producer panicked".into());
            ended.and_then(|put| put.map_err(Into::into))
        });
        ended.collect::<Outcome<Vec<T>>>()
    });
    all.await?
}

async fn accepted(url: &str, rows: Rows, count: u64) -> Outcome<(f64, serde_json::Value)> {
    let buffer = options(url).await?.open().await?;
    let started = Instant::now();
    let threads = put_on_threads(&buffer, rows, move |producer, put| {
        let ids = share(producer, count);
        (ids.start + put < ids.end).then_some(ids.start + put)
    });
    joined(threads).await?;
    let seconds = started.elapsed().as_secs_f64();
    let report = buffer.close().await?;
    Ok((seconds, serde_json::json!({ "rows": report.rows.written })))
}

async fn journaled(
    url: &str,
    rows: Rows,
    journals: &Path,
    count: u64,
    under_way: usize,
) -> Outcome<(f64, serde_json::Value)> {
    let directory = tempfile::tempdir_in(journals)?;
    let options = options(url).await?.ack(Ack::Journaled);
    let buffer = options.journal(directory.path().join("journal")).open().await?;
    let started = Instant::now();
    let mut producers = tokio::task::JoinSet::new();
    for producer in 0..PRODUCERS {
        let buffer = buffer.clone();
        producers.spawn(async move {
            stream::iter(share(producer, count))
                .map(|id| buffer.put(rows.put(id)))
                .buffer_unordered(under_way)
                .try_fold((), |(), _| async { Ok(()) })
                .await
        });
    }
    while let Some(done) = producers.join_next().await {
        done??;
    }
    let seconds = started.elapsed().as_secs_f64();
    buffer.flush_all().await?;
    let in_table = started.elapsed().as_secs_f64();
    let report = buffer.close().await?;
    let figures = serde_json::json!({
        "rows": report.rows.written,
        "groups": report.metrics.journal_groups,
        "rows_per_second_in_table": report.rows.written as f64 / in_table,
    });
    Ok((seconds, figures))
}

async fn sustained(url: &str, rows: Rows, time: Duration) -> Outcome<(f64, serde_json::Value)> {
    let buffer = options(url).await?.open().await?;
    let before = memory_bytes("VmRSS:");
    let started = Instant::now();
    let next = Arc::new(AtomicU64::new(0));
    let threads = put_on_threads(&buffer, rows, move |_, _| {
        (started.elapsed() < time).then(|| next.fetch_add(1, Ordering::Relaxed))
    });
    joined(threads).await?;
    buffer.flush_all().await?;
    let seconds = started.elapsed().as_secs_f64();
    let most = memory_bytes("VmHWM:");
    let report = buffer.close().await?;
    let figures = serde_json::json!({
        "rows": report.rows.written,
        "rows_per_second": report.rows.written as f64 / seconds,
        "commits": report.metrics.commits,
        "area_bytes_max": AREA_BYTES_MAX,
        "area_bytes_peak": report.metrics.depth_bytes_peak,
        "resident_bytes_before": before,
        "resident_bytes_peak": most,
    });
    Ok((seconds, figures))
}

async fn copy(url: &str, rows: Rows, count: u64) -> Outcome<(f64, serde_json::Value)> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let started = Instant::now();
    let sink = client.copy_in("COPY single_rows FROM STDIN").await?;
    let mut sink = std::pin::pin!(sink);
    let mut text = Vec::with_capacity(COPY_BYTES + rows.bytes);
    for id in 0..count {
        rows.copied(id, &mut text)?;
        if text.len() >= COPY_BYTES || id + 1 == count {
            let full = std::mem::replace(&mut text, Vec::with_capacity(COPY_BYTES + rows.bytes));
            sink.send(Bytes::from(full)).await?;
        }
    }
    let copied = sink.finish().await?;
    let seconds = started.elapsed().as_secs_f64();
    let figures = serde_json::json!({ "rows": copied, "rows_per_second": copied as f64 / seconds });
    Ok((seconds, figures))
}

/// How many rows of a producer are due.
fn due(started: Instant, rate: u64) -> u64 {
    (started.elapsed().as_secs_f64() * rate as f64 / PRODUCERS as f64) as u64
}

/// The numbers of a producer's rows, each once its row is due.
fn when_due(started: Instant, rate: u64, time: Duration) -> impl Stream<Item = u64> {
    stream::unfold(0, move |number| async move {
        while number >= due(started, rate) {
            tokio::time::sleep(TICK).await;
        }
        (started.elapsed() < time).then_some((number, number + 1))
    })
}

async fn paced_accepted(
    url: &str,
    rows: Rows,
    rate: u64,
    time: Duration,
) -> Outcome<(f64, serde_json::Value)> {
    let buffer = options(url).await?.open().await?;
    let started = Instant::now();
    let threads = (0..PRODUCERS).map(|producer| {
        let buffer = buffer.clone();
        std::thread::spawn(move || -> tonnage::Result<Vec<u32>> {
            let mut nanos = Vec::new();
            while started.elapsed() < time {
                while (nanos.len() as u64) < due(started, rate) {
                    let row = rows.put(nanos.len() as u64 * PRODUCERS + producer);
                    let called = Instant::now();
                    buffer.put_blocking(row)?;
                    nanos.push(nanos_since(called));
                }
                std::thread::sleep(TICK);
            }
            Ok(nanos)
        })
    });
    let nanos = joined(threads.collect()).await?.concat();
    let seconds = started.elapsed().as_secs_f64();
    buffer.close().await?;
    let figures = serde_json::json!({
        "rows_per_second": nanos.len() as f64 / seconds,
        "put_micros": Quantiles::of(nanos).json(),
    });
    Ok((seconds, figures))
}

async fn paced_journaled(
    url: &str,
    rows: Rows,
    journals: &Path,
    rate: u64,
    time: Duration,
) -> Outcome<(f64, serde_json::Value)> {
    let directory = tempfile::tempdir_in(journals)?;
    let options = options(url).await?.ack(Ack::Journaled);
    let buffer = options.journal(directory.path().join("journal")).open().await?;
    let done = Arc::new(AtomicBool::new(false));
    let syncing = {
        let (done, path) = (done.clone(), directory.path().join("fsynced"));
        std::thread::spawn(move || fsyncs(&path, &done))
    };
    let started = Instant::now();
    let mut producers = tokio::task::JoinSet::new();
    for producer in 0..PRODUCERS {
        let buffer = buffer.clone();
        producers.spawn(async move {
            let put = |number| {
                let (buffer, row) = (&buffer, rows.put(number * PRODUCERS + producer));
                async move {
                    let called = Instant::now();
                    buffer.put(row).await.map(|_| nanos_since(called))
                }
            };
            when_due(started, rate, time)
                .map(put)
                .buffer_unordered(UNDER_WAY_MAX)
                .try_collect::<Vec<u32>>()
                .await
        });
    }
    let mut nanos = Vec::new();
    while let Some(of_producer) = producers.join_next().await {
        nanos.extend(of_producer??);
    }
    let seconds = started.elapsed().as_secs_f64();
    done.store(true, Ordering::Relaxed);
    let fsyncs = syncing.join().map_err(|_| "the thread of fsyncs panicked")??;
    let report = buffer.close().await?;
    let figures = serde_json::json!({
        "rows_per_second": nanos.len() as f64 / seconds,
        "groups": report.metrics.journal_groups,
        "put_micros": Quantiles::of(nanos).json(),
        "fsync_micros": Quantiles::of(fsyncs).json(),
    });
    Ok((seconds, figures))
}

/// What appending to a file and fsyncing it takes, again and again until `done`: from when it was due, so that a disk
/// that stands still for a while counts for every fsync that it holds up, as it does for every put.
fn fsyncs(path: &Path, done: &AtomicBool) -> std::io::Result<Vec<u32>> {
    let mut file = File::create(path)?;
    let mut nanos = Vec::new();
    let mut due = Instant::now();
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        file.write_all(&[7; FSYNC_BYTES])?;
        file.sync_data()?;
        nanos.push(nanos_since(due));
        due += FSYNC_EVERY;
    }
    Ok(nanos)
}

fn nanos_since(called: Instant) -> u32 {
    called.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32
}

/// Times in order.
struct Quantiles(Vec<u32>);

impl Quantiles {
    fn of(mut nanos: Vec<u32>) -> Self {
        nanos.sort_unstable();
        Self(nanos)
    }

    fn micros(&self, quantile: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let at = (self.0.len() as f64 * quantile) as usize;
        self.0
            .get(at.min(last))
            .map_or(0.0, |nanos| f64::from(*nanos) / 1_000.0)
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "count": self.0.len(),
            "p50": self.micros(0.5),
            "p99": self.micros(0.99),
            "p99.9": self.micros(0.999),
            "most": self.micros(1.0),
        })
    }
}

/// A line of what the system says of this process's memory, in bytes; 0 where it does not.
fn memory_bytes(line: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = text.lines().find_map(|l| l.strip_prefix(line));
    let kilobytes = found.and_then(|rest| rest.split_whitespace().next());
    kilobytes.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1_024
}

/// Processor seconds of this process so far, in hundredths; 0 where the system does not say.
fn processor_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}
