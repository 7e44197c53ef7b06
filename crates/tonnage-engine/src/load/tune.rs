//! How many rows a write has and how many lanes write at once, found while rows go in. Pure and deterministic: it knows no
//! clock, no database and no chance, only what it is told of each write.
//!
//! - A run begins with the most that its plan allows, which is what a run without tuning keeps. Nothing is tried before
//!   [`BEGIN`] writes, so that a short load is what it always was.
//! - One thing is tried at a time, against what is settled: smaller or larger writes within each lane, in the order A B B A,
//!   fewer or more lanes in spans of the whole run, in the same order. So what slows the database down for a while, or ever
//!   more, slows both.
//! - What is tried is settled on only where it is faster with 99 % certainty, and seems so by [`GAIN`] at least. Where that is not so, or
//!   has not been told within a bounded number of pairs, nothing changes, and the next trial in that direction waits
//!   [`PATIENCE`] times as long as this one did: so what trials cost becomes ever less, and noise makes nothing move.
//! - A database that asks for less gets less at once: half the rows, and a lane fewer. Both come back as writes are committed,
//!   the rows up to what was too much, and beyond that ever more seldom. Meanwhile nothing else is tried.
//! - Nothing is tried where lanes wait for rows: there is nothing to be gained.

use std::fmt;

use tonnage_core::{
    report::{Counted, Grouped},
    student::student_99,
};

/// Committed writes before the first trial.
const BEGIN: u64 = 16;
/// Committed writes after a trial that has changed nothing until the next in its direction, at first.
const WAIT: u64 = 64;
/// How many times as long the one after that waits.
const PATIENCE: u64 = 4;
/// The longest wait, in committed writes.
const WAIT_MAX: u64 = 1 << 16;
/// Committed writes after which a lane that was taken away comes back.
const WRITES_TO_GROW: u64 = 16;
/// How much faster something has to be, as a logarithm: 3 %.
const GAIN: f64 = 0.03;
/// The least deviation of a pair that is believed.
const DEVIATION_LEAST: f64 = 0.02;
/// Pairs after which a trial is looked at; after the last it is over.
const LOOKS: [usize; 6] = [4, 6, 8, 12, 16, 24];
/// The same of spans of lanes, which take longer.
const LOOKS_OF_LANES: [usize; 4] = [3, 4, 6, 8];
/// What is so much slower in its first two pairs, as a logarithm, is given up: half as fast, and 15 % slower.
const HOPELESS: f64 = 0.7;
const HOPELESS_OF_LANES: f64 = 0.15;
/// Commits of a span of lanes that count, and lanes' worth of them before these that do not.
const SPAN: u64 = 16;
/// Seconds of a span at least.
const SPAN_SECONDS: f64 = 0.1;
/// The fewest rows of a write that are tried.
const ROWS_LEAST: usize = 64;
/// The share of their time that lanes may wait for rows while anything is tried.
const IDLE_MAX: f64 = 0.3;
/// Trials that have not come to an end by themselves end after so many writes a lane: too few of these said anything.
const TRIAL_WRITES_MAX: u64 = 128;
/// How much of the past counts in that share.
const MEMORY: f64 = 0.9;

/// Within what a run is tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The most rows of a write.
    pub rows_max: usize,
    /// The most lanes that write at once.
    pub lanes_max: usize,
    /// Whether the rows of a write are to be found.
    pub rows: bool,
    /// Whether the number of lanes is.
    pub lanes: bool,
}

/// A write that was committed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Committed {
    /// The lane that has written it.
    pub lane: usize,
    /// Its rows.
    pub rows: usize,
    /// Whether it had as many as it could, so that its size says something.
    pub full: bool,
    /// Seconds from its beginning to its commit, of the attempt that succeeded.
    pub seconds: f64,
    /// Seconds that the lane had waited for its rows.
    pub idle_seconds: f64,
    /// Seconds since the run began.
    pub at_seconds: f64,
}

/// A thing that can be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    FewerRows,
    MoreRows,
    FewerLanes,
    MoreLanes,
}

/// In the order in which they are tried where several are due.
const DIRECTIONS: [Direction; 4] = [
    Direction::FewerRows,
    Direction::MoreRows,
    Direction::FewerLanes,
    Direction::MoreLanes,
];

impl Direction {
    fn opposite(self) -> Self {
        match self {
            Self::FewerRows => Self::MoreRows,
            Self::MoreRows => Self::FewerRows,
            Self::FewerLanes => Self::MoreLanes,
            Self::MoreLanes => Self::FewerLanes,
        }
    }

    fn is_of_rows(self) -> bool {
        matches!(self, Self::FewerRows | Self::MoreRows)
    }
}

/// When a direction is tried again.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    due: u64,
    wait: u64,
    /// How many times fewer rows are tried: 4, and 2 once that has gained nothing; of lanes half of them, and one fewer.
    factor: usize,
}

