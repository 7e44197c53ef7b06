//! What to do, decided from what was measured. A pure function of cells, so its rules are tested on made-up numbers.
//!
//! - Only measured settings are recommended.
//! - Settings whose intervals overlap that of the fastest are called equal to it, as are those within 5 % of it; of equal
//!   ones the smallest wins: fewest jobs, then fewest rows a write, then the faster.
//! - A mix with reads is only compared with the same mix, whose share of reads is exact: what writes most reads most.
//! - A setting is only compared with others that promise as much: a weaker durability is reported next to the answer.
//! - Where the cell that was measured again and again varied too much, nothing is recommended.
//! - Settings that the generator of rows held back say nothing about the database, and the answer says so.
//! - Where rows were offered at a rate, the answer is about the time that they take at it (`offered`).

use std::fmt;

use serde::{Deserialize, Serialize};
use tonnage_core::{
    operation::{Durability, Method},
    report::{Counted, Grouped},
};

use super::{
    figures::{Bound, Cell},
    offered,
    setting::{Kind, RuledOut, Setting},
    statistics::{Estimate, Steadiness},
};

/// How far below the fastest a setting may be to be as good.
pub(super) const WITHIN: f64 = 0.05;
/// The noise of the reference from which on a run tells nothing.
const NOISE_MAX: f64 = 0.2;
/// The spread of the fastest setting itself from which on it is not known how fast it is.
const SPREAD_MAX: f64 = 0.3;

/// What is recommended for one kind of rows and one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What it is about.
    #[serde(flatten)]
    pub kind: Kind,
    /// What the commits of the recommended setting promise.
    pub durability: Durability,
    /// The setting; none where the run was too noisy to tell.
    pub recommended: Option<Setting>,
    /// All of it in one sentence, without a full stop.
    pub sentence: String,
    /// The settings that are as good, the recommended one among them.
    pub plateau: Vec<Setting>,
    /// What was ruled out and why, a line each.
    pub ruled_out: Vec<String>,
    /// What weaker promises would give, a line each.
    pub costs: Vec<String>,
    /// The options of `tonnage load`; none where nothing is recommended.
    pub flags: Option<String>,
}

/// What [`answers`] decides from.
pub struct Evidence<'a> {
    /// What was measured.
    pub cells: &'a [Cell],
    /// What was not.
    pub ruled_out: &'a [RuledOut],
    /// How the reference varied.
    pub steadiness: Option<Steadiness>,
    /// Levels of durability, weakest first.
    pub durability_levels: &'a [Durability],
    /// Rows a second that were offered, whoever kept up with them; none where each run was as fast as it could be.
    pub rate: Option<f64>,
}

/// One answer for each kind of settings that was measured, in the order of the cells.
pub fn answers(evidence: &Evidence) -> Vec<Answer> {
    let mut kinds: Vec<Kind> = Vec::new();
    for cell in evidence.cells {
        let kind = cell.setting.kind();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let of = |kind: &Kind| match evidence.rate {
        Some(rate) => offered::answer(evidence, *kind, rate),
        None => answer(evidence, *kind),
    };
    kinds.iter().filter_map(of).collect()
}

/// The cells of a kind: those of the strongest promise, and the others.
pub(super) struct Levels<'a> {
    pub(super) group: Vec<&'a Cell>,
    pub(super) others: Vec<&'a Cell>,
}

/// None where there is no such cell.
pub(super) fn levels<'a>(evidence: &Evidence<'a>, kind: Kind) -> Option<Levels<'a>> {
    let of_kind = |s: &Setting| s.kind() == kind;
    let all: Vec<&Cell> = evidence.cells.iter().filter(|c| of_kind(&c.setting)).collect();
    let level = |s: &Setting| evidence.durability_levels.iter().position(|l| *l == s.durability);
    let durability = all.iter().max_by_key(|c| level(&c.setting))?.setting.durability;
    let (group, others) = all.into_iter().partition(|c| c.setting.durability == durability);
    Some(Levels { group, others })
}

