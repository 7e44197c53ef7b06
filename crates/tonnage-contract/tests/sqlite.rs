//! SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use tempfile::TempDir;
use tonnage_contract::{Alteration, Exception, Fixture, Language, Layout};
use tonnage_core::target::Target;
use tonnage_sqlite::SqliteTarget;

struct SqliteFixture {
    directory: TempDir,
    target: Arc<dyn Target>,
}

async fn connect(directory: &TempDir) -> Arc<dyn Target> {
    let path = directory.path().join("test.db").display().to_string();
    Arc::new(SqliteTarget::connect(&path).await.expect("a database"))
}

impl SqliteFixture {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self {
            target: connect(&directory).await,
            directory,
        }
    }
}

#[async_trait]
impl Fixture for SqliteFixture {
    fn target(&self) -> Arc<dyn Target> {
        self.target.clone()
    }

    async fn again(&self) -> Arc<dyn Target> {
        connect(&self.directory).await
    }

    async fn count(&self, table: &str) -> u64 {
        let connection =
            rusqlite::Connection::open(self.directory.path().join("test.db")).expect("a database");
        let count = format!("SELECT count(*) FROM {table}");
        let count: i64 = connection
            .query_row(&count, [], |row| row.get(0))
            .expect("a number");
        count as u64
    }

    fn exceptions(&self) -> &'static [Exception] {
        // A number that is no 64-bit integer is a double there, which must give its digits back.
        &[Exception {
            ty: "numeric",
            value: Some("123456789012345678901234567890.5"),
        }]
    }

    fn other_types(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("int16", "int64"),
            ("int32", "int64"),
            ("float32", "float64"),
            ("decimal(38,10)", "text"),
            ("varchar(5)", "text"),
            ("json", "text"),
            ("decimal(38,38)", "text"),
            ("varchar(300)", "text"),
            ("char(9)", "text"),
        ]
    }

    fn language(&self) -> Option<&dyn Language> {
        Some(self)
    }
}

const LAYOUTS: &[Layout] = &[
    Layout::refusing("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL CHECK (v <> 'bad'), w TEXT)"),
    Layout::refusing(
        "CREATE TABLE t (v TEXT CHECK (v <> 'bad'), id INT NOT NULL PRIMARY KEY, w TEXT) STRICT",
    ),
    Layout::refusing("CREATE TABLE t (id INT PRIMARY KEY, w TEXT, v TEXT CHECK (v <> 'bad')) WITHOUT ROWID"),
    Layout::refusing(
        "CREATE TABLE t (w TEXT, id INT PRIMARY KEY, v TEXT CHECK (v <> 'bad')) STRICT, WITHOUT ROWID",
    ),
    Layout::refusing(
        "CREATE TABLE IF NOT EXISTS log (id); CREATE TABLE t (id REAL UNIQUE, v TEXT CHECK (v <> 'bad'), w TEXT); \
                 CREATE TRIGGER l AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (new.id); END",
    ),
];

const ALTERATIONS: &[Alteration] = &[
    Alteration::of(
        "ALTER TABLE t RENAME COLUMN v TO x; ALTER TABLE t RENAME COLUMN w TO v; ALTER TABLE t RENAME COLUMN x TO w",
        "was altered",
    ),
    Alteration::of(
        "DROP TABLE IF EXISTS old; ALTER TABLE t RENAME TO old; CREATE TABLE t (id INTEGER PRIMARY KEY, v REAL, w TEXT)",
        "was replaced",
    ),
    Alteration::of("ALTER TABLE t ADD COLUMN c INTEGER", "column 'c' is new"),
];

#[async_trait]
impl Language for SqliteFixture {
    async fn run(&self, statements: &str) {
        let connection =
            rusqlite::Connection::open(self.directory.path().join("test.db")).expect("a database");
        connection.execute_batch(statements).expect("they run");
    }

    fn layouts(&self) -> &'static [Layout] {
        LAYOUTS
    }

    fn alterations(&self) -> &'static [Alteration] {
        ALTERATIONS
    }

    fn harmless(&self) -> &'static str {
        "CREATE TABLE IF NOT EXISTS other (id INTEGER); DROP INDEX IF EXISTS i; CREATE INDEX i ON t (v)"
    }
}

tonnage_contract::suites!(SqliteFixture::new().await);
