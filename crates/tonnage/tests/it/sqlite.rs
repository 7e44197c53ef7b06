//! SQLite: real files, written through the seams and read back with plain SQL.

mod affinities;
mod gets;
mod ledger;
mod measuring;
mod operations;
mod tables;
mod unloading;
mod values;
mod writing;

use std::{path::PathBuf, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    datatypes::{Field, Schema},
};
use rusqlite::{Connection, types::Value};
use tempfile::TempDir;
use tonnage::{
    ColumnType,
    ledger::NewRun,
    operation::{Method, Operation},
    plan::Plan,
    slot::{Advance, BlockMark, Counts, Position},
    table::{Table, TableName},
    target::{Claim, Failure, Guard, Writer},
    targets::sqlite::SqliteTarget,
};

use crate::common::upsert;

const METHODS: [Method; 2] = [Method::Native, Method::Array];

/// A file in a directory of its own, and the target that has it open.
struct Database {
    directory: TempDir,
    target: std::sync::Arc<dyn tonnage::target::Target>,
}

impl Database {
    /// A file with this schema; none where it is empty.
    async fn new(schema: &str) -> Self {
        Self::with_options(schema, "").await
    }

    async fn with_options(schema: &str, options: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.db");
        if !schema.is_empty() {
            Connection::open(&path).unwrap().execute_batch(schema).unwrap();
        }
        let url = format!("sqlite:{}{options}", path.display());
        let target = std::sync::Arc::new(SqliteTarget::connect(&url).await.unwrap());
        Self { directory, target }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("test.db")
    }

    /// A connection of another program.
    fn other(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    fn rows(&self, sql: &str) -> Vec<Vec<Value>> {
        let connection = self.other();
        let mut statement = connection.prepare(sql).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect());
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    fn count(&self, table: &str) -> i64 {
        self.other()
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
            .unwrap()
    }

    async fn table(&self, name: &str) -> Table {
        self.target.table(&TableName::bare(name)).await.unwrap().unwrap()
    }

    /// A plan that writes these columns of `table`, as these types.
    async fn plan(&self, table: &str, columns: &[(&str, ColumnType)], method: Method) -> Plan {
        let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
        let mut plan = crate::common::plan_of(self.table(table).await, &names, Operation::Insert, method);
        for (column, (_, ty)) in plan.columns.iter_mut().zip(columns) {
            column.ty = *ty;
        }
        plan
    }

    async fn writer(&self, plan: &Plan) -> Box<dyn Writer> {
        self.target.writer(&plan.write_request(), None).await.unwrap()
    }

    /// Writes a batch in a transaction of its own; the failure, if any, with what was applied committed.
    async fn write(&self, plan: &Plan, rows: &RecordBatch) -> Option<Failure> {
        let mut writer = self.writer(plan).await;
        assert_eq!(writer.begin(&[]).await.unwrap(), Claim::Held);
        let outcome = writer.write(rows, Guard::None).await.unwrap();
        writer.commit(&[]).await.unwrap();
        outcome.failure
    }
}

/// A batch with columns of these types.
fn batch(columns: Vec<(&str, ColumnType, ArrayRef)>) -> RecordBatch {
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, ty, _)| Field::new(*name, ty.arrow(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// The columns `id` and `name`.
fn pairs(rows: &[(Option<i64>, &str)]) -> RecordBatch {
    let ids: Int64Array = rows.iter().map(|(id, _)| *id).collect();
    let names: StringArray = rows.iter().map(|(_, name)| Some(*name)).collect();
    batch(vec![
        ("id", ColumnType::Int64, Arc::new(ids)),
        ("name", ColumnType::TEXT, Arc::new(names)),
    ])
}

const PAIR: [(&str, ColumnType); 2] = [("id", ColumnType::Int64), ("name", ColumnType::TEXT)];

/// `id` from 0, `name` always the same.
fn many(rows: i64) -> RecordBatch {
    let rows: Vec<_> = (0..rows).map(|id| (Some(id), "x")).collect();
    pairs(&rows)
}

fn integer(value: i64) -> Value {
    Value::Integer(value)
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

async fn new_run(database: &Database, table: &str, run_id: &str) -> NewRun {
    let table = database.table(table).await;
    let identity = format!("same input into {}", table.identity.object);
    let mut run = crate::common::new_run(&table, run_id.to_owned(), identity, 4);
    run.detail.options.push("header=true".to_owned());
    run.detail.block_bytes = 1 << 20;
    run
}

/// A step of a slot from `from` to `to` rows of block 0.
fn advance(slot: u16, from: u64, to: u64) -> Advance {
    Advance {
        slot,
        from: Position { block: 0, rows: from },
        to: Position { block: 0, rows: to },
        mark: BlockMark {
            file: 1,
            offset: u64::MAX,
            file_rows: 3,
            rows: 4,
            hash: u64::MAX - 1,
        },
        counts: Counts {
            written: to - from,
            skipped: 0,
            rejected: 0,
        },
    }
}
