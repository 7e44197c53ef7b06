//! The report as one page that opens without a network: answers, charts, figures.

use std::fmt::Write;

use tonnage::{
    measure::{
        BenchReport, Kind, Setting,
        answer::{Short, Time, Within},
        beside::{Beside, forms, unmeasured},
        figures::{Cell, Run},
        published::{Chart, Over},
    },
    operation::Method,
};

use super::{
    overlay,
    svg::{Axis, Point, Series, bars, escaped, lines},
    text::same_kind,
};

/// Colours of text, ground and series: light, and dark where the reader's system is.
const STYLE: &str = "\
:root{--fg:#1d2330;--bg:#fff;--soft:#5d6675;--line:#d8dde6;--mark:#eef3fb;\
--c0:#2563c9;--c1:#c2410c;--c2:#15803d;--c3:#9333ea;--c4:#b45309;--c5:#0e7490;--c6:#be185d;--c7:#4d7c0f}\
@media(prefers-color-scheme:dark){:root{--fg:#e6e9ef;--bg:#14171d;--soft:#9aa4b5;--line:#333a46;--mark:#1e2633;\
--c0:#7aa7f7;--c1:#fb923c;--c2:#4ade80;--c3:#c084fc;--c4:#fbbf24;--c5:#22d3ee;--c6:#f472b6;--c7:#a3e635}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:62rem;margin:2rem auto;\
padding:0 1rem}h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.2rem}h3{font-size:1rem;margin:1.4rem 0 .3rem}\
.answer{font-size:1.15rem;background:var(--mark);padding:.8rem 1rem;border-left:4px solid var(--c0)}\
code{font-family:ui-monospace,monospace;font-size:.9em}pre{overflow-x:auto}.soft{color:var(--soft)}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}\
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th:first-child,td:first-child,th:last-child,td:last-child{text-align:left}tr.best td{background:var(--mark);font-weight:600}\
svg{width:100%;height:auto;max-width:720px;display:block}svg text{font:12px system-ui,sans-serif;fill:var(--fg)}\
svg .end{text-anchor:end}svg .middle{text-anchor:middle}svg .grid{stroke:var(--line)}\
svg polyline{fill:none;stroke-width:2}svg g line{stroke-width:1.5}\
.published polyline,.published line{stroke-dasharray:4 3}.published circle{fill:var(--bg)}\
.c0{stroke:var(--c0);fill:var(--c0)}.c1{stroke:var(--c1);fill:var(--c1)}.c2{stroke:var(--c2);fill:var(--c2)}\
.c3{stroke:var(--c3);fill:var(--c3)}.c4{stroke:var(--c4);fill:var(--c4)}.c5{stroke:var(--c5);fill:var(--c5)}\
.c6{stroke:var(--c6);fill:var(--c6)}.c7{stroke:var(--c7);fill:var(--c7)}";

