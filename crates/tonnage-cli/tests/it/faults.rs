//! Loads that are hit by faults, over every target: killed, cut off, stalled, taken over, out of room, with a wrong clock,
//! with a server that dies. Whatever happened, once a load has been gone on with to its end the table holds every row
//! once with every value, the rejects every bad row once, and the account agrees.
//!
//! A few rounds, or TONNAGE_FAULT_ROUNDS of them a target: `make test-faults` asks for a hundred. A round tells its
//! seed; TONNAGE_FAULT_SEED runs the round of one seed alone.

mod buffer;
mod disk;
mod overload;
mod round;
mod scenario;
mod servers;
mod target;
mod wire;

use self::target::Target;
use crate::events::Chance;

/// Rounds of a target where nobody asks for more: one of each operation.
const ROUNDS: u64 = 4;

/// How many rounds are asked for, if any number is.
fn asked() -> Option<u64> {
    let rounds = std::env::var("TONNAGE_FAULT_ROUNDS").ok()?;
    Some(rounds.parse().expect("TONNAGE_FAULT_ROUNDS is a number"))
}

fn rounds(few: u64) -> u64 {
    asked().unwrap_or(few)
}

/// Runs rounds against `target`, of each operation as many.
fn rounds_against(mut target: Target) {
    if let Ok(seed) = std::env::var("TONNAGE_FAULT_SEED") {
        let seed = seed.parse().expect("TONNAGE_FAULT_SEED is a number");
        return round::run(&mut target, seed);
    }
    let mut chance = Chance::new();
    let operations = target.operations().len() as u64;
    for number in 0..rounds(ROUNDS) {
        let seed = (chance.next() >> 1) / operations * operations + number % operations;
        round::run(&mut target, seed);
    }
}

#[test]
fn rounds_of_sqlite() {
    rounds_against(Target::sqlite());
}

#[test]
fn rounds_of_postgres() {
    rounds_against(Target::postgres());
}

#[test]
fn rounds_of_partitioned_postgres() {
    rounds_against(Target::partitioned());
}

#[test]
fn rounds_of_sharded_postgres() {
    rounds_against(Target::sharded());
}

#[test]
fn rounds_of_mariadb() {
    rounds_against(Target::mariadb());
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
    rounds_against(Target::cassandra(asked().is_some()));
}
