//! DuckDB, by the library that `scripts/fetch-duckdb` fetches, or the one that TONNAGE_DUCKDB_LIBRARY names.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use tempfile::TempDir;
use tonnage_adbc::DuckTarget;
use tonnage_contract::{Alteration, Exception, Fixture, Language, Layout};
use tonnage_core::target::Target;
use tonnage_testing::duckdb_library;

/// The path of the library.
static LIBRARY: LazyLock<String> = LazyLock::new(duckdb_library);

struct DuckFixture {
    directory: TempDir,
    target: Arc<DuckTarget>,
}

async fn connect(directory: &TempDir) -> Arc<DuckTarget> {
    let path = directory.path().join("test.duckdb");
    let url = format!("duckdb:{}?driver={}&threads=2", path.display(), *LIBRARY);
    Arc::new(DuckTarget::connect(&url, None).await.expect("a database"))
}

impl DuckFixture {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self {
            target: connect(&directory).await,
            directory,
        }
    }
}

#[async_trait]
impl Fixture for DuckFixture {
    fn target(&self) -> Arc<dyn Target> {
        self.target.clone()
    }

    async fn again(&self) -> Arc<dyn Target> {
        connect(&self.directory).await
    }

    async fn count(&self, table: &str) -> u64 {
        let count = self
            .target
            .behind_its_back(&format!("SELECT count(*) FROM {table}"))
            .await;
        count.expect("an answer").expect("a number") as u64
    }

    fn exceptions(&self) -> &'static [Exception] {
        &[]
    }

    fn other_types(&self) -> &'static [(&'static str, &'static str)] {
        &[
            // There are no decimals without a limit.
            ("numeric", "text"),
            ("varchar(5)", "text"),
            ("varchar(300)", "text"),
            ("char(9)", "text"),
        ]
    }

    fn language(&self) -> Option<&dyn Language> {
        Some(self)
    }
}

const LAYOUTS: &[Layout] = &[
    Layout::refusing("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR CHECK (v <> 'bad'), w VARCHAR)"),
    Layout::refusing(
        "CREATE TABLE t (w VARCHAR, id DECIMAL(30,2) PRIMARY KEY, v VARCHAR NOT NULL CHECK (v <> 'bad'))",
    ),
    Layout::refusing("CREATE TABLE t (id VARCHAR PRIMARY KEY, v VARCHAR CHECK (v <> 'bad'), w VARCHAR)"),
    Layout::refusing("CREATE TABLE t (id DOUBLE UNIQUE NOT NULL, v VARCHAR CHECK (v <> 'bad'), w VARCHAR)"),
    Layout::refusing("CREATE TABLE t (w VARCHAR, id HUGEINT PRIMARY KEY, v VARCHAR CHECK (v <> 'bad'))"),
    Layout::refusing(
        "CREATE TABLE t (id UBIGINT PRIMARY KEY, v VARCHAR, w VARCHAR, d INTEGER DEFAULT 7, CHECK (v <> 'bad' AND d > 0))",
    ),
    Layout::refusing(
        "CREATE TABLE t (id UINTEGER PRIMARY KEY, v VARCHAR CHECK (v <> 'bad'), w VARCHAR);\nCREATE INDEX i ON t (v)",
    ),
];

const ALTERATIONS: &[Alteration] = &[
    Alteration::of("ALTER TABLE t ADD COLUMN c INTEGER", "column 'c' is new"),
    Alteration::of(
        "ALTER TABLE t ALTER w TYPE INTEGER USING 1",
        "'w' was VARCHAR and is INTEGER",
    ),
    Alteration::of(
        "ALTER TABLE t RENAME COLUMN v TO x;\nALTER TABLE t RENAME COLUMN w TO v;\nALTER TABLE t RENAME COLUMN x TO w",
        "its columns have another order",
    ),
    Alteration::of("CREATE UNIQUE INDEX i ON t (w)", "was altered"),
    Alteration::of(
        "DROP TABLE IF EXISTS old;\nALTER TABLE t RENAME TO old;\nCREATE TABLE t AS SELECT * FROM old",
        "was replaced",
    ),
];

#[async_trait]
impl Language for DuckFixture {
    async fn run(&self, statements: &str) {
        self.target.behind_its_back(statements).await.expect("they run");
    }

    fn layouts(&self) -> &'static [Layout] {
        LAYOUTS
    }

    fn alterations(&self) -> &'static [Alteration] {
        ALTERATIONS
    }

    /// What is said of a column is no alteration, nor is another table.
    fn harmless(&self) -> &'static str {
        "CREATE TABLE IF NOT EXISTS other (id INTEGER);\nCOMMENT ON COLUMN t.w IS 'said'"
    }
}

tonnage_contract::suites!(DuckFixture::new().await);
