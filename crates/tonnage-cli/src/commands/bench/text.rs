//! The answer as text: first what to do, then why, then the figures.

use std::fmt::Write;

use tonnage::measure::{
    Answer, BenchReport, Kind, Setting, TableForm,
    answer::{Measured, Short, Within},
    beside::{Forms, forms, unmeasured},
    compare::Comparison,
    figures::{Ceiling, Cell, Run},
    verdict::Taken,
};

/// All of it. `place` is the database as it was named.
pub fn answer(report: &BenchReport, place: &str) -> String {
    let mut text = String::new();
    for answer in &report.answers {
        one(&mut text, answer, report.answers.len() > 1, place);
    }
    for forms in forms(report) {
        beside(&mut text, &forms);
    }
    let unmeasured = unmeasured(report);
    if !unmeasured.is_empty() {
        text.push_str("not measured\n");
        for (kind, why) in unmeasured {
            let _ = writeln!(text, "  {kind}: {why}");
        }
        text.push('\n');
    }
    for kind in kinds(report) {
        cells(&mut text, report, &kind);
    }
    reference(&mut text, report);
    for ceiling in &report.generator {
        let _ = writeln!(text, "{}", generator(ceiling, report));
    }
    let _ = writeln!(
        text,
        "database   {}, {} client processors, {} in all",
        report.product,
        report.processors,
        time(report.seconds)
    );
    for setting in &report.settings_changed {
        let _ = writeln!(text, "setting    {setting}");
    }
    for line in unknown_paths(report) {
        let _ = writeln!(text, "unknown    {line}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note       {note}");
    }
    text
}

/// Why it is not known how rows are written, each reason once, with the first setting that it is about.
fn unknown_paths(report: &BenchReport) -> Vec<String> {
    let mut told: Vec<(&str, String)> = Vec::new();
    for cell in &report.cells {
        let Some(path) = cell
            .write_path
            .as_ref()
            .filter(|path| path.taken == Taken::Unknown)
        else {
            continue;
        };
        let Some(why) = path.why.last() else { continue };
        if told.iter().all(|(known, _)| known != why) {
            told.push((why, format!("how rows are taken ({}): {why}", cell.setting)));
        }
    }
    told.into_iter().map(|(_, line)| line).collect()
}

fn one(text: &mut String, answer: &Answer, several: bool, place: &str) {
    if several {
        let _ = writeln!(text, "{}:", answer.kind());
    }
    let _ = writeln!(text, "{}", answer.sentence);
    if let Some(flags) = &answer.flags {
        let _ = writeln!(
            text,
            "  tonnage load SOURCE {} -t TABLE {flags}",
            tonnage::targets::redact(place)
        );
    }
    for (title, lines) in [
        ("ruled out", &answer.ruled_out),
        ("weaker promises", &answer.costs),
    ] {
        if !lines.is_empty() {
            let _ = writeln!(text, "{title}");
            for line in lines {
                let _ = writeln!(text, "  {line}");
            }
        }
    }
    text.push('\n');
}

/// What made rows, and how many were there before the first run.
fn generator(ceiling: &Ceiling, report: &BenchReport) -> String {
    let kept = Short(ceiling.rows_kept as f64);
    match &report.own_rows {
        Some(own) => format!("rows       {own}; held in memory, the same for every run"),
        None => format!(
            "generator  {} makes {} rows/s by one thread; {kept} rows were made beforehand",
            ceiling.workload,
            Short(ceiling.rows_per_second),
        ),
    }
}

/// What the form of the table costs.
fn beside(text: &mut String, forms: &Forms) {
    let _ = writeln!(
        text,
        "tables for {}, {}",
        but_for_table(&forms.kind),
        forms.durability
    );
    let lines: Vec<Vec<String>> = forms
        .forms
        .iter()
        .map(|form| {
            vec![
                form.table.to_string(),
                Measured(form.fastest).to_string(),
                format!("{:.2}x", form.ratio),
                form.fastest.setting.to_string(),
            ]
        })
        .collect();
    table(text, &lines);
    text.push('\n');
}

/// What is alike of kinds that differ in the form of the table.
pub fn but_for_table(kind: &Kind) -> Kind {
    Kind {
        table: TableForm::default(),
        ..*kind
    }
}

/// A kind and a durability, which a table of cells has in common.
fn kinds(report: &BenchReport) -> Vec<Setting> {
    let mut kinds: Vec<Setting> = Vec::new();
    for cell in &report.cells {
        if !kinds.iter().any(|kind| same_kind(kind, &cell.setting)) {
            kinds.push(cell.setting);
        }
    }
    kinds
}

/// Whether two settings differ in method, batch and jobs only.
pub fn same_kind(a: &Setting, b: &Setting) -> bool {
    (a.kind(), a.durability) == (b.kind(), b.durability)
}

