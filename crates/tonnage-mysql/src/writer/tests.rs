//! Statements of many rows, which a server of another kind is sent, against the server of scripts/with-servers.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int32Array},
    datatypes::{DataType, Field, Schema},
};
use tonnage_core::{
    operation::Split,
    table::{TableIdentity, TableName},
    types::ColumnType,
};

use super::*;
use crate::{
    connect::{self, Counting},
    product::Version,
    settings::{ProcessSurroundings, Settings},
    types::Kind,
};

#[test]
fn only_polardb_x_is_told_not_to_split_and_only_where_asked() {
    let parts = || {
        WriteStrategy::Rows(ManyRows {
            head: "INSERT INTO `t` (`id`) VALUES ".to_owned(),
            row: "(?)".to_owned(),
            tail: String::new(),
        })
    };
    let polardb = "8.0.32-PXC-5.4.19";
    let told = "/*+TDDL:CMD_EXTRA(BATCH_INSERT_POLICY=NONE)*/ INSERT INTO `t` (`id`) VALUES (?),(?)";
    let plain = "INSERT INTO `t` (`id`) VALUES (?),(?)";
    for (version, split, wanted) in [
        (polardb, Split::None, told),
        (polardb, Split::Auto, plain),
        ("8.0.36", Split::None, plain),
    ] {
        let version = Version::parse(version).unwrap();
        let WriteStrategy::Rows(parts) = parts().for_split(&version, split) else {
            panic!("it is another way");
        };
        assert_eq!(parts.statement(2), wanted, "{} {split:?}", version.shown);
    }
}

fn rows(values: &[(i32, i32)]) -> RecordBatch {
    let field = |name| Field::new(name, DataType::Int32, true);
    let column = |pick: fn(&(i32, i32)) -> i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(values.iter().map(pick)))
    };
    RecordBatch::try_new(
        Arc::new(Schema::new(vec![field("id"), field("v")])),
        vec![column(|pair| pair.0), column(|pair| pair.1)],
    )
    .unwrap()
}

async fn writer(table: &str, tail: &str, account: Account, counting: Counting) -> MysqlWriter {
    let url = std::env::var("TONNAGE_TEST_MARIADB_URL").expect("run `make test`, which starts the servers");
    let settings = Settings::resolve(&url, &ProcessSurroundings).unwrap();
    let (mut conn, _) = connect::open(&settings, counting).await.unwrap();
    conn.query_drop(format!(
        "CREATE OR REPLACE TABLE {table} (id int PRIMARY KEY, v tinyint)"
    ))
    .await
    .unwrap();
    let column = |name: &str| ColumnEncoder {
        name: name.to_owned(),
        ty: ColumnType::Int32,
        kind: Kind::Integer {
            least: i128::from(i32::MIN),
            most: i128::from(i32::MAX),
            bits: false,
        },
        nullable: true,
    };
    let statements = Statements {
        columns: vec![column("id"), column("v")],
        order: vec![0, 1],
        one: None,
        way: WriteStrategy::Rows(ManyRows {
            head: format!("INSERT INTO {table} (id, v) VALUES "),
            row: "(?, ?)".to_owned(),
            tail: tail.to_owned(),
        }),
        account,
        transactional: true,
    };
    let version = Version::parse("10.11.6-MariaDB").unwrap();
    let subject = Subject {
        table: Arc::new(Table {
            name: TableName::bare(table),
            identity: TableIdentity {
                object: String::new(),
                shape: String::new(),
            },
            columns: Vec::new(),
            keys: Vec::new(),
            transactional: true,
            less_durable: None,
            notes: Vec::new(),
        }),
        operation: Operation::Insert,
        version,
        single_transaction: false,
        truncates: false,
    };
    let most = StatementMax {
        rows: 4,
        bytes: 1 << 20,
        why: "the test".to_owned(),
    };
    MysqlWriter::open(conn, subject, Ok((statements, None)), None, (most, 16 << 20))
        .await
        .unwrap()
}

async fn count(writer: &mut MysqlWriter, table: &str) -> Vec<(i32, i32)> {
    let all = format!("SELECT id, v FROM {table} ORDER BY id");
    writer.link.conn.query(all).await.unwrap()
}