/// What a lane does.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    /// The most rows, after an overload; 0 where there is no such bound.
    cap: usize,
    /// What was too much.
    too_many: usize,
    /// Committed writes until that is tried again, and how many it waits after the next failure.
    until: u64,
    wait: u64,
    /// Its place in A B B A.
    turn: usize,
    /// Whether the write at hand is of what is tried.
    tries: bool,
    /// Rows a second of the first of a pair, as a logarithm, and whether it was of what is tried.
    first: Option<(f64, bool)>,
}

/// What is being tried.
#[derive(Debug, Clone)]
struct Trial {
    direction: Direction,
    /// Rows of a write, or lanes.
    other: usize,
    /// Committed writes when it began.
    begun: u64,
    /// How much faster it was than what is settled, pair by pair, as a logarithm.
    gains: Vec<f64>,
    /// Of lanes: which span it is.
    span: Span,
}

/// A part of a run with so many lanes.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    /// Its place in A B B A.
    turn: usize,
    /// Commits so far.
    commits: u64,
    /// Rows of those that count.
    rows: u64,
    /// When the first of those was committed.
    from_seconds: f64,
    /// Rows a second of the first span of a pair, as a logarithm, and whether it was of what is tried.
    first: Option<(f64, bool)>,
}

/// A change of what is settled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Move {
    /// Committed writes when it was made.
    pub writes: u64,
    /// Whether it is of the rows of a write, or of the number of lanes.
    pub of_rows: bool,
    /// What was settled before.
    pub from: usize,
    /// What is since then.
    pub to: usize,
    /// How many times faster it was.
    pub faster: f64,
    /// Pairs that this was told from.
    pub pairs: usize,
}

impl fmt::Display for Move {
    /// `16,384 rows a write, not 65,536: 1.4x faster in 6 pairs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (Grouped(self.from as u64), self.to as u64);
        match self.of_rows {
            true => write!(f, "{} a write, not {from}", Counted(to, "row"))?,
            false => write!(f, "{}, not {from}", Counted(to, "job"))?,
        }
        write!(f, ": {:.2}x faster in {} pairs", self.faster, self.pairs)
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Controller {
    bounds: Bounds,
    /// What is settled.
    rows: usize,
    lanes: usize,
    /// Lanes after an overload, at most `lanes`.
    allowed: usize,
    /// Committed writes since an overload.
    since_overload: u64,
    lane: Vec<Lane>,
    schedule: [Schedule; 4],
    trial: Option<Trial>,
    writes: u64,
    /// The rows of full writes of what is settled: bytes may bound them rather than rows.
    typical: usize,
    idle: f64,
    busy: f64,
    moves: Vec<Move>,
    /// Trials that have changed nothing.
    kept: u64,
}

impl Controller {
    /// Of `lanes` lanes, at the most that `bounds` allow.
    pub fn new(bounds: Bounds, lanes: usize) -> Self {
        let after = |due| Schedule {
            due,
            wait: WAIT,
            factor: 4,
        };
        Self {
            bounds,
            rows: bounds.rows_max.max(1),
            lanes: bounds.lanes_max.max(1),
            allowed: bounds.lanes_max.max(1),
            since_overload: 0,
            lane: vec![Lane::default(); lanes.max(1)],
            schedule: [after(BEGIN), after(BEGIN), after(4 * BEGIN), after(4 * BEGIN)],
            trial: None,
            writes: 0,
            typical: 0,
            idle: 0.0,
            busy: 0.0,
            moves: Vec::new(),
            kept: 0,
        }
    }

    /// The most rows of the next write of a lane.
    pub fn rows(&mut self, lane: usize) -> usize {
        let tried = match &self.trial {
            Some(trial) if trial.direction.is_of_rows() => Some(trial.other),
            _ => None,
        };
        let settled = self.rows;
        let Some(lane) = self.lane.get_mut(lane) else {
            return settled;
        };
        lane.tries = tried.is_some() && matches!(lane.turn % 4, 1 | 2);
        let wanted = tried.filter(|_| lane.tries).unwrap_or(settled);
        match lane.cap {
            0 => wanted,
            cap => wanted.min(cap),
        }
    }

    /// How many lanes may write at once.
    pub fn lanes(&self) -> usize {
        let tried = self.trial.as_ref().filter(|trial| !trial.direction.is_of_rows());
        let wanted = match tried {
            Some(trial) if matches!(trial.span.turn % 4, 1 | 2) => trial.other,
            _ => self.lanes,
        };
        wanted.min(self.allowed)
    }

    /// Whether fewer lanes than are settled may write, since the database has asked for less.
    pub fn is_overloaded(&self) -> bool {
        self.allowed < self.lanes
    }

