//! What the server counts of itself, as Prometheus reads it.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::tables::{Place, Tables};

/// Upper ends of the buckets of latencies, in seconds.
const BUCKETS: [f64; 14] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0,
];

/// All counters.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that are open.
    pub connections: AtomicU64,
    latencies: Mutex<BTreeMap<&'static str, Histogram>>,
    responses: Mutex<BTreeMap<(&'static str, u16), u64>>,
    refusals: Mutex<BTreeMap<&'static str, u64>>,
    rows: Mutex<BTreeMap<String, Rows>>,
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [u64; BUCKETS.len()],
    sum: f64,
    count: u64,
}

#[derive(Debug, Default)]
struct Rows {
    taken: u64,
    known: u64,
    named: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Counters {
    /// A response of a route.
    pub fn response(&self, route: &'static str, status: u16, took: Duration) {
        *locked(&self.responses).entry((route, status)).or_default() += 1;
        let seconds = took.as_secs_f64();
        let mut latencies = locked(&self.latencies);
        let histogram = latencies.entry(route).or_default();
        for (at, end) in BUCKETS.iter().enumerate() {
            histogram.buckets[at] += u64::from(seconds <= *end);
        }
        histogram.sum += seconds;
        histogram.count += 1;
    }

    /// A refusal, by its code.
    pub fn refusal(&self, code: &'static str) {
        *locked(&self.refusals).entry(code).or_default() += 1;
    }

    /// Rows of a request: taken, taken before, and named as bad.
    pub fn rows(&self, place: &Place, taken: u64, known: u64, named: u64) {
        let mut rows = locked(&self.rows);
        let rows = rows.entry(labels(place)).or_default();
        rows.taken += taken;
        rows.known += known;
        rows.named += named;
    }

    /// All of them, in Prometheus' text format.
    pub fn text(&self, tables: &Tables) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write(tables, &mut out);
        out
    }

    fn write(&self, tables: &Tables, out: &mut String) -> std::fmt::Result {
        writeln!(out, "# TYPE tonnage_connections gauge")?;
        writeln!(
            out,
            "tonnage_connections {}",
            self.connections.load(Ordering::Relaxed)
        )?;
        writeln!(out, "# TYPE tonnage_responses_total counter")?;
        for ((route, status), count) in locked(&self.responses).iter() {
            writeln!(
                out,
                "tonnage_responses_total{{route=\"{route}\",status=\"{status}\"}} {count}"
            )?;
        }
        writeln!(out, "# TYPE tonnage_refusals_total counter")?;
        for (code, count) in locked(&self.refusals).iter() {
            writeln!(out, "tonnage_refusals_total{{code=\"{code}\"}} {count}")?;
        }
        writeln!(out, "# TYPE tonnage_request_seconds histogram")?;
        for (route, histogram) in locked(&self.latencies).iter() {
            for (at, end) in BUCKETS.iter().enumerate() {
                let count = histogram.buckets[at];
                writeln!(
                    out,
                    "tonnage_request_seconds_bucket{{route=\"{route}\",le=\"{end}\"}} {count}"
                )?;
            }
            let (sum, count) = (histogram.sum, histogram.count);
            writeln!(
                out,
                "tonnage_request_seconds_bucket{{route=\"{route}\",le=\"+Inf\"}} {count}"
            )?;
            writeln!(out, "tonnage_request_seconds_sum{{route=\"{route}\"}} {sum}")?;
            writeln!(out, "tonnage_request_seconds_count{{route=\"{route}\"}} {count}")?;
        }
        writeln!(out, "# TYPE tonnage_request_rows_total counter")?;
        for (labels, rows) in locked(&self.rows).iter() {
            for (outcome, count) in [
                ("taken", rows.taken),
                ("known", rows.known),
                ("named_bad", rows.named),
            ] {
                writeln!(
                    out,
                    "tonnage_request_rows_total{{{labels},outcome=\"{outcome}\"}} {count}"
                )?;
            }
        }
        let mut families: BTreeMap<String, (bool, Vec<String>)> = BTreeMap::new();
        for place in tables.places() {
            let labels = labels(&place);
            place.buffer.metrics().each(|name, value, grows| {
                let name = match grows {
                    true => format!("tonnage_buffer_{name}_total"),
                    false => format!("tonnage_buffer_{name}"),
                };
                let line = format!("{name}{{{labels}}} {value}");
                families.entry(name).or_insert((grows, Vec::new())).1.push(line);
            });
        }
        for (name, (grows, lines)) in families {
            let kind = if grows { "counter" } else { "gauge" };
            writeln!(out, "# TYPE {name} {kind}\n{}", lines.join("\n"))?;
        }
        Ok(())
    }
}

fn labels(place: &Place) -> String {
    let escaped = |text: &str| {
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    format!(
        "database=\"{}\",table=\"{}\",mode=\"{}\"",
        escaped(&place.database.name),
        escaped(&place.table.to_string()),
        place.mode
    )
}
