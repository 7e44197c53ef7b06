//! How far a run has come, while it goes on: a bar on a terminal, a line now and then elsewhere.

use std::{
    io::IsTerminal,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use tonnage::{load::Progress, report::Grouped};

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Style {
    /// A bar on a terminal, plain lines elsewhere
    Auto,
    /// A line every ten seconds
    Plain,
    /// Nothing
    None,
}

/// Shows `progress` until it is dropped by the caller's `select!`; never ends by itself.
pub async fn show(
    style: Style,
    progress: Arc<Progress>,
    bytes_total: Option<u64>,
) -> std::convert::Infallible {
    let started = Instant::now();
    match style {
        Style::None => std::future::pending().await,
        Style::Auto if std::io::stderr().is_terminal() => bar(&progress, bytes_total, started).await,
        _ => loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            eprintln!("{}", line(&progress, bytes_total, started));
        },
    }
}

async fn bar(progress: &Progress, bytes_total: Option<u64>, started: Instant) -> std::convert::Infallible {
    let (bar, template) = match bytes_total {
        Some(total) => (
            ProgressBar::new(total),
            "{bar:30} {percent:>3}%  {msg}  {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {msg}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    // Cleared when this future is dropped, so that the summary stands alone.
    let bar = Cleared(bar);
    loop {
        bar.0.set_position(progress.bytes_read.load(Ordering::Relaxed));
        bar.0.set_message(rows(progress, started));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

struct Cleared(ProgressBar);

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn rows(progress: &Progress, started: Instant) -> String {
    let written = progress.written.load(Ordering::Relaxed);
    let uncommitted = progress.uncommitted.load(Ordering::Relaxed);
    if written == 0 && uncommitted > 0 {
        let rate = uncommitted as f64 / started.elapsed().as_secs_f64().max(0.001);
        let (rows, rate) = (Grouped(uncommitted), Grouped(rate as u64));
        return format!("{rows} rows, not committed yet  {rate} rows/s");
    }
    let rate = written as f64 / started.elapsed().as_secs_f64().max(0.001);
    let mut text = format!("{} rows  {} rows/s", Grouped(written), Grouped(rate as u64));
    let rejected = progress.rejected.load(Ordering::Relaxed);
    if rejected > 0 {
        text.push_str(&format!("  {} rejected", Grouped(rejected)));
    }
    if progress.completing.load(Ordering::Relaxed) {
        text.push_str("  completing the table");
    }
    text
}

fn line(progress: &Progress, bytes_total: Option<u64>, started: Instant) -> String {
    let read = progress.bytes_read.load(Ordering::Relaxed);
    let seconds = started.elapsed().as_secs_f64();
    let mut text = format!("{seconds:.0} s  {}", rows(progress, started));
    let reading = !progress.completing.load(Ordering::Relaxed);
    if let Some(total) = bytes_total.filter(|t| reading && *t > 0 && read > 0) {
        let share = (read as f64 / total as f64).min(1.0);
        text.push_str(&format!(
            "  {:.0}%  {:.0} s left",
            share * 100.0,
            seconds / share - seconds
        ));
    }
    text
}
