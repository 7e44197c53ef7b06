//! Where the time of a run goes: reading, dealing, and of each lane what it waits for.
//!
//! A lane's calls of its writer are timed poll by poll: what happens within a poll is work of this process, such as
//! encoding rows; what passes between polls is waited for the network and the database, which look the same from here.
//! The shortest opening of a transaction tells how long a round trip takes, and so how much of that waiting is the way; but
//! for databases in this process ([`Opening`]).

use std::{
    future::poll_fn,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use tonnage_core::{
    report::{Bottleneck, BoundBy, LaneReport, Stages},
    target::Capabilities,
};

/// Opening a transaction takes a round trip. Where it takes less than this the database is near.
const FAR: Duration = Duration::from_micros(500);
/// A shard whose lanes are at work for this much more of the time than those of others is what these wait for.
const APART: f64 = 0.3;

/// What the shortest opening of a transaction says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Opening {
    /// How long a round trip takes.
    #[default]
    RoundTrip,
    /// Nothing of a way, as there is none: it takes a lock on a file and moves the ledger in it, which may take longer than
    /// [`FAR`].
    Lock,
}

impl Opening {
    /// Of a database. One behind a server bounds no number of writers; one that does is a library in this process.
    pub fn of(capabilities: &Capabilities) -> Self {
        match capabilities.writers_max {
            None => Self::RoundTrip,
            Some(_) => Self::Lock,
        }
    }
}

/// What a lane spent its time on, in nanoseconds.
#[derive(Debug, Default)]
pub struct LaneTimes {
    idle: AtomicU64,
    held: AtomicU64,
    working: AtomicU64,
    waiting: AtomicU64,
    committing: AtomicU64,
}

/// What is measured while a run goes on.
#[derive(Debug, Default)]
pub struct Times {
    lanes: Vec<LaneTimes>,
    reading: AtomicU64,
    dealing: AtomicU64,
    full: AtomicU64,
    /// The shortest opening of a transaction; 0 before the first.
    round_trip: AtomicU64,
    opening: Opening,
}

fn add(counter: &AtomicU64, since: Instant) {
    counter.fetch_add(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
}

impl Times {
    /// Of so many lanes, to a database of which opening a transaction says `opening`.
    pub fn new(lanes: usize, opening: Opening) -> Self {
        Self {
            lanes: (0..lanes).map(|_| LaneTimes::default()).collect(),
            opening,
            ..Self::default()
        }
    }

    /// What the shortest opening says.
    pub fn opening(&self) -> Opening {
        self.opening
    }

    /// The source was asked for a block at `since`, and has answered.
    pub fn read(&self, since: Instant) {
        add(&self.reading, since);
    }

    /// A block was taken up at `since`, and was dealt.
    pub fn dealt(&self, since: Instant) {
        add(&self.dealing, since);
    }

    /// The dealer waited for room.
    pub fn full(&self, since: Instant) {
        add(&self.full, since);
    }

    /// A lane waited for rows.
    pub fn idle(&self, lane: usize, since: Instant) {
        self.of(lane, |lane| add(&lane.idle, since));
    }

    /// A lane waited for its turn, for the rate that was asked for, or before another attempt.
    pub fn held(&self, lane: usize, since: Instant) {
        self.of(lane, |lane| add(&lane.held, since));
    }

    /// A call of a lane's writer.
    pub async fn call<T>(&self, lane: usize, call: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let mut working = Duration::ZERO;
        let mut call = pin!(call);
        let answer = poll_fn(|context| {
            let polled_at = Instant::now();
            let polled = call.as_mut().poll(context);
            working += polled_at.elapsed();
            polled
        })
        .await;
        let waiting = began.elapsed().saturating_sub(working);
        self.of(lane, |lane| {
            lane.working
                .fetch_add(working.as_nanos() as u64, Ordering::Relaxed);
            lane.waiting
                .fetch_add(waiting.as_nanos() as u64, Ordering::Relaxed);
        });
        answer
    }

    /// A call that commits.
    pub async fn commit<T>(&self, lane: usize, call: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let answer = self.call(lane, call).await;
        self.of(lane, |lane| add(&lane.committing, began));
        answer
    }

    /// A call that opens a transaction.
    pub async fn begin<T>(&self, lane: usize, call: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let answer = self.call(lane, call).await;
        let took = (began.elapsed().as_nanos() as u64).max(1);
        let shorter = |known: u64| (known == 0 || took < known).then_some(took);
        let _ = self
            .round_trip
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, shorter);
        answer
    }

    fn of(&self, lane: usize, each: impl FnOnce(&LaneTimes)) {
        if let Some(lane) = self.lanes.get(lane) {
            each(lane);
        }
    }

    /// What was measured, of a run of so many `seconds`; `shard` names the shard of a lane that writes to one only.
    pub fn report(&self, seconds: f64, shard: impl Fn(usize) -> Option<String>) -> Stages {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64 / 1e9;
        let lanes = self.lanes.iter().enumerate().map(|(at, lane)| LaneReport {
            shard: shard(at),
            idle_seconds: get(&lane.idle),
            held_seconds: get(&lane.held),
            encoding_seconds: get(&lane.working),
            target_seconds: get(&lane.waiting),
            commit_seconds: get(&lane.committing),
        });
        Stages {
            seconds,
            reading_seconds: get(&self.reading),
            dealing_seconds: get(&self.dealing),
            full_seconds: get(&self.full),
            round_trip_seconds: get(&self.round_trip),
            lanes: lanes.collect(),
        }
    }
}

