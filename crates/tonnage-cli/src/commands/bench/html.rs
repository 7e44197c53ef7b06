//! The report as one page that opens without a network: answers, charts, figures.

use std::fmt::Write;

use tonnage::measure::{
    BenchMethod, BenchReport, Kind, Setting,
    answer::{Answer, Short, Time, Within},
    beside::{Beside, forms, unmeasured},
    figures::{Cell, Run},
    published::{Chart, Over},
};

use super::{
    overlay,
    svg::{Axis, Bar, Colour, Point, Series, bars, escaped, lines},
    text::same_kind,
};

/// Colours of text, ground and methods: light, and dark where the reader's system is.
const STYLE: &str = "\
:root{--fg:#1d2330;--bg:#fff;--soft:#5d6675;--line:#d8dde6;--mark:#eef3fb;\
--single:#c2410c;--batch:#9333ea;--array:#15803d;--native:#2563c9;--buffer:#b45309}\
@media(prefers-color-scheme:dark){:root{--fg:#e6e9ef;--bg:#14171d;--soft:#9aa4b5;--line:#333a46;--mark:#1e2633;\
--single:#fb923c;--batch:#c084fc;--array:#4ade80;--native:#7aa7f7;--buffer:#fbbf24}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:62rem;margin:2rem auto;\
padding:0 1rem}h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.2rem}h3{font-size:1rem;margin:1.4rem 0 .3rem}\
.answer{font-size:1.15rem;background:var(--mark);padding:.8rem 1rem;border-left:4px solid var(--soft)}\
code{font-family:ui-monospace,monospace;font-size:.9em}pre{overflow-x:auto}.soft{color:var(--soft)}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}\
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th:first-child,td:first-child,th:last-child,td:last-child{text-align:left}tr.best td{background:var(--mark);font-weight:600}\
svg{width:100%;height:auto;max-width:720px;display:block}svg text{font:12px system-ui,sans-serif;fill:var(--fg)}\
svg .end{text-anchor:end}svg .middle{text-anchor:middle}svg .grid{stroke:var(--line)}\
svg polyline{fill:none;stroke-width:2}svg g line{stroke-width:1.5}\
.published polyline,.published line{stroke-dasharray:4 3}.published circle{fill:var(--bg)}\
.single{--of:var(--single)}.batch{--of:var(--batch)}.array{--of:var(--array)}.native{--of:var(--native)}.buffer{--of:var(--buffer)}\
.plain{--of:var(--soft)}svg g{stroke:var(--of);fill:var(--of)}\
.key{display:inline-block;width:.8em;height:.8em;background:var(--of);margin:0 .2em 0 .8em}";

/// The page.
pub fn page(report: &BenchReport) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>tonnage bench: {product}</title><style>{STYLE}</style></head><body>\n\
         <h1>{product}</h1><p>{rows}<br>of {target}, on {}, by tonnage {}</p>\n\
         <p class=\"soft\">{} client processors; {} cells, {} runs each of at most {} and {} rows; \
         seed {}; {} in all</p>\n",
        escaped(&report.started),
        env!("CARGO_PKG_VERSION"),
        report.processors,
        report.cells.len(),
        report.repeats,
        Time(report.run_seconds_max),
        Short(report.rows_max as f64),
        report.seed,
        Time(report.seconds),
        product = escaped(&report.product),
        target = escaped(&report.target),
        rows = escaped(&super::measured_rows(report)),
    );
    how_to_read(&mut page, report);
    for answer in &report.answers {
        let _ = writeln!(
            page,
            "<h2>{}, {}</h2>\n<p class=\"answer\">{}</p>",
            answer.kind,
            answer.durability,
            escaped(&answer.sentence)
        );
        if let Some(flags) = &answer.flags {
            let _ = writeln!(
                page,
                "<pre><code>{}</code></pre>",
                escaped(&super::command(answer, (&report.target, "TABLE"), flags))
            );
        }
        let order: Vec<String> = answer.order.iter().map(ToString::to_string).collect();
        list(&mut page, "Decided, and not", &order);
        list(&mut page, "Single rows through a buffer", &answer.buffer);
        list(&mut page, "Ruled out", &answer.ruled_out);
        list(&mut page, "Weaker promises", &answer.costs);
        levels(&mut page, report, answer);
    }
    over_tables(&mut page, report);
    let unmeasured = unmeasured(report);
    let unmeasured: Vec<String> = unmeasured
        .iter()
        .map(|(kind, why)| format!("{kind}: {why}"))
        .collect();
    list(&mut page, "Not measured", &unmeasured);
    over_distance(&mut page, report);
    // Rows a second that are offered do not vary.
    if report.rate.is_none() {
        reference(&mut page, report);
    }
    list(&mut page, "Notes", &notes(report));
    page.push_str("</body></html>\n");
    page
}

