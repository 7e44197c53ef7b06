//! Loads that are hit by faults, over every target: killed, cut off, stalled, taken over, out of room, with a wrong clock,
//! with a server that dies. Whatever happened, once a load has been gone on with to its end the table holds every row
//! once with every value, the rejects every bad row once, and the account agrees.
//!
//! A few rounds, or TONNAGE_FAULT_ROUNDS of them a target: `make test-faults` asks for a hundred. A round tells its
//! seed; TONNAGE_FAULT_SEED runs the round of one seed alone. A round that fails does not keep the others from running;
//! what it leaves is kept, in the directory TONNAGE_FAULT_DIRECTORY, where the table of all rounds is written as well.

mod altered;
mod buffer;
mod cassandra;
mod disk;
mod overload;
mod planned;
mod promoted;
mod relative;
mod restored;
pub mod room;
mod round;
mod scenario;
pub mod servers;
mod tally;
mod target;
mod wire;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread::sleep,
    time::{Duration, Instant},
};

use self::{tally::Tally, target::Target};
use crate::events::Chance;

/// Rounds of a target where nobody asks for more: one of each operation.
const ROUNDS: u64 = 4;

/// What anything may take that is waited for, so that what hangs ends in a failure, and costs a night no more than this.
const TIME_MAX: Duration = Duration::from_secs(15 * 60);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// Rounds that may fail before no more of a target are begun: what they leave takes room.
const FAILURES_MAX: usize = 10;

/// What a load, or a buffer, meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL at some moment.
    Kill,
    /// SIGKILL of the server, or of a node, which comes back; in some rounds the load is killed as well.
    Server,
    /// Connections are cut behind any byte.
    Cut,
    /// Connections are cut around a COMMIT.
    Commit,
    /// Nothing passes for a while.
    Stall,
    /// Another process takes the run over.
    Second,
    /// The server's disk is full, or files may not grow beyond a size: the table's, the ledger's, the rejects', the
    /// journal's.
    Disk,
    /// The report's disk is full.
    Report,
    /// The time is another one.
    Clock,
    /// Somebody else locks the table for a while.
    Lock,
    /// A copy of the journal is opened beside it, or put in its place.
    Copy,
    /// Somebody else alters the table, or puts another in its place, for a while.
    Alter,
    /// A file is written to while it is read, and then is again what it was, with its size and time.
    Source,
    /// The database, its ledger included, is put back to what it was between two earlier attempts.
    Restore,
}

impl Fault {
    /// Each with its name.
    pub const ALL: [(Self, &str); 14] = [
        (Self::Kill, "kill"),
        (Self::Server, "server"),
        (Self::Cut, "cut"),
        (Self::Commit, "commit"),
        (Self::Stall, "stall"),
        (Self::Second, "second"),
        (Self::Disk, "disk"),
        (Self::Report, "report"),
        (Self::Clock, "clock"),
        (Self::Lock, "lock"),
        (Self::Copy, "copy"),
        (Self::Alter, "alter"),
        (Self::Source, "source"),
        (Self::Restore, "restore"),
    ];
}

/// How many rounds are asked for, if any number is.
fn asked() -> Option<u64> {
    let rounds = std::env::var("TONNAGE_FAULT_ROUNDS").ok()?;
    Some(rounds.parse().expect("TONNAGE_FAULT_ROUNDS is a number"))
}

fn rounds(few: u64) -> u64 {
    asked().unwrap_or(few)
}

/// The seed that is to be seen again, if one is.
fn seed() -> Option<u64> {
    let seed = std::env::var("TONNAGE_FAULT_SEED").ok()?;
    Some(seed.parse().expect("TONNAGE_FAULT_SEED is a number"))
}

/// Waits until something is so, which has a name for when it never is.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + TIME_MAX;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not within {TIME_MAX:?}");
        sleep(LOOK);
    }
}

/// Runs rounds against the target that `make` makes, of each operation as many.
fn rounds_against(make: fn() -> Target) {
    let mut target = make();
    if let Some(seed) = seed() {
        return round::run(&mut target, seed, &mut Vec::new());
    }
    let mut chance = Chance::new();
    let mut tally = Tally::new(target.name);
    let operations = target.operations().len() as u64;
    for number in 0..rounds(ROUNDS) {
        let seed = (chance.next() >> 1) / operations * operations + number % operations;
        let mut met = Vec::new();
        let round = || round::run(&mut target, seed, &mut met);
        let survived = catch_unwind(AssertUnwindSafe(round)).is_ok();
        if tally.add(&met, (!survived).then_some(seed)) == FAILURES_MAX {
            break;
        }
        if !survived {
            // The server may be in any state.
            target = make();
        }
    }
    tally.check();
}

#[test]
fn rounds_of_sqlite() {
    rounds_against(Target::sqlite);
}

#[test]
fn rounds_of_postgres() {
    rounds_against(Target::postgres);
}

#[test]
fn rounds_of_partitioned_postgres() {
    rounds_against(Target::partitioned);
}

#[test]
fn rounds_of_unlogged_postgres() {
    rounds_against(Target::unlogged);
}

#[test]
fn rounds_of_sharded_postgres() {
    rounds_against(Target::sharded);
}

#[test]
fn rounds_of_mariadb() {
    rounds_against(Target::mariadb);
}

#[test]
fn rounds_of_mysql() {
    rounds_against(Target::mysql);
}

#[test]
fn rounds_of_oceanbase() {
    rounds_against(Target::oceanbase);
}

#[test]
fn rounds_of_galera() {
    rounds_against(Target::galera);
}

#[test]
fn a_load_whose_server_says_nothing_any_more_can_be_interrupted() {
    for mut target in [Target::postgres(), Target::mariadb()] {
        round::run_stalled(&mut target, Chance::new().next());
    }
}

#[test]
fn rounds_of_cassandra() {
    // Where many rounds are asked for, nobody else has the cluster.
    rounds_against(|| Target::cassandra(asked().is_some()));
}
