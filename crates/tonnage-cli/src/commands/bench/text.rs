//! The answer as text: first what to do, then why, then the figures.

use std::fmt::Write;

use tonnage::measure::{
    Answer, BenchReport, Setting,
    answer::{Measured, Short, Time, Within},
    beside::{Forms, forms, unmeasured},
    compare::{Comparison, Figure},
    figures::{Ceiling, Cell, Offered, Run},
    verdict::Taken,
};

/// The most characters of a line: what a terminal shows and a mail does not break.
const LINE_MAX: usize = 100;

/// All of it. `place` is the database as it was named, `table` what a load is to go into.
pub fn answer(report: &BenchReport, place: &str, table: &str) -> String {
    wrapped(&unwrapped(report, (place, table)))
}

/// Lines of at most [`LINE_MAX`] characters, as far as their words are shorter. What follows of a line is set in behind its
/// label; a command goes on as a shell has it.
fn wrapped(text: &str) -> String {
    let mut whole = String::new();
    for line in text.lines() {
        if line.chars().count() <= LINE_MAX {
            whole.push_str(line);
            whole.push('\n');
            continue;
        }
        let is_command = line.starts_with("  tonnage ");
        let label = line
            .split_once("  ")
            .filter(|(label, _)| !label.is_empty() && !label.contains(' '));
        let hang = match label {
            Some((label, rest)) => label.len() + 2 + (rest.len() - rest.trim_start().len()),
            None => line.len() - line.trim_start().len() + 2,
        };
        let end = if is_command { " \\" } else { "" };
        let mut length = 0;
        for word in line.split_inclusive(' ') {
            let characters = word.trim_end().chars().count();
            // What a line begins with stays as it is.
            if length > hang && length + characters + end.len() > LINE_MAX {
                whole.truncate(whole.trim_end_matches(' ').len());
                whole.push_str(end);
                whole.push('\n');
                whole.push_str(&" ".repeat(hang));
                length = hang;
            }
            whole.push_str(word);
            length += word.chars().count();
        }
        whole.push('\n');
    }
    whole
}

