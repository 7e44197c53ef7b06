//! What is sent to the other servers of the family, which MariaDB plays here: see `masquerade`.

use std::fmt::Write;

use tonnage::{
    Database,
    operation::{Method, Operation, Split, Support},
};

use super::{
    TestDatabase, key,
    masquerade::{Masquerade, SHARDS},
};

const POLARDB_X: &str = "5.6.29-TDDL-5.4.18";
/// From 8.0.19 on an upsert is written in words that MariaDB does not know.
const MYSQL: &str = "8.0.18";
const UNSPLIT: &str = "/*+TDDL:CMD_EXTRA(BATCH_INSERT_POLICY=NONE)*/ ";

/// Rows of an id and a text of so many characters.
fn csv(rows: usize, characters: usize) -> String {
    let text = "x".repeat(characters);
    let mut csv = "id,v\n".to_owned();
    for id in 0..rows {
        writeln!(csv, "{id},{text}").unwrap();
    }
    csv
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bulk_protocol_carries_a_statement_in_a_packet() {
    let place = TestDatabase::new().await;
    place.run("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    let itself = Masquerade::of(&place, "").await;
    let database = Database::connect(&itself.url).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.csv");
    std::fs::write(&file, csv(5_000, 2_000)).unwrap();
    let load = database
        .load(file.display().to_string())
        .table("t")
        .method(Method::Array)
        .jobs(1);
    let report = load.run().await.unwrap();
    let sent = itself.executed("`t`");
    assert_eq!(sent.len() as u64, report.statements);
    for executed in &sent {
        assert_eq!(executed.rows(2), 1, "{}", executed.text);
        assert!(executed.bytes <= 4 << 20, "{} bytes", executed.bytes);
    }
    assert!(sent.iter().any(|executed| executed.bytes > 3 << 20));
    assert_eq!(place.number("SELECT count(*) FROM t").await, 5_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_stay_below_the_size_from_which_on_they_would_be_split() {
    let place = TestDatabase::new().await;
    place.run("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    let other = Masquerade::of(&place, POLARDB_X).await;
    let database = Database::connect(&other.url).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.csv");
    let load = || {
        database
            .load(file.display().to_string())
            .table("t")
            .method(Method::Array)
            .jobs(1)
    };
    // By rows, and by bytes.
    for (characters, rows_most, bytes_least) in [(10, 200, 0), (10_000, 26, 200_000)] {
        std::fs::write(&file, csv(1_000, characters)).unwrap();
        place.run("DELETE FROM t").await;
        let prepared = load().prepare().await.unwrap();
        let shown = prepared.plan().to_string();
        assert!(shown.contains("PolarDB-X 5.4.18"), "{shown}");
        let line = "statements   at most 200 rows, 240.0 KiB each; the server splits what is larger\n";
        assert!(shown.contains(line), "{shown}");
        load().run().await.unwrap();
        let sent = other.executed("`t`");
        assert_eq!(sent.iter().map(|executed| executed.rows(2)).sum::<usize>(), 1_000);
        for executed in &sent {
            assert!(!executed.text.contains("TDDL"), "{}", executed.text);
            assert!(executed.rows(2) <= rows_most, "{} rows", executed.rows(2));
            let all = executed.text.len() + executed.bytes;
            assert!(all < 256 << 10, "{all} bytes");
        }
        // As full as they may be.
        match bytes_least {
            0 => assert_eq!(sent[0].rows(2), rows_most),
            _ => assert!(sent[0].bytes > bytes_least, "{} bytes", sent[0].bytes),
        }
        assert_eq!(place.number("SELECT count(*) FROM t").await, 1_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_are_not_to_be_split_are_of_a_size_for_all_shards() {
    let place = TestDatabase::new().await;
    place.run("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    let other = Masquerade::of(&place, POLARDB_X).await;
    let database = Database::connect(&other.url).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.csv");
    let load = || {
        let load = database
            .load(file.display().to_string())
            .table("t")
            .split(Split::None);
        load.method(Method::Array).jobs(1)
    };
    let (rows_most, bytes_most) = (SHARDS * 1_000, SHARDS << 18);
    for (rows, characters) in [(20_000, 10), (1_000, 10_000)] {
        std::fs::write(&file, csv(rows, characters)).unwrap();
        place.run("DELETE FROM t").await;
        let prepared = load().prepare().await.unwrap();
        let line = "statements   at most 16000 rows, 4.0 MiB each; for 16 shards; the server is told not to split it\n";
        assert!(prepared.plan().to_string().contains(line), "{}", prepared.plan());
        load().run().await.unwrap();
        let sent = other.executed("`t`");
        assert_eq!(sent.iter().map(|executed| executed.rows(2)).sum::<usize>(), rows);
        for executed in &sent {
            assert!(executed.text.starts_with(UNSPLIT), "{}", executed.text);
            assert!(executed.rows(2) <= rows_most && executed.bytes <= bytes_most + (16 << 10));
        }
        // As full as they may be: a block has fewer rows than all, and ends a statement.
        let fullest = sent.iter().map(|executed| executed.rows(2)).max();
        match characters {
            10 => assert_eq!(fullest, Some(rows_most)),
            _ => assert!(fullest > Some(rows_most / 50), "{fullest:?}"),
        }
        assert_eq!(place.number("SELECT count(*) FROM t").await, rows as i64);
    }
    let refused = load()
        .method(Method::Batch)
        .prepare()
        .await
        .err()
        .expect("a refusal");
    assert_eq!(
        refused.to_string(),
        "--split none is about statements of many rows, and method batch sends none"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_bulk_protocol_many_rows_go_in_one_statement() {
    let place = TestDatabase::new().await;
    place
        .run("CREATE OR REPLACE TABLE t (id int PRIMARY KEY, v varchar(20));\nINSERT INTO t VALUES (1, 'one'), (2, 'two')")
        .await;
    let other = Masquerade::of(&place, MYSQL).await;
    let database = Database::connect(&other.url).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.csv");
    let load = || {
        database
            .load(file.display().to_string())
            .table("t")
            .method(Method::Array)
            .jobs(1)
    };
    // The last row of a key wins in an upsert, the first in an ignore.
    std::fs::write(&file, "id,v\n2,zwei\n3,drei\n2,deux\n3,trois\n1,one\n").unwrap();
    let report = load().upsert(["id"]).run().await.unwrap();
    assert_eq!(report.rows.written, 5);
    let shown = "SELECT concat(id, ' ', v) FROM t ORDER BY id";
    let expected = ["1 one", "2 deux", "3 trois"].map(|text| Some(text.to_owned()));
    assert_eq!(place.texts(shown).await, expected);
    let sent = other.executed("`t`");
    assert_eq!(
        sent.iter().map(|executed| executed.rows(2)).collect::<Vec<_>>(),
        [5]
    );
    std::fs::write(&file, "id,v\n2,x\n4,four\n4,x\n").unwrap();
    let report = load().ignore(["id"]).run().await.unwrap();
    assert_eq!((report.rows.written, report.rows.skipped.conflict), (1, 2));
    // 65,535 parameters at most.
    other.executed("");
    std::fs::write(&file, csv(40_000, 1)).unwrap();
    place.run("DELETE FROM t").await;
    load().run().await.unwrap();
    let sent: Vec<_> = other
        .executed("`t`")
        .iter()
        .map(|executed| executed.rows(2))
        .collect();
    assert_eq!(sent, [32_767, 7_233]);
    assert_eq!(place.number("SELECT count(*) FROM t").await, 40_000);
    // A bad row costs itself alone.
    std::fs::write(&file, "id,v\n50001,a\n7,b\n50002,c\n").unwrap();
    let rejects = directory.path().join("rejects.jsonl");
    let load = load().rejects(rejects, tonnage::plan::RejectsMax::Rows(1));
    let report = load.run().await.unwrap();
    assert_eq!((report.rows.written, report.rows.rejected), (2, 1));
}

#[tokio::test]
async fn without_the_bulk_protocol_an_update_or_a_delete_goes_row_by_row_and_says_so() {
    let place = TestDatabase::new().await;
    place
        .run("CREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1, 1), (2, 2)")
        .await;
    for (version, shown) in [(MYSQL, "MySQL 8.0.18"), (POLARDB_X, "PolarDB-X 5.4.18")] {
        let other = Masquerade::of(&place, version).await;
        let target = super::connect(&other.url).await.unwrap();
        let table = target.table(&"t".parse().unwrap()).await.unwrap().unwrap();
        for operation in [
            Operation::Update { key: key(&["id"]) },
            Operation::Delete { key: key(&["id"]) },
        ] {
            assert_eq!(
                target.support(&table, &operation, Method::Array),
                Support::No {
                    why: format!("{shown} has no statement for many rows of it"),
                    instead: "--method batch".to_owned(),
                }
            );
            assert_eq!(target.support(&table, &operation, Method::Batch), Support::Yes);
        }
        let refused = target.statement_max(&table, 2, Method::Array, Split::None);
        assert_eq!(refused.is_err(), version != POLARDB_X, "{version}");
        // What is chosen where nothing is asked for.
        let database = Database::connect(&other.url).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("t.csv");
        std::fs::write(&file, "id,v\n1,1\n2,3\n9,9\n").unwrap();
        let load = || {
            database
                .load(file.display().to_string())
                .table("t")
                .update(["id"])
        };
        assert_eq!(load().prepare().await.unwrap().plan().method, Method::Batch);
        let report = load().run().await.unwrap();
        assert_eq!(
            (report.rows.written, report.rows.skipped.unmatched),
            (2, 1),
            "{version}"
        );
    }
}