/// The cells that an answer is of, a level of durability after the other, the strongest first.
fn levels(page: &mut String, report: &BenchReport, answer: &Answer) {
    let best = answer.recommended.or_else(|| answer.plateau.first().copied());
    for level in report.durability_levels.iter().rev().copied() {
        let is_of_level = |cell: &&Cell| {
            let setting = &cell.setting;
            (setting.kind(), setting.durability) == (answer.kind, level)
        };
        let cells: Vec<&Cell> = report.cells.iter().filter(is_of_level).collect();
        if let Some(first) = cells.first() {
            let of_level = best.filter(|best| same_kind(best, &first.setting));
            if level != answer.durability {
                let _ = writeln!(page, "<h2>{}, {level}</h2>", answer.kind);
            }
            charts(page, report, &cells, of_level);
            figures(page, &cells, answer.recommended);
        }
    }
}

fn notes(report: &BenchReport) -> Vec<String> {
    let server = report.server_processes.iter().map(|processes| {
        format!("server CPU is what {processes} and the processes that it started took, on this machine")
    });
    let unmeasured = report
        .unmeasured
        .iter()
        .map(|one| format!("not known: {}: {}", one.what, one.why));
    report
        .generator
        .iter()
        .filter(|_| report.own_rows.is_none())
        .map(|ceiling| {
            format!(
                "one thread makes {} rows/s of {}; {} were made beforehand",
                Short(ceiling.rows_per_second),
                ceiling.workload,
                Short(ceiling.rows_kept as f64)
            )
        })
        .chain(
            report
                .own_rows
                .iter()
                .map(|own| format!("rows: {own}; held in memory, the same for every run")),
        )
        .chain(
            report
                .settings_changed
                .iter()
                .map(|setting| format!("setting: {setting}")),
        )
        .chain(server)
        .chain(unmeasured)
        .chain(report.notes.iter().cloned())
        .collect()
}

/// What colours, points and lines mean, for all charts.
fn how_to_read(page: &mut String, report: &BenchReport) {
    let cells: Vec<&Cell> = report.cells.iter().collect();
    page.push_str("<p class=\"soft\">Colours are methods:");
    for method in each(&cells, |s| s.method) {
        let class = Colour::Of(method).class();
        let _ = write!(page, "<span class=\"key {class}\"></span>{method}");
    }
    let intervals = match report.repeats {
        1 => "Each setting was run once, so nothing says how far a point may be off.",
        2..6 => {
            "A point is the median of its runs, the vertical line through it goes from the slowest to the fastest of them."
        }
        _ => {
            "A point is the median of its runs, the vertical line through it is the 95% interval of that median."
        }
    };
    let _ = writeln!(page, ".<br>{intervals}</p>");
}

fn list(page: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = write!(page, "<h3>{title}</h3><ul>");
    for item in items {
        let _ = write!(page, "<li>{}</li>", escaped(item));
    }
    page.push_str("</ul>\n");
}

fn chart(page: &mut String, title: &str, svg: &str) {
    if !svg.is_empty() {
        let _ = writeln!(page, "<h3>{}</h3>\n{svg}", escaped(title));
    }
}

fn point(x: f64, cell: &Cell) -> Point {
    let rate = &cell.rows_per_second;
    Point {
        x,
        y: rate.median,
        low: rate.low,
        high: rate.high,
        about: about(cell),
    }
}

