//! What measuring asks of SQLite: files and tables of the forms that were asked for.

use rusqlite::Connection;
use tonnage::{
    generate::Workload,
    instruments::{Keys, Storage, TableForm},
    table::TableName,
};

use super::Database;

#[tokio::test]
async fn a_table_is_made_of_the_form_that_was_asked_for() {
    let database = Database::new("PRAGMA page_size = 1024; CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    let instruments = database.target.instruments().unwrap();
    for (form, page_bytes, index_count, columns) in [
        (TableForm::default(), 1_024, 0, 4),
        (
            TableForm {
                indexes: 2,
                page_bytes: Some(16_384),
                keys: Keys::Generated,
                ..TableForm::default()
            },
            16_384,
            2,
            4,
        ),
    ] {
        assert_eq!(instruments.obstacle(&form).await.unwrap(), None, "{form}");
        let name = "tonnage_bench_test_1";
        let scratch = instruments.scratch(name, form.page_bytes).await.unwrap().unwrap();
        let workload = Workload::Sbtest;
        let key = workload.key().iter().map(|name| (*name).to_owned()).collect();
        let making = tonnage::measure::form::making(
            &form,
            TableName::bare(name),
            workload.columns_of(form.columns),
            key,
        );
        scratch.instruments().unwrap().make(&making).await.unwrap();
        drop(scratch);
        let file = format!("{}.{name}", database.path().display());
        let made = Connection::open(&file).unwrap();
        let number = |sql: &str| -> i64 { made.query_row(sql, [], |row| row.get(0)).unwrap() };
        assert_eq!(number("PRAGMA page_size"), page_bytes, "{form}");
        let indexes = format!("SELECT count(*) FROM pragma_index_list('{name}')");
        assert_eq!(number(&indexes), index_count, "{form}");
        let of_table = format!("SELECT count(*) FROM pragma_table_info('{name}')");
        assert_eq!(number(&of_table), columns, "{form}");
        // The rowid numbers what comes without a key.
        made.execute(
            &format!("INSERT INTO {name} (k, c, pad) VALUES (7, 'c', 'p')"),
            [],
        )
        .unwrap();
        assert_eq!(number(&format!("SELECT id FROM {name}")), 1, "{form}");
        drop(made);
        instruments.discard(name).await.unwrap();
        assert!(!std::path::Path::new(&file).exists());
    }
    for (storage, page_bytes) in [
        (Storage::Unlogged, None),
        (Storage::Compressed, None),
        (Storage::Plain, Some(5_000)),
        (Storage::Plain, Some(131_072)),
        (Storage::Plain, Some(0)),
    ] {
        let form = TableForm {
            storage,
            page_bytes,
            ..TableForm::default()
        };
        assert!(instruments.obstacle(&form).await.unwrap().is_some(), "{form}");
    }
}
