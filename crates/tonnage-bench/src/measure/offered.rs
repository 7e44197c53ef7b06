//! The answer of an open loop: which setting commits rows soonest at the rate at which they are offered. How fast a
//! setting could be is not asked, and nothing is said of it.
//!
//! - A setting that does not hold the rate is ruled out, with what it reached: its times only say how long it was tried.
//! - Of the others the one wins whose slowest hundredth of the writes takes least. Those within 5 % of it are as good, as
//!   are those whose intervals overlap its own, and of equal ones the smallest is recommended.

use tonnage_core::report::{Counted, Grouped};

use super::{
    answer::{Answer, Evidence, Short, Time, Times, WITHIN, by_reason, levels, reliance},
    figures::{Cell, Offered},
    setting::{Kind, RuledOut, Setting},
    statistics::{Estimate, quantile, sorted},
};

/// The place of 99 % in [`Offered::response_seconds`].
const SLOWEST: usize = 2;
const HALF: usize = 0;

/// What a share of a cell's writes took at most, from when they were due.
pub(super) fn response(cell: &Cell, at: usize) -> Option<Estimate> {
    let seconds = cell.runs.iter().filter_map(|run| run.offered.as_ref());
    Estimate::of(
        &seconds
            .map(|offered| offered.response_seconds[at])
            .collect::<Vec<_>>(),
    )
}

/// The same of the slowest hundredth.
pub(super) fn slowest(cell: &Cell) -> Option<Estimate> {
    response(cell, SLOWEST)
}

/// A cell that holds the rate, and what its slowest writes took.
type Holding<'a> = (&'a Cell, Estimate);

pub(super) fn answer(evidence: &Evidence, kind: Kind, rate: f64) -> Option<Answer> {
    let levels = levels(evidence, kind)?;
    let durability = levels.group.first()?.setting.durability;
    let holding: Vec<Holding> = holding(&levels.group);
    let best = best(&holding);
    let of_kind = |out: &&RuledOut| out.setting.kind() == kind;
    let (sentence, mut ruled_out) = match &best {
        Some(best) => (sentence(best, &holding, &levels.group, rate), Vec::new()),
        None => (none_holds(&levels.group, rate), Vec::new()),
    };
    for cell in &levels.group {
        match (&best, holding.iter().find(|(one, _)| one.setting == cell.setting)) {
            (_, None) => ruled_out.push(format!(
                "{}: does not hold it, reached {} rows/s, bound by {}",
                cell.setting,
                Short(reached(cell)),
                cell.bound_by()
            )),
            (Some(best), Some((_, slowest))) if !best.equal.contains(&cell.setting) => {
                ruled_out.push(format!(
                    "{}: 99% of the writes within {} {}, {} as long",
                    cell.setting,
                    Time(slowest.median),
                    reliance(slowest),
                    Times(slowest.median / best.slowest.median.max(f64::MIN_POSITIVE))
                ));
            }
            _ => {}
        }
    }
    for (why, settings) in by_reason(evidence.ruled_out.iter().filter(of_kind)) {
        ruled_out.push(format!("{settings}: {why}"));
    }
    let mut costs = Vec::new();
    for level in evidence.durability_levels {
        let of_level = levels.others.iter().filter(|c| c.setting.durability == *level);
        let cells: Vec<&Cell> = of_level.copied().collect();
        if let Some(other) = self::best(&self::holding(&cells)) {
            costs.push(format!(
                "{level}: 99% of the writes within {} {} ({})",
                Time(other.slowest.median),
                reliance(&other.slowest),
                other.cell.setting
            ));
        }
    }
    Some(Answer {
        kind,
        durability,
        recommended: best.as_ref().map(|best| best.cell.setting),
        sentence,
        flags: best.as_ref().map(|best| best.cell.setting.flags()),
        plateau: best.map_or_else(Vec::new, |best| best.equal),
        order: Vec::new(),
        buffer: Vec::new(),
        ruled_out,
        costs,
    })
}

/// The cells that hold the rate in most of their runs.
fn holding<'a>(cells: &[&'a Cell]) -> Vec<Holding<'a>> {
    let holds = |cell: &&Cell| {
        let runs = cell.runs.iter().filter_map(|run| run.offered.as_ref());
        let held = runs.filter(|offered| offered.holds()).count();
        held * 2 > cell.runs.len()
    };
    let held = cells.iter().copied().filter(holds);
    held.filter_map(|cell| Some((cell, slowest(cell)?))).collect()
}

struct Best<'a> {
    cell: &'a Cell,
    slowest: Estimate,
    /// Those that are as good, smallest first.
    equal: Vec<Setting>,
}

fn best<'a>(holding: &[Holding<'a>]) -> Option<Best<'a>> {
    let median = |one: &Holding| one.1.median;
    let (_, least) = holding.iter().min_by(|a, b| median(a).total_cmp(&median(b)))?;
    let is_equal = |one: &&Holding| median(one) * (1.0 - WITHIN) <= least.median || one.1.overlaps(least);
    let mut equal: Vec<&Holding> = holding.iter().filter(is_equal).collect();
    equal.sort_by(|a, b| {
        let size = |(cell, _): &Holding| (cell.setting.jobs, cell.setting.batch_rows);
        size(a).cmp(&size(b)).then(median(a).total_cmp(&median(b)))
    });
    let (cell, slowest) = **equal.first()?;
    Some(Best {
        cell,
        slowest,
        equal: equal.iter().map(|(cell, _)| cell.setting).collect(),
    })
}

/// Rows a second of those that were offered.
fn reached(cell: &Cell) -> f64 {
    let runs = cell.runs.iter().filter_map(|run| run.offered.as_ref());
    let reached: Vec<f64> = runs.map(|offered: &Offered| offered.reached).collect();
    quantile(&sorted(&reached), 0.5)
}

fn sentence(best: &Best, holding: &[Holding], group: &[&Cell], rate: f64) -> String {
    let setting = &best.cell.setting;
    let half = response(best.cell, HALF).map_or(0.0, |half| half.median);
    let mut text = format!(
        "{setting} at {} rows/s: 99% of the writes are committed within {} {} of when they are due, half of them within {}",
        Short(rate),
        Time(best.slowest.median),
        reliance(&best.slowest),
        Time(half)
    );
    if !setting.method.is_row_by_row() && setting.batch_rows > 1 {
        let fills = (setting.batch_rows - 1) as f64 / rate;
        text.push_str(&format!(
            "; before, a row waits up to {} for its write to be full",
            Time(fills)
        ));
    }
    if best.equal.len() > 1 {
        let others = Counted(best.equal.len() as u64 - 1, "larger setting");
        text.push_str(&format!("; {others} no faster as far as can be told"));
    }
    match group.len() {
        1 => text.push_str("; no other setting was measured"),
        all => text.push_str(&format!(
            "; {} of {} settings hold that rate",
            Grouped(holding.len() as u64),
            Grouped(all as u64)
        )),
    }
    text
}

fn none_holds(group: &[&Cell], rate: f64) -> String {
    let nearest = group.iter().max_by(|a, b| reached(a).total_cmp(&reached(b)));
    let mut text = format!("no setting that was measured holds {} rows/s", Short(rate));
    if let Some(cell) = nearest {
        text.push_str(&format!(
            "; nearest is {}, which reached {} rows/s, bound by {}",
            cell.setting,
            Short(reached(cell)),
            cell.bound_by()
        ));
    }
    text
}

#[cfg(test)]
mod tests;
