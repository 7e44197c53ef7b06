//! What can be told of two settings from few and noisy runs: which is faster and by how much at least, that they are equal,
//! or how far apart they are at most and how many runs would tell.
//!
//! - Runs are compared round by round, as a ratio: what slows a whole round down slows both.
//! - The interval of a ratio is that of Student's t on logarithms, at 99 %. The variance of few rounds is drawn towards what
//!   pairs of cells vary by on this machine, as in Smyth's moderated t-statistic (2004), so that two runs that happen to be
//!   alike prove nothing, and one noisy cell does not hide what is known of the others.
//! - The shared variance comes from cells next to each other in the matrix, and from runs of the reference that followed one
//!   another: what drifts slowly is in neither.

use std::fmt;

use serde::{Deserialize, Serialize};
use tonnage_core::{
    report::{Counted, Grouped},
    student::{NORMAL_99, mean_and_variance, student_99},
};

use super::{
    answer::WITHIN,
    figures::Cell,
    setting::Setting,
    statistics::{quantile, sorted},
};

/// How many runs the shared variance counts for, at most.
const SHARED_FREEDOM_MAX: usize = 4;
/// Ratios are never known better than this: runs of one bench share rows and order.
const ERROR_LEAST: f64 = 0.01;
/// Runs of a cell beyond which nobody waits for a decision.
const RUNS_MAX: f64 = 1_000.0;
/// How much faster one setting is than another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio of their rows a second that was seen.
    pub seen: f64,
    /// The lower end of its 99 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// What is decided of two settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The first is faster.
    Faster,
    /// They are within 5 % of each other.
    Equal,
    /// It cannot be told.
    Open,
}

/// Two settings that differ in one thing, and what is decided of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// What they differ in: `native over array`.
    pub what: String,
    /// The one that seems faster.
    pub faster: Setting,
    /// The other.
    pub slower: Setting,
    /// How much faster; none where nothing is known of how runs vary.
    pub ratio: Option<Ratio>,
    /// What that decides.
    pub verdict: Verdict,
    /// Runs of each that would decide it if they are as far apart as they seem; none where it is decided or where no
    /// reasonable number would.
    pub runs: Option<u64>,
}

impl fmt::Display for Decided {
    /// `native over array: yes, 1.5x or more (1.8x seen)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.what)?;
        let Some(ratio) = self.ratio else {
            return f.write_str("cannot tell, as each was measured once; --repeat 3 gives an interval");
        };
        match self.verdict {
            Verdict::Faster => write!(f, "yes, {} or more ({} seen)", Over(ratio.low), Over(ratio.seen)),
            Verdict::Equal => write!(f, "equal, {} apart at most", Over(ratio.apart())),
            Verdict::Open => {
                write!(f, "cannot tell, {} apart at most", Over(ratio.apart()))?;
                let seen = Over(ratio.seen.max(1.0 / ratio.seen));
                match self.runs {
                    Some(runs) => write!(
                        f,
                        "; --repeat {} would tell if they are {seen} apart, as seen",
                        Grouped(runs)
                    ),
                    None => write!(f, "; {seen} apart as seen, which no number of runs is worth"),
                }
            }
        }
    }
}

/// A ratio as people say it: `47x`, `1.5x`, `12%`.
struct Over(f64);

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ratio if ratio >= 9.5 => write!(f, "{}x", Grouped(ratio.round() as u64)),
            ratio if ratio >= 1.5 => write!(f, "{ratio:.1}x"),
            ratio if ratio >= 1.01 => write!(f, "{:.0}%", (ratio - 1.0) * 100.0),
            ratio => write!(f, "{:.1}%", (ratio - 1.0).abs() * 100.0),
        }
    }
}

impl Ratio {
    /// The most that the two may be apart, whichever is the faster; 1 or more.
    pub fn apart(&self) -> f64 {
        self.high.max(1.0 / self.low.max(f64::MIN_POSITIVE))
    }

    fn verdict(&self) -> Verdict {
        match self {
            Self { low, .. } if *low > 1.0 => Verdict::Faster,
            ratio if ratio.apart() <= 1.0 + WITHIN => Verdict::Equal,
            _ => Verdict::Open,
        }
    }
}