    /// What was settled instead of the most that was allowed, and why.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// The rows of a write that are settled.
    pub fn settled_rows(&self) -> usize {
        self.rows
    }

    /// The lanes that are settled.
    pub fn settled_lanes(&self) -> usize {
        self.lanes
    }

    /// Trials that were over without a change.
    pub fn trials_kept(&self) -> u64 {
        self.kept
    }

    /// The database asked for less.
    pub fn overloaded(&mut self) {
        self.abandon();
        self.allowed = (self.allowed - 1).max(1);
        self.since_overload = 0;
    }

    /// The write of so many rows was too much at once for a lane, which goes on with half of them.
    pub fn too_many(&mut self, lane: usize, rows: usize) {
        self.abandon();
        let remembers = self.bounds.rows;
        let Some(lane) = self.lane.get_mut(lane) else {
            return;
        };
        lane.cap = (rows / 2).max(1);
        if remembers {
            lane.wait = match (lane.too_many, lane.until) {
                (0, _) => WRITES_TO_GROW,
                // It was tried again, and was too much again.
                (_, 0) => lane.wait.saturating_mul(PATIENCE).min(WAIT_MAX),
                _ => lane.wait,
            };
            lane.until = lane.wait;
            lane.too_many = rows;
        }
    }

    /// A write was committed.
    pub fn committed(&mut self, write: Committed) {
        self.writes += 1;
        self.idle = self.idle * MEMORY + write.idle_seconds;
        self.busy = self.busy * MEMORY + write.seconds;
        self.grow(write.lane);
        let is_of_trial = self.note(&write);
        let is_capped = self.lane.iter().any(|lane| lane.cap > 0);
        if self.is_overloaded() || is_capped {
            return;
        }
        if self.idle > IDLE_MAX * (self.idle + self.busy) {
            self.abandon();
            return;
        }
        match &self.trial {
            None => self.begin(),
            Some(_) if is_of_trial => self.judge(),
            Some(trial) if self.writes - trial.begun > TRIAL_WRITES_MAX * self.lane.len() as u64 => {
                self.keep()
            }
            Some(_) => {}
        }
    }

    /// Gives back what an overload has taken.
    fn grow(&mut self, lane: usize) {
        if self.is_overloaded() {
            self.since_overload += 1;
            if self.since_overload >= WRITES_TO_GROW {
                self.since_overload = 0;
                self.allowed += 1;
            }
        }
        let rows_max = self.rows;
        let Some(lane) = self.lane.get_mut(lane).filter(|lane| lane.cap > 0) else {
            return;
        };
        let doubled = lane.cap.saturating_mul(2);
        if doubled >= lane.too_many && lane.until > 0 {
            lane.until -= 1;
            return;
        }
        lane.cap = match doubled >= rows_max {
            true => 0,
            false => doubled,
        };
    }

    /// Takes a write into the trial; whether that has completed a pair.
    fn note(&mut self, write: &Committed) -> bool {
        let Some(lane) = self.lane.get_mut(write.lane) else {
            return false;
        };
        let tries = lane.tries;
        if !tries && write.full && lane.cap == 0 {
            self.typical = write.rows;
        }
        match &mut self.trial {
            Some(trial) if trial.direction.is_of_rows() => {
                let counts = write.full && write.seconds > 0.0 && write.rows > 0;
                if !counts {
                    // The pair is begun again.
                    lane.turn -= lane.turn % 2;
                    lane.first = None;
                    return false;
                }
                lane.turn += 1;
                let rate = (write.rows as f64 / write.seconds).ln();
                match lane.first.take() {
                    Some((first, is_other)) if is_other != tries => {
                        trial.gains.push(if tries { rate - first } else { first - rate });
                        true
                    }
                    _ => {
                        lane.first = Some((rate, tries));
                        false
                    }
                }
            }
            Some(trial) => trial.span_is_over(write, self.lanes.max(trial.other)),
            None => false,
        }
    }

    /// Begins the trial that is due, if any.
    fn begin(&mut self) {
        for (at, direction) in DIRECTIONS.into_iter().enumerate() {
            let Schedule { due, factor, .. } = self.schedule[at];
            if self.writes < due {
                continue;
            }
            let base = match self.typical {
                0 => self.rows,
                typical => typical.min(self.rows),
            };
            let other = match direction {
                Direction::FewerRows => (self.bounds.rows && self.typical > 0)
                    .then(|| base / factor)
                    .filter(|rows| *rows >= ROWS_LEAST),
                Direction::MoreRows => (self.bounds.rows && self.rows < self.bounds.rows_max)
                    .then(|| self.rows.saturating_mul(2).min(self.bounds.rows_max)),
                Direction::FewerLanes => (self.bounds.lanes && self.lanes > 1).then(|| match factor {
                    2 => self.lanes - 1,
                    _ => self.lanes / 2,
                }),
                Direction::MoreLanes => {
                    (self.bounds.lanes && self.lanes < self.bounds.lanes_max).then(|| self.lanes + 1)
                }
            };
            if let Some(other) = other {
                self.trial = Some(Trial {
                    direction,
                    other,
                    begun: self.writes,
                    gains: Vec::new(),
                    span: Span::default(),
                });
                for lane in &mut self.lane {
                    (lane.turn, lane.first) = (0, None);
                }
                return;
            }
        }
    }

