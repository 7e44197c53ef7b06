//! The ledger: compare-and-set, epochs, take-overs.

use std::{sync::Arc, time::Duration};

use arrow::array::{Int64Array, RecordBatch};
use tonnage::{
    ErrorKind,
    ledger::{InputIdentity, NewRun, RunHandle, RunQuery},
    operation::{Method, Operation},
    preparation::Preparation,
    slot::{Advance, BlockMark, Counts, Position, SlotState},
    table::Table,
    target::{Claim, Guard, Writer},
    types::ColumnType,
};

use super::{Server, TestDatabase, batch, connect};
use crate::common::new_run;

on_every_server! {
    a_ledger_without_transactions_is_refused,
    a_run_from_start_to_finish,
    a_slot_that_is_elsewhere_is_not_moved,
    a_take_over_waits_for_what_is_open_and_shuts_the_old_owner_out,
    a_retry_waits_for_its_dying_predecessor,
    only_a_run_of_which_nothing_is_committed_is_forgotten_as_unbegun,
    first_runs_at_once_make_one_ledger,
    a_table_is_emptied_with_the_start_or_not_at_all,
    counts_of_64_bits_survive_a_correction,
}

fn run(table: &Table, run_id: &str, identity: &str) -> NewRun {
    let mut run = new_run(table, run_id.to_owned(), identity.to_owned(), 64);
    run.detail.inputs.push(InputIdentity {
        path: "/a \"b\".csv".to_owned(),
        bytes: 7,
        modified_nanos: i128::MAX,
        ..InputIdentity::default()
    });
    run.detail.options.push("null=NA".to_owned());
    run
}

fn advance(slot: u16, from: (u64, u64), to: (u64, u64), written: u64) -> Advance {
    let position = |(block, rows)| Position { block, rows };
    Advance {
        slot,
        from: position(from),
        to: position(to),
        mark: BlockMark {
            file: 3,
            offset: u64::MAX,
            file_rows: 11,
            rows: 12,
            hash: 0xfedc_ba98_7654_3210,
        },
        counts: Counts {
            written,
            skipped: 2,
            rejected: 1,
        },
    }
}

fn rows(ids: &[i64]) -> RecordBatch {
    batch(&[(ColumnType::Int64, Arc::new(Int64Array::from(ids.to_vec())))])
}

async fn started(place: &TestDatabase, run_id: &str) -> RunHandle {
    place.run("CREATE TABLE t (id bigint)").await;
    let table = place.table("t").await;
    place
        .target
        .ledger()
        .start(&run(&table, run_id, "i"))
        .await
        .unwrap()
}

async fn writer(place: &TestDatabase, handle: &RunHandle) -> Box<dyn Writer> {
    let plan = place.plan("t", &["id"], Operation::Insert, Method::Native).await;
    place
        .target
        .writer(&plan.write_request(), Some(handle))
        .await
        .unwrap()
}

/// Its positions would move without their rows.
async fn a_ledger_without_transactions_is_refused(server: Server) {
    let place = TestDatabase::on(server).await;
    let ledger = place.target.ledger();
    let handle = started(&place, "run-1").await;
    let plan = place.plan("t", &["id"], Operation::Insert, Method::Native).await;
    for (name, engine) in [
        ("tonnage_slots", "MyISAM"),
        ("tonnage_slots", "MEMORY"),
        ("tonnage_runs", "Aria"),
        ("tonnage_inputs", "Aria"),
    ] {
        place.run(&format!("ALTER TABLE {name} ENGINE={engine}")).await;
        let table = place.table("t").await;
        let errors = [
            ledger.take_over("run-1").await.err(),
            ledger.start(&run(&table, "run-2", "j")).await.err(),
            place
                .target
                .writer(&plan.write_request(), Some(&handle))
                .await
                .err(),
        ];
        for error in errors {
            let error = error.expect("a refusal");
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            let hint = format!("ALTER TABLE `{}`.{name} ENGINE=InnoDB", place.database);
            assert_eq!(error.hint_text(), Some(hint.as_str()));
        }
        place.run(&format!("ALTER TABLE {name} ENGINE=InnoDB")).await;
        ledger.take_over("run-1").await.unwrap();
    }
}