/// What a cell costs, as far as it is known, for who points at it.
fn about(cell: &Cell) -> String {
    let mut text = String::new();
    let share = |share: f64| format!("{:.0}%", share * 100.0);
    let short = |value: f64| Short(value).to_string();
    let figures: [(&str, Option<String>); 5] = [
        (
            "client CPU",
            cell.median(|run| run.costs.client_cpu_share).map(share),
        ),
        (
            "server CPU",
            cell.median(|run| run.costs.server_cpu_share).map(share),
        ),
        (
            "flushes of the log a commit",
            cell.a_commit(|run| run.costs.log_flushes).map(short),
        ),
        (
            "bytes written a row",
            cell.a_row(|run| run.costs.written_bytes).map(short),
        ),
        ("bound by", Some(cell.bound_by().to_string())),
    ];
    for (name, value) in figures {
        if let Some(value) = value {
            let _ = write!(text, "; {name} {value}");
        }
    }
    text
}

/// What cells differ in, each once, in the order in which it comes.
fn each<T: PartialEq>(cells: &[&Cell], of: impl Fn(&Setting) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for cell in cells {
        let one = of(&cell.setting);
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn fastest<'a>(cells: impl Iterator<Item = &'a Cell>) -> Option<&'a Cell> {
    cells.max_by(|a, b| a.rows_per_second.median.total_cmp(&b.rows_per_second.median))
}

fn charts(page: &mut String, report: &BenchReport, cells: &[&Cell], best: Option<Setting>) {
    let fastest_setting = || fastest(cells.iter().copied()).map(|cell| cell.setting);
    let Some(best) = best.or_else(fastest_setting) else {
        return;
    };
    let lay = |series: &mut Vec<Series>, of: &[BenchMethod], over: Over| {
        let chart = Chart {
            over,
            kind: best.kind(),
            jobs: if over == Over::Jobs { 1 } else { best.jobs },
            single_transaction: report.single_transaction,
            databases: report.databases,
        };
        match report.rate {
            None => overlay::lay(series, of, &chart),
            // Rows a second that are offered have no curve.
            Some(_) => String::new(),
        }
    };
    let methods = each(cells, |s| s.method);
    let jobs = each(cells, |s| s.jobs);
    let sizes = each(
        &cells
            .iter()
            .copied()
            .filter(|c| !c.setting.method.is_row_by_row())
            .collect::<Vec<_>>(),
        |s| s.batch_rows,
    );

    if sizes.len() > 1 {
        let of_methods = methods.iter().map(|method| {
            let of_jobs = |s: &Setting| s.method == *method && s.jobs == best.jobs;
            (*method, in_order(cells, of_jobs, |s| s.batch_rows as f64))
        });
        let of_methods = of_methods.filter(|(_, points)| !points.is_empty());
        let of_methods = of_methods.map(|(method, points)| {
            let name = method.to_string();
            (method, Series::measured(name, Colour::Of(method), points))
        });
        let (of, mut series): (Vec<BenchMethod>, Vec<Series>) = of_methods.unzip();
        let published = lay(&mut series, &of, Over::BatchRows);
        let title = format!("Rows a second over rows of a write, jobs {}", best.jobs);
        let svg = lines(&title, "rows of a write", Axis::Logarithmic, &series);
        chart(page, &title, &(svg + &published));
    }
    if jobs.len() > 1 {
        let series = methods.iter().map(|method| {
            let of_method = cells.iter().copied().filter(|c| c.setting.method == *method);
            let rows = fastest(of_method).map_or(1, |cell| cell.setting.batch_rows);
            let name = match method {
                one if one.is_row_by_row() => method.to_string(),
                _ => format!("{method}, {rows} rows"),
            };
            let of_rows = |s: &Setting| s.method == *method && s.batch_rows == rows;
            let points = in_order(cells, of_rows, |s| s.jobs as f64);
            Series::measured(name, Colour::Of(*method), points)
        });
        let mut series: Vec<Series> = series.collect();
        let published = lay(&mut series, &methods, Over::Jobs);
        let title = "Rows a second over jobs";
        let svg = lines(title, "jobs", Axis::Linear, &series);
        chart(page, title, &(svg + &published));
    }
    if jobs.len() > 1 && sizes.len() > 1 && !best.method.is_row_by_row() {
        heat_map(page, cells, &best, &jobs, &sizes);
    }
    let fastest_of =
        |method: &BenchMethod| fastest(cells.iter().copied().filter(|c| c.setting.method == *method));
    bars_of_each(page, &methods.iter().filter_map(fastest_of).collect::<Vec<_>>());
}

