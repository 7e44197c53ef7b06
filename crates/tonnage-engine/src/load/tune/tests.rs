//! The controller against simulated databases: what it settles on, what that costs, and that it does not move without reason.

use std::collections::BinaryHeap;

use super::*;

/// A generator of numbers, so that a test is the same every time (SplitMix64).
struct Dice(u64);

impl Dice {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Normal, with a mean of 0 and a deviation of 1.
    fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }
}

/// What a write costs: `a + c rows + d rows^2` seconds, and each further lane that writes at once `sharing` of that more.
#[derive(Clone, Copy)]
struct Database {
    a: f64,
    c: f64,
    d: f64,
    sharing: f64,
    /// The deviation of the logarithm of a write's time.
    noise: f64,
    /// How much slower it becomes a second.
    drift: f64,
    /// A neighbour takes half of it every other so many seconds; 0 for none.
    neighbour: f64,
    /// Rows of a write that it refuses from; 0 for none.
    refuses: usize,
    /// Rows a second that the source brings; 0 for as many as are wanted.
    source: f64,
}

const FLAT: Database = Database {
    a: 0.001,
    c: 5e-6,
    d: 0.0,
    sharing: 0.0,
    noise: 0.05,
    drift: 0.0,
    neighbour: 0.0,
    refuses: 0,
    source: 0.0,
};

impl Database {
    fn seconds(&self, rows: usize, lanes: usize, at: f64, dice: &mut Dice) -> f64 {
        let rows = rows as f64;
        let alone = self.a + self.c * rows + self.d * rows * rows;
        let shared = alone * (1.0 + self.sharing * (lanes.saturating_sub(1)) as f64);
        let away = self.neighbour > 0.0 && (at / self.neighbour) as u64 % 2 == 1;
        let slower = (1.0 + self.drift * at) * if away { 2.0 } else { 1.0 };
        shared * slower * (self.noise * dice.normal()).exp()
    }

    /// Rows a second with writes of so many rows by so many lanes, without noise.
    fn rate(&self, rows: usize, lanes: usize) -> f64 {
        let quiet = Self {
            noise: 0.0,
            drift: 0.0,
            neighbour: 0.0,
            ..*self
        };
        lanes as f64 * rows as f64 / quiet.seconds(rows, lanes, 0.0, &mut Dice(1))
    }
}

struct Ran {
    controller: Controller,
    rows: f64,
    seconds: f64,
    refused: u64,
}

impl Ran {
    fn rate(&self) -> f64 {
        self.rows / self.seconds
    }
}

/// Runs so many writes with as many lanes as the bounds have.
fn run(database: Database, bounds: Bounds, writes: u64, seed: u64) -> Ran {
    let mut dice = Dice(seed);
    let lanes = bounds.lanes_max;
    let mut controller = Controller::new(bounds, lanes);
    // When a lane is done, as an integer so that it has an order; the earliest first.
    let nanos = |seconds: f64| std::cmp::Reverse((seconds * 1e9) as u64);
    let mut under_way: BinaryHeap<(std::cmp::Reverse<u64>, usize)> = BinaryHeap::new();
    let mut waiting: Vec<usize> = (0..lanes).rev().collect();
    let mut at_hand = vec![(0_usize, 0.0_f64, 0.0_f64); lanes];
    let (mut now, mut done, mut rows_in_all, mut refused) = (0.0_f64, 0, 0.0, 0);
    while done < writes {
        while under_way.len() < controller.lanes() {
            let Some(lane) = waiting.pop() else { break };
            let rows = controller.rows(lane);
            if database.refuses > 0 && rows >= database.refuses {
                refused += 1;
                controller.overloaded();
                controller.too_many(lane, rows);
                waiting.insert(0, lane);
                continue;
            }
            let brought = match database.source > 0.0 {
                true => rows as f64 / database.source * lanes as f64,
                false => 0.0,
            };
            let seconds = database.seconds(rows, under_way.len() + 1, now, &mut dice);
            let idle = (brought - seconds).max(0.0);
            at_hand[lane] = (rows, seconds, idle);
            under_way.push((nanos(now + idle + seconds), lane));
        }
        let Some((std::cmp::Reverse(at), lane)) = under_way.pop() else {
            continue;
        };
        now = at as f64 / 1e9;
        let (rows, seconds, idle_seconds) = at_hand[lane];
        rows_in_all += rows as f64;
        done += 1;
        controller.committed(Committed {
            lane,
            rows,
            full: true,
            seconds,
            idle_seconds,
            at_seconds: now,
        });
        waiting.insert(0, lane);
    }
    Ran {
        controller,
        rows: rows_in_all,
        seconds: now,
        refused,
    }
}

