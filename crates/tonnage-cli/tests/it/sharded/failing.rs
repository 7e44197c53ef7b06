//! Members that are away or fail, and what the others have done when the whole has failed.

use std::{thread::sleep, time::Duration};

use super::{MEMBERS, ROWS, Shards};
use crate::process::{Running, count, report, tonnage};

#[test]
fn a_member_that_is_away_from_the_beginning_gets_its_rows_by_a_resume() {
    let shards = Shards::new();
    let expected = shards.orders("orders.csv", ROWS);
    shards.take_away(2);
    let ran = shards.run("load orders.csv @orders -t orders --batch-rows 100 --report report.json");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: go on with --resume"), "{}", ran.stderr);
    let told = report(&shards.place().path("report.json"));
    assert_eq!(told["state"], "stopped");
    let name = told["shards"][2]["name"].as_str().expect("a name");
    assert!(name.contains(shards.0[2].name()), "{name}");
    let failed = format!("{} failed: 0 of its rows written", shards.0[2].name());
    assert!(ran.stderr.contains(&failed), "{}", ran.stderr);
    for member in [0, 1, 3] {
        assert!(told["shards"][member]["error"].is_null(), "{told:#}");
    }
    assert!(told["shards"][2]["error"].is_string(), "{told:#}");
    let unfinished = count(&told, "/rows/unfinished");
    assert!(unfinished > 0);
    // It is not forgotten, and not gone on with while the member is away: the error says which one it is.
    let refused = shards.refused("load orders.csv @orders -t orders --resume");
    let last: Vec<&str> = refused.lines().rev().take(2).collect();
    assert_eq!(
        last[0], "hint: a run goes on once all members can be reached; go on with --resume then",
        "{refused}"
    );
    assert!(
        last[1].starts_with("error: ") && last[1].contains(shards.0[2].name()),
        "{refused}"
    );
    let refused = shards.refused("load orders.csv @orders -t orders --truncate --restart");
    assert!(refused.contains("error"), "{refused}");
    shards.bring_back(2);
    assert_eq!(shards.counts()[2], 0);
    assert_eq!(shards.counts().iter().sum::<u64>(), ROWS - unfinished);
    shards.refused("load orders.csv @orders -t orders");
    shards.done("load orders.csv @orders -t orders --resume --report report.json");
    assert_eq!(shards.rows(), expected);
    let told = report(&shards.place().path("report.json"));
    assert_eq!(count(&told, "/rows/written"), unfinished);
    shards.check_ledgers(ROWS);
    let again = shards.done("load orders.csv @orders -t orders --resume");
    assert!(
        again.stderr.contains("has loaded all of this already"),
        "{}",
        again.stderr
    );
    assert_eq!(shards.rows(), expected);
}

#[test]
fn a_run_begins_only_where_most_members_know_of_it() {
    let shards = Shards::new();
    let expected = shards.orders("orders.csv", ROWS);
    shards.take_away(1);
    shards.take_away(2);
    let refused = shards.refused("load orders.csv @orders -t orders");
    assert!(
        refused.ends_with("hint: a run begins where most members can be reached, and 2 of 4 are\n"),
        "{refused}"
    );
    let named = [1, 2]
        .iter()
        .any(|member: &usize| refused.contains(shards.0[*member].name()));
    assert!(named, "{refused}");
    shards.bring_back(2);
    shards.bring_back(1);
    assert_eq!(shards.counts(), [0; MEMBERS]);
    // Nothing is left of it that another attempt would have to go on with.
    shards.done("load orders.csv @orders -t orders");
    assert_eq!(shards.rows(), expected);
    shards.check_ledgers(ROWS);
}

#[test]
fn a_member_that_goes_away_under_way_fails_alone() {
    let shards = Shards::new();
    let expected = shards.orders("orders.csv", ROWS);
    let mut command = tonnage();
    command
        .current_dir(shards.place().path(""))
        .env("HOME", shards.place().path(""))
        .args(
            "load orders.csv @orders -t orders --batch-rows 20 --rate 300/s --report report.json".split(' '),
        );
    let mut running = Running::start(&mut command);
    while shards.counts().contains(&0) {
        assert!(!running.has_ended(), "{}", running.wait().stderr);
        sleep(Duration::from_millis(2));
    }
    shards.take_away(1);
    let ended = running.wait();
    ended.expect(1);
    let told = report(&shards.place().path("report.json"));
    assert!(told["shards"][1]["error"].is_string(), "{told:#}");
    for member in [0, 2, 3] {
        assert!(told["shards"][member]["error"].is_null(), "{told:#}");
    }
    shards.bring_back(1);
    // The others have all of theirs.
    let written = |member: usize| told["shards"][member]["written"].as_u64().expect("a count");
    let counts = shards.counts();
    for (member, count) in counts.iter().enumerate() {
        assert!(written(member) <= *count, "{told:#}");
    }
    shards.done("load orders.csv @orders -t orders --resume");
    assert_eq!(shards.rows(), expected);
    for member in [0, 2, 3] {
        assert_eq!(
            shards.counts()[member],
            counts[member],
            "nothing was left to do for it"
        );
    }
    shards.check_ledgers(ROWS);
}

