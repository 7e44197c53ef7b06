//! Splits of tables whose rows are not spread evenly: each row is in one, and none has most of them.

use arrow::{array::AsArray, datatypes::Int64Type};
use tonnage::{
    reader::{BatchBounds, BeyondArrow, Relation, ScanRequest},
    target::Target,
};

/// Readers wanted.
const READERS: usize = 3;
/// Rows of the skewed table.
const ROWS: i64 = 60_000;

/// The numbers in the first column of each split.
async fn splits(target: &dyn Target, table: &str, split_by: Option<&str>) -> Vec<Vec<i64>> {
    let request = ScanRequest {
        relation: Relation::Table(table.parse().unwrap()),
        columns: Some(vec!["k".to_owned()]),
        texts: Vec::new(),
        filter: None,
        limit: None,
        split_by: split_by.map(str::to_owned),
        readers: READERS,
        batch: BatchBounds {
            rows_max: 10_000,
            bytes_max: 1 << 20,
        },
        beyond_arrow: BeyondArrow::Refused,
    };
    let mut snapshot = target.scan(&request).await.unwrap();
    let mut reader = snapshot.readers.pop().expect("a reader");
    let mut splits = Vec::new();
    for split in 0..snapshot.splits {
        reader.open(split).await.unwrap();
        let mut found = Vec::new();
        while let Some(batch) = reader.next().await.unwrap() {
            found.extend(batch.column(0).as_primitive::<Int64Type>().values());
        }
        splits.push(found);
    }
    splits
}

/// All of 1 to `rows` are there once, and no split has more than a quarter of them.
async fn check(target: &dyn Target, table: &str, split_by: Option<&str>, rows: i64) {
    let splits = splits(target, table, split_by).await;
    let sizes: Vec<usize> = splits.iter().map(Vec::len).collect();
    let mut all: Vec<i64> = splits.into_iter().flatten().collect();
    all.sort_unstable();
    assert!(
        all.iter().copied().eq(1..=rows),
        "{table} by {split_by:?}: {} rows in {sizes:?}",
        all.len()
    );
    let most = sizes.iter().max().copied().unwrap_or_default();
    assert!(most * 4 <= rows as usize, "{table} by {split_by:?}: {sizes:?}");
}

/// By a column of which nine in ten rows have one value, in two spellings that a collation may take for equal; by one
/// that nine in ten have not at all; and by one of few values.
async fn check_columns(target: &dyn Target) {
    for column in ["same", "absent", "few", "k"] {
        check(target, "skewed", Some(column), ROWS).await;
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode = wal;
             CREATE TABLE skewed (k INTEGER, same TEXT COLLATE NOCASE, absent REAL, few INTEGER);
             WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < {ROWS})
             INSERT INTO skewed SELECT n, CASE WHEN n % 10 = 0 THEN 'o''' || n WHEN n % 2 = 0 THEN 'all' ELSE 'ALL' END,
                 CASE WHEN n % 10 = 0 THEN n / 7.0 END, n % 2 FROM g;"
        ))
        .unwrap();
    let target = tonnage::targets::sqlite::SqliteTarget::connect(path.to_str().unwrap());
    check_columns(&target.await.unwrap()).await;
}

#[cfg(feature = "postgres")]
mod of_postgres {
    use super::{ROWS, check, check_columns};
    use crate::postgres::{Server, TestDatabase};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_the_systems_server() {
        on(Server::System).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_postgresql_18() {
        on(Server::Newest).await;
    }

    async fn on(server: Server) {
        let place = TestDatabase::on(server).await;
        place
            .run(&format!(
                "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false); \
                 CREATE TABLE skewed (k int8, same text COLLATE nocase, absent float8, few int, part char(3), \
                     PRIMARY KEY (part, k)); \
                 INSERT INTO skewed SELECT g, CASE WHEN g % 10 = 0 THEN 'o''' || g WHEN g % 2 = 0 THEN 'all' ELSE 'ALL' END, \
                     CASE WHEN g % 10 = 0 THEN g / 7.0 END, g % 2, 'a' FROM generate_series(1, {ROWS}) g"
            ))
            .await;
        check_columns(&*place.target).await;
        // A table that is small but for its long values, which are kept apart.
        place
            .run(
                "CREATE TABLE long (k int8, t text); ALTER TABLE long ALTER t SET STORAGE EXTERNAL; \
                 INSERT INTO long SELECT g, repeat('x', 9000) FROM generate_series(1, 6000) g",
            )
            .await;
        check(&*place.target, "long", None, 6_000).await;
    }
}

#[cfg(feature = "mysql")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_mariadb() {
    let place = crate::mysql::TestDatabase::new().await;
    place
        .run(&format!(
            "CREATE TABLE skewed (k bigint, same varchar(40), absent double, few int, day date, PRIMARY KEY (day, k));\n\
             INSERT INTO skewed SELECT seq, IF(seq % 10 = 0, CONCAT('o''', seq), IF(seq % 2 = 0, 'all', 'ALL')), \
             IF(seq % 10 = 0, seq / 7, NULL), seq % 2, '2024-02-29' FROM seq_1_to_{ROWS}"
        ))
        .await;
    check_columns(&*place.target).await;
    // The server's estimate of its rows is far too high, or far too low.
    place
        .run(
            "CREATE TABLE guessed (k bigint PRIMARY KEY) STATS_PERSISTENT=1 STATS_AUTO_RECALC=0;\n\
             INSERT INTO guessed SELECT seq FROM seq_1_to_120000;\nANALYZE TABLE guessed",
        )
        .await;
    for estimate in [1_000_000_000_u64, 1] {
        place
            .run(&format!(
                "UPDATE mysql.innodb_table_stats SET n_rows = {estimate} WHERE database_name = DATABASE() \
                 AND table_name = 'guessed';\nFLUSH TABLES guessed"
            ))
            .await;
        check(&*place.target, "guessed", None, 120_000).await;
    }
}
