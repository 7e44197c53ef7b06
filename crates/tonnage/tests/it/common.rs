//! What the targets' tests share.

use std::{path::Path, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{Field, Schema},
};
use tonnage::{
    ColumnType, Unload,
    ledger::{NewRun, jobs::RunRole},
    operation::{Durability, Method, Operation},
    plan::{LedgerPlace, OnError, Plan, RejectsMax, SlotBy, Sort, Tuned},
    preparation::Preparation,
    table::Table,
    target::WriteColumn,
};
use tonnage_contract::ledger::run_detail;

/// A plan of one lane for a writer that is used without the engine.
pub fn plan(table: Arc<Table>, columns: Vec<WriteColumn>, operation: Operation, method: Method) -> Plan {
    Plan {
        product: String::new(),
        table,
        columns,
        partial_dates: false,
        operation,
        method,
        durability: Durability::Relaxed,
        jobs: 1,
        tune: Tuned {
            rows: false,
            lanes: false,
        },
        batch_rows: 65_536,
        batch_bytes: 8 << 20,
        block_rows: 65_536,
        block_bytes: 8 << 20,
        slots: 64,
        slot_by: SlotBy::Block,
        routing: None,
        sort: Sort::None,
        sort_by: Vec::new(),
        sort_bytes_max: 1 << 20,
        key_at: Vec::new(),
        deduplicate: false,
        limit: None,
        rate: None,
        on_error: OnError::Stop,
        rejects_max: RejectsMax::Rows(0),
        attempts_max: 1,
        attempts_time_max: std::time::Duration::from_secs(60),
        ledger: LedgerPlace::Target,
        preparation: Preparation::Keep,
        split: tonnage::operation::Split::Auto,
        statement_max: None,
        single_transaction: false,
        create: None,
        inferred: Vec::new(),
        queue_bytes_max: 0,
        settings_changed: Vec::new(),
        guarantees_lost: Vec::new(),
        notes: Vec::new(),
    }
}

/// A plan that writes `columns` of `table`.
pub fn plan_of(table: Table, columns: &[&str], operation: Operation, method: Method) -> Plan {
    let columns = columns.iter().enumerate().map(|(source, name)| {
        let target = table.columns.iter().position(|column| column.name == *name);
        let target = target.expect("a column of the table");
        let column = &table.columns[target];
        WriteColumn {
            source,
            source_name: column.name.clone(),
            target,
            name: column.name.clone(),
            ty: column.ty.expect("a column that can be written"),
        }
    });
    let columns = columns.collect();
    plan(Arc::new(table), columns, operation, method)
}

/// A batch of `columns`.
pub fn batch(columns: &[(ColumnType, ArrayRef)]) -> RecordBatch {
    let fields = columns.iter().enumerate();
    let fields = fields.map(|(index, (ty, _))| Field::new(format!("c{index}"), ty.arrow(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let arrays = columns.iter().map(|(_, array)| array.clone()).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
}

/// Names, as operations have them.
pub fn key(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|column| (*column).to_owned()).collect()
}

/// An upsert by this key.
pub fn upsert(columns: &[&str]) -> Operation {
    Operation::Upsert { key: key(columns) }
}

/// The values of the first column of all CSV files that an unload writes, sorted.
pub async fn keys(unload: Unload, directory: &Path) -> Vec<String> {
    let written = unload.to(directory.join("k-{}.csv")).overwrite().run().await;
    let mut keys = Vec::new();
    for file in &written.unwrap().files {
        let text = std::fs::read_to_string(&file.path).unwrap();
        let lines: Vec<_> = text.lines().skip(1).map(str::to_owned).collect();
        assert_eq!(lines.len() as u64, file.rows);
        keys.extend(lines);
    }
    keys.sort();
    keys
}

/// A variable that scripts/with-servers sets.
pub fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run `make test`, which starts the servers"))
}

/// A run of plain inserts of `id` into a table, with `slots` slots; the table stays as it is.
pub fn new_run(table: &Table, run_id: String, identity: String, slots: u16) -> NewRun {
    NewRun {
        run_id,
        identity,
        detail: run_detail(table, Vec::new(), &["id"], slots),
        table: table.name.clone(),
        preparation: Preparation::Keep,
        role: RunRole::Alone,
    }
}
