//! Runs, slots, epochs: exactly once, also when the process is killed.

use tonnage::{
    ErrorKind,
    ledger::RunQuery,
    operation::Method,
    preparation::Preparation,
    slot::{Counts, Position},
    table::TableName,
    target::{Claim, Guard, Target},
};

use super::{Database, PAIR, advance, many, new_run, pairs};

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)";

#[tokio::test]
async fn rows_and_positions_move_together() {
    let database = Database::new(TABLE).await;
    let ledger = database.target.ledger();
    let run = new_run(&database, "t", "1").await;
    let handle = ledger.start(&run).await.unwrap();
    assert_eq!(handle.epoch, 1);
    let plan = database.plan("t", &PAIR, Method::Native).await;
    let mut writer = database
        .target
        .writer(&plan.write_request(), Some(&handle))
        .await
        .unwrap();

    let steps = [advance(0, 0, 10), advance(3, 0, 5)];
    assert_eq!(writer.begin(&steps).await.unwrap(), Claim::Held);
    writer.write(&many(15), Guard::None).await.unwrap();
    let slots = ledger.slots("1").await.unwrap();
    assert_eq!(slots.len(), 4);
    assert!(
        slots.iter().all(|slot| slot.position == Position::default()),
        "nothing before the commit"
    );
    let mut corrected = steps;
    corrected[1].counts = Counts {
        written: 2,
        skipped: 1,
        rejected: 2,
    };
    writer.commit(&corrected[1..]).await.unwrap();
    let slots = ledger.slots("1").await.unwrap();
    assert_eq!(slots[0].position, Position { block: 0, rows: 10 });
    assert_eq!(slots[0].mark, steps[0].mark, "64 bits survive");
    assert_eq!(
        (slots[0].counts, slots[3].counts),
        (steps[0].counts, corrected[1].counts)
    );
    assert_eq!(slots[1].position, Position::default());

    // The same step again: it has been taken.
    assert_eq!(writer.begin(&steps).await.unwrap(), Claim::Moved);
    // One of two not in its place: neither moves.
    assert_eq!(
        writer.begin(&[advance(1, 0, 5), advance(0, 0, 5)]).await.unwrap(),
        Claim::Moved
    );
    assert_eq!(ledger.slots("1").await.unwrap()[1].position, Position::default());
    // Undone rows undo the step.
    assert_eq!(writer.begin(&[advance(1, 0, 5)]).await.unwrap(), Claim::Held);
    writer.rollback().await.unwrap();
    assert_eq!(ledger.slots("1").await.unwrap(), slots);

    let runs = ledger.runs(&RunQuery::Newest(1_000)).await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].detail.clone(), runs[0].finished), (run.detail, None));
    assert_eq!((runs[0].counts.written, runs[0].counts.total()), (12, 15));
    assert!(runs[0].started > 1_700_000_000);
}