/// The page.
pub fn page(report: &BenchReport) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>tonnage bench: {product}</title><style>{STYLE}</style></head><body>\n\
         <h1>{product}</h1><p class=\"soft\">{target}, {} client processors; {} cells, {} runs each of at most {} and {} rows; \
         seed {}; {} in all</p>\n",
        report.processors,
        report.cells.len(),
        report.repeats,
        Time(report.run_seconds_max),
        Short(report.rows_max as f64),
        report.seed,
        Time(report.seconds),
        product = escaped(&report.product),
        target = escaped(&report.target),
    );
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
                "<pre><code>tonnage load SOURCE {} -t TABLE {}</code></pre>",
                escaped(&report.target),
                escaped(flags)
            );
        }
        list(&mut page, "Ruled out", &answer.ruled_out);
        list(&mut page, "Weaker promises", &answer.costs);
        let best = answer.recommended.or_else(|| answer.plateau.first().copied());
        let mut durability = report.durability_levels.clone();
        durability.reverse();
        for level in durability {
            let cells: Vec<&Cell> = report
                .cells
                .iter()
                .filter(|cell| {
                    let setting = &cell.setting;
                    (setting.kind(), setting.durability) == (answer.kind, level)
                })
                .collect();
            if let Some(first) = cells.first() {
                let of_level = best.filter(|best| same_kind(best, &first.setting));
                if level != answer.durability {
                    let _ = writeln!(page, "<h2>{}, {level}</h2>", answer.kind);
                }
                charts(&mut page, report, &cells, of_level);
                figures(&mut page, &cells, answer.recommended);
            }
        }
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
    let server = report.server_processes.iter().map(|processes| {
        format!("server CPU is what {processes} and the processes that it started took, on this machine")
    });
    let unmeasured = report
        .unmeasured
        .iter()
        .map(|one| format!("not known: {}: {}", one.what, one.why));
    let notes: Vec<String> = report
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
        .collect();
    list(&mut page, "Notes", &notes);
    page.push_str("</body></html>\n");
    page
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
    let lay = |series: &mut Vec<Series>, of: &[Method], over: Over| {
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
            .filter(|c| c.setting.method != Method::Single)
            .collect::<Vec<_>>(),
        |s| s.batch_rows,
    );

    if sizes.len() > 1 {
        let of_methods = methods.iter().map(|method| {
            let of_jobs = |s: &Setting| s.method == *method && s.jobs == best.jobs;
            (*method, in_order(cells, of_jobs, |s| s.batch_rows as f64))
        });
        let of_methods = of_methods.filter(|(_, points)| !points.is_empty());
        let of_methods =
            of_methods.map(|(method, points)| (method, Series::measured(method.to_string(), points)));
        let (of, mut series): (Vec<Method>, Vec<Series>) = of_methods.unzip();
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
                Method::Single => method.to_string(),
                _ => format!("{method}, {rows} rows"),
            };
            let of_rows = |s: &Setting| s.method == *method && s.batch_rows == rows;
            Series::measured(name, in_order(cells, of_rows, |s| s.jobs as f64))
        });
        let mut series: Vec<Series> = series.collect();
        let published = lay(&mut series, &methods, Over::Jobs);
        let title = "Rows a second over jobs";
        let svg = lines(title, "jobs", Axis::Linear, &series);
        chart(page, title, &(svg + &published));
    }
    if jobs.len() > 1 && sizes.len() > 1 && best.method != Method::Single {
        heat_map(page, cells, &best, &jobs, &sizes);
    }
    let fastest_of = |method: &Method| fastest(cells.iter().copied().filter(|c| c.setting.method == *method));
    let of_each: Vec<&Cell> = methods.iter().filter_map(fastest_of).collect();
    let bar = |cell: &&Cell| (cell.setting.to_string(), cell.rows_per_second.median);
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
    for cell in &of_each {
        for (at, name) in ["p50", "p95", "p99"].into_iter().enumerate() {
            let taken = cell.median(|run| times_of(run).get(at).copied());
            times.push((
                format!("{} {name}", cell.setting),
                taken.unwrap_or_default() * 1e3,
            ));
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
                    (
                        format!("{} {name}", cell.setting),
                        taken.unwrap_or_default() * 1e3,
                    )
                })
        });
        chart(page, title, &bars(title, &times.collect::<Vec<_>>()));
    }
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
            .filter_map(|cell| Some((cell.setting.to_string(), value(cell)?)));
        let values: Vec<_> = values.collect();
        if values.iter().any(|(_, value)| *value > 0.0) {
            chart(page, title, &bars(title, &values));
        }
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
        "<h3>Rows a second of {} over rows of a write and jobs</h3><div class=\"wide\"><table><tr><th></th>",
        best.method
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
                        "<td style=\"background:color-mix(in srgb,var(--c0) {share:.0}%,transparent)\">{}</td>",
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

