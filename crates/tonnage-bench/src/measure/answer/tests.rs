//! The rules, on made-up numbers.

use tonnage_core::{
    instruments::TableForm,
    operation::{Method, Mode},
};
use tonnage_engine::buffer::Ack;
use tonnage_formats::generate::Workload;

use super::*;
use crate::measure::{
    figures::{Acknowledged, Costs, Reads, Run},
    touch::Touch,
};

pub(in crate::measure) const LEVELS: &[Durability] = &[Durability::Relaxed, Durability::Durable];

pub(in crate::measure) fn cell(
    method: impl Into<BenchMethod>,
    batch_rows: usize,
    jobs: usize,
    samples: &[f64],
) -> Cell {
    Cell {
        setting: Setting {
            workload: Workload::Sbtest.into(),
            table: TableForm::default(),
            operation: Mode::Insert,
            touch: Touch::Each,
            reads: 0,
            method: method.into(),
            batch_rows,
            jobs,
            durability: Durability::Durable,
            round_trip_micros: 0,
        },
        rows_per_second: Estimate::of(samples).unwrap(),
        runs: samples
            .iter()
            .map(|rate| Run {
                rows_per_second: *rate,
                ..run(Bound::Database)
            })
            .collect(),
        write_path: None,
    }
}

pub(in crate::measure) fn run(bound_by: Bound) -> Run {
    Run {
        at_seconds: 0.0,
        rows: 1_000,
        seconds: 1.0,
        rows_per_second: 1_000.0,
        write_seconds: [0.0; 4],
        client_cpu_seconds: None,
        bytes_sent: 0,
        statements: 0,
        commits: 0,
        retries: 0,
        disk_bytes: None,
        log_bytes: None,
        round_trips: None,
        bound_by,
        costs: Costs::default(),
        offered: None,
        reads: None,
        acknowledged: None,
    }
}

fn decide(cells: &[Cell]) -> Answer {
    with_noise(cells, 0.02)
}

