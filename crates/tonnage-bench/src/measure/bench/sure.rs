//! Measuring until it is known which setting is best for a goal, or time is over. Pure functions over cells; rounds are in
//! the parent.
//!
//! - Settings are dropped round by round: those that do not meet the goal, and those that the fastest one which meets it is
//!   faster than by more than 5 %, with 99 % certainty. So what is left is measured ever more often.
//! - It is sure once all that is left is within 5 % of the fastest; of these the smallest is recommended.

use std::time::Duration;

use tonnage_core::report::Counted;

use super::super::{
    answer::{Answer, Evidence, Measured, Time, WITHIN, by_reason},
    decided::{Noise, fastest, order, rates},
    figures::{Cell, Run},
    setting::Setting,
};

/// Rounds after which a setting may be dropped.
pub(super) const ROUNDS_LEAST: usize = 2;

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The most rows a second.
    Throughput,
    /// The most rows a second where 99 % of the writes take at most so long.
    Latency(Duration),
    /// The most rows a second where the database's processes take at most this share of all processors of the machine, from
    /// 0 to 1.
    Load(f64),
}

impl Goal {
    /// What it bounds, in a run; none where that is not known of it.
    fn of(self, run: &Run) -> Option<f64> {
        match self {
            Self::Throughput => Some(0.0),
            Self::Latency(_) => Some(run.write_seconds[2]),
            Self::Load(_) => run.costs.server_cpu_share,
        }
    }

    fn limit(self) -> f64 {
        match self {
            Self::Throughput => f64::INFINITY,
            Self::Latency(limit) => limit.as_secs_f64(),
            Self::Load(limit) => limit,
        }
    }

    /// What a cell came to of it; none of a goal without a bound.
    fn told(self, cell: &Cell) -> Option<String> {
        let value = cell.median(|run| self.of(run))?;
        match self {
            Self::Throughput => None,
            Self::Latency(limit) => Some(format!(
                "99% of the writes within {} ({} asked for)",
                Time(value),
                Time(limit.as_secs_f64())
            )),
            Self::Load(limit) => Some(format!(
                "the database took {:.0}% of the processors ({:.0}% asked for)",
                value * 100.0,
                limit * 100.0
            )),
        }
    }

    /// Whether most runs of a cell keep to it; one of which that is not known does not.
    fn is_met(self, cell: &Cell) -> bool {
        cell.median(|run| self.of(run))
            .is_some_and(|value| value <= self.limit())
    }
}

/// Measuring ends when it is sure, or when time is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Until {
    /// What is looked for.
    pub goal: Goal,
    /// How long it is, but for the first two rounds.
    pub time: Duration,
}

impl Until {
    /// Whether a run may still begin of which the longest so far took so long.
    pub(super) fn has_time(&self, round: usize, elapsed: Duration, longest: Duration) -> bool {
        round < ROUNDS_LEAST || elapsed + longest <= self.time
    }
}

/// What is still to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Left {
    /// The settings, the fastest first.
    pub(super) settings: Vec<Setting>,
    /// Those of them that may be more than 5 % faster than the first.
    pub(super) open: Vec<Setting>,
}

/// Of cells that are still measured, those that may be the best. The fastest of them if none meets the goal.
pub(super) fn left(cells: &[&Cell], goal: Goal) -> Left {
    let noise = Noise::of(cells.iter().copied(), &[]);
    let are_few = |cell: &Cell| cell.runs.len() < ROUNDS_LEAST;
    let met: Vec<&Cell> = cells.iter().copied().filter(|cell| goal.is_met(cell)).collect();
    let Some(best) = fastest(met.iter().copied()) else {
        return Left {
            settings: cells.iter().filter(|c| are_few(c)).map(|c| c.setting).collect(),
            open: Vec::new(),
        };
    };
    let mut left = Left {
        settings: vec![best.setting],
        open: Vec::new(),
    };
    for cell in met.into_iter().filter(|cell| cell.setting != best.setting) {
        let ratio = noise.and_then(|noise| noise.ratio(&rates(best), &rates(cell)));
        let (low, high) = ratio.map_or((0.0, f64::INFINITY), |(ratio, _)| (ratio.low, ratio.high));
        if low > 1.0 + WITHIN && !are_few(cell) {
            continue;
        }
        left.settings.push(cell.setting);
        // It is not known to be within 5 % on either side.
        if low < 1.0 - WITHIN || high > 1.0 + WITHIN {
            left.open.push(cell.setting);
        }
    }
    left
}