/// Columns of the figures: title, and what stands there.
type Column = (&'static str, fn(&Cell) -> String);

const COLUMNS: &[Column] = &[
    ("rows/s", |cell| Short(cell.rows_per_second.median).to_string()),
    ("", |cell| match cell.rows_per_second.samples {
        1 => "once".to_owned(),
        _ => Within(cell.rows_per_second.spread()).to_string(),
    }),
    ("a job", |cell| {
        Short(cell.rows_per_second.median / cell.setting.jobs.max(1) as f64).to_string()
    }),
    ("write p50", |cell| write_time(cell, 0)),
    ("p95", |cell| write_time(cell, 1)),
    ("p99", |cell| write_time(cell, 2)),
    ("CPU s/M rows", |cell| {
        let cpu = cell.median(|run| Some(run.client_cpu_seconds? * 1e6 / run.rows.max(1) as f64));
        told(cpu.map(Short))
    }),
    ("sent B/row", |cell| {
        told(cell.a_row(|run| Some(run.bytes_sent)).map(Short))
    }),
    ("disk B/row", |cell| {
        told(cell.a_row(|run| run.disk_bytes).map(Short))
    }),
    ("log B/row", |cell| {
        told(cell.a_row(|run| run.log_bytes).map(Short))
    }),
    ("rows/commit", |cell| {
        told(
            cell.median(|run| Some(run.rows as f64 / run.commits.max(1) as f64))
                .map(Short),
        )
    }),
    ("taken", |cell| {
        told(cell.write_path.as_ref().map(|path| path.taken))
    }),
    ("records/row", |cell| {
        told(
            cell.write_path
                .as_ref()
                .and_then(|path| path.row_records)
                .map(Short),
        )
    }),
    ("bound by", |cell| cell.bound_by().to_string()),
];

fn told(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn write_time(cell: &Cell, at: usize) -> String {
    told(
        cell.median(|run: &Run| run.write_seconds.get(at).copied())
            .map(Time),
    )
}

fn cells(text: &mut String, report: &BenchReport, kind: &Setting) {
    let _ = writeln!(text, "{}, {}", kind.kind(), kind.durability);
    let of_kind = report.cells.iter().filter(|cell| same_kind(&cell.setting, kind));
    let mut lines: Vec<Vec<String>> = vec![
        std::iter::once(String::new())
            .chain(COLUMNS.iter().map(|(title, _)| (*title).to_owned()))
            .collect(),
    ];
    lines.extend(of_kind.map(|cell| {
        std::iter::once(cell.setting.to_string())
            .chain(COLUMNS.iter().map(|(_, value)| value(cell)))
            .collect()
    }));
    table(text, &lines);
    text.push('\n');
}

/// Lines in columns: the first and the last to the left, the others to the right.
fn table(text: &mut String, lines: &[Vec<String>]) {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |at: usize| {
        let lengths = lines
            .iter()
            .filter_map(|line| line.get(at))
            .map(|cell| cell.chars().count());
        lengths.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        let mut shown = String::new();
        for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let _ = match at {
                0 => write!(shown, "  {cell:<width$}"),
                at if at + 1 == columns => write!(shown, "  {cell}"),
                _ => write!(shown, "  {cell:>width$}"),
            };
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
}

fn reference(text: &mut String, report: &BenchReport) {
    let reference = &report.reference;
    if let Some(steadiness) = reference.steadiness {
        let _ = writeln!(
            text,
            "noise      {}, {}, run {} times between the others: {}, drift {:+.0}%",
            reference.setting.kind(),
            reference.setting,
            steadiness.samples,
            Within(steadiness.noise),
            steadiness.drift * 100.0
        );
    }
}

/// What has changed between two reports.
pub fn comparison(comparison: &Comparison) -> String {
    let mut text = String::new();
    let changed: Vec<_> = comparison.cells.iter().filter(|cell| cell.changed()).collect();
    let _ = writeln!(
        text,
        "{} of {} cells changed beyond noise",
        changed.len(),
        comparison.cells.len()
    );
    for warning in &comparison.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    let mut lines = vec![
        ["", "before", "", "after", "", "ratio", ""]
            .map(str::to_owned)
            .to_vec(),
    ];
    for cell in &comparison.cells {
        let setting = &cell.setting;
        lines.push(vec![
            format!("{}, {}: {setting}", setting.kind(), setting.durability),
            Short(cell.before.median).to_string(),
            Within(cell.before.spread()).to_string(),
            Short(cell.after.median).to_string(),
            Within(cell.after.spread()).to_string(),
            format!("{:.2}", cell.ratio()),
            match (cell.changed(), cell.ratio() > 1.0) {
                (false, _) => String::new(),
                (true, true) => "faster".to_owned(),
                (true, false) => "slower".to_owned(),
            },
        ]);
    }
    if lines.len() > 1 {
        table(&mut text, &lines);
    }
    for (name, settings) in [
        ("before", &comparison.only_before),
        ("after", &comparison.only_after),
    ] {
        for setting in settings {
            let _ = writeln!(text, "only {name}: {}: {setting}", setting.kind());
        }
    }
    text
}

/// Seconds as people read them.
struct Time(f64);

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&time(self.0))
    }
}

/// Seconds as people read them: `0.31ms`, `12ms`, `1.5s`, `3min`.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 120.0 => format!("{:.0}min", s / 60.0),
        s if s >= 10.0 => format!("{s:.0}s"),
        s if s >= 1.0 => format!("{s:.1}s").replace(".0s", "s"),
        s if s >= 0.01 => format!("{:.0}ms", s * 1e3),
        s if s >= 0.001 => format!("{:.1}ms", s * 1e3),
        s => format!("{:.2}ms", s * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (seconds, shown) in [
            (0.000_31, "0.31ms"),
            (0.0042, "4.2ms"),
            (0.5, "500ms"),
            (1.0, "1s"),
            (1.54, "1.5s"),
            (45.2, "45s"),
            (180.0, "3min"),
        ] {
            assert_eq!(time(seconds), shown);
        }
    }

    #[test]
    fn columns_stand_below_each_other() {
        let line = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let mut text = String::new();
        table(
            &mut text,
            &[line(["", "rows/s", "by"]), line(["array", "±3", "x"])],
        );
        assert_eq!(text, "         rows/s  by\n  array      ±3  x\n");
    }
}