fn with_noise(cells: &[Cell], noise: f64) -> Answer {
    let steadiness = Some(Steadiness {
        noise,
        drift: 0.0,
        samples: 9,
    });
    let varied = |at| if at % 2 == 0 { 1.0 - noise } else { 1.0 + noise };
    let reference: Vec<f64> = (0..9).map(varied).collect();
    let evidence = Evidence {
        cells,
        ruled_out: &[],
        steadiness,
        reference: &reference,
        durability_levels: LEVELS,
        rate: None,
    };
    let mut answers = answers(&evidence);
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

fn shown(answer: &Answer) -> String {
    answer
        .recommended
        .map_or_else(|| "none".to_owned(), |s| s.to_string())
}

/// Samples that lie so close that no two cells overlap unless they are equal.
fn about(rate: f64) -> [f64; 3] {
    [rate * 0.999, rate, rate * 1.001]
}

#[test]
fn the_smallest_setting_within_five_percent_of_the_fastest_wins() {
    let cells = [
        cell(Method::Single, 1, 1, &about(8_750.0)),
        cell(Method::Array, 100, 1, &about(150_000.0)),
        cell(Method::Array, 500, 1, &about(203_000.0)),
        cell(Method::Array, 1_000, 1, &about(210_000.0)),
        cell(Method::Array, 10_000, 1, &about(205_000.0)),
        cell(Method::Array, 50_000, 1, &about(170_000.0)),
        cell(Method::Array, 1_000, 2, &about(213_000.0)),
    ];
    let answer = decide(&cells);
    assert_eq!(shown(&answer), "array, 500 rows, 1 job");
    assert_eq!(
        answer.sentence,
        "array, 500 rows, 1 job: 203k rows/s ±0.1%; anything from 500 to 10,000 rows is within 5%; \
         bound by the database; 23x single-row inserts"
    );
    assert_eq!(
        answer.flags.as_deref(),
        Some("--method array --batch-rows 500 --jobs 1 --durability durable")
    );
    assert_eq!(answer.plateau.len(), 4);
    assert_eq!(
        answer.ruled_out,
        [
            "single: 8.75k rows/s ±0.1% at best (single, 1 job), 23x slower",
            "2 jobs: 213k rows/s ±0.1% at best (array, 1,000 rows, 2 jobs), no faster as far as can be told, and larger",
            "100 rows: 150k rows/s ±0.1%, 26% slower",
            "50,000 rows: 170k rows/s ±0.1%, 16% slower",
        ]
    );
}

#[test]
fn what_is_recommended_was_measured() {
    let sizes = [(10, 50.0), (30, 80.0), (3_000, 100.0), (90_000, 97.0)];
    let cells: Vec<Cell> = sizes
        .iter()
        .map(|(rows, rate)| cell(Method::Native, *rows, 3, &about(*rate)))
        .collect();
    let answer = decide(&cells);
    assert!(cells.iter().any(|c| Some(c.setting) == answer.recommended));
    assert_eq!(shown(&answer), "native, 3,000 rows, 3 jobs");
    assert!(
        answer
            .plateau
            .iter()
            .all(|s| cells.iter().any(|c| c.setting == *s))
    );
}

#[test]
fn overlapping_intervals_are_called_equal() {
    let cells = [
        cell(Method::Array, 100, 1, &[80.0, 90.0, 101.0]),
        cell(Method::Array, 1_000, 1, &[99.0, 105.0, 110.0]),
    ];
    let answer = decide(&cells);
    assert_eq!(shown(&answer), "array, 100 rows, 1 job");
    assert!(
        answer
            .sentence
            .contains("anything from 100 to 1,000 rows is as fast as can be told"),
        "{}",
        answer.sentence
    );
    let apart = [
        cell(Method::Array, 100, 1, &[80.0, 90.0, 95.0]),
        cell(Method::Array, 1_000, 1, &[99.0, 105.0, 110.0]),
    ];
    assert_eq!(shown(&decide(&apart)), "array, 1,000 rows, 1 job");
}

#[test]
fn a_noisy_run_is_answered_as_far_as_it_is_decided() {
    let cells = [
        cell(Method::Array, 100, 1, &about(100.0)),
        cell(Method::Array, 1_000, 1, &about(500.0)),
    ];
    let answer = with_noise(&cells, 0.4);
    assert_eq!(answer.recommended, Some(cells[1].setting));
    assert_eq!(
        answer.sentence,
        "array, 1,000 rows, 1 job at 500 rows/s ±0.1%; the same cell varied by ±40% over 9 runs"
    );
    // Of two sizes nothing is known, but of the method.
    let cells = [
        cell(Method::Single, 1, 1, &[8.0, 13.0, 10.0]),
        cell(Method::Native, 1_000, 1, &[700.0, 1_400.0, 1_000.0]),
        cell(Method::Native, 10_000, 1, &[1_600.0, 900.0, 1_100.0]),
    ];
    let answer = with_noise(&cells, 0.4);
    assert_eq!(answer.recommended, None);
    assert_eq!(answer.flags.as_deref(), Some("--method native --jobs 1"));
    assert!(
        answer.sentence.starts_with(
            "native, 1 job; among 2 of 3 settings that may be the best the fastest seen is native, 10,000 rows, 1 job at \
             1.10k rows/s ±32%, and none is more than "
        ),
        "{}",
        answer.sentence
    );
    let lines: Vec<String> = answer.order.iter().map(ToString::to_string).collect();
    assert!(
        lines[0].starts_with("native over single: yes, ") && lines[0].contains("x or more (1"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("10,000 over 1,000 rows: cannot tell, "),
        "{lines:?}"
    );
}

#[test]
fn a_run_that_decides_nothing_says_so_and_recommends_nothing() {
    let cells = [
        cell(Method::Array, 100, 1, &[10.0, 100.0, 400.0]),
        cell(Method::Native, 1_000, 2, &[300.0, 50.0, 110.0]),
    ];
    let answer = decide(&cells);
    assert_eq!((answer.recommended, answer.flags), (None, None));
    assert!(
        answer.sentence.starts_with(
            "too noisy to tell one setting; among 2 settings that may be the best the fastest seen is "
        ),
        "{}",
        answer.sentence
    );
    // Of one alone there is nothing to tell.
    let wide = [cell(Method::Array, 100, 1, &[10.0, 100.0, 400.0])];
    assert_eq!(decide(&wide).recommended, Some(wide[0].setting));
}

#[test]
fn a_buffer_is_answered_apart_and_compared_with_single_rows() {
    let put = |ack, rate: f64| {
        let mut cell = cell(BenchMethod::Buffer(ack), 1, 4, &about(rate));
        for run in &mut cell.runs {
            run.write_seconds = [0.000_01, 0.000_1, 0.000_2, 0.01];
            run.acknowledged = Some(Acknowledged {
                rows_per_second: 2.0 * rate,
                behind_seconds: 0.5,
            });
        }
        cell
    };
    let cells = [
        cell(Method::Single, 1, 4, &about(1_000.0)),
        cell(Method::Array, 1_000, 4, &about(50_000.0)),
        put(Ack::Accepted, 90_000.0),
        put(Ack::Committed, 800.0),
    ];
    let answer = decide(&cells);
    assert_eq!(answer.recommended, Some(cells[1].setting));
    assert!(
        answer.ruled_out.iter().all(|line| !line.contains("buffer")),
        "{:?}",
        answer.ruled_out
    );
    assert_eq!(answer.buffer.len(), 2);
    let told = &answer.buffer[0];
    assert!(
        told.starts_with(
            "buffer-accepted, 4 producers: 90k rows/s ±0.1% in the table, answered at 180k rows/s, 99% of the puts within \
             0.20ms; buffer-accepted over single: yes, "
        ),
        "{told}"
    );
    assert!(
        answer.buffer[1].contains("; single over buffer-committed: yes, "),
        "{:?}",
        answer.buffer
    );
    // By themselves they are what there is to choose among.
    let answer = decide(&cells[2..]);
    assert_eq!(answer.flags.as_deref(), Some("--ack accepted"));
}

#[test]
fn weaker_promises_are_told_of_and_never_recommended() {
    let mut relaxed = cell(Method::Array, 100, 1, &about(300.0));
    relaxed.setting.durability = Durability::Relaxed;
    let cells = [relaxed, cell(Method::Array, 100, 1, &about(100.0))];
    let answer = decide(&cells);
    assert_eq!(answer.durability, Durability::Durable);
    assert_eq!(
        answer.costs,
        ["relaxed: 300 rows/s ±0.1% at best (array, 100 rows, 1 job), 3.0x"]
    );
    let mut alike = cell(Method::Array, 100, 1, &about(100.05));
    alike.setting.durability = Durability::Relaxed;
    let cells = [alike, cell(Method::Array, 100, 1, &about(100.0))];
    assert!(decide(&cells).costs[0].ends_with("a weaker promise gains nothing"));
}

#[test]
fn what_the_generator_held_back_is_labelled() {
    let mut cells = [cell(Method::Native, 100, 1, &about(100.0))];
    cells[0].runs = vec![run(Bound::Generator), run(Bound::Generator), run(Bound::Database)];
    let sentence = decide(&cells).sentence;
    assert!(
        sentence.contains("bound by the generator of rows, so the database may bear more"),
        "{sentence}"
    );
    assert!(
        sentence.contains("no other batch size was measured"),
        "{sentence}"
    );
}

#[test]
fn kinds_are_answered_apart_and_reasons_once() {
    let mut upsert = cell(Method::Array, 100, 1, &about(50.0));
    upsert.setting.operation = Mode::Upsert;
    let mut single = cell(Method::Single, 1, 1, &about(5.0));
    single.setting.operation = Mode::Upsert;
    let cells = [cell(Method::Array, 100, 1, &about(100.0)), upsert, single];
    let out = |jobs| RuledOut {
        setting: Setting {
            jobs,
            ..cells[0].setting
        },
        why: "it has one writer".to_owned(),
    };
    let found = answers(&Evidence {
        cells: &cells,
        ruled_out: &[out(2), out(4)],
        steadiness: None,
        reference: &[],
        durability_levels: LEVELS,
        rate: None,
    });
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[0].ruled_out,
        ["array, 100 rows, 2 jobs; array, 100 rows, 4 jobs: it has one writer"]
    );
    assert!(
        found[1].sentence.ends_with("10x single-row upserts"),
        "{}",
        found[1].sentence
    );
    assert_eq!(
        found[1].flags.as_deref(),
        Some("--mode upsert --method array --batch-rows 100 --jobs 1 --durability durable")
    );
}

#[test]
fn a_mix_is_answered_apart_and_tells_of_its_reads() {
    let mixed = |batch_rows, rate: f64| {
        let mut cell = cell(Method::Array, batch_rows, 1, &about(rate));
        cell.setting.reads = 95;
        cell.runs[0].reads = Some(Reads {
            keys: 19_000,
            distinct: 18_000,
            rows: 18_000,
            requests: 190,
            retries: 0,
            keys_per_second: 19.0 * rate,
            request_seconds: [0.001, 0.002, 0.0031, 0.009],
        });
        cell
    };
    let cells = [
        cell(Method::Array, 100, 1, &about(90_000.0)),
        mixed(100, 900.0),
        mixed(1_000, 1_000.0),
    ];
    let found = answers(&Evidence {
        cells: &cells,
        ruled_out: &[],
        steadiness: None,
        reference: &[],
        durability_levels: LEVELS,
        rate: None,
    });
    let kinds: Vec<_> = found.iter().map(|answer| answer.kind.to_string()).collect();
    assert_eq!(kinds, ["sbtest insert", "sbtest insert, 95% reads"]);
    assert_eq!(found[0].recommended, Some(cells[0].setting));
    assert_eq!(found[1].recommended, Some(cells[2].setting));
    assert_eq!(
        found[1].sentence,
        "array, 1,000 rows, 1 job: 1k rows/s ±0.1% beside 19k reads/s (99% of the requests within 3.1ms); no other \
         batch size is as fast; bound by the database"
    );
    assert!(found[0].ruled_out.is_empty(), "{:?}", found[0].ruled_out);
}

#[test]
fn the_flags_for_several_tables_are_those_of_the_load_of_each() {
    let mut four = cell(Method::Native, 100, 8, &about(500.0));
    four.setting.table.tables = 4;
    let answer = decide(&[four]);
    assert_eq!(
        answer.flags.as_deref(),
        Some("--method native --batch-rows 100 --jobs 2 --durability durable")
    );
    assert!(
        answer
            .sentence
            .ends_with("; by 4 such loads at once, one into each table"),
        "{}",
        answer.sentence
    );
}

#[test]
fn numbers_are_short() {
    let cases = [
        (0.0, "0"),
        (7.0, "7"),
        (8.25, "8.25"),
        (850.0, "850"),
        (999.6, "1.00k"),
        (9_800.0, "9.80k"),
        (12_340.0, "12.3k"),
        (210_400.0, "210k"),
        (1_250_000.0, "1.25M"),
    ];
    for (value, short) in cases {
        assert_eq!(Short(value).to_string(), short, "{value}");
    }
    assert_eq!(Within(0.031).to_string(), "±3%");
    assert_eq!(Within(0.004).to_string(), "±0.4%");
    let times = [
        (0.000_31, "0.31ms"),
        (0.0042, "4.2ms"),
        (0.5, "500ms"),
        (1.0, "1s"),
        (1.54, "1.5s"),
        (45.2, "45s"),
        (180.0, "3min"),
    ];
    for (seconds, short) in times {
        assert_eq!(Time(seconds).to_string(), short);
    }
}