/// The answer, of what was left at the end.
pub(super) fn answer(evidence: &Evidence, left: &Left, until: &Until) -> Option<Answer> {
    let Until { goal, time } = until;
    let cells: Vec<&Cell> = evidence.cells.iter().collect();
    let first = cells.first()?.setting;
    let find = |setting: &Setting| cells.iter().copied().find(|cell| cell.setting == *setting);
    let noise = Noise::of(cells.iter().copied(), &[]);
    let met: Vec<&Cell> = cells.iter().copied().filter(|cell| goal.is_met(cell)).collect();
    let mut ruled_out: Vec<String> = Vec::new();
    for cell in cells.iter().filter(|cell| !goal.is_met(cell)) {
        let why = goal
            .told(cell)
            .unwrap_or_else(|| "what was asked for is not known of it".to_owned());
        ruled_out.push(format!("{}: {why}, {}", cell.setting, Measured(cell)));
    }
    for (why, settings) in by_reason(evidence.ruled_out.iter()) {
        ruled_out.push(format!("{settings}: {why}"));
    }
    let best = left
        .settings
        .first()
        .and_then(find)
        .filter(|cell| goal.is_met(cell));
    let is_equal = |setting: &&Setting| !left.open.contains(setting);
    let mut equal: Vec<&Cell> = left.settings.iter().filter(is_equal).filter_map(find).collect();
    equal.retain(|cell| goal.is_met(cell));
    equal.sort_by_key(|cell| (cell.setting.jobs, cell.setting.batch_rows));
    let (Some(best), Some(chosen)) = (best, equal.first()) else {
        return Some(Answer {
            kind: first.kind(),
            durability: first.durability,
            recommended: None,
            sentence: match goal {
                Goal::Throughput => "nothing could be measured".to_owned(),
                Goal::Latency(limit) => {
                    format!(
                        "no setting keeps 99% of its writes within {}",
                        Time(limit.as_secs_f64())
                    )
                }
                Goal::Load(limit) => {
                    format!(
                        "no setting keeps the database below {:.0}% of the processors",
                        limit * 100.0
                    )
                }
            },
            plateau: Vec::new(),
            ruled_out,
            costs: Vec::new(),
            flags: None,
            order: order(&cells, noise),
            buffer: Vec::new(),
        });
    };
    let mut text = format!("{}: {}", chosen.setting, Measured(chosen));
    if let Some(told) = goal.told(chosen) {
        text.push_str(&format!("; {told}"));
    }
    text.push_str(&surely(left, best, &cells, noise, *time));
    Some(Answer {
        kind: first.kind(),
        durability: first.durability,
        recommended: Some(chosen.setting),
        sentence: text,
        plateau: equal.iter().map(|cell| cell.setting).collect(),
        ruled_out,
        costs: Vec::new(),
        flags: Some(chosen.setting.flags()),
        order: order(&met, noise),
        buffer: Vec::new(),
    })
}

