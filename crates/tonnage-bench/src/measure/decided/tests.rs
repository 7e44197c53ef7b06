//! What is decided, on made-up numbers.

use tonnage_core::operation::Method;
use tonnage_formats::generate::random::{Random, base};

use super::*;
use crate::measure::answer::tests::cell;

/// Normal numbers with a mean of 0 and a deviation of 1 (Box and Muller).
struct Normal(Random);

impl Normal {
    fn next(&mut self) -> f64 {
        let mut uniform = || (self.0.below(1 << 52) + 1) as f64 / (1_u64 << 52) as f64;
        let (a, b) = (uniform(), uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

/// Cells of these true rates, measured in rounds that share a factor, each run with noise of its own.
fn measured(rates: &[(Method, usize, usize, f64)], rounds: usize, noise: f64, seed: u64) -> Vec<Cell> {
    let mut normal = Normal(Random::of_row(base(seed, 7), 0));
    let shared: Vec<f64> = (0..rounds).map(|_| (0.5 * normal.next()).exp()).collect();
    let one = |(method, rows, jobs, rate): &(Method, usize, usize, f64)| {
        let samples: Vec<f64> = shared
            .iter()
            .map(|s| rate * s * (noise * normal.next()).exp())
            .collect();
        cell(*method, *rows, *jobs, &samples)
    };
    rates.iter().map(one).collect()
}

fn lines(cells: &[Cell]) -> Vec<Decided> {
    let all: Vec<&Cell> = cells.iter().collect();
    order(&all, Noise::of(cells, &[]))
}

fn found<'a>(decided: &'a [Decided], what: &str) -> &'a Decided {
    decided
        .iter()
        .find(|one| one.what == what)
        .unwrap_or_else(|| panic!("{what} in {decided:?}"))
}

#[test]
fn a_hundredfold_is_told_on_a_machine_whose_rounds_differ_by_half() {
    let rates = [
        (Method::Single, 1, 1, 500.0),
        (Method::Native, 1_000, 1, 50_000.0),
        (Method::Native, 10_000, 1, 51_000.0),
    ];
    for seed in 0..50 {
        let cells = measured(&rates, 3, 0.3, seed);
        let decided = lines(&cells);
        let native = found(&decided, "native over single");
        assert_eq!(native.verdict, Verdict::Faster, "{native}");
        let low = native.ratio.expect("an interval").low;
        assert!(low > 5.0 && low < 150.0, "{native}");
        let shown = native.to_string();
        assert!(
            shown.starts_with("native over single: yes, ") && shown.contains("x or more ("),
            "{shown}"
        );
    }
}

#[test]
fn what_is_not_so_is_seldom_decided_and_what_is_is_in_the_interval() {
    let equal = [
        (Method::Native, 1_000, 1, 50_000.0),
        (Method::Native, 10_000, 1, 50_000.0),
        (Method::Array, 1_000, 1, 40_000.0),
    ];
    let (mut wrong, mut outside) = (0, 0);
    for seed in 0..500 {
        let cells = measured(&equal, 4, 0.2, seed);
        let decided = lines(&cells);
        let sizes = decided.iter().find(|one| one.what.ends_with("rows"));
        wrong += usize::from(sizes.is_some_and(|one| one.verdict == Verdict::Faster));
        let noise = Noise::of(&cells, &[]).expect("a variance");
        let (ratio, _) = noise
            .ratio(&rates(&cells[0]), &rates(&cells[2]))
            .expect("a ratio");
        outside += usize::from(!(ratio.low..=ratio.high).contains(&1.25));
    }
    // Of 500 one in a hundred is 5; three times as many are allowed for.
    assert!(wrong <= 15 && outside <= 15, "{wrong} wrong, {outside} outside");
}

#[test]
fn what_cannot_be_told_has_a_bound_and_says_what_would_tell() {
    let cells = [
        cell(Method::Native, 1_000, 1, &[100.0, 103.0, 98.0]),
        cell(Method::Native, 10_000, 1, &[104.0, 101.0, 108.0]),
    ];
    let decided = lines(&cells);
    let sizes = found(&decided, "10,000 over 1,000 rows");
    assert_eq!(sizes.verdict, Verdict::Open);
    let runs = sizes.runs.expect("a number of runs");
    assert!((4..=100).contains(&runs), "{sizes}");
    assert!(
        sizes
            .to_string()
            .starts_with("10,000 over 1,000 rows: cannot tell, ")
            && sizes.to_string().contains(&format!(
                "% apart at most; --repeat {runs} would tell if they are 4% apart"
            )),
        "{sizes}"
    );
    // So many runs do tell.
    let more =
        |samples: [f64; 3]| -> Vec<f64> { samples.into_iter().cycle().take(2 * runs as usize).collect() };
    let cells = [
        cell(Method::Native, 1_000, 1, &more([100.0, 103.0, 98.0])),
        cell(Method::Native, 10_000, 1, &more([104.0, 101.0, 108.0])),
    ];
    assert_eq!(
        found(&lines(&cells), "10,000 over 1,000 rows").verdict,
        Verdict::Faster
    );
}

#[test]
fn equal_settings_are_called_equal_once_that_is_known() {
    let samples: Vec<f64> = (0..20).map(|at| 100.0 + f64::from(at % 3)).collect();
    let shifted: Vec<f64> = (0..20).map(|at| 100.0 + f64::from((at + 1) % 3)).collect();
    let cells = [
        cell(Method::Array, 100, 1, &samples),
        cell(Method::Array, 100, 2, &shifted),
    ];
    let decided = lines(&cells);
    assert_eq!(decided[0].verdict, Verdict::Equal, "{}", decided[0]);
    assert!(decided[0].to_string().contains(": equal, "), "{}", decided[0]);
}

#[test]
fn one_run_of_each_tells_nothing_by_itself_and_something_beside_a_reference() {
    let cells = [
        cell(Method::Single, 1, 1, &[100.0]),
        cell(Method::Array, 100, 1, &[9_000.0]),
    ];
    let decided = lines(&cells);
    assert_eq!((decided[0].verdict, decided[0].ratio), (Verdict::Open, None));
    assert_eq!(
        decided[0].to_string(),
        "array over single: cannot tell, as each was measured once; --repeat 3 gives an interval"
    );
    let reference = [900.0, 1_000.0, 950.0, 1_100.0, 1_000.0];
    let noise = Noise::of(&cells, &reference);
    let decided = order(&cells.iter().collect::<Vec<_>>(), noise);
    assert_eq!(decided[0].verdict, Verdict::Faster, "{}", decided[0]);
}

#[test]
fn candidates_are_those_that_may_be_as_fast_and_the_regret_bounds_them() {
    let cells = [
        cell(Method::Single, 1, 1, &[10.0, 14.0, 9.0]),
        cell(Method::Native, 1_000, 1, &[900.0, 1_400.0, 1_000.0]),
        cell(Method::Native, 10_000, 1, &[1_000.0, 1_300.0, 1_100.0]),
    ];
    let noise = Noise::of(&cells, &[]);
    let all: Vec<&Cell> = cells.iter().collect();
    let left = candidates(&all, noise);
    let sizes: Vec<usize> = left.iter().map(|cell| cell.setting.batch_rows).collect();
    assert_eq!(sizes, [10_000, 1_000]);
    let most = regret(&left, noise).expect("a bound");
    assert!(most > 1.0 && most < 2.0, "{most}");
    assert_eq!(regret(&left[..1], noise), Some(1.0));
}