#[tokio::test]
async fn one_unfinished_run_of_an_identity() {
    let database = Database::new(TABLE).await;
    let ledger = database.target.ledger();
    let handle = ledger.start(&new_run(&database, "t", "1").await).await.unwrap();
    let error = ledger
        .start(&new_run(&database, "t", "2").await)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert_eq!(ledger.slots("2").await.unwrap(), []);
    let counts = Counts {
        written: 7,
        skipped: 0,
        rejected: 1,
    };
    ledger.finish(&handle, counts).await.unwrap();
    // The answer may be lost, so finishing is repeatable.
    ledger.finish(&handle, counts).await.unwrap();
    assert_eq!(ledger.slots("1").await.unwrap(), []);
    ledger.start(&new_run(&database, "t", "2").await).await.unwrap();
    let runs = ledger.runs(&RunQuery::Newest(1_000)).await.unwrap();
    assert_eq!(
        runs.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(),
        ["2", "1"]
    );
    assert_eq!((runs[1].counts, runs[1].finished.is_some()), (counts, true));
    assert_eq!(
        ledger.take_over("1").await.unwrap_err().kind(),
        ErrorKind::Fenced,
        "it is finished"
    );
    assert!(ledger.forget("2").await.unwrap());
    assert!(!ledger.forget("2").await.unwrap());
    assert_eq!(ledger.runs(&RunQuery::Newest(1_000)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_take_over_shuts_the_older_process_out() {
    let database = Database::with_options(TABLE, "?busy_timeout_ms=100").await;
    let ledger = database.target.ledger();
    let first = ledger.start(&new_run(&database, "t", "1").await).await.unwrap();
    let plan = database.plan("t", &PAIR, Method::Native).await;
    let mut writer = database
        .target
        .writer(&plan.write_request(), Some(&first))
        .await
        .unwrap();
    writer.begin(&[advance(0, 0, 5)]).await.unwrap();
    let error = ledger.take_over("1").await.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Overloaded,
        "it waits for the transaction in flight"
    );
    writer.write(&many(5), Guard::None).await.unwrap();
    writer.commit(&[]).await.unwrap();

    let (second, slots) = ledger.take_over("1").await.unwrap();
    assert_eq!((second.epoch, slots[0].position.rows), (2, 5));
    assert_eq!(writer.begin(&[advance(0, 5, 9)]).await.unwrap(), Claim::Moved);
    assert_eq!(
        ledger.finish(&first, Counts::default()).await.unwrap_err().kind(),
        ErrorKind::Fenced
    );
    let mut writer = database
        .target
        .writer(&plan.write_request(), Some(&second))
        .await
        .unwrap();
    assert_eq!(writer.begin(&[advance(0, 5, 9)]).await.unwrap(), Claim::Held);
    writer.rollback().await.unwrap();
    ledger.finish(&second, Counts::default()).await.unwrap();
}

#[tokio::test]
async fn only_a_run_of_which_nothing_is_committed_is_forgotten_as_unbegun() {
    let database = Database::with_options(TABLE, "?busy_timeout_ms=100").await;
    let ledger = database.target.ledger();
    let run = ledger.start(&new_run(&database, "t", "1").await).await.unwrap();
    let plan = database.plan("t", &PAIR, Method::Native).await;
    let mut writer = database
        .target
        .writer(&plan.write_request(), Some(&run))
        .await
        .unwrap();
    writer.begin(&[advance(0, 0, 5)]).await.unwrap();
    let error = ledger.forget_unbegun(&run).await.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Overloaded,
        "it waits for what is in flight"
    );
    writer.write(&many(5), Guard::None).await.unwrap();
    writer.commit(&[]).await.unwrap();
    assert!(!ledger.forget_unbegun(&run).await.unwrap());
    assert_eq!(ledger.slots("1").await.unwrap()[0].counts.written, 5);

    let mut other = new_run(&database, "t", "2").await;
    other.identity.push_str(" of another input");
    let run = ledger.start(&other).await.unwrap();
    let (new, _) = ledger.take_over("2").await.unwrap();
    assert!(!ledger.forget_unbegun(&run).await.unwrap(), "it is another's");
    assert!(ledger.forget_unbegun(&new).await.unwrap());
    assert!(!ledger.forget_unbegun(&new).await.unwrap());
    assert_eq!(ledger.runs(&RunQuery::Newest(1_000)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_table_is_emptied_by_the_start_and_only_with_it() {
    let database = Database::new(TABLE).await;
    let ledger = database.target.ledger();
    let plan = database.plan("t", &PAIR, Method::Array).await;
    database.write(&plan, &many(10)).await;
    let mut run = new_run(&database, "t", "1").await;
    run.preparation = Preparation::Truncate;
    ledger.start(&run).await.unwrap();
    assert_eq!(database.count("t"), 0);
    database.write(&plan, &many(10)).await;
    run.run_id = "2".to_owned();
    ledger.start(&run).await.unwrap_err();
    assert_eq!(database.count("t"), 10, "a refused start empties nothing");
    database.target.truncate(&TableName::bare("t")).await.unwrap();
    assert_eq!(database.count("t"), 0);
}

#[tokio::test]
async fn a_referenced_table_is_not_emptied() {
    let database = Database::new(&format!(
        "{TABLE}; CREATE TABLE c (id REFERENCES t); INSERT INTO t VALUES (1, 'a'); INSERT INTO c VALUES (1)"
    ))
    .await;
    let error = database.target.truncate(&TableName::bare("t")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert_eq!(
        error.to_string(),
        "table t cannot be emptied: FOREIGN KEY constraint failed"
    );
}

#[tokio::test]
async fn the_ledger_travels_with_a_copy_of_the_file() {
    let database = Database::new(TABLE).await;
    let run = new_run(&database, "t", "1").await;
    database.target.ledger().start(&run).await.unwrap();
    let copy = database.directory.path().join("copy.db");
    database
        .other()
        .execute("VACUUM INTO ?1", [copy.to_str().unwrap()])
        .unwrap();
    let copied = tonnage::targets::sqlite::SqliteTarget::connect(copy.to_str().unwrap())
        .await
        .unwrap();
    assert_eq!(
        copied.ledger().runs(&RunQuery::Newest(1_000)).await.unwrap()[0].run_id,
        "1"
    );
    let table = copied.table(&TableName::bare("t")).await.unwrap().unwrap();
    assert_eq!(table.identity, run.detail.table_identity);
}

#[tokio::test]
async fn without_a_run_there_is_no_ledger() {
    let database = Database::new(TABLE).await;
    let plan = database.plan("t", &PAIR, Method::Native).await;
    assert!(database.write(&plan, &pairs(&[(Some(1), "a")])).await.is_none());
    let tables = database.rows("SELECT name FROM sqlite_schema WHERE name LIKE 'tonnage%'");
    assert!(tables.is_empty());
}
