//! The contract, and what only a directory can do wrong.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use tempfile::TempDir;
use tonnage_contract::{Exception, Fixture, Language};
use tonnage_core::{
    ColumnType, Error, ErrorKind, Result,
    stop::Stop,
    table::{ColumnSpec, TableName, TableSpec},
    target::Target,
};
use tonnage_engine::{connected::Connected, load::AfterCommit};
use tonnage_example_directory::DirectoryTarget;

struct DirectoryFixture {
    directory: TempDir,
    target: Arc<dyn Target>,
}

fn open(directory: &TempDir) -> Arc<dyn Target> {
    Arc::new(DirectoryTarget::open(directory.path()).expect("a directory"))
}

impl DirectoryFixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self {
            target: open(&directory),
            directory,
        }
    }
}

#[async_trait]
impl Fixture for DirectoryFixture {
    fn target(&self) -> Arc<dyn Target> {
        self.target.clone()
    }

    async fn again(&self) -> Arc<dyn Target> {
        open(&self.directory)
    }

    async fn count(&self, table: &str) -> u64 {
        let files = std::fs::read_dir(self.directory.path().join(table)).expect("a table");
        let files = files.map(|file| file.expect("a file").path());
        let rows = files.filter(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
        rows.map(|file| std::fs::read_to_string(file).expect("rows").lines().count() as u64)
            .sum()
    }

    fn exceptions(&self) -> &'static [Exception] {
        &[]
    }

    fn other_types(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn language(&self) -> Option<&dyn Language> {
        None
    }
}

tonnage_contract::suites!(DirectoryFixture::new());

/// A process that ends after a file has its name and before the ledger moves leaves rows that are sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_process_leaves_is_there_once() {
    let fixture = DirectoryFixture::new();
    let place = fixture.directory.path();
    let columns = ["id", "n"].map(|name| ColumnSpec {
        name: name.to_owned(),
        ty: ColumnType::Int64,
        nullable: true,
    });
    let spec = TableSpec {
        name: TableName::bare("t"),
        columns: columns.to_vec(),
        key: Vec::new(),
    };
    fixture.target.create(&spec).await.expect("a table");
    let text = (1..=300).fold("id,n\n".to_owned(), |text, id| text + &format!("{id},{id}\n"));
    let input = place.join(".input.csv");
    std::fs::write(&input, text).expect("a file");
    let load = |target| {
        let database = Connected::new(target, "directory");
        let load = database.load(input.display().to_string()).table("t");
        load.jobs(1).batch_rows(50)
    };
    let prepared = load(fixture.target()).prepare().await.expect("a plan");
    let prepared = prepared.with_between(Arc::new(EndAfter(AtomicUsize::new(3))));
    let ended = prepared
        .run(Arc::default(), Stop::default())
        .await
        .expect("it begins");
    assert!(ended.error.is_some());
    let there = fixture.count("t").await;
    assert_eq!(there, ended.report.rows.written);
    assert!(0 < there && there < 250, "{there}");
    let table = TableDirectory(place.join("t"));
    let last = table.last();
    let (before, rows) = last.rsplit_once('-').expect("a position");
    let rows: u64 = rows.trim_end_matches(".jsonl").parse().expect("a number");
    // The next write begins where the first one of these does; none begins where the second one does, which is there where
    // the ledger has lost its last steps with the machine.
    for position in [rows + 50, rows + 75] {
        let leftover = table.0.join(format!("{before}-{position}.jsonl"));
        std::fs::copy(table.0.join(&last), leftover).expect("a leftover");
    }
    assert_eq!(fixture.count("t").await, there + 100);
    // And a file that has no name yet.
    let run = before.rsplitn(3, '-').last().expect("a run");
    let unnamed = table.0.join(format!(".{run}-unnamed"));
    std::fs::write(&unnamed, "[\"1\",\"1\"]\n").expect("a leftover");
    let again = load(fixture.again().await).batch_rows(70).resume();
    let report = again.run().await.expect("it goes on");
    assert_eq!(report.rows.skipped.resumed, there);
    assert!(!unnamed.exists());
    assert_eq!(fixture.count("t").await, 300);
}

/// Ends the run after so many commits.
struct EndAfter(AtomicUsize);

#[async_trait]
impl AfterCommit for EndAfter {
    async fn after(&self, _: usize, _: &RecordBatch) -> Result<()> {
        match self.0.fetch_sub(1, Ordering::Relaxed) {
            1 => Err(Error::new(ErrorKind::Refused, "the process ends")),
            _ => Ok(()),
        }
    }
}

struct TableDirectory(PathBuf);

impl TableDirectory {
    /// The file of the last write, by its position.
    fn last(&self) -> String {
        let files = std::fs::read_dir(&self.0).expect("a table");
        let names = files.filter_map(|file| file.expect("a file").file_name().into_string().ok());
        let rows = |name: &String| {
            name.strip_suffix(".jsonl")?
                .rsplit('-')
                .next()?
                .parse::<u64>()
                .ok()
        };
        names
            .filter(|name| rows(name).is_some())
            .max_by_key(rows)
            .expect("a write")
    }
}