const BOTH: Bounds = Bounds {
    rows_max: 65_536,
    lanes_max: 4,
    rows: true,
    lanes: true,
};

fn fixed(bounds: Bounds) -> Bounds {
    Bounds {
        rows: false,
        lanes: false,
        ..bounds
    }
}

/// The same rows without tuning would go in so much slower.
fn gain(database: Database, bounds: Bounds, writes: u64, seed: u64) -> f64 {
    run(database, bounds, writes, seed).rate() / run(database, fixed(bounds), writes, seed).rate()
}

#[test]
fn a_short_load_is_what_it_always_was() {
    for seed in 0..20 {
        let ran = run(Database { d: 1e-9, ..FLAT }, BOTH, BEGIN, seed);
        assert_eq!(ran.rows, 65_536.0 * BEGIN as f64);
    }
}

#[test]
fn where_nothing_is_to_be_gained_nothing_is_lost() {
    for noise in [0.02, 0.1, 0.3] {
        for seed in 0..20 {
            let database = Database { noise, ..FLAT };
            let ran = run(database, BOTH, 4_000, seed);
            let moves = ran.controller.moves();
            assert!(moves.len() <= 1, "noise {noise}, seed {seed}: {moves:?}");
            let gained = gain(database, BOTH, 4_000, seed);
            assert!(gained > 0.93, "noise {noise}, seed {seed}: {gained}");
        }
    }
}

#[test]
fn large_writes_that_cost_more_than_their_share_become_smaller() {
    // The fastest has sqrt(a/d) rows: 1,000.
    let convex = Database { d: 1e-9, ..FLAT };
    assert!(convex.rate(1_000, 1) > 5.0 * convex.rate(65_536, 1));
    for seed in 0..20 {
        let ran = run(convex, BOTH, 4_000, seed);
        let rows = ran.controller.settled_rows();
        let reached = convex.rate(rows, 4) / convex.rate(1_000, 4);
        assert!(
            reached > 0.9,
            "seed {seed}: {rows} rows, {reached}: {:?}",
            ran.controller.moves()
        );
        // The first writes, before anything is tried, take most of the time of so few.
        assert!(gain(convex, BOTH, 20_000, seed) > 3.0, "seed {seed}");
    }
}

#[test]
fn lanes_that_cost_each_other_more_than_they_bring_become_fewer() {
    // Four lanes take 4 / (1 + 3 * 0.8) = 1.2 of one; two take 2 / 1.8. So four stay.
    let modest = Database { sharing: 0.8, ..FLAT };
    // Four of these take 4 / 7.
    let crowded = Database { sharing: 2.0, ..FLAT };
    for seed in 0..20 {
        let ran = run(modest, BOTH, 4_000, seed);
        assert_eq!(
            ran.controller.settled_lanes(),
            4,
            "seed {seed}: {:?}",
            ran.controller.moves()
        );
        let ran = run(crowded, BOTH, 4_000, seed);
        let lanes = ran.controller.settled_lanes();
        let reached = crowded.rate(65_536, lanes) / crowded.rate(65_536, 1);
        assert!(
            reached > 0.85,
            "seed {seed}: {lanes} lanes, {reached}: {:?}",
            ran.controller.moves()
        );
    }
}