/// Bars for each of these cells, the fastest of each method: how fast it is, how long its writes take, what it costs.
fn bars_of_each(page: &mut String, of_each: &[&Cell]) {
    let bar = |cell: &&Cell| of_cell(cell, cell.setting.to_string(), cell.rows_per_second.median);
    let title = "The fastest of each method, rows a second";
    chart(
        page,
        title,
        &bars(title, &of_each.iter().map(bar).collect::<Vec<_>>()),
    );
    let is_offered = of_each
        .iter()
        .any(|cell| cell.runs.iter().any(|run| run.offered.is_some()));
    let title = match is_offered {
        true => "A write of these, milliseconds from when it was due: half of them, 95 %, 99 % take at most",
        false => "A write of these, milliseconds: half of them, 95 %, 99 % take at most",
    };
    let mut times = Vec::new();
    for cell in of_each {
        for (at, name) in ["p50", "p95", "p99"].into_iter().enumerate() {
            let taken = cell.median(|run| times_of(run).get(at).copied());
            let name = format!("{} {name}", cell.setting);
            times.push(of_cell(cell, name, taken.unwrap_or_default() * 1e3));
        }
    }
    chart(page, title, &bars(title, &times));
    if of_each.iter().any(|cell| cell.setting.reads > 0) {
        let title = "A request of the reads of these, milliseconds: half of them, 95 %, 99 % take at most";
        let times = of_each.iter().flat_map(|cell| {
            ["p50", "p95", "p99"]
                .into_iter()
                .enumerate()
                .map(move |(at, name)| {
                    let taken = cell.read(|reads| reads.request_seconds[at]);
                    let name = format!("{} {name}", cell.setting);
                    of_cell(cell, name, taken.unwrap_or_default() * 1e3)
                })
        });
        chart(page, title, &bars(title, &times.collect::<Vec<_>>()));
    }
    costs_of_each(page, of_each);
}

fn costs_of_each(page: &mut String, of_each: &[&Cell]) {
    let titles = [
        "Records of the log a row, indexes apart",
        "Keys that were read, a second",
        "Bytes of log a row",
        "Bytes on disk a row, indexes included",
        "Bytes that the database wrote to its files, a row",
        "Flushes of the log to disk, a commit",
        "Bytes sent a row",
        "Processor seconds of the client, a million rows",
        "Processor seconds of the server, a million rows",
    ];
    let values: [fn(&Cell) -> Option<f64>; 9] = [
        |cell| cell.write_path.as_ref()?.row_records,
        |cell| cell.read(|reads| reads.keys_per_second),
        |cell| cell.a_row(|run| run.log_bytes),
        |cell| cell.a_row(|run| run.disk_bytes),
        |cell| cell.a_row(|run| run.costs.written_bytes),
        |cell| cell.a_commit(|run| run.costs.log_flushes),
        |cell| cell.a_row(|run| Some(run.bytes_sent).filter(|bytes| *bytes > 0)),
        |cell| cell.a_million_rows(|run| run.client_cpu_seconds),
        |cell| cell.a_million_rows(|run| run.costs.server_cpu_seconds),
    ];
    for (title, value) in titles.into_iter().zip(values) {
        let values = of_each
            .iter()
            .filter_map(|cell| Some(of_cell(cell, cell.setting.to_string(), value(cell)?)));
        let values: Vec<_> = values.collect();
        if values.iter().any(|bar| bar.value > 0.0) {
            chart(page, title, &bars(title, &values));
        }
    }
}

/// A bar in the colour of the cell's method.
fn of_cell(cell: &Cell, name: String, value: f64) -> Bar {
    Bar {
        name,
        value,
        colour: Colour::Of(cell.setting.method),
    }
}

/// What writes of a run took at most: from when they were due, where they were offered at a rate.
fn times_of(run: &Run) -> [f64; 4] {
    run.offered
        .as_ref()
        .map_or(run.write_seconds, |offered| offered.response_seconds)
}

fn in_order(cells: &[&Cell], which: impl Fn(&Setting) -> bool, x: impl Fn(&Setting) -> f64) -> Vec<Point> {
    let chosen = cells.iter().filter(|cell| which(&cell.setting));
    let mut points: Vec<Point> = chosen.map(|cell| point(x(&cell.setting), cell)).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}

