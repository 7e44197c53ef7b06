//! The engine against the reference target, which can be made to fail at any call.

use std::fs;

use tonnage_core::{
    table::{ColumnSpec, TableName, TableSpec},
    types::ColumnType,
};
use tonnage_formats::sources::{self, TextOptions};
use tonnage_testing::memory::{Fault, Memory};

use super::*;
use crate::{connected::Connected, plan::LoadOptions, unload::source::DatabaseSource};

/// A table of 5,000 rows, which is several splits.
async fn numbers() -> Memory {
    let memory = Memory::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("n.csv");
    let lines: String = (0..5_000).map(|n| format!("{n},{}\n", n * n)).collect();
    fs::write(&path, format!("id,square\n{lines}")).unwrap();
    let spec = TableSpec {
        name: TableName::bare("n"),
        columns: ["id", "square"]
            .map(|name| ColumnSpec {
                name: name.to_owned(),
                ty: ColumnType::Int64,
                nullable: false,
            })
            .to_vec(),
        key: vec!["id".to_owned()],
    };
    memory.create(&spec).await.unwrap();
    let source = sources::open(&[path.display().to_string()], None, &TextOptions::default()).unwrap();
    let options = LoadOptions {
        jobs: Some(1),
        ..LoadOptions::new(TableName::bare("n"))
    };
    let target = Arc::new(memory.clone());
    let prepared = crate::load::prepare(target, String::new(), source, options)
        .await
        .unwrap();
    let ended = prepared.run(Arc::default(), Stop::default()).await.unwrap();
    assert!(ended.error.is_none());
    memory
}

fn options(path: PathBuf) -> UnloadOptions {
    UnloadOptions {
        jobs: Some(3),
        ..UnloadOptions::new(Relation::Table(TableName::bare("n")), Output::new(path))
    }
}

async fn try_unload(memory: &Memory, options: &UnloadOptions) -> Result<UnloadReport> {
    unload(
        memory,
        "memory".to_owned(),
        options,
        Arc::default(),
        Stop::default(),
    )
    .await
}

#[tokio::test]
async fn a_failed_unload_leaves_nothing_and_a_whole_one_leaves_all() {
    let memory = numbers().await;
    for name in ["n.csv", "n-{}.jsonl", "parts/"] {
        let mut whole = false;
        for calls in 0.. {
            let directory = tempfile::tempdir().unwrap();
            memory.fail_after(calls, Fault::Before(ErrorKind::Unsent));
            let ended = try_unload(&memory, &options(directory.path().join(name))).await;
            memory.revive();
            let left = fs::read_dir(directory.path()).unwrap().count();
            match ended {
                Err(error) => {
                    assert_eq!(error.to_string(), "a fault was asked for");
                    assert_eq!(left, 0, "{name}: after {calls} calls");
                }
                Ok(report) => {
                    assert_eq!(report.rows, 5_000);
                    assert_eq!(report.files.iter().map(|file| file.rows).sum::<u64>(), 5_000);
                    whole = true;
                    break;
                }
            }
        }
        assert!(whole);
    }
}

#[tokio::test]
async fn one_file_is_in_order_whatever_the_jobs() {
    let memory = numbers().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("n.csv");
    let report = try_unload(&memory, &options(path.clone())).await.unwrap();
    assert_eq!((report.jobs, report.splits), (3, 5));
    let wanted: String = (0..5_000).map(|n| format!("{n},{}\n", n * n)).collect();
    assert_eq!(fs::read_to_string(path).unwrap(), format!("id,square\n{wanted}"));
}