#[test]
fn a_table_that_a_member_does_not_take_is_told_where_it_was_made() {
    let shards = Shards::with("");
    let expected = shards.orders("orders.csv", 200);
    // A name that is taken by something that is no table.
    shards.0[2].sql("CREATE DOMAIN orders AS integer");
    let load = "load orders.csv @orders -t orders --create --key customer,id --type total=decimal(10,2)";
    let refused = shards.refused(load);
    let told = |start: &str| {
        let line = refused.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {refused}"))
    };
    // The working directory's database is shown without its name, also where it begins another one's.
    let shown = |member: usize| {
        let first = shards.place().name();
        shards.0[member].name().replace(first, "{name}")
    };
    assert!(told("error: ").contains(&shown(2)), "{refused}");
    let hint = told("hint: ");
    assert!(hint.contains("was made in 3 of 4 databases"), "{refused}");
    let made = "SELECT count(*) FROM pg_class WHERE relname = 'orders'";
    assert_eq!(shards.each(made), ["1", "1", "0", "1"]);
    for member in [0, 1, 3] {
        assert!(hint.contains(&shown(member)), "{member}: {refused}");
    }
    // The next attempt sees it too.
    shards.0[2].sql("DROP DOMAIN orders");
    let refused = shards.refused(load);
    assert!(refused.contains("there is no table orders, as"), "{refused}");
    for member in [0, 1, 3] {
        shards.0[member].sql("DROP TABLE orders");
    }
    shards.done(load);
    assert_eq!(shards.rows(), expected);
}

#[test]
fn a_run_that_is_killed_while_it_is_finished_is_over_and_the_next_attempt_finishes_the_rest() {
    let shards = Shards::new();
    // So that the ledger is there.
    shards.orders("first.csv", 1);
    shards.done("load first.csv @orders -t orders --mode upsert");
    // The third of four members takes for ever to finish a run.
    shards.0[2].sql(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM pg_sleep(100000); RETURN NEW; END'; \
         CREATE TRIGGER waits BEFORE UPDATE ON tonnage_runs FOR EACH ROW \
         WHEN (OLD.finished IS NULL AND NEW.finished IS NOT NULL) EXECUTE FUNCTION wait()",
    );
    let expected = shards.orders("orders.csv", ROWS);
    let load = "load orders.csv @orders -t orders --mode upsert";
    let mut command = tonnage();
    command
        .current_dir(shards.place().path(""))
        .env("HOME", shards.place().path(""))
        .args(load.split(' '));
    let mut running = Running::start(&mut command);
    let waiting = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    while shards.0[2].sql(&format!("SELECT count(*) {waiting}")) != ["1"] {
        assert!(!running.has_ended(), "{}", running.wait().stderr);
        sleep(Duration::from_millis(5));
    }
    assert_eq!(running.kill().status.code(), None);
    shards.0[2].sql(&format!("SELECT pg_terminate_backend(pid) {waiting}"));
    shards.0[2].sql("DROP TRIGGER waits ON tonnage_runs");

    let unfinished = "SELECT count(*) FROM tonnage_runs WHERE finished IS NULL";
    assert_eq!(shards.each(unfinished), ["0", "0", "1", "1"]);
    assert_eq!(shards.rows(), expected);
    let runs = shards.done("runs @orders").stdout;
    let last = runs.lines().next().unwrap_or_default();
    assert!(
        last.contains("finished") && !last.contains("unfinished") && last.contains("2,000 written"),
        "{runs}"
    );
    let again = shards.done(&format!("{load} --resume"));
    assert!(
        again.stderr.contains("has loaded all of this already"),
        "{}",
        again.stderr
    );
    assert_eq!(shards.each(unfinished), ["0"; MEMBERS]);
    assert_eq!(
        shards.done("runs @orders").stdout,
        runs,
        "the counts are the same"
    );
    assert_eq!(shards.rows(), expected);
}