fn answer(evidence: &Evidence, kind: Kind) -> Option<Answer> {
    let of_kind = |s: &Setting| s.kind() == kind;
    let Levels { group, others } = levels(evidence, kind)?;
    let durability = group.first()?.setting.durability;
    let fastest = fastest(&group)?;
    let mut equal: Vec<&Cell> = group.iter().copied().filter(|c| is_equal(c, fastest)).collect();
    equal.sort_by(|a, b| {
        let size = |c: &Cell| (c.setting.jobs, c.setting.batch_rows);
        let faster = b.rows_per_second.median.total_cmp(&a.rows_per_second.median);
        size(a).cmp(&size(b)).then(faster)
    });
    let best = *equal.first()?;

    let noise = evidence.steadiness.map_or(0.0, |s| s.noise);
    let too_noisy = noise > NOISE_MAX || fastest.rows_per_second.spread() > SPREAD_MAX;
    let sentence = match too_noisy {
        true => noisy(evidence.steadiness, fastest),
        false => sentence(best, fastest, &group),
    };
    let mut ruled_out = match too_noisy {
        true => Vec::new(),
        false => slower(best, &group, &equal),
    };
    for (why, settings) in by_reason(evidence.ruled_out.iter().filter(|out| of_kind(&out.setting))) {
        ruled_out.push(format!("{settings}: {why}"));
    }
    Some(Answer {
        kind,
        durability,
        recommended: (!too_noisy).then_some(best.setting),
        sentence,
        plateau: equal.iter().map(|c| c.setting).collect(),
        ruled_out,
        costs: if too_noisy {
            Vec::new()
        } else {
            costs(best, fastest, &others, evidence)
        },
        flags: (!too_noisy).then(|| best.setting.flags()),
    })
}

fn fastest<'a>(cells: &[&'a Cell]) -> Option<&'a Cell> {
    let by_median = |a: &&&Cell, b: &&&Cell| a.rows_per_second.median.total_cmp(&b.rows_per_second.median);
    cells.iter().max_by(by_median).copied()
}

fn is_within(cell: &Cell, fastest: &Cell) -> bool {
    cell.rows_per_second.median >= (1.0 - WITHIN) * fastest.rows_per_second.median
}

fn is_equal(cell: &Cell, fastest: &Cell) -> bool {
    is_within(cell, fastest) || cell.rows_per_second.overlaps(&fastest.rows_per_second)
}

fn sentence(best: &Cell, fastest: &Cell, group: &[&Cell]) -> String {
    let setting = &best.setting;
    let mut text = format!("{setting}: {}", Measured(best));
    if let Some(reads) = beside_reads(best) {
        text.push_str(&format!(" {reads}"));
    }
    if let Some(plateau) = plateau(best, fastest, group) {
        text.push_str(&format!("; {plateau}"));
    }
    text.push_str(&format!("; bound by {}", best.bound_by()));
    if best.bound_by() == Bound::Generator {
        text.push_str(", so the database may bear more");
    }
    let singles = group.iter().filter(|c| c.setting.method == Method::Single);
    let single = singles.min_by_key(|c| c.setting.jobs.abs_diff(setting.jobs));
    if let Some(single) = single.filter(|_| setting.method != Method::Single) {
        let times = Times(best.rows_per_second.median / single.rows_per_second.median.max(f64::MIN_POSITIVE));
        text.push_str(&format!("; {times} single-row {}s", setting.operation.name()));
        if single.setting.jobs != setting.jobs {
            text.push_str(&format!(" by {}", Counted(single.setting.jobs as u64, "job")));
        }
    }
    if setting.table.tables > 1 {
        let loads = Grouped(setting.table.tables as u64);
        text.push_str(&format!("; by {loads} such loads at once, one into each table"));
    }
    text
}

/// What a mix reads between its writes, and how long that takes; none without a mix.
fn beside_reads(cell: &Cell) -> Option<String> {
    let keys = cell.read(|reads| reads.keys_per_second)?;
    let slowest = cell.read(|reads| reads.request_seconds[2])?;
    Some(format!(
        "beside {} reads/s (99% of the requests within {})",
        Short(keys),
        Time(slowest)
    ))
}