#[test]
fn a_database_that_becomes_slower_or_has_a_neighbour_is_no_reason_to_move() {
    let drifting = Database { drift: 0.01, ..FLAT };
    let visited = Database {
        neighbour: 3.0,
        ..FLAT
    };
    for (name, database) in [("drift", drifting), ("neighbour", visited)] {
        for seed in 0..20 {
            let ran = run(database, BOTH, 4_000, seed);
            let moves = ran.controller.moves();
            assert!(moves.len() <= 1, "{name}, seed {seed}: {moves:?}");
        }
    }
}

#[test]
fn it_finds_what_is_better_beside_a_neighbour_and_noise_as_well() {
    let convex = Database {
        d: 1e-9,
        noise: 0.3,
        neighbour: 2.0,
        ..FLAT
    };
    for seed in 0..20 {
        assert!(gain(convex, BOTH, 20_000, seed) > 2.0, "seed {seed}");
    }
}

#[test]
fn it_settles_and_does_not_go_to_and_fro() {
    for noise in [0.05, 0.3] {
        let convex = Database {
            d: 1e-9,
            noise,
            ..FLAT
        };
        for seed in 0..20 {
            let ran = run(convex, BOTH, 20_000, seed);
            let moves = ran.controller.moves();
            let back = moves
                .iter()
                .filter(|one| one.of_rows && one.to > one.from)
                .count();
            assert!(
                moves.len() <= 8 && back <= 1,
                "noise {noise}, seed {seed}: {moves:?}"
            );
            let late = moves.iter().filter(|one| one.writes > 10_000).count();
            assert!(late <= 1, "noise {noise}, seed {seed}: {moves:?}");
        }
    }
}

#[test]
fn a_source_that_is_the_slower_is_left_alone() {
    let starved = Database {
        d: 1e-9,
        source: 2_000.0,
        ..FLAT
    };
    for seed in 0..5 {
        let ran = run(starved, BOTH, 500, seed);
        assert_eq!(ran.controller.moves(), []);
        assert_eq!(ran.controller.trials_kept(), 0);
    }
}

#[test]
fn what_is_too_much_is_tried_ever_more_seldom() {
    let strict = Database {
        refuses: 10_000,
        ..FLAT
    };
    let ran = run(strict, BOTH, 4_000, 1);
    let tuned = ran.refused;
    let fixed = run(strict, fixed(BOTH), 4_000, 1).refused;
    assert!(tuned * 5 < fixed, "{tuned} refusals, {fixed} without memory");
    // Of a run of fixed sizes each refusal halves the write, and each commit doubles it again.
    assert!(fixed > 500, "{fixed}");
}

#[test]
fn an_overload_takes_a_lane_and_gives_it_back() {
    let mut controller = Controller::new(BOTH, 4);
    let commit = |controller: &mut Controller| {
        controller.committed(Committed {
            lane: 0,
            rows: 100,
            full: true,
            seconds: 0.01,
            idle_seconds: 0.0,
            at_seconds: 1.0,
        });
    };
    for _ in 0..5 {
        controller.overloaded();
    }
    assert_eq!((controller.lanes(), controller.is_overloaded()), (1, true));
    for _ in 0..3 * WRITES_TO_GROW {
        commit(&mut controller);
    }
    assert_eq!((controller.lanes(), controller.is_overloaded()), (4, false));
    controller.too_many(2, 1_000);
    assert_eq!((controller.rows(2), controller.rows(1)), (500, 65_536));
}

#[test]
fn a_move_is_told_in_words() {
    let of = |of_rows, from, to| Move {
        writes: 100,
        of_rows,
        from,
        to,
        faster: 1.414,
        pairs: 6,
    };
    assert_eq!(
        of(true, 65_536, 16_384).to_string(),
        "16,384 rows a write, not 65,536: 1.41x faster in 6 pairs"
    );
    assert_eq!(
        of(false, 4, 1).to_string(),
        "1 job, not 4: 1.41x faster in 6 pairs"
    );
}
