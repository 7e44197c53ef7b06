//! What to do, decided from what was measured. A pure function of cells, so its rules are tested on made-up numbers.
//!
//! - Only measured settings are recommended.
//! - Settings whose intervals overlap that of the fastest are called equal to it, as are those within 5 % of it; of equal
//!   ones the smallest wins: fewest jobs, then fewest rows a write, then the faster.
//! - A mix with reads is only compared with the same mix, whose share of reads is exact: what writes most reads most.
//! - A setting is only compared with others that promise as much: a weaker durability is reported next to the answer.
//! - Where the cell that was measured again and again varied too much, or the fastest setting did, only what is decided
//!   nevertheless is recommended ([`decided`](super::decided)): a method, a batch size, a number of jobs.
//! - Loads are only compared with loads: what a buffer promises when it answers is something else, and so is what it is for.
//! - Settings that the generator of rows held back say nothing about the database, and the answer says so.
//! - Where rows were offered at a rate, the answer is about the time that they take at it (`offered`).

use std::fmt;

use serde::{Deserialize, Serialize};
use tonnage_core::{
    operation::{Durability, Method, Mode},
    report::{Counted, Grouped},
};

use super::{
    decided::{Decided, Noise, candidates, decide, fastest, order, regret},
    figures::{Bound, Cell},
    offered,
    setting::{BenchMethod, Kind, RuledOut, Setting},
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
    /// The setting; none where the run was too noisy to tell one.
    pub recommended: Option<Setting>,
    /// All of it in one sentence, without a full stop.
    pub sentence: String,
    /// The settings that are as good, the recommended one among them.
    pub plateau: Vec<Setting>,
    /// What was ruled out and why, a line each.
    pub ruled_out: Vec<String>,
    /// What weaker promises would give, a line each.
    pub costs: Vec<String>,
    /// The options of `tonnage load`, of a buffer those of `tonnage ingest`; where the run was too noisy to tell a setting
    /// those that are decided nevertheless; none where nothing is.
    pub flags: Option<String>,
    /// What is decided of methods, batch sizes and jobs, and what is not.
    #[serde(default)]
    pub order: Vec<Decided>,
    /// Whether whoever has single rows should put them into a buffer, a line an acknowledgement; empty where none was
    /// measured.
    #[serde(default)]
    pub buffer: Vec<String>,
}