async fn a_run_from_start_to_finish(server: Server) {
    let place = TestDatabase::on(server).await;
    let ledger = place.target.ledger();
    assert!(ledger.runs(&RunQuery::Newest(1_000)).await.unwrap().is_empty());
    assert_eq!(
        place
            .number("SELECT count(*) FROM information_schema.tables WHERE table_schema = database()")
            .await,
        0,
        "looking makes nothing"
    );
    let handle = started(&place, "run-1").await;
    assert_eq!(handle.epoch, 1);
    let fresh: Vec<_> = (0..64)
        .map(|slot| SlotState {
            slot,
            ..SlotState::default()
        })
        .collect();
    assert_eq!(ledger.slots("run-1").await.unwrap(), fresh);

    let mut writer = writer(&place, &handle).await;
    let steps = [advance(5, (0, 0), (5, 10), 4), advance(63, (0, 0), (63, 0), 6)];
    assert_eq!(writer.begin(&steps).await.unwrap(), Claim::Held);
    writer.write(&rows(&[1, 2]), Guard::None).await.unwrap();
    // Rejects have changed the counts of one slot.
    let mut corrected = steps[1];
    corrected.counts = Counts {
        written: 1,
        skipped: 2,
        rejected: 6,
    };
    writer.commit(&[corrected]).await.unwrap();
    assert_eq!(
        writer.begin(&[advance(5, (5, 10), (69, 0), 3)]).await.unwrap(),
        Claim::Held
    );
    writer.commit(&[]).await.unwrap();

    let slots = ledger.slots("run-1").await.unwrap();
    assert_eq!(
        slots[5],
        SlotState {
            slot: 5,
            position: Position { block: 69, rows: 0 },
            mark: steps[0].mark,
            counts: Counts {
                written: 7,
                skipped: 4,
                rejected: 2
            },
        }
    );
    assert_eq!(slots[63].counts, corrected.counts);
    let total = Counts {
        written: 8,
        skipped: 6,
        rejected: 8,
    };
    let record = ledger.runs(&RunQuery::Newest(1_000)).await.unwrap().remove(0);
    assert_eq!((record.finished, record.counts, record.epoch), (None, total, 1));
    let table = place.table("t").await;
    assert_eq!(record.detail, run(&table, "run-1", "i").detail);

    let again = ledger.start(&run(&table, "run-2", "i")).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Fenced);
    assert_eq!(
        again.to_string(),
        format!(
            "an unfinished run of this input into {}.t is in the ledger",
            place.database
        )
    );
    assert_eq!(
        again.hint_text(),
        Some("go on with --resume, or begin again with --restart")
    );
    assert!(ledger.slots("run-2").await.unwrap().is_empty());

    // The same start again, because its answer was lost, is not refused.
    assert_eq!(ledger.start(&run(&table, "run-1", "i")).await.unwrap(), handle);

    let account = Counts {
        written: 100,
        ..total
    };
    ledger.finish(&handle, account).await.unwrap();
    // The answer may be lost, so finishing is repeatable.
    ledger.finish(&handle, account).await.unwrap();
    let record = ledger.runs(&RunQuery::Newest(1_000)).await.unwrap().remove(0);
    assert!(record.finished.is_some_and(|finished| finished >= record.started));
    assert_eq!(record.counts, account);
    assert!(ledger.slots("run-1").await.unwrap().is_empty());
    assert_eq!(
        ledger.take_over("run-1").await.unwrap_err().kind(),
        ErrorKind::Fenced
    );
    ledger.start(&run(&table, "run-2", "i")).await.unwrap();
    assert!(ledger.forget("run-2").await.unwrap());
    assert!(!ledger.forget("run-2").await.unwrap());
    assert_eq!(ledger.runs(&RunQuery::Newest(1_000)).await.unwrap().len(), 1);
}