/// What more of would have made the run faster, and why that is thought. `statements` and `commits` are each a round trip
/// or more.
pub(super) fn bound_by(stages: &Stages, opening: Opening, statements: u64, commits: u64) -> BoundBy {
    let lanes = stages.lanes.len().max(1) as f64;
    let in_all = (stages.seconds * lanes).max(1e-9);
    let sum = |of: fn(&LaneReport) -> f64| stages.lanes.iter().map(of).sum::<f64>();
    let percent = |share: f64| (share * 100.0).clamp(0.0, 100.0).round() as u64;
    let of = |seconds: f64| percent(seconds / in_all);
    if let Some((name, own, others)) = slowest(stages) {
        return BoundBy {
            bottleneck: Bottleneck::Shard(name),
            why: format!(
                "its lanes were at work {}% of the time, those of the others {}%",
                percent(own),
                percent(others)
            ),
        };
    }
    let (idle, held) = (sum(|lane| lane.idle_seconds), sum(|lane| lane.held_seconds));
    let (encoding, target) = (sum(|lane| lane.encoding_seconds), sum(|lane| lane.target_seconds));
    // A transaction is opened and committed besides.
    let trips = statements + 2 * commits;
    let is_far = opening == Opening::RoundTrip && stages.round_trip_seconds > FAR.as_secs_f64();
    let (bottleneck, why) = if idle > in_all / 2.0 && stages.dealing_seconds > stages.reading_seconds {
        let why = format!(
            "lanes waited {}% of the time for rows to be converted and sorted",
            of(idle)
        );
        (Bottleneck::Encoder, why)
    } else if idle > in_all / 2.0 {
        let why = format!("lanes waited {}% of the time for rows", of(idle));
        (Bottleneck::Source, why)
    } else if held > encoding + target {
        let why = format!(
            "the rate, the number of jobs or retries held lanes back {}% of the time",
            of(held)
        );
        (Bottleneck::Pace, why)
    } else if encoding > target {
        let why = format!("lanes encoded rows {}% of the time", of(encoding));
        (Bottleneck::Encoder, why)
    } else if is_far && trips as f64 * stages.round_trip_seconds > target / 2.0 {
        let why = format!(
            "{trips} round trips of {:.1} ms or more, for which lanes waited {}% of the time",
            stages.round_trip_seconds * 1e3,
            of(target)
        );
        (Bottleneck::Network, why)
    } else {
        (
            Bottleneck::Target,
            format!("lanes waited for it {}% of the time", of(target)),
        )
    };
    BoundBy { bottleneck, why }
}