/// What other batch sizes of the same method and jobs do, where the method has any.
fn plateau(best: &Cell, fastest: &Cell, group: &[&Cell]) -> Option<String> {
    let setting = &best.setting;
    if setting.method == Method::Single {
        return None;
    }
    let alike = |c: &&&Cell| (c.setting.method, c.setting.jobs) == (setting.method, setting.jobs);
    let mut sizes: Vec<&Cell> = group.iter().filter(alike).copied().collect();
    sizes.sort_by_key(|c| c.setting.batch_rows);
    if sizes.len() < 2 {
        return Some("no other batch size was measured".to_owned());
    }
    let at = sizes.iter().position(|c| c.setting == *setting)?;
    let mut last = at;
    while sizes.get(last + 1).is_some_and(|c| is_equal(c, fastest)) {
        last += 1;
    }
    if last == at {
        return Some("no other batch size is as fast".to_owned());
    }
    let within = sizes[at..=last].iter().all(|c| is_within(c, fastest));
    Some(format!(
        "anything from {} to {} rows is {}",
        Grouped(setting.batch_rows as u64),
        Grouped(sizes[last].setting.batch_rows as u64),
        match within {
            true => "within 5%",
            false => "as fast as can be told",
        }
    ))
}

fn noisy(steadiness: Option<Steadiness>, fastest: &Cell) -> String {
    let mut text = "too noisy to tell".to_owned();
    if let Some(steadiness) = steadiness.filter(|s| s.noise > NOISE_MAX) {
        text.push_str(&format!(
            ": the same cell varied by {} over {}",
            Within(steadiness.noise),
            Counted(steadiness.samples as u64, "run")
        ));
    }
    text.push_str(&format!(
        "; fastest seen is {} at {}; more --repeat, a longer --duration or a quieter machine would tell",
        fastest.setting,
        Measured(fastest)
    ));
    text
}

/// The best cell of each other method and of each other number of jobs, and what it lacks.
fn slower(best: &Cell, group: &[&Cell], equal: &[&Cell]) -> Vec<String> {
    let chosen = &best.setting;
    let mut lines = Vec::new();
    let mut methods: Vec<Method> = Vec::new();
    let mut jobs: Vec<usize> = Vec::new();
    for cell in group {
        let setting = &cell.setting;
        if setting.method != chosen.method && !methods.contains(&setting.method) {
            methods.push(setting.method);
        }
        if setting.jobs != chosen.jobs && !jobs.contains(&setting.jobs) {
            jobs.push(setting.jobs);
        }
    }
    let mut tell = |name: String, cells: Vec<&Cell>| {
        let Some(other) = fastest(&cells) else { return };
        let told = format!("{name}: {} at best ({})", Measured(other), other.setting);
        lines.push(
            match cells.iter().any(|c| equal.iter().any(|e| e.setting == c.setting)) {
                true => format!("{told}, no faster as far as can be told, and larger"),
                false => format!("{told}, {}", Slower(best, other)),
            },
        );
    };
    for method in methods {
        let of = |c: &&&Cell| c.setting.method == method;
        tell(method.to_string(), group.iter().filter(of).copied().collect());
    }
    for jobs in jobs {
        let of = |c: &&&Cell| c.setting.jobs == jobs && c.setting.method == chosen.method;
        let cells: Vec<&Cell> = group.iter().filter(of).copied().collect();
        tell(Counted(jobs as u64, "job").to_string(), cells);
    }
    let alike = |c: &&&Cell| {
        (c.setting.method, c.setting.jobs) == (chosen.method, chosen.jobs)
            && !equal.iter().any(|e| e.setting == c.setting)
    };
    for cell in group.iter().filter(alike) {
        lines.push(format!(
            "{}: {}, {}",
            Counted(cell.setting.batch_rows as u64, "row"),
            Measured(cell),
            Slower(best, cell)
        ));
    }
    lines
}

