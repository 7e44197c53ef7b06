//! The directory of a report: `report.html`, `cells.csv`, `report.json`.

use std::{fmt::Write, fs, path::Path};

use tonnage::{
    Error, ErrorKind, Result,
    measure::{
        BenchReport,
        figures::{Cell, Offered, Reads, Run},
    },
};

use super::html;
use crate::report::write_report;

/// The files that a report consists of.
pub const NAMES: [&str; 3] = ["report.html", "cells.csv", "report.json"];

/// Whether a report can go there: refuses one that is there already, before anything is measured.
pub fn check(directory: &Path) -> Result<()> {
    let there = NAMES
        .into_iter()
        .map(|name| directory.join(name))
        .find(|path| path.exists());
    match there {
        Some(path) => Err(Error::config(format!("{} exists", path.display()))
            .hint("name another directory: two reports can be compared with --compare")),
        None => fs::create_dir_all(directory).map_err(|e| refused(directory, &e)),
    }
}

/// Writes it.
pub fn write(directory: &Path, report: &BenchReport) -> Result<()> {
    let page = directory.join("report.html");
    fs::write(&page, html::page(report)).map_err(|e| refused(&page, &e))?;
    let cells = directory.join("cells.csv");
    fs::write(&cells, csv(&report.cells)).map_err(|e| refused(&cells, &e))?;
    write_report(&directory.join("report.json"), report)
}

fn refused(path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Refused, format!("{}: {error}", path.display()))
}

/// A column of the file: its name, and its value of a cell.
type Column = (&'static str, fn(&Cell) -> String);

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.6}"))
}

fn of(cell: &Cell, value: fn(&Run) -> Option<f64>) -> String {
    number(cell.median(value))
}

fn offered(cell: &Cell, value: fn(&Offered) -> f64) -> String {
    number(cell.median(|run| run.offered.as_ref().map(value)))
}

fn read(cell: &Cell, value: fn(&Reads) -> f64) -> String {
    number(cell.read(value))
}