fn figures(page: &mut String, cells: &[&Cell], recommended: Option<Setting>) {
    page.push_str(
        "<h3>All cells</h3><div class=\"wide\"><table><tr><th>setting</th><th>rows/s</th><th></th><th>a job</th>\
         <th>write p50</th><th>p95</th><th>p99</th><th>reads/s</th><th>read p50</th><th>p99</th><th>client CPU s</th><th>server CPU s</th><th>written B a row</th>\
         <th>log flushes</th><th>client memory</th><th>commits</th><th>statements</th><th>taken</th>\
         <th>records a row</th><th>bound by</th></tr>",
    );
    for cell in cells {
        let class = match recommended == Some(cell.setting) {
            true => " class=\"best\"",
            false => "",
        };
        let write = |at: usize| {
            let taken = cell.median(|run| times_of(run).get(at).copied());
            Time(taken.unwrap_or_default())
        };
        let read = |at: usize| {
            let taken = cell.read(|reads| reads.request_seconds[at]);
            taken.map_or_else(|| "-".to_owned(), |taken| Time(taken).to_string())
        };
        let cpu = |seconds: fn(&Run) -> Option<f64>, share: fn(&Run) -> Option<f64>| {
            processor_time(cell.median(seconds), cell.median(share))
        };
        let told = |of: fn(&Run) -> Option<u64>, unit: &str| {
            let found = cell.median(|run| Some(of(run)? as f64));
            found.map_or_else(|| "-".to_owned(), |found| format!("{}{unit}", Short(found)))
        };
        let written = cell.a_row(|run| run.costs.written_bytes);
        let path = cell.write_path.as_ref();
        let none = || "-".to_owned();
        let taken = path.map_or_else(none, |path| path.taken.to_string());
        let records = path.and_then(|path| path.row_records);
        let records = records.map_or_else(none, |records| Short(records).to_string());
        let count = |of: fn(&Run) -> Option<f64>| Short(cell.median(of).unwrap_or_default());
        let _ = write!(
            page,
            "<tr{class}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td>{}{}<td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{taken}</td><td>{records}</td><td>{}</td></tr>",
            cell.setting,
            Short(cell.rows_per_second.median),
            Within(cell.rows_per_second.spread()),
            Short(cell.rows_per_second.median / cell.setting.jobs.max(1) as f64),
            write(0),
            write(1),
            write(2),
            cell.read(|reads| reads.keys_per_second)
                .map_or_else(none, |keys| Short(keys).to_string()),
            read(0),
            read(2),
            cpu(|run| run.client_cpu_seconds, |run| run.costs.client_cpu_share),
            cpu(
                |run| run.costs.server_cpu_seconds,
                |run| run.costs.server_cpu_share
            ),
            written.map_or_else(none, |written| Short(written).to_string()),
            told(|run| run.costs.log_flushes, ""),
            told(|run| run.costs.client_memory_bytes, "B"),
            count(|run| Some(run.commits as f64)),
            count(|run| Some(run.statements as f64)),
            cell.bound_by(),
        );
    }
    page.push_str("</table></div>\n");
}

/// The fastest of each form of table, where several were measured.
fn over_tables(page: &mut String, report: &BenchReport) {
    for of_kind in forms(report) {
        let bar = |form: &Beside| (form.table.to_string(), form.fastest.rows_per_second.median);
        let title = format!(
            "The fastest into each table, rows a second: {}, {}",
            of_kind.kind, of_kind.durability
        );
        let values: Vec<_> = of_kind.forms.iter().map(bar).collect();
        chart(page, &title, &bars(&title, &values));
    }
}

/// A cell of the table: seconds, and what they are of all processors where a mouse points at them.
fn processor_time(seconds: Option<f64>, share: Option<f64>) -> String {
    let Some(seconds) = seconds else {
        return "<td title=\"not known: see the notes\">-</td>".to_owned();
    };
    let share = share.map_or_else(String::new, |share| {
        format!(" title=\"{:.0}% of all processors\"", share * 100.0)
    });
    format!("<td{share}>{seconds:.2}</td>")
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
            Series::measured(method.to_string(), points.collect())
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
    let series = [Series::measured("rows/s".to_owned(), points.collect())];
    let title = format!(
        "Noise and drift: {} {}, again and again, over seconds",
        reference.setting.kind(),
        reference.setting
    );
    chart(page, &title, &lines(&title, "seconds", Axis::Linear, &series));
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
