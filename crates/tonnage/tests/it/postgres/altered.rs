//! Tables that are altered, replaced or dropped while they are written to.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use tonnage::{
    Database, ErrorKind,
    operation::{Method, Operation},
    target::Guard,
    types::ColumnType,
};

use super::{Server, TestDatabase, batch, session, upsert};

on_every_server! {
    ddl_waits_for_the_transaction,
    a_role_that_may_not_lock_the_table_finds_it_too,
    a_partition_that_is_taken_away_is_found,
    a_row_whose_partition_was_taken_away_is_not_refused,
    a_statement_finds_that_its_table_is_another,
    a_rule_instead_of_an_insert_is_refused,
}

fn pairs(ids: &[i64]) -> RecordBatch {
    let column = || Arc::new(Int64Array::from(ids.to_vec())) as _;
    batch(&[(ColumnType::Int64, column()), (ColumnType::Int64, column())])
}

async fn ddl_waits_for_the_transaction(server: Server) {
    let place = TestDatabase::on(server).await;
    place.run("CREATE TABLE t (a int8, b int8)").await;
    let plan = place
        .plan("t", &["a", "b"], Operation::Insert, Method::Native)
        .await;
    let mut writer = place.writer(&plan).await;
    writer.begin(&[]).await.unwrap();
    let other = session(&place.url).await;
    let ddl = tokio::spawn(async move {
        other
            .batch_execute("ALTER TABLE t ALTER COLUMN a TYPE float8")
            .await
            .unwrap();
    });
    let waiting = "SELECT count(*) FROM pg_locks WHERE relation = 't'::regclass AND NOT granted";
    while place.number(waiting).await == 0 {
        assert!(!ddl.is_finished(), "it has not waited");
        tokio::task::yield_now().await;
    }
    writer.write(&pairs(&[7]), Guard::None).await.unwrap();
    writer.commit(&[]).await.unwrap();
    ddl.await.unwrap();
    assert_eq!(place.texts("SELECT a::text FROM t").await, [Some("7".to_owned())]);
    let error = writer.begin(&[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Altered);
}

/// A role with rights on columns only may not lock the table: it asks again when its rows have.
async fn a_role_that_may_not_lock_the_table_finds_it_too(server: Server) {
    let place = TestDatabase::on(server).await;
    let role = format!("columns_of_{}", place.schema);
    place
        .run(&format!(
            "CREATE TABLE t (a int8, b int8); CREATE ROLE {role} LOGIN PASSWORD 'p'; \
             GRANT USAGE ON SCHEMA {0} TO {role}; GRANT INSERT (a, b) ON t TO {role}",
            place.schema
        ))
        .await;
    let (_, host) = place.url.split_once('@').unwrap();
    let target = super::connect(&format!("postgresql://{role}:p@{host}"))
        .await
        .unwrap();
    let plan = place
        .plan("t", &["a", "b"], Operation::Insert, Method::Native)
        .await;
    let mut writer = target.writer(&plan.write_request(), None).await.unwrap();
    writer.begin(&[]).await.unwrap();
    writer.write(&pairs(&[1]), Guard::None).await.unwrap();
    writer.commit(&[]).await.unwrap();
    writer.begin(&[]).await.unwrap();
    // The table is not locked yet.
    place.run("ALTER TABLE t ALTER COLUMN a TYPE float8").await;
    let error = match writer.write(&pairs(&[2]), Guard::None).await {
        Ok(_) => writer.commit(&[]).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Altered, "{error}");
    assert_eq!(place.texts("SELECT a::text FROM t").await, [Some("1".to_owned())]);
    drop((writer, target));
    place
        .run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
}

async fn a_partition_that_is_taken_away_is_found(server: Server) {
    let place = TestDatabase::on(server).await;
    let changes = [
        "ALTER TABLE t DETACH PARTITION p1",
        "ALTER TABLE p1 RENAME TO old; CREATE TABLE p1 (a int8, b int8)",
        "ALTER TABLE t DETACH PARTITION p1; ALTER TABLE t ATTACH PARTITION p1 FOR VALUES IN (1, 3)",
    ];
    for change in changes {
        place
            .run(
                "DROP TABLE IF EXISTS t, p1, old; CREATE TABLE t (a int8, b int8) PARTITION BY LIST (a); \
                 CREATE TABLE p1 PARTITION OF t FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF t FOR VALUES IN (2)",
            )
            .await;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("rows.csv");
        std::fs::write(&file, "a,b\n1,1\n2,2\n").unwrap();
        let target = super::connect(&place.url).await.unwrap();
        let database = Database::with_target(target.clone(), &*place.url);
        let load = database.load(file.display().to_string()).table("t");
        let prepared = load.method(Method::Native).prepare().await.unwrap();
        let plan = prepared.plan();
        assert!(plan.routing.is_some());
        let mut writer = target.writer(&plan.write_request(), None).await.unwrap();
        writer.begin(&[]).await.unwrap();
        writer.write(&pairs(&[1]), Guard::None).await.unwrap();
        writer.commit(&[]).await.unwrap();
        place.run(change).await;
        let error = match writer.begin(&[]).await {
            Ok(_) => writer.write(&pairs(&[1]), Guard::None).await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.kind(), ErrorKind::Altered, "{change}: {error}");
    }
}

/// Rows that go through the table are no bad rows because their partition was taken away. One that never had a partition is.
async fn a_row_whose_partition_was_taken_away_is_not_refused(server: Server) {
    let place = TestDatabase::on(server).await;
    let upsert = upsert(&["a"]);
    for (operation, method) in [
        (&Operation::Insert, Method::Batch),
        (&Operation::Insert, Method::Array),
        (&upsert, Method::Batch),
    ] {
        place
            .run(
                "DROP TABLE IF EXISTS t, p1; \
                 CREATE TABLE t (a int8 PRIMARY KEY, b int8) PARTITION BY LIST (a); \
                 CREATE TABLE p1 PARTITION OF t FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF t FOR VALUES IN (2)",
            )
            .await;
        let plan = place.plan("t", &["a", "b"], operation.clone(), method).await;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let outcome = writer.write(&pairs(&[7]), Guard::Savepoint).await.unwrap();
        let failure = outcome.failure.expect("no partition takes it");
        assert_eq!(failure.error.kind(), ErrorKind::Rejected, "{}", failure.error);
        writer.commit(&[]).await.unwrap();
        // One more partition is no alteration.
        place
            .run("CREATE TABLE p3 PARTITION OF t FOR VALUES IN (3)")
            .await;
        writer.begin(&[]).await.unwrap();
        let outcome = writer.write(&pairs(&[3]), Guard::Savepoint).await.unwrap();
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        writer.commit(&[]).await.unwrap();
        place.run("ALTER TABLE t DETACH PARTITION p1").await;
        writer.begin(&[]).await.unwrap();
        let Err(error) = writer.write(&pairs(&[1]), Guard::Savepoint).await else {
            panic!("{method}: its partition is gone");
        };
        assert_eq!(error.kind(), ErrorKind::Altered, "{error}");
        assert!(error.to_string().contains("has lost a partition"), "{error}");
    }
}

async fn a_statement_finds_that_its_table_is_another(server: Server) {
    let place = TestDatabase::on(server).await;
    let changes = [
        "ALTER TABLE t ALTER COLUMN b TYPE float8",
        "ALTER TABLE t RENAME TO old; CREATE TABLE t (LIKE old)",
        "DROP TABLE t",
    ];
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.csv");
    std::fs::write(&file, "a,b\n1,1\n").unwrap();
    for change in changes {
        place
            .run("DROP TABLE IF EXISTS t, old; CREATE TABLE t (a int8, b int8)")
            .await;
        let statement = "INSERT INTO t (a, b) VALUES (:a, :b)";
        let target = super::connect(&place.url).await.unwrap();
        let database = Database::with_target(target.clone(), &*place.url);
        let exec = database.exec(statement).from(file.display().to_string());
        let prepared = exec.prepare().await.unwrap();
        let planned = prepared.plan();
        let mut writer = target.writer(&planned.write_request(), None).await.unwrap();
        writer.begin(&[]).await.unwrap();
        writer.rollback().await.unwrap();
        place.run(change).await;
        for mut writer in [
            writer,
            target.writer(&planned.write_request(), None).await.unwrap(),
        ] {
            let error = writer.begin(&[]).await.expect_err(change);
            assert_eq!(error.kind(), ErrorKind::Altered, "{change}: {error}");
        }
    }
}

/// A rule that takes the place of an INSERT: its rows would be counted, wherever they went.
async fn a_rule_instead_of_an_insert_is_refused(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run("CREATE TABLE t (a int8, b int8); CREATE RULE gone AS ON INSERT TO t DO INSTEAD NOTHING")
        .await;
    let table = place.table("t").await;
    for (method, allowed) in [
        (Method::Native, true),
        (Method::Array, false),
        (Method::Batch, false),
        (Method::Single, false),
    ] {
        let support = place.target.support(&table, &Operation::Insert, method);
        assert_eq!(support == tonnage::operation::Support::Yes, allowed, "{method}");
    }
}
