//! Bad rows.

use tonnage_core::{ColumnType, ErrorKind, reject::sqlstate};
use tonnage_engine::plan::RejectsMax;

use crate::{Files, Fixture, load, make_of, rows};

/// Rows 3 and 7 of ten are no numbers, row 5 has none.
fn input(files: &Files) -> String {
    let line = |id: u32| match id {
        3 | 7 => format!("{id},x{id}\n"),
        5 => format!("{id},\n"),
        _ => format!("{id},{id}0\n"),
    };
    files.text(
        "input.csv",
        &(1..=10).fold("id,n\n".to_owned(), |text, id| text + &line(id)),
    )
}

/// A bad row goes to the rejects with its number, its column and a code; all others are there.
pub async fn a_bad_row_costs_only_itself(fixture: &dyn Fixture) {
    let target = fixture.target();
    let (table, _) = make_of(
        &target,
        &[("id", ColumnType::Int64, false), ("n", ColumnType::Int32, false)],
    )
    .await;
    let files = Files::new();
    let takes_nulls = table.column("n").expect("a column").nullable;
    let bad: &[u64] = if takes_nulls { &[3, 7] } else { &[3, 5, 7] };
    let report = load(&target, &input(&files), &files.rejects())
        .run()
        .await
        .expect("a load");
    assert!(report.rows.balances());
    assert_eq!((report.rows.read, report.rows.rejected), (10, bad.len() as u64));
    let there: Vec<_> = rows(fixture)
        .await
        .into_iter()
        .map(|row| row[0].clone())
        .collect();
    let mut good: Vec<_> = (1..=10u64)
        .filter(|id| !bad.contains(id))
        .map(|id| Some(id.to_string()))
        .collect();
    good.sort();
    assert_eq!(there, good);
    let text = std::fs::read_to_string(files.rejects()).expect("rejects");
    let mut lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    lines.sort_by_key(|line| line["row"].as_u64());
    let numbers: Vec<_> = lines.iter().filter_map(|line| line["row"].as_u64()).collect();
    assert_eq!(numbers, bad);
    for line in &lines {
        let is_null = line["row"] == 5;
        assert!(
            line["code"].as_str().is_some_and(|code| !code.is_empty()),
            "{line}"
        );
        assert!(
            line["message"]
                .as_str()
                .is_some_and(|message| message.contains('n')),
            "{line}"
        );
        if !is_null {
            assert_eq!(
                (line["column"].as_str(), line["code"].as_str()),
                (Some("n"), Some(sqlstate::INVALID_TEXT))
            );
        }
    }
}

/// One bad row more than is allowed ends the run, and what was put aside before stays put aside.
pub async fn more_bad_rows_than_allowed_end_the_run(fixture: &dyn Fixture) {
    let target = fixture.target();
    make_of(
        &target,
        &[("id", ColumnType::Int64, false), ("n", ColumnType::Int32, false)],
    )
    .await;
    let files = Files::new();
    let load = load(&target, &input(&files), &files.rejects()).rejects(files.rejects(), RejectsMax::Rows(1));
    let error = load.run().await.expect_err("it is one more than may be");
    assert_ne!(error.kind(), ErrorKind::Bug, "{error}");
    assert!(fixture.count("t").await < 10);
}