async fn a_slot_that_is_elsewhere_is_not_moved(server: Server) {
    let place = TestDatabase::on(server).await;
    let handle = started(&place, "run").await;
    let mut writer = writer(&place, &handle).await;
    let wrong = [
        vec![advance(0, (0, 1), (64, 0), 1)],
        vec![advance(0, (64, 0), (128, 0), 1)],
        // One of two is enough.
        vec![advance(0, (0, 0), (64, 0), 1), advance(1, (1, 0), (65, 0), 1)],
        vec![advance(64, (0, 0), (64, 0), 1)],
    ];
    for advances in wrong {
        assert_eq!(writer.begin(&advances).await.unwrap(), Claim::Moved);
    }
    assert_eq!(
        place
            .number("SELECT count(*) FROM tonnage_slots WHERE block <> 0 OR written <> 0")
            .await,
        0
    );
    // Nothing is open: the next one may begin.
    assert_eq!(
        writer.begin(&[advance(0, (0, 0), (64, 0), 1)]).await.unwrap(),
        Claim::Held
    );
    writer.rollback().await.unwrap();
    assert_eq!(
        place.target.ledger().slots("run").await.unwrap()[0],
        SlotState::default()
    );
}

async fn a_take_over_waits_for_what_is_open_and_shuts_the_old_owner_out(server: Server) {
    let place = TestDatabase::on(server).await;
    let old = started(&place, "run").await;
    let mut old_writer = writer(&place, &old).await;
    let mut late_writer = writer(&place, &old).await;
    assert_eq!(
        old_writer
            .begin(&[advance(9, (0, 0), (9, 100), 97)])
            .await
            .unwrap(),
        Claim::Held
    );
    old_writer.write(&rows(&[1]), Guard::None).await.unwrap();

    let other = connect(&place.url).await.unwrap();
    let mut take_over = tokio::spawn(async move { other.ledger().take_over("run").await });
    let early = tokio::time::timeout(Duration::from_millis(300), &mut take_over).await;
    assert!(early.is_err(), "it did not wait for the open transaction");
    old_writer.commit(&[]).await.unwrap();
    let (new, slots) = take_over.await.unwrap().unwrap();
    assert_eq!(new.epoch, 2);
    assert_eq!(slots.len(), 64);
    assert!(slots.is_sorted_by_key(|slot| slot.slot));
    assert_eq!(slots[9].position, Position { block: 9, rows: 100 });
    assert_eq!(slots[9].counts.written, 97);

    for writer in [&mut old_writer, &mut late_writer] {
        assert_eq!(
            writer.begin(&[advance(9, (9, 100), (73, 0), 1)]).await.unwrap(),
            Claim::Moved
        );
    }
    assert_eq!(
        place
            .target
            .ledger()
            .finish(&old, Counts::default())
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::Fenced
    );
    let mut new_writer = writer(&place, &new).await;
    assert_eq!(
        new_writer
            .begin(&[advance(9, (9, 100), (73, 0), 1)])
            .await
            .unwrap(),
        Claim::Held
    );
    new_writer.commit(&[]).await.unwrap();
    place
        .target
        .ledger()
        .finish(&new, Counts::default())
        .await
        .unwrap();
}

async fn only_a_run_of_which_nothing_is_committed_is_forgotten_as_unbegun(server: Server) {
    let place = TestDatabase::on(server).await;
    let ledger = place.target.ledger();
    let handle = started(&place, "run").await;
    let mut in_flight = writer(&place, &handle).await;
    let step = [advance(3, (0, 0), (3, 7), 7)];
    assert_eq!(in_flight.begin(&step).await.unwrap(), Claim::Held);
    let (other, old) = (connect(&place.url).await.unwrap(), handle.clone());
    let mut forgetting = tokio::spawn(async move { other.ledger().forget_unbegun(&old).await });
    let early = tokio::time::timeout(Duration::from_millis(300), &mut forgetting).await;
    assert!(early.is_err(), "it did not wait for the open transaction");
    in_flight.commit(&[]).await.unwrap();
    assert!(
        !forgetting.await.unwrap().unwrap(),
        "a commit came about after all"
    );
    assert_eq!(ledger.slots("run").await.unwrap()[3].counts.written, 7);

    let other = run(&place.table("t").await, "other", "another");
    let handle = ledger.start(&other).await.unwrap();
    let (new, _) = ledger.take_over("other").await.unwrap();
    assert!(!ledger.forget_unbegun(&handle).await.unwrap(), "it is another's");
    assert!(ledger.forget_unbegun(&new).await.unwrap());
    assert!(!ledger.forget_unbegun(&new).await.unwrap());
    let runs = ledger.runs(&RunQuery::Newest(1_000)).await.unwrap();
    assert_eq!(runs.iter().map(|run| &*run.run_id).collect::<Vec<_>>(), ["run"]);
}