/// How the ratio of two runs side by side varies, whatever they are of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// The variance of its logarithm.
    variance: f64,
    /// How many differences it is known from, at most [`SHARED_FREEDOM_MAX`].
    freedom: usize,
}

impl Noise {
    /// Of cells in the order of their matrix, and of the runs of one of them in the order in which they were made. None
    /// where nothing was measured twice.
    pub fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>, reference: &[f64]) -> Option<Self> {
        let cells: Vec<Vec<f64>> = cells.into_iter().map(rates).collect();
        let mut variances = Vec::new();
        let mut freedom = 0;
        for pair in cells.windows(2) {
            let differences = differences(&pair[0], &pair[1]);
            if let Some(variance) = variance(&differences) {
                freedom += differences.len() - 1;
                variances.push(variance / of_median(differences.len() - 1));
            }
        }
        let steps: Vec<f64> = reference
            .windows(2)
            .filter_map(|w| log_ratio(w[1], w[0]))
            .collect();
        if !steps.is_empty() {
            freedom += steps.len();
            variances.push(steps.iter().map(|step| step * step).sum::<f64>() / steps.len() as f64);
        }
        (!variances.is_empty()).then(|| Self {
            variance: quantile(&sorted(&variances), 0.5),
            freedom: freedom.min(SHARED_FREEDOM_MAX),
        })
    }

    /// The ratio of the first to the second, of the rounds that both have; none where nothing tells how it varies.
    pub fn ratio(&self, first: &[f64], second: &[f64]) -> Option<(Ratio, f64)> {
        let differences = differences(first, second);
        let count = differences.len();
        let own = count.checked_sub(1)?;
        let mean = differences.iter().sum::<f64>() / count as f64;
        let freedom = own + self.freedom;
        let sum = variance(&differences).unwrap_or(0.0) * own as f64 + self.variance * self.freedom as f64;
        let deviation = (sum / freedom.max(1) as f64).sqrt().max(ERROR_LEAST);
        let error = (deviation / (count as f64).sqrt()).max(ERROR_LEAST / 2.0);
        let half = student_99(freedom) * error;
        let ratio = Ratio {
            seen: mean.exp(),
            low: (mean - half).exp(),
            high: (mean + half).exp(),
        };
        Some((ratio, deviation))
    }
}

/// Compares two cells of which the first seems the faster.
pub fn decide(noise: Option<Noise>, what: String, faster: &Cell, slower: &Cell) -> Decided {
    let (first, second) = (rates(faster), rates(slower));
    let found = noise.and_then(|noise| noise.ratio(&first, &second));
    let verdict = found.map_or(Verdict::Open, |(ratio, _)| ratio.verdict());
    let runs = found
        .filter(|_| verdict == Verdict::Open)
        .and_then(|(ratio, deviation)| {
            let needed = (NORMAL_99 * deviation / ratio.seen.ln().abs().max(1e-9))
                .powi(2)
                .ceil();
            let more = needed.max(first.len().min(second.len()) as f64 + 1.0);
            (more <= RUNS_MAX).then_some(more as u64)
        });
    Decided {
        what,
        faster: faster.setting,
        slower: slower.setting,
        ratio: found.map(|(ratio, _)| ratio),
        verdict,
        runs,
    }
}

/// What the runs of a cell came to, in the order of the rounds.
pub(super) fn rates(cell: &Cell) -> Vec<f64> {
    cell.runs.iter().map(|run| run.rows_per_second).collect()
}

fn log_ratio(a: f64, b: f64) -> Option<f64> {
    (a > 0.0 && b > 0.0 && a.is_finite() && b.is_finite()).then(|| (a / b).ln())
}

fn differences(first: &[f64], second: &[f64]) -> Vec<f64> {
    let pairs = first.iter().zip(second);
    pairs.filter_map(|(a, b)| log_ratio(*a, *b)).collect()
}

/// None of fewer than two.
fn variance(values: &[f64]) -> Option<f64> {
    let (_, variance) = mean_and_variance(values)?;
    (values.len() > 1).then_some(variance)
}

