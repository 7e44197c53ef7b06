//! Curves of published measurements, to lay over what was measured here.
//!
//! - The figures are those of `published/*.csv`, each with a line on what was measured there. `make experiments` reads the
//!   same files.
//! - Curves are ratios to their own point of one row a write, or of one job: the machines are others, and a rate of theirs
//!   says nothing about one of ours.
//! - A curve is shown with a chart only where rows, operation, distance and what is varied correspond.

use tonnage_core::operation::{Method, Mode};
use tonnage_engine::buffer::Ack;
use tonnage_formats::generate::Workload;

use super::{
    method::BenchMethod,
    setting::{Kind, RowKind},
    touch::Touch,
};

const INSERT_METHODS: &str = include_str!("published/insert_methods.csv");
const BATCH_LATENCY: &str = include_str!("published/batch_latency.csv");
const SHARDED_BATCH: &str = include_str!("published/sharded_batch.csv");

/// Round trips up to this, in microseconds, are within a data centre, as those of E1 were.
const NEAR_MICROS: u64 = 2_000;
/// Those of E2's far run: about 70 ms.
const FAR_MICROS: std::ops::RangeInclusive<u64> = 60_000..=80_000;

/// What a chart has on its x axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Rows of a write.
    BatchRows,
    /// Connections that write at once.
    Jobs,
}

/// A chart that a curve may be shown with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chart {
    /// Its x axis.
    pub over: Over,
    /// What its cells have in common.
    pub kind: Kind,
    /// Their jobs, where these are not its x axis; else 1.
    pub jobs: usize,
    /// Whether each run was one transaction.
    pub single_transaction: bool,
    /// Databases that the rows of a table are spread over.
    pub databases: usize,
}

impl Chart {
    fn is_of(&self, workload: Workload, operations: &[Mode]) -> bool {
        let kind = &self.kind;
        let same_rows = (kind.workload, kind.touch) == (RowKind::Workload(workload), Touch::Each);
        // They went into one table as a whole, and nothing was read meanwhile.
        let same_table = (kind.table.tables, kind.table.partitions) == (1, 0);
        same_rows && same_table && kind.reads == 0 && operations.contains(&kind.operation)
    }

    fn is_bulk_of_one_connection(&self) -> bool {
        let operations = [Mode::Insert, Mode::Update, Mode::Delete];
        self.is_of(Workload::Sbtest, &operations) && self.single_transaction && self.jobs == 1
    }

    fn is_commit_a_batch(&self) -> bool {
        let trip = self.kind.round_trip_micros;
        self.is_of(Workload::Sbtest, &[Mode::Insert]) && !self.single_transaction && trip == 0
    }

    fn is_journal(&self) -> bool {
        let trip = self.kind.round_trip_micros;
        self.is_of(Workload::Journal, &[Mode::Insert]) && trip <= NEAR_MICROS && self.databases == 1
    }
}

/// A published curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The experiment that it belongs to: `E2`.
    pub experiment: &'static str,
    /// What was measured there, a phrase.
    pub source: &'static str,
    /// Which part of that this is, a phrase.
    pub part: &'static str,
    /// The method here that it is compared with.
    pub method: BenchMethod,
    /// Rows of a write or jobs, from 1 up, and rows a second over those of the first point.
    pub ratios: Vec<(u64, f64)>,
}

/// Where a curve is, and what it is compared with.
struct Definition {
    experiment: &'static str,
    file: &'static str,
    over: Over,
    /// The column of its x axis.
    x: &'static str,
    /// The column that tells curves apart, and its value.
    of: (&'static str, &'static str),
    part: &'static str,
    method: BenchMethod,
    corresponds: fn(&Chart) -> bool,
}

/// One of E1: the same table and rows by another method.
const fn of_method(method: BenchMethod, published: &'static str, part: &'static str) -> Definition {
    Definition {
        experiment: "E1",
        file: INSERT_METHODS,
        over: Over::Jobs,
        x: "workers",
        of: ("method", published),
        part,
        method,
        corresponds: Chart::is_journal,
    }
}

