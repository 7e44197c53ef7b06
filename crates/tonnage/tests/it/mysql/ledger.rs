//! The ledger's own tables. What every ledger keeps is in the contract.

use tonnage::{
    ErrorKind,
    ledger::{NewRun, RunHandle, RunQuery},
    operation::{Method, Operation},
    slot::{Advance, BlockMark, Counts, Position},
    table::Table,
    target::Claim,
};

use super::{Server, TestDatabase};
use crate::common::new_run;

on_every_server! {
    a_deadlock_is_no_claim_of_another_process,
    a_ledger_without_transactions_is_refused,
    looking_makes_no_ledger,
}

fn run(table: &Table, run_id: &str, identity: &str) -> NewRun {
    new_run(table, run_id.to_owned(), identity.to_owned(), 64)
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

/// Neither moves a slot, and only the claim ends the run.
async fn a_deadlock_is_no_claim_of_another_process(server: Server) {
    let place = TestDatabase::on(server).await;
    let handle = started(&place, "run").await;
    let plan = place.plan("t", &["id"], Operation::Insert, Method::Native).await;
    let request = plan.write_request();
    let mut writer = place.target.writer(&request, Some(&handle)).await.unwrap();
    let step = Advance {
        slot: 3,
        from: Position::default(),
        to: Position { block: 1, rows: 0 },
        mark: BlockMark::default(),
        counts: Counts::default(),
    };
    place
        .run(
            "CREATE TRIGGER deadlock BEFORE UPDATE ON tonnage_slots FOR EACH ROW \
             SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found'",
        )
        .await;
    let error = writer.begin(&[step]).await.expect_err("a deadlock");
    assert_eq!(
        (error.kind(), error.code_text()),
        (ErrorKind::Overloaded, Some("1213")),
        "{error}"
    );
    place.run("DROP TRIGGER deadlock").await;
    assert_eq!(writer.begin(&[step]).await.unwrap(), Claim::Held);
    writer.commit(&[]).await.unwrap();
    assert_eq!(writer.begin(&[step]).await.unwrap(), Claim::Moved);
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

async fn looking_makes_no_ledger(server: Server) {
    let place = TestDatabase::on(server).await;
    let ledger = place.target.ledger();
    assert!(ledger.runs(&RunQuery::Newest(1_000)).await.unwrap().is_empty());
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = database()";
    assert_eq!(place.number(tables).await, 0);
    // The same start again, because its answer was lost, is not refused.
    let handle = started(&place, "run").await;
    let table = place.table("t").await;
    assert_eq!(ledger.start(&run(&table, "run", "i")).await.unwrap(), handle);
}