#[tokio::test]
async fn many_rows_a_statement_are_cut_and_a_bad_one_is_told() {
    let table = "many_rows_inserted";
    let mut writer = writer(table, "", Account::All, Counting::Found).await;
    writer.begin(&[]).await.unwrap();
    let pairs: Vec<_> = (0..10).map(|id| (id, 1)).collect();
    let outcome = writer.write(&rows(&pairs), Guard::None).await.unwrap();
    assert!(outcome.failure.is_none());
    assert_eq!(outcome.statements, 3);
    // The seventh is out of range; its statement is undone, the one before stays.
    let pairs: Vec<_> = (10..20)
        .map(|id| (id, if id == 16 { 1_000 } else { 1 }))
        .collect();
    let outcome = writer.write(&rows(&pairs), Guard::None).await.unwrap();
    let failure = outcome.failure.expect("a bad row");
    assert_eq!(failure.error.code_text(), Some("1264"));
    assert_eq!(
        (failure.applied, failure.suspect, failure.intact),
        (4, Some(6), true)
    );
    let outcome = writer
        .write(&rows(&[(20, 1), (3, 1)]), Guard::Savepoint)
        .await
        .unwrap();
    let failure = outcome.failure.expect("a duplicate");
    assert_eq!((failure.error.code_text(), failure.suspect), (Some("1062"), None));
    writer.commit(&[]).await.unwrap();
    assert_eq!(count(&mut writer, table).await.len(), 14);
}

#[tokio::test]
async fn many_rows_a_statement_keep_the_order_of_a_key() {
    let table = "many_rows_replaced";
    let tail = " ON DUPLICATE KEY UPDATE `v` = VALUES(`v`)";
    let mut replacing = writer(table, tail, Account::OnceOrTwice, Counting::Found).await;
    replacing.begin(&[]).await.unwrap();
    let outcome = replacing
        .write(&rows(&[(1, 1), (2, 2), (1, 3), (2, 2), (1, 3)]), Guard::None)
        .await
        .unwrap();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    replacing.commit(&[]).await.unwrap();
    assert_eq!(count(&mut replacing, table).await, [(1, 3), (2, 2)]);
    let table = "many_rows_left";
    let tail = " ON DUPLICATE KEY UPDATE `id` = `id`";
    let mut leaving = writer(table, tail, Account::Rest, Counting::Changed).await;
    leaving.begin(&[]).await.unwrap();
    let outcome = leaving
        .write(&rows(&[(1, 1), (2, 2), (1, 3), (2, 2), (1, 3)]), Guard::None)
        .await
        .unwrap();
    assert_eq!(outcome.skipped, 3);
    leaving.commit(&[]).await.unwrap();
    assert_eq!(count(&mut leaving, table).await, [(1, 1), (2, 2)]);
}

#[tokio::test]
async fn a_block_that_waits_for_a_lock_ends_the_transaction() {
    let table = "a_block_that_waits";
    let mut writer = writer(table, "", Account::All, Counting::Found).await;
    let text = format!("INSERT INTO {table} (id, v) VALUES (?, ?)");
    writer.one_row = Some(SingleRow::of(text));
    // No literal of a block has anything that a mode reads in another way.
    for set in [
        "innodb_lock_wait_timeout = 1",
        "sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT'",
    ] {
        writer.link.conn.query_drop(format!("SET {set}")).await.unwrap();
    }
    let url = std::env::var("TONNAGE_TEST_MARIADB_URL").expect("run `make test`, which starts the servers");
    let settings = Settings::resolve(&url, &ProcessSurroundings).unwrap();
    let (mut holder, _) = connect::open(&settings, Counting::Found).await.unwrap();
    holder.query_drop("BEGIN").await.unwrap();
    let held = format!("INSERT INTO {table} VALUES (20, 0)");
    holder.query_drop(held).await.unwrap();
    let pairs = |last: i32| (1..=15).map(|id| (id, 1)).chain([(last, 1)]).collect::<Vec<_>>();
    writer.begin(&[]).await.unwrap();
    let error = writer
        .write_each(&rows(&pairs(20)))
        .await
        .expect_err("a lock that is held");
    assert_eq!(
        (error.kind(), error.code_text()),
        (ErrorKind::Overloaded, Some("1205"))
    );
    assert_eq!(writer.link.state, State::Broken);
    writer.rollback().await.unwrap();
    // The next transaction takes blocks as before.
    writer.begin(&[]).await.unwrap();
    let outcome = writer
        .write_each(&rows(&pairs(15)))
        .await
        .unwrap()
        .expect("an account");
    writer.commit(&[]).await.unwrap();
    let refused: Vec<_> = outcome.refused.iter().map(|refused| refused.row).collect();
    assert_eq!((outcome.statements, refused), (1, vec![15]));
    holder.query_drop("ROLLBACK").await.unwrap();
    assert_eq!(count(&mut writer, table).await.len(), 15);
}
