//! What has changed from one report to another, beyond noise.

use tonnage_core::report::Grouped;

use super::{
    figures::{BenchReport, Cell},
    offered::slowest,
    setting::Setting,
    statistics::Estimate,
};

/// A cell that both reports have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// What was measured.
    pub setting: Setting,
    /// In the first.
    pub before: Estimate,
    /// In the second.
    pub after: Estimate,
}

impl Compared {
    /// The second over the first.
    pub fn ratio(&self) -> f64 {
        self.after.median / self.before.median.max(f64::MIN_POSITIVE)
    }

    /// Whether it changed: the intervals have no point in common. Of single measurements nobody can tell.
    pub fn changed(&self) -> bool {
        self.before.samples > 1 && self.after.samples > 1 && !self.before.overlaps(&self.after)
    }
}

/// What is compared of two cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Rows a second, of which more is faster.
    RowsPerSecond,
    /// Seconds that 99 % of the writes took at most from when they were due, of which fewer is faster: of reports whose
    /// rows were offered at a rate.
    ResponseSeconds,
}

/// Two reports, cell by cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What of them is compared.
    pub figure: Figure,
    /// The cells that both have, those that changed most first.
    pub cells: Vec<Compared>,
    /// Settings that only the first has.
    pub only_before: Vec<Setting>,
    /// Settings that only the second has.
    pub only_after: Vec<Setting>,
    /// What makes them hard to compare, a sentence each.
    pub warnings: Vec<String>,
}

/// Compares.
pub fn compare(before: &BenchReport, after: &BenchReport) -> Comparison {
    let figure = match (before.rate, after.rate) {
        (Some(_), Some(_)) => Figure::ResponseSeconds,
        _ => Figure::RowsPerSecond,
    };
    let of = |cell: &Cell| match figure {
        Figure::RowsPerSecond => Some(cell.rows_per_second),
        Figure::ResponseSeconds => slowest(cell),
    };
    let find = |cells: &[Cell], setting: &Setting| {
        let cell = cells.iter().find(|c| c.setting == *setting);
        cell.and_then(of)
    };
    let only = |cells: &[Cell], others: &[Cell]| {
        let alone = cells.iter().filter(|c| find(others, &c.setting).is_none());
        alone.map(|c| c.setting).collect()
    };
    let mut cells: Vec<Compared> = before
        .cells
        .iter()
        .filter_map(|cell| {
            Some(Compared {
                setting: cell.setting,
                before: of(cell)?,
                after: find(&after.cells, &cell.setting)?,
            })
        })
        .collect();
    let size = |c: &Compared| (c.changed(), c.ratio().max(f64::MIN_POSITIVE).ln().abs());
    cells.sort_by(|a, b| {
        let ((a_changed, a_size), (b_changed, b_size)) = (size(a), size(b));
        b_changed.cmp(&a_changed).then(b_size.total_cmp(&a_size))
    });
    Comparison {
        figure,
        cells,
        only_before: only(&before.cells, &after.cells),
        only_after: only(&after.cells, &before.cells),
        warnings: warnings(before, after),
    }
}