    /// Ends the trial where its pairs tell enough.
    fn judge(&mut self) {
        let Some(trial) = &self.trial else { return };
        let of_rows = trial.direction.is_of_rows();
        let looks: &[usize] = if of_rows { &LOOKS } else { &LOOKS_OF_LANES };
        let count = trial.gains.len();
        let worse = if of_rows { HOPELESS } else { HOPELESS_OF_LANES };
        let hopeless = count == 2 && trial.gains.iter().all(|gain| *gain < -worse);
        let is_last = looks.last().is_some_and(|last| count >= *last);
        if !hopeless && !looks.contains(&count) && !is_last {
            return;
        }
        let Some((mean, low, high)) = interval(&trial.gains) else {
            return;
        };
        let (direction, other) = (trial.direction, trial.other);
        if low > 0.0 && mean > GAIN {
            let from = match of_rows {
                true => std::mem::replace(&mut self.rows, other),
                false => {
                    self.allowed = other;
                    std::mem::replace(&mut self.lanes, other)
                }
            };
            let from = match (of_rows, self.typical) {
                (true, typical) if typical > 0 && direction == Direction::FewerRows => from.min(typical),
                _ => from,
            };
            self.typical = if of_rows { 0 } else { self.typical };
            self.moves.push(Move {
                writes: self.writes,
                of_rows,
                from,
                to: other,
                faster: mean.exp(),
                pairs: count,
            });
            self.trial = None;
            self.after(direction, 1, WAIT);
            // What was just left is not what is better.
            self.after(direction.opposite(), PATIENCE * WAIT, PATIENCE * WAIT);
        } else if hopeless || is_last || high < GAIN {
            self.keep();
        }
    }

    /// Ends the trial without a change.
    fn keep(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        self.kept += 1;
        let schedule = &mut self.schedule[place(trial.direction)];
        schedule.factor = 2;
        schedule.due = self.writes + schedule.wait;
        schedule.wait = schedule.wait.saturating_mul(PATIENCE).min(WAIT_MAX);
    }

    /// The next trial in a direction begins after so many more writes.
    fn after(&mut self, direction: Direction, writes: u64, wait: u64) {
        let schedule = &mut self.schedule[place(direction)];
        schedule.due = self.writes + writes;
        schedule.wait = wait;
    }

    /// Leaves what is being tried; it is tried again later.
    fn abandon(&mut self) {
        if let Some(trial) = self.trial.take() {
            let at = place(trial.direction);
            self.schedule[at].due = self.writes + self.schedule[at].wait;
        }
    }
}

impl Trial {
    /// Takes a write into the span; whether that has completed a pair of spans. `lanes` are those of the larger of the two.
    fn span_is_over(&mut self, write: &Committed, lanes: usize) -> bool {
        let span = &mut self.span;
        span.commits += 1;
        let passed = lanes as u64;
        if span.commits <= passed {
            span.from_seconds = write.at_seconds;
            return false;
        }
        span.rows += write.rows as u64;
        let seconds = write.at_seconds - span.from_seconds;
        let counted = span.commits - passed;
        if counted < SPAN.max(4 * lanes as u64) || seconds < SPAN_SECONDS {
            return false;
        }
        let tries = matches!(span.turn % 4, 1 | 2);
        let rate = (span.rows.max(1) as f64 / seconds).ln();
        let first = span.first.take();
        *span = Span {
            turn: span.turn + 1,
            ..Span::default()
        };
        match first {
            Some((first, is_other)) if is_other != tries => {
                self.gains.push(if tries { rate - first } else { first - rate });
                true
            }
            _ => {
                span.first = Some((rate, tries));
                false
            }
        }
    }
}

fn place(direction: Direction) -> usize {
    DIRECTIONS
        .iter()
        .position(|one| *one == direction)
        .unwrap_or_default()
}

/// The mean of the gains and its 99 % interval; none of fewer than two.
fn interval(gains: &[f64]) -> Option<(f64, f64, f64)> {
    let count = gains.len();
    let (mean, variance) = tonnage_core::student::mean_and_variance(gains)?;
    let freedom = count.checked_sub(1).filter(|freedom| *freedom > 0)?;
    let deviation = variance.sqrt().max(DEVIATION_LEAST);
    let half = student_99(freedom) * deviation / (count as f64).sqrt();
    Some((mean, mean - half, mean + half))
}

#[cfg(test)]
mod tests;