/// Rows a second of the best method over batch rows and jobs: the darker the faster.
fn heat_map(page: &mut String, cells: &[&Cell], best: &Setting, jobs: &[usize], sizes: &[usize]) {
    let find = |jobs: usize, rows: usize| {
        cells.iter().find(|cell| {
            let s = &cell.setting;
            (s.method, s.jobs, s.batch_rows) == (best.method, jobs, rows)
        })
    };
    let of_method = cells.iter().copied().filter(|c| c.setting.method == best.method);
    let most = fastest(of_method)
        .map_or(1.0, |cell| cell.rows_per_second.median)
        .max(1e-9);
    let _ = write!(
        page,
        "<h3>Rows a second of {} over rows of a write and jobs</h3><div class=\"wide {}\"><table><tr><th></th>",
        best.method,
        Colour::Of(best.method).class()
    );
    for rows in sizes {
        let _ = write!(page, "<th>{}</th>", Short(*rows as f64));
    }
    page.push_str("</tr>");
    for jobs in jobs {
        let _ = write!(page, "<tr><td>jobs {jobs}</td>");
        for rows in sizes {
            match find(*jobs, *rows) {
                Some(cell) => {
                    let rate = cell.rows_per_second.median;
                    let share = (rate / most * 60.0).clamp(0.0, 60.0);
                    let _ = write!(
                        page,
                        "<td style=\"background:color-mix(in srgb,var(--of) {share:.0}%,transparent)\">{}</td>",
                        Short(rate)
                    );
                }
                None => page.push_str("<td class=\"soft\">-</td>"),
            }
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div>\n");
}

/// What stands where there is no figure.
const NONE: &str = "-";

fn shown(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

/// A column of the table: its title, and what is there of a cell.
type Column = (&'static str, fn(&Cell) -> String);

/// A share of all processors, where one is known.
fn share(cell: &Cell, of: fn(&Run) -> Option<f64>) -> String {
    shown(cell.median(of).map(|share| format!("{:.0}%", share * 100.0)))
}

fn seconds(cell: &Cell, of: fn(&Run) -> Option<f64>) -> String {
    shown(cell.median(of).map(|seconds| format!("{seconds:.2}")))
}

fn count(cell: &Cell, of: fn(&Run) -> Option<f64>) -> String {
    shown(cell.median(of).map(Short))
}

fn write_time(cell: &Cell, at: usize) -> String {
    let taken = cell.median(|run| times_of(run).get(at).copied());
    shown(taken.map(Time))
}

fn read_time(cell: &Cell, at: usize) -> String {
    shown(cell.read(|reads| reads.request_seconds[at]).map(Time))
}

const COLUMNS: &[Column] = &[
    ("setting", |cell| cell.setting.to_string()),
    ("rows/s", |cell| Short(cell.rows_per_second.median).to_string()),
    ("within", |cell| Within(cell.rows_per_second.spread()).to_string()),
    ("a job", |cell| {
        Short(cell.rows_per_second.median / cell.setting.jobs.max(1) as f64).to_string()
    }),
    ("write p50", |cell| write_time(cell, 0)),
    ("p95", |cell| write_time(cell, 1)),
    ("p99", |cell| write_time(cell, 2)),
    ("reads/s", |cell| {
        shown(cell.read(|reads| reads.keys_per_second).map(Short))
    }),
    ("read p50", |cell| read_time(cell, 0)),
    ("p99", |cell| read_time(cell, 2)),
    ("client CPU s", |cell| seconds(cell, |run| run.client_cpu_seconds)),
    ("of all", |cell| share(cell, |run| run.costs.client_cpu_share)),
    ("server CPU s", |cell| {
        seconds(cell, |run| run.costs.server_cpu_seconds)
    }),
    ("of all", |cell| share(cell, |run| run.costs.server_cpu_share)),
    ("written B a row", |cell| {
        shown(cell.a_row(|run| run.costs.written_bytes).map(Short))
    }),
    ("log flushes", |cell| {
        count(cell, |run| Some(run.costs.log_flushes? as f64))
    }),
    ("client memory", |cell| {
        let found = cell.median(|run| Some(run.costs.client_memory_bytes? as f64));
        shown(found.map(|bytes| format!("{}B", Short(bytes))))
    }),
    ("commits", |cell| count(cell, |run| Some(run.commits as f64))),
    ("statements", |cell| {
        count(cell, |run| Some(run.statements as f64))
    }),
    ("taken", |cell| {
        shown(cell.write_path.as_ref().map(|path| path.taken))
    }),
    ("records a row", |cell| {
        let records = cell.write_path.as_ref().and_then(|path| path.row_records);
        shown(records.map(Short))
    }),
    ("bound by", |cell| cell.bound_by().to_string()),
];

/// All figures of `cells`, without the columns that none of them has.
fn figures(page: &mut String, cells: &[&Cell], recommended: Option<Setting>) {
    let any = |(_, value): &&Column| cells.iter().any(|cell| value(cell) != NONE);
    let columns: Vec<_> = COLUMNS.iter().filter(any).collect();
    page.push_str("<h3>All cells</h3><div class=\"wide\"><table><tr>");
    for (title, _) in &columns {
        let _ = write!(page, "<th>{title}</th>");
    }
    page.push_str("</tr>");
    for cell in cells {
        let class = match recommended == Some(cell.setting) {
            true => " class=\"best\"",
            false => "",
        };
        let _ = write!(page, "<tr{class}>");
        for (_, value) in &columns {
            let _ = write!(page, "<td>{}</td>", escaped(&value(cell)));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div>\n");
}

/// The fastest of each form of table, where several were measured.
fn over_tables(page: &mut String, report: &BenchReport) {
    for of_kind in forms(report) {
        let bar = |form: &Beside| {
            of_cell(
                form.fastest,
                form.table.to_string(),
                form.fastest.rows_per_second.median,
            )
        };
        let title = format!(
            "The fastest into each table, rows a second: {}, {}",
            of_kind.kind, of_kind.durability
        );
        let values: Vec<_> = of_kind.forms.iter().map(bar).collect();
        chart(page, &title, &bars(&title, &values));
    }
}

/// How the fastest of each method bears a longer way, where several were measured.
fn over_distance(page: &mut String, report: &BenchReport) {
    let mut kinds: Vec<_> = report
        .answers
        .iter()
        .map(|answer| Kind {
            round_trip_micros: 0,
            ..answer.kind
        })
        .collect();
    kinds.dedup();
    for kind in kinds {
        let cells: Vec<&Cell> = report
            .cells
            .iter()
            .filter(|cell| {
                let of_cell = cell.setting.kind();
                of_cell
                    == Kind {
                        round_trip_micros: of_cell.round_trip_micros,
                        ..kind
                    }
            })
            .collect();
        let trips = each(&cells, |s| s.round_trip_micros);
        if trips.len() < 2 {
            continue;
        }
        let series = each(&cells, |s| s.method).into_iter().map(|method| {
            let points = trips.iter().filter_map(|trip| {
                let of =
                    |cell: &&Cell| (cell.setting.method, cell.setting.round_trip_micros) == (method, *trip);
                let best = fastest(cells.iter().copied().filter(of))?;
                Some(point(*trip as f64 / 1e3, best))
            });
            Series::measured(method.to_string(), Colour::Of(method), points.collect())
        });
        let title = format!("Rows a second over what a round trip takes longer, {kind}");
        let series: Vec<Series> = series.collect();
        chart(
            page,
            &title,
            &lines(&title, "milliseconds", Axis::Linear, &series),
        );
    }
}

/// The reference over time.
fn reference(page: &mut String, report: &BenchReport) {
    let reference = &report.reference;
    let points = reference.runs.iter().map(|(at, rate)| Point {
        x: *at,
        y: *rate,
        low: *rate,
        high: *rate,
        about: String::new(),
    });
    let series = [Series::measured(
        "rows/s".to_owned(),
        Colour::Plain,
        points.collect(),
    )];
    let title = format!(
        "Noise and drift: {} {}, again and again, over seconds",
        reference.setting.kind(),
        reference.setting
    );
    chart(page, &title, &lines(&title, "seconds", Axis::Elapsed, &series));
    if let Some(steadiness) = reference.steadiness {
        let _ = writeln!(
            page,
            "<p>{} noise, {:+.0}% drift over {} runs</p>",
            Within(steadiness.noise),
            steadiness.drift * 100.0,
            steadiness.samples
        );
    }
}