/// The median of a sample variance over what it estimates (Wilson and Hilferty).
fn of_median(freedom: usize) -> f64 {
    (1.0 - 2.0 / (9.0 * freedom.max(1) as f64)).powi(3)
}

fn median(cell: &Cell) -> f64 {
    cell.rows_per_second.median
}

/// The fastest by its median.
pub(super) fn fastest<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Option<&'a Cell> {
    cells.into_iter().max_by(|a, b| median(a).total_cmp(&median(b)))
}

/// Compares, of cells that can be chosen among: the methods by the fastest cell of each; then of the fastest method its
/// batch sizes and its numbers of jobs, each with the fastest.
pub fn order(cells: &[&Cell], noise: Option<Noise>) -> Vec<Decided> {
    let Some(best) = fastest(cells.iter().copied()) else {
        return Vec::new();
    };
    let mut decided = Vec::new();
    let mut methods: Vec<&Cell> = Vec::new();
    for cell in cells {
        let method = cell.setting.method;
        if methods.iter().all(|known| known.setting.method != method) {
            methods.extend(fastest(
                cells.iter().copied().filter(|c| c.setting.method == method),
            ));
        }
    }
    methods.sort_by(|a, b| median(b).total_cmp(&median(a)));
    for pair in methods.windows(2) {
        let what = format!("{} over {}", pair[0].setting.method, pair[1].setting.method);
        decided.push(decide(noise, what, pair[0], pair[1]));
    }
    let chosen = &best.setting;
    let alike = cells
        .iter()
        .copied()
        .filter(|c| c.setting.method == chosen.method);
    let alike: Vec<&Cell> = alike.collect();
    if !chosen.method.is_row_by_row() {
        let of_jobs = |c: &&Cell| c.setting.jobs == chosen.jobs && c.setting != *chosen;
        let mut sizes: Vec<&Cell> = alike.iter().copied().filter(of_jobs).collect();
        sizes.sort_by_key(|c| c.setting.batch_rows);
        for other in sizes {
            let rows = Grouped(chosen.batch_rows as u64);
            let what = format!("{rows} over {}", Counted(other.setting.batch_rows as u64, "row"));
            decided.push(decide(noise, what, best, other));
        }
    }
    let mut jobs: Vec<usize> = alike.iter().map(|c| c.setting.jobs).collect();
    jobs.sort_unstable();
    jobs.dedup();
    for count in jobs.into_iter().filter(|count| *count != chosen.jobs) {
        let Some(other) = fastest(alike.iter().copied().filter(|c| c.setting.jobs == count)) else {
            continue;
        };
        let what = format!(
            "{} over {}",
            chosen.jobs,
            Counted(count as u64, chosen.jobs_are())
        );
        decided.push(decide(noise, what, best, other));
    }
    decided
}

/// Of cells that can be chosen among, those that the fastest is not known to be faster than by more than 5 %; the
/// fastest is the first of them.
pub fn candidates<'a>(cells: &[&'a Cell], noise: Option<Noise>) -> Vec<&'a Cell> {
    let Some(best) = fastest(cells.iter().copied()) else {
        return Vec::new();
    };
    let first = rates(best);
    let mut left: Vec<&Cell> = cells
        .iter()
        .copied()
        .filter(|cell| {
            let ratio = noise.and_then(|noise| noise.ratio(&first, &rates(cell)));
            cell.setting == best.setting || ratio.is_none_or(|(ratio, _)| ratio.low <= 1.0 + WITHIN)
        })
        .collect();
    left.sort_by_key(|cell| cell.setting != best.setting);
    left
}

/// How much faster than the first of `candidates` another of them may be at most; 1 of one alone, none where nothing is
/// known.
pub fn regret(candidates: &[&Cell], noise: Option<Noise>) -> Option<f64> {
    let (best, others) = candidates.split_first()?;
    let mut most = 1.0_f64;
    for other in others {
        let (ratio, _) = noise?.ratio(&rates(other), &rates(best))?;
        most = most.max(ratio.high);
    }
    Some(most)
}

#[cfg(test)]
mod tests;