#[tokio::test]
async fn a_request_to_stop_leaves_nothing() {
    let memory = numbers().await;
    let directory = tempfile::tempdir().unwrap();
    let stop = Stop::default();
    stop.request();
    let options = options(directory.path().join("n.csv"));
    let ended = unload(&memory, String::new(), &options, Arc::default(), stop).await;
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// A reader that is gone before its split ends, as after a panic.
struct Gone;

#[async_trait::async_trait]
impl Reader for Gone {
    async fn open(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<arrow::array::RecordBatch>> {
        panic!("the reader of a test is gone")
    }
}

#[tokio::test]
async fn a_reader_that_is_gone_is_no_end() {
    let snapshot = tonnage_core::reader::Snapshot {
        table: None,
        columns: Vec::new(),
        key: Vec::new(),
        splits: 1,
        readers: vec![Box::new(Gone)],
        consistency: "nothing is read",
        settings_changed: Vec::new(),
        notes: Vec::new(),
    };
    let mut batches = Batches::of(snapshot, Stop::default());
    let error = batches.next().await.unwrap_err();
    assert_eq!(error.to_string(), "a reader ended before its split was read");
}

/// Reads empty splits, and fails in the first once the other readers wait for room for theirs.
struct FailsFirst {
    split: usize,
}

#[async_trait::async_trait]
impl Reader for FailsFirst {
    async fn open(&mut self, split: usize) -> Result<()> {
        self.split = split;
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<arrow::array::RecordBatch>> {
        if self.split > 0 {
            return Ok(None);
        }
        // On a runtime of one thread the others go on until they wait.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        Err(Error::schema("the first split cannot be read"))
    }
}

#[tokio::test]
async fn an_error_is_told_although_other_readers_wait_for_room() {
    for readers in 1..8 {
        let snapshot = tonnage_core::reader::Snapshot {
            table: None,
            columns: Vec::new(),
            key: Vec::new(),
            splits: 100,
            readers: (0..readers)
                .map(|_| Box::new(FailsFirst { split: 0 }) as Box<dyn Reader>)
                .collect(),
            consistency: "nothing is read",
            settings_changed: Vec::new(),
            notes: Vec::new(),
        };
        let mut batches = Batches::of(snapshot, Stop::default());
        let ended = tokio::time::timeout(std::time::Duration::from_secs(60), batches.next()).await;
        let error = ended.expect("the error arrives").unwrap_err();
        assert_eq!(error.to_string(), "the first split cannot be read");
    }
}

#[tokio::test]
async fn a_database_is_a_source() {
    let memory = numbers().await;
    let request = options(PathBuf::new()).request().unwrap();
    let source = DatabaseSource::open(&memory, "memory n", &request).await.unwrap();
    let other = Memory::new();
    let prepare = |source, create| {
        let options = LoadOptions {
            create,
            jobs: Some(2),
            ..LoadOptions::new(TableName::bare("again"))
        };
        crate::load::prepare(Arc::new(other.clone()), String::new(), source, options)
    };
    let prepared = prepare(Box::new(source), crate::plan::Create::New).await.unwrap();
    assert!(!prepared.resumable());
    assert_eq!(
        prepared.plan().guarantees_lost,
        ["the input is a database, which may change: an interrupted run cannot be resumed"]
    );
    let ended = prepared.run(Arc::default(), Stop::default()).await.unwrap();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let sorted = |mut rows: Vec<_>| {
        rows.sort();
        rows
    };
    assert_eq!(sorted(other.rows("again")), sorted(memory.rows("n")));
    let table = other.table(&TableName::bare("again")).await.unwrap().unwrap();
    assert_eq!(table.primary_key().unwrap().columns, ["id"]);
    assert!(table.columns.iter().all(|column| !column.nullable));

    // A reader that fails stops the load, and the account says what was written until then.
    memory.fail_after(6, Fault::Before(ErrorKind::Unsent));
    let source = DatabaseSource::open(&memory, "memory n", &request).await.unwrap();
    other.drop_table("again");
    let prepared = prepare(Box::new(source), crate::plan::Create::New).await.unwrap();
    let ended = prepared.run(Arc::default(), Stop::default()).await.unwrap();
    assert_eq!(ended.error.unwrap().to_string(), "a fault was asked for");
    assert!(ended.report.rows.balances());
    assert!(other.rows("again").len() < 5_000);
}

#[test]
fn the_builder_names_what_is_missing() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let database = Connected::new(Arc::new(Memory::new()), "memory:");
    let refused = runtime.block_on(database.unload("t").run());
    assert_eq!(refused.unwrap_err().to_string(), "no file was named");
}