/// How sure it is, and what would make it surer.
fn surely(left: &Left, best: &Cell, cells: &[&Cell], noise: Option<Noise>, time: Duration) -> String {
    if left.open.is_empty() {
        return match cells.len() {
            1 => "; no other setting was measured".to_owned(),
            all => format!(
                "; of {} none is more than 5% faster",
                Counted(all as u64, "setting")
            ),
        };
    }
    let open = cells.iter().filter(|cell| left.open.contains(&cell.setting));
    let faster = open.filter_map(|cell| Some(noise?.ratio(&rates(cell), &rates(best))?.0.high));
    let most = faster.fold(1.0, f64::max);
    let names: Vec<String> = left
        .open
        .iter()
        .take(3)
        .map(|setting| format!("({setting})"))
        .collect();
    let more = if left.open.len() > names.len() { ", .." } else { "" };
    format!(
        "; not sure after {}: {} may be as good or better, by {:.0}% at most: {}{more}; a longer --time would tell",
        Time(time.as_secs_f64()),
        Counted(left.open.len() as u64, "setting"),
        (most - 1.0) * 100.0,
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use tonnage_core::operation::Method;

    use super::*;
    use crate::measure::answer::tests::cell;

    fn found(cells: &[Cell], goal: Goal) -> Left {
        left(&cells.iter().collect::<Vec<_>>(), goal)
    }

    fn sizes(settings: &[Setting]) -> Vec<usize> {
        settings.iter().map(|setting| setting.batch_rows).collect()
    }

    fn answered(cells: &[Cell], goal: Goal) -> Answer {
        let evidence = Evidence {
            cells,
            ruled_out: &[],
            steadiness: None,
            reference: &[],
            durability_levels: &[],
            rate: None,
        };
        let until = Until {
            goal,
            time: Duration::from_secs(120),
        };
        answer(&evidence, &found(cells, goal), &until).expect("an answer")
    }

    /// Cells whose writes take so many milliseconds.
    fn slow(mut cell: Cell, millis: f64) -> Cell {
        for run in &mut cell.runs {
            run.write_seconds[2] = millis / 1e3;
        }
        cell
    }

    #[test]
    fn what_is_slower_is_dropped_and_what_is_equal_is_settled() {
        let about = |rate: f64| [rate * 0.99, rate * 1.01, rate, rate * 1.01, rate * 0.99, rate];
        let cells = [
            cell(Method::Single, 1, 1, &about(100.0)),
            cell(Method::Native, 1_000, 1, &about(995.0)),
            cell(Method::Native, 10_000, 2, &about(1_000.0)),
        ];
        let left = found(&cells, Goal::Throughput);
        assert_eq!((sizes(&left.settings), left.open), (vec![10_000, 1_000], vec![]));
        let answer = answered(&cells, Goal::Throughput);
        assert_eq!(
            answer.flags.as_deref(),
            Some("--method native --batch-rows 1000 --jobs 1 --durability durable")
        );
        assert!(
            answer
                .sentence
                .ends_with("; of 3 settings none is more than 5% faster"),
            "{}",
            answer.sentence
        );
    }

    #[test]
    fn one_round_drops_nothing() {
        let cells = [
            cell(Method::Single, 1, 1, &[1.0]),
            cell(Method::Native, 10, 1, &[1_000.0]),
        ];
        let left = found(&cells, Goal::Throughput);
        assert_eq!((left.settings.len(), left.open.len()), (2, 1));
    }

    #[test]
    fn what_is_not_sure_says_by_how_much() {
        let cells = [
            cell(Method::Native, 1_000, 1, &[100.0, 140.0, 90.0]),
            cell(Method::Native, 10_000, 1, &[120.0, 110.0, 130.0]),
        ];
        let answer = answered(&cells, Goal::Throughput);
        assert!(
            answer
                .sentence
                .contains("; not sure after 2min: 1 setting may be as good or better, by ")
                && answer
                    .sentence
                    .ends_with("% at most: (native, 1,000 rows, 1 job); a longer --time would tell"),
            "{}",
            answer.sentence
        );
        assert_eq!(answer.recommended.map(|setting| setting.batch_rows), Some(10_000));
    }

    #[test]
    fn the_fastest_that_meets_the_goal_is_chosen() {
        let cells = [
            slow(cell(Method::Native, 100, 1, &[400.0, 401.0, 399.0]), 8.0),
            slow(cell(Method::Native, 1_000, 1, &[800.0, 805.0, 795.0]), 40.0),
            slow(cell(Method::Native, 10_000, 1, &[1_000.0, 1_001.0, 999.0]), 300.0),
        ];
        let goal = Goal::Latency(Duration::from_millis(50));
        let left = found(&cells, goal);
        assert_eq!(sizes(&left.settings), [1_000]);
        let answer = answered(&cells, goal);
        assert!(
            answer.sentence.starts_with(
                "native, 1,000 rows, 1 job: 800 rows/s ±0.6%; 99% of the writes within 40ms (50ms asked for)"
            ),
            "{}",
            answer.sentence
        );
        assert!(
            answer.ruled_out[0].starts_with("native, 10,000 rows, 1 job: 99% of the writes within 300ms")
        );
        let none = answered(&cells, Goal::Latency(Duration::from_millis(1)));
        assert_eq!(none.recommended, None);
        assert_eq!(none.sentence, "no setting keeps 99% of its writes within 1.0ms");
        // Nobody knows what the server took.
        assert_eq!(answered(&cells, Goal::Load(0.3)).recommended, None);
    }
}