fn unwrapped(report: &BenchReport, place: (&str, &str)) -> String {
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
    let left_out = left_out(report);
    if !left_out.is_empty() {
        let _ = writeln!(
            text,
            "more       {}: in report.html and cells.csv, which -o DIR writes",
            left_out.join(", ")
        );
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
        Time(report.seconds)
    );
    let _ = writeln!(
        text,
        "measured   {}, on {} by tonnage {}",
        super::measured_rows(report),
        report.started,
        env!("CARGO_PKG_VERSION")
    );
    for setting in &report.settings_changed {
        let _ = writeln!(text, "setting    {setting}");
    }
    let memory = report.cells.iter().flat_map(|cell| &cell.runs);
    if let Some(bytes) = memory.filter_map(|run| run.costs.client_memory_bytes).max() {
        let _ = writeln!(
            text,
            "memory     this process took {}B at most, rows that were made beforehand among it",
            Short(bytes as f64)
        );
    }
    if let Some(processes) = &report.server_processes {
        let _ = writeln!(
            text,
            "server     {processes} and what it started, on this machine"
        );
    }
    for one in &report.unmeasured {
        let _ = writeln!(text, "unknown    {}: {}", one.what, one.why);
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

fn one(text: &mut String, answer: &Answer, several: bool, (place, table): (&str, &str)) {
    if several {
        let _ = writeln!(text, "{}:", answer.kind);
    }
    let _ = writeln!(text, "{}", answer.sentence);
    if let Some(flags) = &answer.flags {
        let _ = writeln!(
            text,
            "  {}",
            super::command(answer, (&tonnage::targets::redact(place), table), flags)
        );
    }
    let order: Vec<String> = answer.order.iter().map(ToString::to_string).collect();
    for (title, lines) in [
        ("decided", &order),
        ("buffer", &answer.buffer),
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
    let _ = writeln!(text, "tables for {}, {}", forms.kind, forms.durability);
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

/// What stands where there is no figure.
const NOT_TOLD: &str = "-";

/// A column of the figures.
struct Column {
    title: &'static str,
    /// The columns of the lowest ranks are shown, as many as a line has room for.
    rank: u8,
    value: fn(&Cell) -> String,
}

const fn column(rank: u8, title: &'static str, value: fn(&Cell) -> String) -> Column {
    Column { title, rank, value }
}

/// Columns of rows that were offered at a rate, before the others; times count from when a write was due.
const OFFERED: &[Column] = &[
    column(3, "due p50", |cell| response(cell, 0)),
    column(5, "p95", |cell| response(cell, 1)),
    column(3, "p99", |cell| response(cell, 2)),
    column(5, "max", |cell| response(cell, 3)),
    column(4, "reached", |cell| {
        told(cell.median(|run| Some(run.offered.as_ref()?.reached)).map(Short))
    }),
];

const COLUMNS: &[Column] = &[
    column(1, "rows/s", |cell| Short(cell.rows_per_second.median).to_string()),
    column(1, "", |cell| match cell.rows_per_second.samples {
        1 => "once".to_owned(),
        _ => Within(cell.rows_per_second.spread()).to_string(),
    }),
    column(4, "answered", |cell| {
        told(
            cell.median(|run| Some(run.acknowledged?.rows_per_second))
                .map(Short),
        )
    }),
    column(16, "a job", |cell| {
        Short(cell.rows_per_second.median / cell.setting.jobs.max(1) as f64).to_string()
    }),
    column(6, "write p50", |cell| write_time(cell, 0)),
    column(17, "p95", |cell| write_time(cell, 1)),
    column(7, "p99", |cell| write_time(cell, 2)),
    column(8, "reads/s", |cell| {
        told(cell.read(|reads| reads.keys_per_second).map(Short))
    }),
    column(9, "read p50", |cell| read_time(cell, 0)),
    column(18, "p95", |cell| read_time(cell, 1)),
    column(10, "p99", |cell| read_time(cell, 2)),
    column(11, "CPU s/M rows", |cell| cpu(cell, |run| run.client_cpu_seconds)),
    column(12, "server", |cell| cpu(cell, |run| run.costs.server_cpu_seconds)),
    column(23, "sent B/row", |cell| {
        told(cell.a_row(|run| Some(run.bytes_sent)).map(Short))
    }),
    column(15, "disk B/row", |cell| {
        told(cell.a_row(|run| run.disk_bytes).map(Short))
    }),
    column(14, "log B/row", |cell| {
        told(cell.a_row(|run| run.log_bytes).map(Short))
    }),
    column(19, "written B/row", |cell| {
        told(cell.a_row(|run| run.costs.written_bytes).map(Short))
    }),
    column(20, "flushes/commit", |cell| {
        told(cell.a_commit(|run| run.costs.log_flushes).map(Short))
    }),
    column(21, "rows/commit", |cell| {
        told(cell.a_commit(|run| Some(run.rows)).map(Short))
    }),
    column(13, "taken", |cell| {
        told(cell.write_path.as_ref().map(|path| path.taken))
    }),
    column(22, "records/row", |cell| {
        told(
            cell.write_path
                .as_ref()
                .and_then(|path| path.row_records)
                .map(Short),
        )
    }),
    column(2, "bound by", |cell| cell.bound_by().to_string()),
];

/// Processor seconds for a million rows.
fn cpu(cell: &Cell, of: fn(&Run) -> Option<f64>) -> String {
    told(cell.a_million_rows(of).map(Short))
}

/// From when a write was due to its commit.
fn response(cell: &Cell, at: usize) -> String {
    let seconds = |offered: &Offered| offered.response_seconds.get(at).copied();
    told(cell.median(|run| seconds(run.offered.as_ref()?)).map(Time))
}

/// The columns that any cell of a report has a figure in, in their order: those that a line has room for, and the others.
fn columns(report: &BenchReport) -> (Vec<&'static Column>, Vec<&'static Column>) {
    let offered = if report.rate.is_some() { OFFERED } else { &[] };
    let any = |column: &&Column| report.cells.iter().any(|cell| (column.value)(cell) != NOT_TOLD);
    let there: Vec<&Column> = offered.iter().chain(COLUMNS).filter(any).collect();
    let longest = |of: &dyn Fn(&Cell) -> String| {
        let lengths = report.cells.iter().map(|cell| of(cell).chars().count());
        lengths.max().unwrap_or_default()
    };
    let mut by_rank = there.clone();
    by_rank.sort_by_key(|column| column.rank);
    let mut room = LINE_MAX.saturating_sub(2 + longest(&|cell| cell.setting.to_string()));
    let mut rank_max = u8::MAX;
    for column in by_rank {
        let width = 2 + longest(&|cell| (column.value)(cell)).max(column.title.len());
        match room.checked_sub(width) {
            Some(left) if rank_max == u8::MAX => room = left,
            // A less important column is not shown in the place of one that is wider.
            _ => rank_max = rank_max.min(column.rank),
        }
    }
    there.into_iter().partition(|column| column.rank < rank_max)
}

/// The titles of the columns that no line has room for.
fn left_out(report: &BenchReport) -> Vec<&'static str> {
    let mut titles: Vec<_> = columns(report).1.iter().map(|column| column.title).collect();
    let mut seen = Vec::new();
    titles.retain(|title| {
        !seen.contains(title) && {
            seen.push(*title);
            true
        }
    });
    titles
}

fn told(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| NOT_TOLD.to_owned(), |value| value.to_string())
}

fn write_time(cell: &Cell, at: usize) -> String {
    told(
        cell.median(|run: &Run| run.write_seconds.get(at).copied())
            .map(Time),
    )
}

/// Of a request of the reads of a mix.
fn read_time(cell: &Cell, at: usize) -> String {
    told(cell.read(|reads| reads.request_seconds[at]).map(Time))
}

fn cells(text: &mut String, report: &BenchReport, kind: &Setting) {
    let _ = writeln!(text, "{}, {}", kind.kind(), kind.durability);
    let (columns, _) = columns(report);
    let of_kind = report.cells.iter().filter(|cell| same_kind(&cell.setting, kind));
    let mut lines: Vec<Vec<String>> = vec![
        std::iter::once(String::new())
            .chain(columns.iter().map(|column| column.title.to_owned()))
            .collect(),
    ];
    lines.extend(of_kind.map(|cell| {
        std::iter::once(cell.setting.to_string())
            .chain(columns.iter().map(|column| (column.value)(cell)))
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
    // Rows a second that are offered do not vary.
    if let Some(steadiness) = reference.steadiness.filter(|_| report.rate.is_none()) {
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
    let header = || {
        ["", "before", "", "after", "", "ratio", ""]
            .map(str::to_owned)
            .to_vec()
    };
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut kind: Option<&Setting> = None;
    let shown = |value: f64| match comparison.figure {
        Figure::RowsPerSecond => Short(value).to_string(),
        Figure::ResponseSeconds => Time(value).to_string(),
    };
    let faster = |ratio: f64| match comparison.figure {
        Figure::RowsPerSecond => ratio > 1.0,
        Figure::ResponseSeconds => ratio < 1.0,
    };
    if comparison.figure == Figure::ResponseSeconds && !comparison.cells.is_empty() {
        text.push_str("what 99% of the writes took at most, from when they were due\n");
    }
    for cell in &comparison.cells {
        let setting = &cell.setting;
        if !kind.is_some_and(|kind| same_kind(kind, setting)) {
            table(&mut text, &lines);
            let _ = writeln!(text, "{}, {}", setting.kind(), setting.durability);
            lines = vec![header()];
            kind = Some(setting);
        }
        lines.push(vec![
            setting.to_string(),
            shown(cell.before.median),
            Within(cell.before.spread()).to_string(),
            shown(cell.after.median),
            Within(cell.after.spread()).to_string(),
            format!("{:.2}", cell.ratio()),
            match (cell.changed(), faster(cell.ratio())) {
                (false, _) => String::new(),
                (true, true) => "faster".to_owned(),
                (true, false) => "slower".to_owned(),
            },
        ]);
    }
    table(&mut text, &lines);
    for (name, settings) in [
        ("before", &comparison.only_before),
        ("after", &comparison.only_after),
    ] {
        for setting in settings {
            let _ = writeln!(text, "only {name}: {}: {setting}", setting.kind());
        }
    }
    wrapped(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_below_their_text() {
        let words = "word ".repeat(30);
        let words = words.trim_end();
        for (text, begins, goes_on) in [
            (
                format!("note       {words}"),
                "note       word ",
                "           word ",
            ),
            (format!("  {words}"), "  word ", "    word "),
            (words.to_owned(), "word ", "  word "),
        ] {
            let shown = wrapped(&text);
            let lines: Vec<_> = shown.lines().collect();
            assert_eq!(lines.len(), 2, "{shown}");
            assert!(
                lines[0].starts_with(begins) && lines[1].starts_with(goes_on),
                "{shown}"
            );
            assert!(lines.iter().all(|line| line.len() <= LINE_MAX), "{shown}");
            let whole: Vec<_> = shown.split_whitespace().collect();
            assert_eq!(whole, text.split_whitespace().collect::<Vec<_>>());
        }
        let command = format!("  tonnage load {words}");
        let shown = wrapped(&command);
        assert!(
            shown.lines().next().is_some_and(|line| line.ends_with(" \\")),
            "{shown}"
        );
        assert_eq!(shown.replace("\\\n    ", "").trim(), command.trim());
        let word = format!("  {}", "x".repeat(200));
        assert_eq!(wrapped(&word), format!("{word}\n"));
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
