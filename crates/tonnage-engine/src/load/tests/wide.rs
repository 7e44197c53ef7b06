//! Tables of thousands of columns.

use std::fmt::Write;

use tonnage_core::{
    table::{ColumnSpec, TableSpec},
    types::ColumnType,
};
use tonnage_formats::sources::{self, TextOptions};

use super::*;

const COLUMNS: usize = 5_000;

#[tokio::test]
async fn thousands_of_columns_are_planned_and_loaded() {
    let names: Vec<String> = (0..COLUMNS)
        .map(|at| format!("column_of_a_wide_table_{at}"))
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wide.csv");
    // In another case, so that no name is found at the first look.
    let mut text = names.join(",").to_uppercase();
    for row in 0..10 {
        write!(text, "\n{row}").unwrap();
        (1..COLUMNS).for_each(|at| write!(text, ",{at}").unwrap());
    }
    std::fs::write(&path, text).unwrap();
    let memory = Memory::new();
    let column = |name: &String| ColumnSpec {
        name: name.clone(),
        ty: ColumnType::Int64,
        nullable: true,
    };
    let spec = TableSpec {
        name: TableName::bare("wide"),
        columns: names.iter().map(column).collect(),
        key: Vec::new(),
    };
    memory.create(&spec).await.unwrap();
    let source = sources::open(&[path.display().to_string()], None, &TextOptions::default()).unwrap();
    let options = LoadOptions::new(TableName::bare("wide"));
    let prepared = prepare(Arc::new(memory.clone()), String::new(), source, options).await;
    let prepared = prepared.unwrap();
    assert_eq!(prepared.plan().columns.len(), COLUMNS);
    let ended = prepared.run(Arc::default(), Stop::default()).await.unwrap();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let rows = memory.rows("wide");
    assert_eq!(rows.len(), 10);
    assert!(rows.iter().all(|row| row[COLUMNS - 1].as_deref() == Some("4999")));
}
