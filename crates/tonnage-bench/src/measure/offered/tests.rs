//! The rules, on made-up numbers.

use tonnage_core::operation::{Durability, Method};

use super::*;
use crate::measure::{
    BenchMethod,
    answer::{
        answers,
        tests::{LEVELS, cell, run},
    },
    figures::Bound,
};

/// A cell that was offered 5,000 rows a second, reached so many, and whose slowest writes took so many milliseconds.
fn offered(
    method: impl Into<BenchMethod>,
    (batch_rows, jobs): (usize, usize),
    reached: f64,
    millis: &[f64],
) -> Cell {
    let runs = millis.iter().map(|millis| {
        let seconds = millis / 1e3;
        let offered = Offered {
            rows_per_second: 5_000.0,
            reached,
            response_seconds: [seconds / 4.0, seconds / 2.0, seconds, seconds * 2.0],
        };
        let mut run = run(match offered.holds() {
            true => Bound::Rate,
            false => Bound::LogFlush,
        });
        run.offered = Some(offered);
        run
    });
    Cell {
        runs: runs.collect(),
        ..cell(method, batch_rows, jobs, &[reached])
    }
}

fn decide(cells: &[Cell]) -> Answer {
    let mut answers = answers(&Evidence {
        cells,
        ruled_out: &[],
        steadiness: None,
        reference: &[],
        durability_levels: LEVELS,
        rate: Some(5_000.0),
    });
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

#[test]
fn the_answer_is_about_time_at_the_rate_and_never_about_the_best_rate() {
    let cells = [
        offered(Method::Single, (1, 1), 2_100.0, &[900.0, 950.0]),
        offered(Method::Array, (100, 1), 5_000.0, &[4.8, 5.0, 5.2]),
        offered(Method::Array, (1_000, 1), 5_000.0, &[20.0, 21.0, 22.0]),
        offered(Method::Array, (100, 2), 4_990.0, &[4.7, 4.9, 5.0]),
    ];
    let answer = decide(&cells);
    assert_eq!(answer.recommended, Some(cells[1].setting));
    assert_eq!(
        answer.sentence,
        "array, 100 rows, 1 job at 5k rows/s: 99% of the writes are committed within 5.0ms ±4% of when they are due, \
         half of them within 1.2ms; before, a row waits up to 20ms for its write to be full; 1 larger setting no faster \
         as far as can be told; 3 of 4 settings hold that rate"
    );
    assert_eq!(
        answer.ruled_out,
        [
            "single, 1 job: does not hold it, reached 2.10k rows/s, bound by the log flush",
            "array, 1,000 rows, 1 job: 99% of the writes within 21ms ±5%, 4.2x as long",
        ]
    );
    assert_eq!(answer.plateau, [cells[1].setting, cells[3].setting]);
    assert_eq!(
        answer.flags.as_deref(),
        Some("--method array --batch-rows 100 --jobs 1 --durability durable")
    );
}

#[test]
fn where_no_setting_holds_the_rate_none_is_recommended() {
    let cells = [
        offered(Method::Single, (1, 1), 2_100.0, &[900.0]),
        offered(Method::Single, (1, 2), 3_200.0, &[700.0]),
    ];
    let answer = decide(&cells);
    assert_eq!((answer.recommended, answer.flags), (None, None));
    assert_eq!(
        answer.sentence,
        "no setting that was measured holds 5k rows/s; nearest is single, 2 jobs, which reached 3.20k rows/s, bound by \
         the log flush"
    );
    assert_eq!(answer.ruled_out.len(), 2);
    assert!(answer.plateau.is_empty());
}

#[test]
fn a_single_setting_and_a_weaker_promise_are_told_of() {
    let mut relaxed = offered(Method::Single, (1, 1), 5_000.0, &[0.4]);
    relaxed.setting.durability = Durability::Relaxed;
    let answer = decide(&[relaxed, offered(Method::Single, (1, 1), 5_000.0, &[4.0])]);
    assert_eq!(answer.durability, Durability::Durable);
    assert_eq!(
        answer.sentence,
        "single, 1 job at 5k rows/s: 99% of the writes are committed within 4.0ms (measured once) of when they are due, \
         half of them within 1.0ms; no other setting was measured"
    );
    assert_eq!(
        answer.costs,
        ["relaxed: 99% of the writes within 0.40ms (measured once) (single, 1 job)"]
    );
}

#[test]
fn a_rate_is_held_where_writes_begin_when_they_are_due() {
    let of = |due: u64, began: u64| {
        let millis = std::time::Duration::from_millis;
        Offered::of(1_000, Some((millis(due), millis(began))), [0.0; 4])
    };
    assert_eq!((of(900, 900).reached, of(900, 900).holds()), (1_000.0, true));
    assert_eq!((of(900, 940).holds(), of(900, 960).holds()), (true, false));
    assert_eq!(of(1_000, 4_000).reached, 250.0);
    // Of a single write nothing else can be said.
    assert!(of(0, 0).holds());
    assert!(Offered::of(1_000, None, [0.0; 4]).holds());
}