async fn a_retry_waits_for_its_dying_predecessor(server: Server) {
    let place = TestDatabase::on(server).await;
    let handle = started(&place, "run").await;
    let mut first = writer(&place, &handle).await;
    let mut retry = writer(&place, &handle).await;
    let step = [advance(1, (0, 0), (1, 5), 5)];
    for commits in [false, true] {
        assert_eq!(first.begin(&step).await.unwrap(), Claim::Held);
        let waiting = tokio::spawn(async move {
            let claim = retry.begin(&step).await.unwrap();
            (retry, claim)
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished());
        if commits {
            first.commit(&[]).await.unwrap();
        } else {
            first.rollback().await.unwrap();
        }
        let claim;
        (retry, claim) = waiting.await.unwrap();
        assert_eq!(claim, if commits { Claim::Moved } else { Claim::Held });
        retry.rollback().await.unwrap();
    }
}

async fn first_runs_at_once_make_one_ledger(server: Server) {
    let place = TestDatabase::on(server).await;
    place.run("CREATE TABLE t (id bigint)").await;
    let table = place.table("t").await;
    let starts = (0..8).map(|number| {
        let (url, table) = (place.url.clone(), table.clone());
        tokio::spawn(async move {
            let target = connect(&url).await.unwrap();
            // Two of each identity.
            target
                .ledger()
                .start(&run(
                    &table,
                    &format!("run-{number}"),
                    &format!("i{}", number / 2),
                ))
                .await
        })
    });
    let mut refused = 0;
    for start in starts.collect::<Vec<_>>() {
        if let Err(error) = start.await.unwrap() {
            assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
            refused += 1;
        }
    }
    assert_eq!(refused, 4);
    assert_eq!(
        place
            .target
            .ledger()
            .runs(&RunQuery::Newest(1_000))
            .await
            .unwrap()
            .len(),
        4
    );
}

async fn a_table_is_emptied_with_the_start_or_not_at_all(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run("CREATE TABLE t (id bigint);\nINSERT INTO t VALUES (1)")
        .await;
    let table = place.table("t").await;
    let mut first = run(&table, "run-1", "i");
    first.preparation = Preparation::Truncate;
    place.target.ledger().start(&first).await.unwrap();
    assert_eq!(place.number("SELECT count(*) FROM t").await, 0);
    place.run("INSERT INTO t VALUES (2)").await;
    let mut second = run(&table, "run-2", "i");
    second.preparation = Preparation::Truncate;
    place.target.ledger().start(&second).await.unwrap_err();
    assert_eq!(place.number("SELECT count(*) FROM t").await, 1);
}

async fn counts_of_64_bits_survive_a_correction(server: Server) {
    let place = TestDatabase::on(server).await;
    let handle = started(&place, "run").await;
    let mut writer = writer(&place, &handle).await;
    let mut step = advance(3, (0, 0), (u64::MAX, u64::MAX), u64::MAX);
    step.counts.skipped = 0;
    assert_eq!(writer.begin(&[step]).await.unwrap(), Claim::Held);
    let mut corrected = step;
    corrected.counts = Counts {
        written: 0,
        skipped: u64::MAX,
        rejected: 1,
    };
    writer.commit(&[corrected]).await.unwrap();
    let slot = place.target.ledger().slots("run").await.unwrap()[3];
    assert_eq!((slot.position, slot.counts), (step.to, corrected.counts));
}