/// What the fastest setting of each weaker level gives.
fn costs(best: &Cell, fastest_here: &Cell, others: &[&Cell], evidence: &Evidence) -> Vec<String> {
    let mut lines = Vec::new();
    for level in evidence.durability_levels {
        let cells: Vec<&Cell> = others
            .iter()
            .filter(|c| c.setting.durability == *level)
            .copied()
            .collect();
        let Some(other) = fastest(&cells) else { continue };
        let told = format!("{level}: {} at best ({})", Measured(other), other.setting);
        let median = |c: &Cell| c.rows_per_second.median;
        lines.push(
            match other.rows_per_second.overlaps(&fastest_here.rows_per_second) {
                true => format!("{told}, which cannot be told apart: a weaker promise gains nothing"),
                false => format!(
                    "{told}, {}",
                    Times(median(other) / median(best).max(f64::MIN_POSITIVE))
                ),
            },
        );
    }
    lines
}

/// Reasons, and the settings that each is about, in the order in which they came.
pub(super) fn by_reason<'a>(ruled_out: impl Iterator<Item = &'a RuledOut>) -> Vec<(&'a str, String)> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for out in ruled_out {
        let shown = out.setting.to_string();
        match reasons.iter_mut().find(|(why, _)| *why == out.why) {
            Some((_, settings)) => settings.push(shown),
            None => reasons.push((out.why.as_str(), vec![shown])),
        }
    }
    let joined = |(why, settings): (&'a str, Vec<String>)| (why, settings.join("; "));
    reasons.into_iter().map(joined).collect()
}

/// A cell's rows a second and how far they may be off: `210k rows/s ±3%`.
pub struct Measured<'a>(pub &'a Cell);

impl fmt::Display for Measured<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let estimate = &self.0.rows_per_second;
        write!(f, "{} rows/s", Short(estimate.median))?;
        write!(f, " {}", reliance(estimate))
    }
}

/// How far a figure may be off.
pub(super) fn reliance(estimate: &Estimate) -> String {
    match estimate.samples {
        1 => "(measured once)".to_owned(),
        _ => Within(estimate.spread()).to_string(),
    }
}

/// Seconds as people read them: `0.31ms`, `12ms`, `1.5s`, `3min`.
pub struct Time(pub f64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            s if s >= 120.0 => write!(f, "{:.0}min", s / 60.0),
            s if s >= 10.0 => write!(f, "{s:.0}s"),
            s if s >= 1.0 => f.write_str(&format!("{s:.1}s").replace(".0s", "s")),
            s if s >= 0.01 => write!(f, "{:.0}ms", s * 1e3),
            s if s >= 0.001 => write!(f, "{:.1}ms", s * 1e3),
            s => write!(f, "{:.2}ms", s * 1e3),
        }
    }
}

/// A number in three digits: `850`, `9.8k`, `210k`, `1.25M`.
pub struct Short(pub f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            v if v >= 999.5e6 => (v / 1e9, "G"),
            v if v >= 999.5e3 => (v / 1e6, "M"),
            v if v >= 999.5 => (v / 1e3, "k"),
            v => (v, ""),
        };
        match value {
            v if v >= 99.95 || v == v.round() => write!(f, "{v:.0}{unit}"),
            v if v >= 9.995 => write!(f, "{v:.1}{unit}"),
            v => write!(f, "{v:.2}{unit}"),
        }
    }
}

/// A share as people say it: `±3%`.
pub struct Within(pub f64);

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        match percent {
            p if p >= 0.95 || p == 0.0 => write!(f, "±{p:.0}%"),
            p => write!(f, "±{p:.1}%"),
        }
    }
}

/// How much faster: `24x`, `1.4x`.
pub(super) struct Times(pub(super) f64);

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            times if times >= 9.5 => write!(f, "{}x", Grouped(times.round() as u64)),
            times => write!(f, "{times:.1}x"),
        }
    }
}

/// How much slower the second is: `17x slower`, `14% slower`.
struct Slower<'a>(&'a Cell, &'a Cell);

impl fmt::Display for Slower<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (best, other) = (self.0.rows_per_second.median, self.1.rows_per_second.median);
        match best / other.max(f64::MIN_POSITIVE) {
            times if times >= 2.0 => write!(f, "{} slower", Times(times)),
            _ if other >= best => f.write_str("no slower, but larger"),
            _ => write!(f, "{:.0}% slower", (1.0 - other / best) * 100.0),
        }
    }
}

#[cfg(test)]
pub(in crate::measure) mod tests;
