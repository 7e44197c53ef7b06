//! Where the ledger is, and where none is. What every ledger keeps is in the contract.

use tonnage::{ErrorKind, ledger::RunQuery, operation::Method, table::TableName, target::Target};

use super::{Database, PAIR, new_run, pairs};

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)";

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
