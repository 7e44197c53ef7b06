//! What the engine logs, for `logging`.
//!
//! Its threads must not wait for the interpreter, so records are kept, at most [`RECORDS_MAX`] of them, until a thread that
//! has it comes by: every 100 ms while a call lasts.

use std::{
    collections::VecDeque,
    fmt::{Debug, Write},
    sync::{
        Mutex, Once, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use pyo3::prelude::*;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Registry,
    layer::{Context, Layer, SubscriberExt},
};

/// Records that are kept; of more the oldest are lost.
const RECORDS_MAX: usize = 1_000;

static RECORDS: Mutex<VecDeque<(u8, &'static str, String)>> = Mutex::new(VecDeque::new());
static DEBUG: AtomicBool = AtomicBool::new(false);
static INSTALLED: Once = Once::new();

/// Whether records of the level DEBUG are wanted.
#[pyfunction]
pub fn log_debug(wanted: bool) {
    DEBUG.store(wanted, Ordering::Relaxed);
}

/// Begins to keep records. Where the process has another listener for them, it has them all.
pub fn install() {
    INSTALLED.call_once(|| {
        let _ = tracing::subscriber::set_global_default(Registry::default().with(Keeper));
    });
}

/// Hands over what was kept.
pub fn hand_over(py: Python<'_>) -> PyResult<()> {
    let records = std::mem::take(&mut *RECORDS.lock().unwrap_or_else(PoisonError::into_inner));
    if records.is_empty() {
        return Ok(());
    }
    let records: Vec<_> = records.into();
    py.import("tonnage._log")?.call_method1("emit", (records,))?;
    Ok(())
}

struct Keeper;

impl<S: Subscriber> Layer<S> for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let least = match DEBUG.load(Ordering::Relaxed) {
            true => Level::DEBUG,
            false => Level::INFO,
        };
        metadata.target().starts_with("tonnage") && *metadata.level() <= least
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let level = match *metadata.level() {
            Level::ERROR => 40,
            Level::WARN => 30,
            Level::INFO => 20,
            _ => 10,
        };
        let mut text = Text::default();
        event.record(&mut text);
        let mut records = RECORDS.lock().unwrap_or_else(PoisonError::into_inner);
        if records.len() == RECORDS_MAX {
            records.pop_front();
        }
        records.push_back((level, metadata.target(), text.0));
    }
}

/// The message, and the fields behind it.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
