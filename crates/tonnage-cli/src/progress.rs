//! How far a run has come, while it goes on: a bar on a terminal, a line now and then elsewhere.

use std::{
    io::IsTerminal,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;
use tonnage::{
    Error, ErrorKind, Result,
    load::Progress,
    report::{Counted, Grouped},
    sinks::{Output, Settled, Sink, create_unless},
    stop::Stop,
};

use crate::{Ending, interrupt::requested};

/// Between lines that nobody has asked for.
const MINUTE: Duration = Duration::from_secs(60);
/// Between lines that were asked for.
const PLAIN: Duration = Duration::from_secs(10);
/// So many rows that wait are worth a word.
const WAITING_SHOWN: u64 = 1_000;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Style {
    /// A bar on a terminal, a line a minute elsewhere
    Auto,
    /// A line every ten seconds
    Plain,
    /// Nothing
    None,
}

/// What goes to standard error beyond warnings and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// Nothing.
    Quiet,
    /// Progress and the summary.
    Normal,
}

impl Verbosity {
    /// How progress is shown, where `asked` was asked for.
    pub fn progress(self, asked: ProgressArgs) -> Style {
        match self {
            Self::Quiet => Style::None,
            Self::Normal => asked.progress,
        }
    }
}

/// The option of every command that takes its time.
#[derive(Debug, Clone, Copy, Args)]
pub struct ProgressArgs {
    /// How progress is shown
    #[arg(long, value_enum, default_value_t = Style::Auto, help_heading = "What to show")]
    progress: Style,
}

/// Rows on their way into a sink, counted as written.
struct CountedSink {
    sink: Box<dyn Sink>,
    progress: Arc<Progress>,
    stop: Stop,
}

/// A sink for `output` whose rows are counted in `progress`; writing is `Cancelled` once `stop` is asked for.
pub fn counted_sink(
    output: &Output,
    schema: &SchemaRef,
    progress: &Arc<Progress>,
    stop: &Stop,
) -> Result<Box<dyn Sink>> {
    Ok(Box::new(CountedSink {
        sink: create_unless(stop, output, schema)?,
        progress: progress.clone(),
        stop: stop.clone(),
    }))
}

impl Sink for CountedSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.stop.requested() {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
        self.sink.write(batch)?;
        let rows = batch.num_rows() as u64;
        self.progress.written.fetch_add(rows, Ordering::Relaxed);
        Ok(())
    }

    fn settle(self: Box<Self>) -> Result<Settled> {
        self.sink.settle()
    }

    fn is_closed(&self) -> bool {
        self.sink.is_closed()
    }
}

/// Waits for rows to be written, and shows `progress` meanwhile. A request to stop asks `stop`, and waits until the files are
/// taken away; who does not want to wait for that interrupts again. How the command has ended then is the error.
pub async fn written<T>(
    mut writing: JoinHandle<Result<T>>,
    style: Style,
    progress: Arc<Progress>,
    stop: &Stop,
) -> std::result::Result<Result<T>, Ending> {
    let written = tokio::select! {
        written = &mut writing => written,
        never = show(style, progress, None) => match never {},
        interrupt = requested() => {
            stop.request();
            tokio::select! {
                _ = &mut writing => {}
                _ = requested() => {}
            }
            let error = Error::new(ErrorKind::Cancelled, "interrupted while rows were being written");
            return Err(Ending::Interrupted(interrupt, error));
        }
    };
    Ok(written.unwrap_or_else(|error| Err(Error::bug(format!("the writing ended unexpectedly: {error}")))))
}

/// Shows `progress` until it is dropped by the caller's `select!`; never ends by itself.
pub async fn show(
    style: Style,
    progress: Arc<Progress>,
    bytes_total: Option<u64>,
) -> std::convert::Infallible {
    let started = Instant::now();
    let each = match style {
        Style::None => return std::future::pending().await,
        Style::Auto if std::io::stderr().is_terminal() => return bar(&progress, bytes_total, started).await,
        Style::Auto => MINUTE,
        Style::Plain => PLAIN,
    };
    loop {
        tokio::time::sleep(each).await;
        eprintln!("{}", line(&progress, bytes_total, started.elapsed()));
    }
}

