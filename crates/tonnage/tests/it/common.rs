//! What the targets' tests share.

use std::sync::Arc;

use tonnage::{
    ledger::{NewRun, RunDetail},
    operation::{Durability, Method, Operation},
    plan::{LedgerPlace, OnError, Plan, RejectsMax, SlotBy, Sort},
    preparation::Preparation,
    table::Table,
    target::WriteColumn,
};

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

/// A run of plain inserts of `id` into a table, with `slots` slots; the table stays as it is.
pub fn new_run(table: &Table, run_id: String, identity: String, slots: u16) -> NewRun {
    NewRun {
        run_id,
        identity,
        detail: RunDetail {
            inputs: Vec::new(),
            options: Vec::new(),
            table: table.name.to_string(),
            table_identity: table.identity.clone(),
            operation: "insert".to_owned(),
            key: Vec::new(),
            columns: vec!["id".to_owned()],
            block_rows: 65_536,
            block_bytes: 8 << 20,
            slots,
            slot_by: "block".to_owned(),
            sort: "none".to_owned(),
            rejects: String::new(),
            single_transaction: false,
            prepared_by: None,
            pending: None,
            member: None,
            opening: None,
            emptied_by_crash: table.is_emptied_by_crash(),
        },
        table: table.name.clone(),
        preparation: Preparation::Keep,
    }
}