/// What [`answers`] decides from.
pub struct Evidence<'a> {
    /// What was measured.
    pub cells: &'a [Cell],
    /// What was not.
    pub ruled_out: &'a [RuledOut],
    /// How the reference varied.
    pub steadiness: Option<Steadiness>,
    /// What its runs came to, in order.
    pub reference: &'a [f64],
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
    let is_load = |cell: &&Cell| !cell.setting.method.is_buffer();
    let buffers: Vec<&Cell> = group.iter().copied().filter(|cell| !is_load(cell)).collect();
    let (group, others): (Vec<&Cell>, Vec<&Cell>) = match group.iter().any(is_load) {
        true => (
            group.into_iter().filter(is_load).collect(),
            others.into_iter().filter(is_load).collect(),
        ),
        false => (group, others),
    };
    let shared = Noise::of(evidence.cells, evidence.reference);
    let fastest = fastest(group.iter().copied())?;
    let mut equal: Vec<&Cell> = group.iter().copied().filter(|c| is_equal(c, fastest)).collect();
    equal.sort_by(|a, b| {
        let size = |c: &Cell| (c.setting.jobs, c.setting.batch_rows);
        let faster = b.rows_per_second.median.total_cmp(&a.rows_per_second.median);
        size(a).cmp(&size(b)).then(faster)
    });
    let best = *equal.first()?;

    let noise = evidence.steadiness.map_or(0.0, |s| s.noise);
    let too_noisy = noise > NOISE_MAX || fastest.rows_per_second.spread() > SPREAD_MAX;
    let found = match too_noisy {
        true => in_part(&group, shared, evidence.steadiness),
        false => Found {
            recommended: Some(best.setting),
            sentence: sentence(best, fastest, &group),
            flags: Some(best.setting.flags()),
        },
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
        recommended: found.recommended,
        sentence: found.sentence,
        plateau: equal.iter().map(|c| c.setting).collect(),
        ruled_out,
        costs: if too_noisy {
            Vec::new()
        } else {
            costs(best, fastest, &others, evidence)
        },
        flags: found.flags,
        order: order(&group, shared),
        buffer: buffered(&buffers, &group, shared),
    })
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
    let singles = group
        .iter()
        .filter(|c| c.setting.method == BenchMethod::Load(Method::Single));
    let single = singles.min_by_key(|c| c.setting.jobs.abs_diff(setting.jobs));
    if let Some(single) = single.filter(|_| !setting.method.is_row_by_row()) {
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
    if setting.method.is_row_by_row() {
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

/// What is recommended and said.
struct Found {
    recommended: Option<Setting>,
    sentence: String,
    flags: Option<String>,
}

/// What is decided although the runs vary so much that no setting is told from those next to it.
fn in_part(group: &[&Cell], shared: Option<Noise>, steadiness: Option<Steadiness>) -> Found {
    let left = candidates(group, shared);
    let Some(first) = left.first() else {
        return Found {
            recommended: None,
            sentence: "nothing was measured".to_owned(),
            flags: None,
        };
    };
    let is_decided = left.len() < group.len();
    let chosen = first.setting;
    let all = |alike: fn(&Setting, &Setting) -> bool| left.iter().all(|cell| alike(&cell.setting, &chosen));
    let method = all(|a, b| a.method == b.method);
    let rows = method && all(|a, b| a.batch_rows == b.batch_rows);
    let jobs = all(|a, b| a.jobs == b.jobs);
    let mut known = Vec::new();
    let mut flags = Vec::new();
    if method {
        known.push(chosen.method.to_string());
        flags.push(format!("--method {}", chosen.method));
    }
    if rows && !chosen.method.is_row_by_row() {
        known.push(Counted(chosen.batch_rows as u64, "row").to_string());
        flags.push(format!("--batch-rows {}", chosen.batch_rows));
    }
    if jobs {
        known.push(Counted(chosen.jobs as u64, chosen.jobs_are()).to_string());
        flags.push(format!("--jobs {}", chosen.jobs_a_table()));
    }
    let is_known = is_decided && !known.is_empty();
    let mut text = match (is_known, left.len()) {
        (true, count) if count > 1 => known.join(", "),
        (_, 1) => chosen.to_string(),
        _ => "too noisy to tell one setting".to_owned(),
    };
    if left.len() > 1 {
        let among = match is_decided {
            true => format!("{} of {} settings", left.len(), group.len()),
            false => Counted(left.len() as u64, "setting").to_string(),
        };
        text.push_str(&format!(
            "; among {among} that may be the best the fastest seen is {chosen}"
        ));
    }
    text.push_str(&format!(" at {}", Measured(first)));
    match regret(&left, shared) {
        Some(most) if left.len() > 1 => {
            text.push_str(&format!(", and none is more than {} faster", Faster(most)));
        }
        _ => {}
    }
    if group.len() == 1 {
        text.push_str("; no other setting was measured");
    }
    if let Some(steadiness) = steadiness.filter(|s| s.noise > NOISE_MAX) {
        text.push_str(&format!(
            "; the same cell varied by {} over {}",
            Within(steadiness.noise),
            Counted(steadiness.samples as u64, "run")
        ));
    }
    let mode = chosen.operation;
    Found {
        recommended: (left.len() == 1).then_some(chosen),
        sentence: text,
        flags: match left.len() {
            1 => Some(chosen.flags()),
            _ => is_known.then(|| match mode {
                Mode::Insert => flags.join(" "),
                mode => format!("--mode {} {}", mode.name(), flags.join(" ")),
            }),
        },
    }
}

/// How much faster at most: `12%`, `2.2x`.
struct Faster(f64);

impl fmt::Display for Faster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            times if times >= 2.0 => write!(f, "{}", Times(times)),
            times => write!(f, "{:.0}%", (times - 1.0) * 100.0),
        }
    }
}

/// Whether a buffer is worth it for whoever has single rows: its fastest cell of each acknowledgement, compared with single
/// rows and with the fastest load.
fn buffered(buffers: &[&Cell], loads: &[&Cell], shared: Option<Noise>) -> Vec<String> {
    let mut measured: Vec<BenchMethod> = Vec::new();
    for cell in buffers {
        if !measured.contains(&cell.setting.method) {
            measured.push(cell.setting.method);
        }
    }
    let singles = loads
        .iter()
        .copied()
        .filter(|c| c.setting.method == BenchMethod::Load(Method::Single));
    let single = fastest(singles);
    let line = |method: BenchMethod| {
        let best = fastest(buffers.iter().copied().filter(|c| c.setting.method == method))?;
        let mut text = format!("{}: {} in the table", best.setting, Measured(best));
        if let Some(rate) = best.median(|run| Some(run.acknowledged.as_ref()?.rows_per_second)) {
            text.push_str(&format!(", answered at {} rows/s", Short(rate)));
        }
        if let Some(seconds) = best.median(|run| run.write_seconds.get(2).copied()) {
            text.push_str(&format!(", 99% of the puts within {}", Time(seconds)));
        }
        if let Some(single) = single {
            let (faster, slower) = match best.rows_per_second.median >= single.rows_per_second.median {
                true => (best, single),
                false => (single, best),
            };
            let what = format!("{} over {}", faster.setting.method, slower.setting.method);
            text.push_str(&format!("; {}", decide(shared, what, faster, slower)));
        }
        Some(text)
    };
    measured.into_iter().filter_map(line).collect()
}

/// The best cell of each other method and of each other number of jobs, and what it lacks.
fn slower(best: &Cell, group: &[&Cell], equal: &[&Cell]) -> Vec<String> {
    let chosen = &best.setting;
    let mut lines = Vec::new();
    let mut methods: Vec<BenchMethod> = Vec::new();
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
        let Some(other) = fastest(cells.iter().copied()) else {
            return;
        };
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
        let Some(other) = fastest(cells.iter().copied()) else {
            continue;
        };
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