fn warnings(before: &BenchReport, after: &BenchReport) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut differs = |what: &str, a: String, b: String| {
        if a != b {
            warnings.push(format!("{what}: {a} before, {b} after"));
        }
    };
    differs("database", before.product.clone(), after.product.clone());
    differs(
        "processors of the client",
        before.processors.to_string(),
        after.processors.to_string(),
    );
    let rate = |rate: Option<u64>| rate.map_or_else(|| "none".to_owned(), |rate| Grouped(rate).to_string());
    differs(
        "rows a second that were offered",
        rate(before.rate),
        rate(after.rate),
    );
    differs("ledger kept", before.ledger.to_string(), after.ledger.to_string());
    let rows = |report: &BenchReport| report.own_rows.clone().unwrap_or_else(|| "made up".to_owned());
    differs("rows", rows(before), rows(after));
    differs("seed", before.seed.to_string(), after.seed.to_string());
    differs(
        "rows of a run at most",
        before.rows_max.to_string(),
        after.rows_max.to_string(),
    );
    differs(
        "seconds of a run at most",
        before.run_seconds_max.to_string(),
        after.run_seconds_max.to_string(),
    );
    let reference = |report: &BenchReport| {
        let of = report
            .cells
            .iter()
            .find(|c| c.setting == report.reference.setting);
        of.map(|c| c.rows_per_second)
    };
    if before.reference.setting == after.reference.setting
        && let (Some(a), Some(b)) = (reference(before), reference(after))
        && !a.overlaps(&b)
    {
        warnings.push(format!(
            "the reference itself changed by {:+.0}%: either everything did, or the machine",
            (b.median / a.median.max(f64::MIN_POSITIVE) - 1.0) * 100.0
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{
        answer::tests::run,
        figures::{Bound, Offered, REPORT_VERSION, Reference, Run},
        method::BenchMethod,
        statistics::Estimate,
        touch::Touch,
    };
    use tonnage_core::{
        instruments::TableForm,
        operation::{Durability, Method, Mode},
    };
    use tonnage_formats::generate::Workload;

    fn setting(batch_rows: usize) -> Setting {
        Setting {
            workload: Workload::Journal.into(),
            table: TableForm::default(),
            operation: Mode::Insert,
            touch: Touch::Each,
            reads: 0,
            method: BenchMethod::Load(Method::Array),
            batch_rows,
            jobs: 1,
            durability: Durability::Durable,
            round_trip_micros: 0,
        }
    }

    fn report(cells: &[(usize, &[f64])]) -> BenchReport {
        BenchReport {
            version: REPORT_VERSION,
            product: "Example 1".to_owned(),
            target: "example:".to_owned(),
            started: String::new(),
            processors: 2,
            seconds: 1.0,
            seed: 1,
            rows_max: 1,
            run_seconds_max: 1.0,
            repeats: 3,
            ledger: false,
            single_transaction: false,
            bandwidth: None,
            own_rows: None,
            rate: None,
            databases: 1,
            server_processes: None,
            unmeasured: Vec::new(),
            durability_levels: vec![Durability::Durable],
            answers: Vec::new(),
            cells: cells
                .iter()
                .map(|(rows, samples)| Cell {
                    setting: setting(*rows),
                    rows_per_second: Estimate::of(samples).unwrap(),
                    runs: Vec::new(),
                    write_path: None,
                })
                .collect(),
            ruled_out: Vec::new(),
            reference: Reference {
                setting: setting(1),
                runs: Vec::new(),
                steadiness: None,
            },
            generator: Vec::new(),
            settings_changed: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn only_cells_whose_intervals_lie_apart_have_changed() {
        let before = report(&[
            (10, &[90.0, 100.0, 110.0]),
            (100, &[190.0, 200.0, 210.0]),
            (1_000, &[300.0]),
            (5, &[1.0]),
        ]);
        let mut after = report(&[
            (10, &[108.0, 115.0, 120.0]),
            (100, &[140.0, 150.0, 160.0]),
            (1_000, &[900.0]),
            (7, &[1.0]),
        ]);
        let compared = compare(&before, &after);
        let changed: Vec<_> = compared
            .cells
            .iter()
            .map(|c| (c.setting.batch_rows, c.changed()))
            .collect();
        assert_eq!(changed, [(100, true), (1_000, false), (10, false)]);
        assert!((compared.cells[0].ratio() - 0.75).abs() < 1e-12);
        assert_eq!(compared.only_before, [setting(5)]);
        assert_eq!(compared.only_after, [setting(7)]);
        assert_eq!(compared.warnings, [] as [String; 0]);

        after.product = "Example 2".to_owned();
        after.ledger = true;
        assert_eq!(
            compare(&before, &after).warnings,
            [
                "database: Example 1 before, Example 2 after",
                "ledger kept: false before, true after"
            ]
        );
    }

    #[test]
    fn a_reference_that_changed_warns() {
        let before = report(&[(1, &[100.0, 101.0])]);
        let after = report(&[(1, &[50.0, 51.0])]);
        let warnings = compare(&before, &after).warnings;
        assert!(
            warnings[0].starts_with("the reference itself changed by -50%"),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_report_survives_its_file() {
        let mut report = report(&[(10, &[90.0, 100.0, 110.0])]);
        report.cells[0].runs = vec![run(Bound::ServerCpu)];
        report.cells[0].runs[0].costs.log_flushes = Some(7);
        let text = serde_json::to_string(&report).unwrap();
        assert!(
            text.contains("\"workload\":\"journal\"") && text.contains("\"log_flushes\":7"),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<BenchReport>(&text).unwrap(), report);
    }

    /// A report of a release that did not have these figures yet.
    #[test]
    fn an_older_report_can_be_compared() {
        let mut now = report(&[(10, &[90.0, 100.0, 110.0])]);
        now.cells[0].runs = vec![run(Bound::Database)];
        let mut older = serde_json::to_value(&now).unwrap();
        let without = |value: &mut serde_json::Value, names: &[&str]| {
            let object = value.as_object_mut().unwrap();
            assert!(
                names.iter().all(|name| object.remove(*name).is_some()),
                "{names:?}"
            );
        };
        without(&mut older, &["rate", "server_processes", "unmeasured"]);
        without(
            &mut older["cells"][0]["runs"][0],
            &[
                "client_cpu_share",
                "server_cpu_seconds",
                "server_cpu_share",
                "client_memory_bytes",
                "log_flushes",
                "written_bytes",
                "commit_seconds",
                "opening_seconds",
                "offered",
                "reads",
            ],
        );
        without(&mut older["cells"][0]["setting"], &["reads"]);
        without(
            &mut older["cells"][0]["setting"]["table"],
            &["partitions", "tables"],
        );
        let older: BenchReport = serde_json::from_value(older).unwrap();
        assert_eq!(older, now);
        assert_eq!(compare(&older, &now).cells.len(), 1);
    }

    #[test]
    fn what_was_offered_at_a_rate_is_compared_by_its_time() {
        let of = |millis: [f64; 3]| {
            let mut report = report(&[(10, &[5_000.0; 3])]);
            report.rate = Some(5_000);
            let runs = millis.iter().map(|millis| Run {
                offered: Some(Offered {
                    rows_per_second: 5_000.0,
                    reached: 5_000.0,
                    response_seconds: [0.0, 0.0, millis / 1e3, 0.0],
                }),
                ..run(Bound::Rate)
            });
            report.cells[0].runs = runs.collect();
            report
        };
        let compared = compare(&of([4.0, 5.0, 6.0]), &of([9.0, 10.0, 11.0]));
        assert_eq!(compared.figure, Figure::ResponseSeconds);
        assert!(compared.cells[0].changed() && (compared.cells[0].ratio() - 2.0).abs() < 1e-9);
        let as_fast = compare(&report(&[(10, &[5_000.0; 3])]), &of([9.0, 10.0, 11.0]));
        assert_eq!(as_fast.figure, Figure::RowsPerSecond);
        assert_eq!(
            as_fast.warnings,
            ["rows a second that were offered: none before, 5,000 after"]
        );
    }
}
