//! Rows on their way out.

use crate::{Files, Fixture, Row, assert_refused, connected, load, make, read, row};

const ROWS: i64 = 5_000;

async fn filled(fixture: &dyn Fixture) -> Vec<Row> {
    let target = fixture.target();
    make(&target).await;
    let files = Files::new();
    let path = files.csv("input.csv", (0..ROWS).map(|id| (id, format!("v{id}"))));
    load(&target, &path, &files.rejects())
        .batch_rows(700)
        .run()
        .await
        .expect("rows");
    let mut all: Vec<Row> = (0..ROWS).map(|id| row(id, format!("v{id}"))).collect();
    all.sort();
    all
}

/// However many read, every row comes once.
pub async fn all_rows_come_once(fixture: &dyn Fixture) {
    let all = filled(fixture).await;
    let target = fixture.target();
    for jobs in [1, 2, 5] {
        match (target.parts().scan, read(&target, "t", jobs).await) {
            (Some(_), rows) => assert!(rows.expect("rows") == all, "{jobs} jobs"),
            (None, rows) => assert_refused(&rows.expect_err("it cannot be read")),
        }
    }
}

/// Columns in their order, no more rows than asked for; what is not there is refused, and so is SQL where there is none.
pub async fn what_is_asked_for_comes(fixture: &dyn Fixture) {
    filled(fixture).await;
    let target = fixture.target();
    let database = connected(&target);
    let mut batches = database
        .unload("t")
        .columns(["v"])
        .limit(7)
        .jobs(3)
        .batches()
        .await
        .expect("an unload");
    let mut rows = 0;
    while let Some(batch) = batches.next().await.expect("rows") {
        assert_eq!(batch.num_columns(), 1);
        rows += batch.num_rows();
    }
    assert_eq!(rows, 7);
    for unload in [
        database.unload("nothing"),
        database.unload("t").columns(["nothing"]),
    ] {
        assert_refused(&unload.batches().await.err().expect("it is not there"));
    }
    let nonsense = database.unload_query("this is no query").batches().await;
    assert_refused(&nonsense.err().expect("no database takes that"));
}