/// The shard that the others wait for, its share of the time at work, and theirs.
fn slowest(stages: &Stages) -> Option<(String, f64, f64)> {
    let mut shards: Vec<(&str, f64, f64)> = Vec::new();
    for lane in &stages.lanes {
        let name = lane.shard.as_deref()?;
        match shards.iter_mut().find(|shard| shard.0 == name) {
            Some(shard) => {
                shard.1 += lane.busy();
                shard.2 += stages.seconds;
            }
            None => shards.push((name, lane.busy(), stages.seconds)),
        }
    }
    let share = |shard: &(&str, f64, f64)| shard.1 / shard.2.max(1e-9);
    let first = *shards.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let others: Vec<f64> = shards
        .iter()
        .filter(|shard| shard.0 != first.0)
        .map(share)
        .collect();
    let most = others.iter().copied().fold(0.0, f64::max);
    let is_bound = !others.is_empty() && share(&first) > 0.5 && share(&first) > most + APART;
    is_bound.then(|| (first.0.to_owned(), share(&first), most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(shard: &str, [idle, held, encoding, target]: [f64; 4]) -> LaneReport {
        LaneReport {
            shard: (!shard.is_empty()).then(|| shard.to_owned()),
            idle_seconds: idle,
            held_seconds: held,
            encoding_seconds: encoding,
            target_seconds: target,
            commit_seconds: 0.0,
        }
    }

    #[test]
    fn the_sentence_names_what_was_waited_for() {
        /// Lanes, seconds of reading, of dealing and of a round trip, and the beginning of the sentence.
        type Case<'a> = (&'a [(&'a str, [f64; 4])], [f64; 3], &'a str);
        let cases: &[Case<'_>] = &[
            (
                &[("", [8.0, 0.0, 1.0, 1.0])],
                [9.0, 1.0, 0.0],
                "the source: lanes waited 80%",
            ),
            (
                &[("", [8.0, 0.0, 1.0, 1.0])],
                [2.0, 9.0, 0.0],
                "the encoder: lanes waited 80%",
            ),
            (
                &[("", [1.0, 0.0, 6.0, 3.0])],
                [2.0, 1.0, 0.0],
                "the encoder: lanes encoded",
            ),
            (
                &[("", [1.0, 0.0, 1.0, 8.0])],
                [2.0, 1.0, 1e-4],
                "the target: lanes waited for it 80%",
            ),
            (
                &[("", [1.0, 0.0, 1.0, 8.0])],
                [2.0, 1.0, 0.07],
                "the network: 120 round trips of 70.0 ms",
            ),
            (&[("", [1.0, 8.0, 0.0, 1.0])], [2.0, 1.0, 0.0], "the pace"),
            (
                &[("a", [1.0, 0.0, 1.0, 8.0]), ("b", [8.0, 0.0, 1.0, 1.0])],
                [2.0, 1.0, 0.0],
                "the shard a: its lanes were at work 90% of the time, those of the others 20%",
            ),
            (
                &[("a", [1.0, 0.0, 1.0, 8.0]), ("b", [1.5, 0.0, 1.0, 7.5])],
                [2.0, 1.0, 0.0],
                "the target",
            ),
            (
                &[("a", [9.0, 0.0, 0.5, 0.5]), ("b", [8.0, 0.0, 1.0, 1.0])],
                [9.0, 1.0, 0.0],
                "the source",
            ),
        ];
        for (lanes, [reading, dealing, round_trip], expected) in cases {
            let stages = Stages {
                seconds: 10.0,
                reading_seconds: *reading,
                dealing_seconds: *dealing,
                round_trip_seconds: *round_trip,
                lanes: lanes.iter().map(|(shard, times)| lane(shard, *times)).collect(),
                ..Stages::default()
            };
            let sentence = bound_by(&stages, Opening::RoundTrip, 100, 10).to_string();
            assert!(sentence.starts_with(expected), "{sentence}, not {expected}");
            // In this process no opening is long because of a network.
            let here = bound_by(&stages, Opening::Lock, 100, 10).to_string();
            let expected = expected.replace("the network: 120 round trips of 70.0 ms", "the target: lanes");
            assert!(here.starts_with(&expected), "{here}, not {expected}");
        }
    }
}