const COLUMNS: &[Column] = &[
    ("workload", |cell| cell.setting.workload.name().to_owned()),
    ("operation", |cell| cell.setting.operation.name().to_owned()),
    ("touch", |cell| cell.setting.touch.to_string()),
    ("reads_percent", |cell| cell.setting.reads.to_string()),
    ("method", |cell| cell.setting.method.to_string()),
    ("batch_rows", |cell| cell.setting.batch_rows.to_string()),
    ("jobs", |cell| cell.setting.jobs.to_string()),
    ("durability", |cell| cell.setting.durability.to_string()),
    ("round_trip_seconds", |cell| {
        number(Some(cell.setting.round_trip_micros as f64 / 1e6))
    }),
    ("indexes", |cell| cell.setting.table.indexes.to_string()),
    ("columns", |cell| {
        let columns = cell.setting.table.columns;
        columns.map_or_else(String::new, |columns| columns.to_string())
    }),
    ("keys", |cell| cell.setting.table.keys.to_string()),
    ("storage", |cell| cell.setting.table.storage.to_string()),
    ("page_bytes", |cell| {
        let bytes = cell.setting.table.page_bytes;
        bytes.map_or_else(String::new, |bytes| bytes.to_string())
    }),
    ("partitions", |cell| cell.setting.table.partitions.to_string()),
    ("tables", |cell| cell.setting.table.tables.to_string()),
    ("runs", |cell| cell.runs.len().to_string()),
    ("rows_per_second", |cell| {
        number(Some(cell.rows_per_second.median))
    }),
    ("rows_per_second_low", |cell| {
        number(Some(cell.rows_per_second.low))
    }),
    ("rows_per_second_high", |cell| {
        number(Some(cell.rows_per_second.high))
    }),
    ("rows_per_second_per_job", |cell| {
        number(Some(
            cell.rows_per_second.median / cell.setting.jobs.max(1) as f64,
        ))
    }),
    ("rows", |cell| of(cell, |run| Some(run.rows as f64))),
    ("seconds", |cell| of(cell, |run| Some(run.seconds))),
    ("write_seconds_p50", |cell| {
        of(cell, |run| Some(run.write_seconds[0]))
    }),
    ("write_seconds_p95", |cell| {
        of(cell, |run| Some(run.write_seconds[1]))
    }),
    ("write_seconds_p99", |cell| {
        of(cell, |run| Some(run.write_seconds[2]))
    }),
    ("write_seconds_max", |cell| {
        of(cell, |run| Some(run.write_seconds[3]))
    }),
    ("acknowledged_rows_per_second", |cell| {
        of(cell, |run| run.acknowledged.map(|put| put.rows_per_second))
    }),
    ("acknowledged_behind_seconds", |cell| {
        of(cell, |run| run.acknowledged.map(|put| put.behind_seconds))
    }),
    ("client_cpu_seconds", |cell| {
        of(cell, |run| run.client_cpu_seconds)
    }),
    ("client_cpu_share", |cell| {
        of(cell, |run| run.costs.client_cpu_share)
    }),
    ("server_cpu_seconds", |cell| {
        of(cell, |run| run.costs.server_cpu_seconds)
    }),
    ("server_cpu_share", |cell| {
        of(cell, |run| run.costs.server_cpu_share)
    }),
    ("client_memory_bytes", |cell| {
        of(cell, |run| Some(run.costs.client_memory_bytes? as f64))
    }),
    ("log_flushes", |cell| {
        of(cell, |run| Some(run.costs.log_flushes? as f64))
    }),
    ("written_bytes_per_row", |cell| {
        number(cell.a_row(|run| run.costs.written_bytes))
    }),
    ("commit_seconds", |cell| of(cell, |run| run.costs.commit_seconds)),
    ("opening_seconds", |cell| {
        of(cell, |run| run.costs.opening_seconds)
    }),
    ("offered_rows_per_second", |cell| {
        offered(cell, |offered| offered.rows_per_second)
    }),
    ("reached_rows_per_second", |cell| {
        offered(cell, |offered| offered.reached)
    }),
    ("response_seconds_p50", |cell| {
        offered(cell, |offered| offered.response_seconds[0])
    }),
    ("response_seconds_p95", |cell| {
        offered(cell, |offered| offered.response_seconds[1])
    }),
    ("response_seconds_p99", |cell| {
        offered(cell, |offered| offered.response_seconds[2])
    }),
    ("response_seconds_max", |cell| {
        offered(cell, |offered| offered.response_seconds[3])
    }),
    ("reads_per_second", |cell| {
        read(cell, |reads| reads.keys_per_second)
    }),
    ("reads", |cell| read(cell, |reads| reads.keys as f64)),
    ("reads_distinct", |cell| read(cell, |reads| reads.distinct as f64)),
    ("read_requests", |cell| read(cell, |reads| reads.requests as f64)),
    ("read_seconds_p50", |cell| {
        read(cell, |reads| reads.request_seconds[0])
    }),
    ("read_seconds_p95", |cell| {
        read(cell, |reads| reads.request_seconds[1])
    }),
    ("read_seconds_p99", |cell| {
        read(cell, |reads| reads.request_seconds[2])
    }),
    ("read_seconds_max", |cell| {
        read(cell, |reads| reads.request_seconds[3])
    }),
    ("statements", |cell| of(cell, |run| Some(run.statements as f64))),
    ("commits", |cell| of(cell, |run| Some(run.commits as f64))),
    ("retries", |cell| of(cell, |run| Some(run.retries as f64))),
    ("bytes_sent_per_row", |cell| {
        number(cell.a_row(|run| Some(run.bytes_sent)))
    }),
    ("disk_bytes_per_row", |cell| {
        number(cell.a_row(|run| run.disk_bytes))
    }),
    ("log_bytes_per_row", |cell| {
        number(cell.a_row(|run| run.log_bytes))
    }),
    ("round_trips", |cell| {
        of(cell, |run| run.round_trips.map(|trips| trips as f64))
    }),
    ("taken", |cell| {
        cell.write_path
            .as_ref()
            .map_or_else(String::new, |path| path.taken.to_string())
    }),
    ("row_records_per_row", |cell| {
        number(cell.write_path.as_ref().and_then(|path| path.row_records))
    }),
    ("index_records_per_row", |cell| {
        number(cell.write_path.as_ref().and_then(|path| path.index_records))
    }),
    ("own_log_bytes_per_row", |cell| {
        number(cell.write_path.as_ref().and_then(|path| path.log_bytes))
    }),
    ("bound_by", |cell| cell.bound_by().to_string()),
];

/// The cells, with a header. No value needs quotes.
fn csv(cells: &[Cell]) -> String {
    let mut text = String::new();
    let names: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let _ = writeln!(text, "{}", names.join(","));
    for cell in cells {
        let values: Vec<_> = COLUMNS.iter().map(|(_, value)| value(cell)).collect();
        let _ = writeln!(text, "{}", values.join(","));
    }
    text
}