async fn bar(progress: &Progress, bytes_total: Option<u64>, started: Instant) -> std::convert::Infallible {
    let (bar, template) = match bytes_total {
        // Narrow, so that 80 columns have room for the rows that wait.
        Some(total) => (ProgressBar::new(total), "{bar:16} {percent:>3}%  {wide_msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {wide_msg}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    // Cleared when this future is dropped, so that the summary is alone.
    let bar = Cleared(bar);
    loop {
        let read = progress.bytes_read.load(Ordering::Relaxed);
        let done = bytes_total.map_or(read, |total| (progress.share(total) * total as f64) as u64);
        bar.0.set_position(done);
        let mut text = rows(progress, started.elapsed());
        if let Some(left) = left(progress, bytes_total, started.elapsed()) {
            text = format!("{left}  {text}");
        }
        bar.0.set_message(text);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// How far a command has come that tells its steps itself: a line that is written over on a terminal, one now and then
/// elsewhere. Whatever it has written on a terminal is cleared when it is dropped.
pub struct Steps {
    style: Style,
    /// When a line was last written, or the steps began.
    last: Mutex<Instant>,
}

impl Steps {
    /// For steps that begin now.
    pub fn new(style: Style) -> Self {
        Self {
            style,
            last: Mutex::new(Instant::now()),
        }
    }

    /// Shows `line` where it is time for one.
    pub fn show(&self, line: &dyn std::fmt::Display) {
        let each = match self.style {
            Style::None => return,
            Style::Auto if std::io::stderr().is_terminal() => return eprint!("\r\x1b[K{line}"),
            Style::Auto => MINUTE,
            Style::Plain => PLAIN,
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() >= each {
            *last = Instant::now();
            eprintln!("{line}");
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if self.style == Style::Auto && std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }
}

struct Cleared(ProgressBar);

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Rows and their rate, what waits for the database, what is wrong with some.
fn rows(progress: &Progress, elapsed: Duration) -> String {
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (written, uncommitted) = (get(&progress.written), get(&progress.uncommitted));
    let (rows, words) = match written == 0 && uncommitted > 0 {
        true => (uncommitted, "rows, not committed yet"),
        false => (written, "rows"),
    };
    let rate = rows as f64 / elapsed.as_secs_f64().max(0.001);
    let mut text = format!("{} {words}  {} rows/s", Grouped(rows), Grouped(rate as u64));
    let waiting = progress.waiting();
    let unconnected = get(&progress.unconnected);
    if unconnected > 0 {
        let lost = Counted(unconnected, "connection");
        text.push_str(&format!(
            "  {lost} lost, {} wait for the database",
            Grouped(waiting)
        ));
    } else if waiting >= WAITING_SHOWN {
        text.push_str(&format!("  {} wait for the database", Grouped(waiting)));
    } else if written > 0 && get(&progress.bytes_read) > 0 && !progress.completing.load(Ordering::Relaxed) {
        text.push_str("  the database waits for rows");
    }
    let rejected = get(&progress.rejected);
    if rejected > 0 {
        text.push_str(&format!("  {} rejected", Grouped(rejected)));
        if let Some(first) = progress.first_reject.get() {
            text.push_str(&format!(", first {first}"));
        }
    }
    if progress.completing.load(Ordering::Relaxed) {
        text.push_str("  completing the table");
    }
    text
}

/// How long it takes until all is done, as it went until now.
fn left(progress: &Progress, bytes_total: Option<u64>, elapsed: Duration) -> Option<String> {
    let share = progress.share(bytes_total?);
    let goes_on = share > 0.0 && !progress.completing.load(Ordering::Relaxed);
    let seconds = (elapsed.as_secs_f64() / share - elapsed.as_secs_f64()).ceil();
    // Years are no answer.
    (goes_on && seconds < 1e7).then(|| format!("{} left", clock(seconds as u64)))
}

/// `45 s`, `3:05 min`, `2:03:04 h`.
fn clock(seconds: u64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest} s"),
        (0, _) => format!("{minutes}:{rest:02} min"),
        _ => format!("{hours}:{minutes:02}:{rest:02} h"),
    }
}

fn line(progress: &Progress, bytes_total: Option<u64>, elapsed: Duration) -> String {
    let mut text = clock(elapsed.as_secs());
    if let Some(total) = bytes_total {
        text.push_str(&format!("  {:.0}%", (progress.share(total) * 100.0).floor()));
    }
    if let Some(left) = left(progress, bytes_total, elapsed) {
        text.push_str(&format!("  {left}"));
    }
    format!("{text}  {}", rows(progress, elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_not_done() {
        let progress = Progress::default();
        let set = |count: &AtomicU64, value| count.store(value, Ordering::Relaxed);
        set(&progress.read, 400_000);
        set(&progress.bytes_read, 4_000_000);
        set(&progress.written, 19_000);
        set(&progress.rejected, 1_000);
        let _ = progress.first_reject.set("a.csv row 7: no".to_owned());
        assert_eq!(
            line(&progress, Some(4_000_000), Duration::from_secs(10)),
            "10 s  5%  3:10 min left  19,000 rows  1,900 rows/s  380,000 wait for the database  1,000 rejected, first \
             a.csv row 7: no"
        );
        set(&progress.written, 399_000);
        assert_eq!(
            line(&progress, Some(4_000_000), Duration::from_secs(100)),
            "1:40 min  100%  0 s left  399,000 rows  3,990 rows/s  the database waits for rows  1,000 rejected, first \
             a.csv row 7: no"
        );
        set(&progress.unconnected, 2);
        assert_eq!(
            line(&progress, None, Duration::from_secs(100)),
            "1:40 min  399,000 rows  3,990 rows/s  2 connections lost, 0 wait for the database  1,000 rejected, first a.csv \
             row 7: no"
        );
        assert_eq!(
            line(&Progress::default(), None, Duration::from_secs(3)),
            "3 s  0 rows  0 rows/s"
        );
        assert_eq!(clock(7384), "2:03:04 h");
    }
}
