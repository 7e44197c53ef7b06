//! Connections that are lost.

use std::sync::Arc;

use tonnage_core::{
    ledger::RunQuery,
    target::{Rows, Target},
};

use crate::{
    Files, Fixture, Row, described,
    faulty::{Faulty, Lost},
    load, make, row, rows,
};

const ROWS: i64 = 200;

/// Wherever the connection is lost, before or after the call, the load ends by itself with every row there once.
pub async fn a_connection_lost_anywhere(fixture: &dyn Fixture) {
    let target = fixture.target();
    make(&target).await;
    let mut all: Vec<Row> = (0..ROWS).map(|id| row(id, format!("v{id}"))).collect();
    all.sort();
    for lost in [Lost::Before, Lost::After] {
        for calls in 0.. {
            let context = format!("{lost:?} call {calls}");
            let files = Files::new();
            let path = files.csv("input.csv", (0..ROWS).map(|id| (id, format!("v{id}"))));
            let faulty = Arc::new(Faulty::new(target.clone(), calls, lost));
            let through: Arc<dyn Target> = faulty.clone();
            let load = load(&through, &path, &files.rejects()).jobs(1).batch_rows(80);
            let report = load
                .run()
                .await
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(report.rows.balances(), "{context}");
            assert_eq!(
                (report.rows.written, report.rows.rejected),
                (ROWS as u64, 0),
                "{context}"
            );
            assert!(rows(fixture).await == all, "{context}");
            let unfinished = target.ledger().runs(&RunQuery::Unfinished).await.expect("runs");
            assert!(unfinished.is_empty(), "{context}");
            let table = described(&target).await;
            assert!(
                target.drop_table(&table, Rows::Drop).await.expect("dropped"),
                "{context}"
            );
            make(&target).await;
            if !faulty.has_come() {
                assert!(calls >= 3, "a load makes calls");
                break;
            }
        }
    }
}