/// One of E2: bulk writes on one connection, over a link.
const fn of_link(link: &'static str, part: &'static str, corresponds: fn(&Chart) -> bool) -> Definition {
    Definition {
        experiment: "E2",
        file: BATCH_LATENCY,
        over: Over::BatchRows,
        x: "batch_rows",
        of: ("link", link),
        part,
        method: BenchMethod::Load(Method::Array),
        corresponds,
    }
}

/// One of E4: a commit a batch, into one shard or into several.
const fn of_shards(
    (over, x): (Over, &'static str),
    series: &'static str,
    part: &'static str,
    corresponds: fn(&Chart) -> bool,
) -> Definition {
    Definition {
        experiment: "E4",
        file: SHARDED_BATCH,
        over,
        x,
        of: ("series", series),
        part,
        method: BenchMethod::Load(Method::Array),
        corresponds,
    }
}

const BATCH_ROWS: (Over, &str) = (Over::BatchRows, "batch_rows");
const JOBS: (Over, &str) = (Over::Jobs, "jobs");

const DEFINITIONS: &[Definition] = &[
    of_method(BenchMethod::Load(Method::Single), "single", "single"),
    of_method(BenchMethod::Load(Method::Batch), "batch", "batch"),
    of_method(BenchMethod::Load(Method::Array), "array", "array"),
    of_method(
        BenchMethod::Buffer(Ack::Accepted),
        "fast",
        "fast, which answers from memory and gathers rows in the server, beside the buffer that does so in the client",
    ),
    of_link("local", "on the server", |chart| {
        chart.is_bulk_of_one_connection() && chart.kind.round_trip_micros == 0
    }),
    of_link("wan", "about 70 ms away", |chart| {
        chart.is_bulk_of_one_connection() && FAR_MICROS.contains(&chart.kind.round_trip_micros)
    }),
    of_shards(
        BATCH_ROWS,
        "unsharded_batch",
        "one shard, 16 jobs",
        is_of_one_shard,
    ),
    of_shards(
        BATCH_ROWS,
        "sharded_batch_split",
        "32 shards, 32 jobs",
        is_of_several,
    ),
    of_shards(
        JOBS,
        "unsharded_jobs",
        "one shard, 1,000 rows a batch",
        is_of_one_shard,
    ),
    of_shards(
        JOBS,
        "sharded_jobs",
        "32 shards, 1,000 rows a batch",
        is_of_several,
    ),
];

fn is_of_one_shard(chart: &Chart) -> bool {
    chart.is_commit_a_batch() && chart.databases == 1
}

fn is_of_several(chart: &Chart) -> bool {
    chart.is_commit_a_batch() && chart.databases > 1
}

impl Definition {
    /// None where the file is not as it is thought to be.
    fn curve(&self) -> Option<Curve> {
        let mut lines = self.file.lines();
        let (_, source) = lines.next()?.strip_prefix("# Published run")?.split_once(": ")?;
        let names: Vec<&str> = lines.next()?.split(',').collect();
        let place = |name: &str| names.iter().position(|one| *one == name);
        let (x, y, of) = (place(self.x)?, place("rows_per_second")?, place(self.of.0)?);
        let mut points: Vec<(u64, f64)> = Vec::new();
        for line in lines {
            let values: Vec<&str> = line.split(',').collect();
            if *values.get(of)? == self.of.1 {
                points.push((values.get(x)?.parse().ok()?, values.get(y)?.parse().ok()?));
            }
        }
        let (_, first) = *points.first().filter(|(x, _)| *x == 1)?;
        Some(Curve {
            experiment: self.experiment,
            source: source.trim_end_matches('.'),
            part: self.part,
            method: self.method,
            ratios: points.into_iter().map(|(x, rate)| (x, rate / first)).collect(),
        })
    }
}

/// The curves that correspond to a chart; none for most.
pub fn curves(chart: &Chart) -> Vec<Curve> {
    let corresponding = DEFINITIONS
        .iter()
        .filter(|one| one.over == chart.over && (one.corresponds)(chart));
    corresponding.filter_map(Definition::curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonnage_core::instruments::TableForm;

    fn chart(over: Over, workload: Workload) -> Chart {
        Chart {
            over,
            kind: Kind {
                workload: workload.into(),
                table: TableForm::default(),
                operation: Mode::Insert,
                touch: Touch::Each,
                reads: 0,
                round_trip_micros: 0,
            },
            jobs: 1,
            single_transaction: false,
            databases: 1,
        }
    }

    #[test]
    fn every_curve_can_be_read_from_its_file() {
        for one in DEFINITIONS {
            let curve = one.curve().unwrap_or_else(|| panic!("{:?}", one.of));
            assert!(curve.source.len() > 20, "{}", curve.source);
            assert!(curve.ratios.len() > 6 && curve.ratios[0] == (1, 1.0), "{curve:?}");
            assert!(curve.ratios.is_sorted_by(|a, b| a.0 < b.0), "{curve:?}");
        }
    }

    #[test]
    fn curves_are_ratios_to_their_own_first_point() {
        let ratio = |curve: &Curve, x: u64| {
            let point = curve.ratios.iter().find(|point| point.0 == x);
            point.map(|point| point.1)
        };
        let methods = curves(&chart(Over::Jobs, Workload::Journal));
        let names: Vec<BenchMethod> = methods.iter().map(|curve| curve.method).collect();
        assert_eq!(
            names,
            [
                BenchMethod::Load(Method::Single),
                BenchMethod::Load(Method::Batch),
                BenchMethod::Load(Method::Array),
                BenchMethod::Buffer(Ack::Accepted)
            ]
        );
        assert_eq!(ratio(&methods[2], 24), Some(118_769.0 / 6_509.0));
        let unsharded = curves(&chart(Over::BatchRows, Workload::Sbtest));
        assert_eq!(unsharded.len(), 1);
        assert_eq!(ratio(&unsharded[0], 1_000), Some(210_644.0 / 5_397.0));
    }

    #[test]
    fn a_curve_stands_only_beside_what_it_is_of() {
        let batches = chart(Over::BatchRows, Workload::Sbtest);
        let one_commit = Chart {
            single_transaction: true,
            ..batches
        };
        let away = |chart: Chart, millis: u64| Chart {
            kind: Kind {
                round_trip_micros: millis * 1_000,
                ..chart.kind
            },
            ..chart
        };
        let operation = |chart: Chart, operation: Mode| Chart {
            kind: Kind {
                operation,
                ..chart.kind
            },
            ..chart
        };
        let mixed = |chart: Chart| Chart {
            kind: Kind {
                reads: 50,
                ..chart.kind
            },
            ..chart
        };
        let dealt = |chart: Chart, (tables, partitions): (usize, usize)| Chart {
            kind: Kind {
                table: TableForm {
                    tables,
                    partitions,
                    ..chart.kind.table
                },
                ..chart.kind
            },
            ..chart
        };
        let cases: &[(Chart, &[&str])] = &[
            (batches, &["one shard, 16 jobs"]),
            (mixed(batches), &[]),
            (dealt(batches, (2, 0)), &[]),
            (mixed(chart(Over::Jobs, Workload::Journal)), &[]),
            (dealt(chart(Over::Jobs, Workload::Journal), (1, 4)), &[]),
            (Chart { jobs: 4, ..batches }, &["one shard, 16 jobs"]),
            (
                Chart {
                    databases: 4,
                    ..batches
                },
                &["32 shards, 32 jobs"],
            ),
            (away(batches, 70), &[]),
            (operation(batches, Mode::Update), &[]),
            (one_commit, &["on the server"]),
            (operation(one_commit, Mode::Delete), &["on the server"]),
            (operation(one_commit, Mode::Upsert), &[]),
            (away(one_commit, 70), &["about 70 ms away"]),
            (away(one_commit, 1), &[]),
            (
                Chart {
                    jobs: 2,
                    ..one_commit
                },
                &[],
            ),
            (
                chart(Over::Jobs, Workload::Sbtest),
                &["one shard, 1,000 rows a batch"],
            ),
            (away(chart(Over::Jobs, Workload::Journal), 70), &[]),
            (chart(Over::BatchRows, Workload::Journal), &[]),
            (chart(Over::Jobs, Workload::Readings), &[]),
            (chart(Over::BatchRows, Workload::Ycsb), &[]),
        ];
        for (chart, parts) in cases {
            let found: Vec<&str> = curves(chart).iter().map(|curve| curve.part).collect();
            assert_eq!(&found, parts, "{chart:?}");
        }
        assert_eq!(curves(&away(chart(Over::Jobs, Workload::Journal), 1)).len(), 4);
    }
}
