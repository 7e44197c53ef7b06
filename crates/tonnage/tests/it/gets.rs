//! Gets, as a user of the library writes them, against databases of every kind.

use std::sync::Arc;

use arrow::{array::RecordBatch, util::display::array_value_to_string};
use tonnage::{
    BulkGet,
    fetch::{Fetched, GetReport},
    table::TableName,
    target::Target,
};

/// What came: a line a row or key, fields with `|` between them, nothing for null.
#[derive(Debug)]
pub struct Got {
    pub rows: Vec<String>,
    pub missing: Vec<String>,
    pub report: GetReport,
}

pub fn get(target: &Arc<dyn Target>, table: &str) -> BulkGet {
    BulkGet::new(
        target.clone(),
        "here".to_owned(),
        table.parse::<TableName>().unwrap(),
    )
}

pub async fn collect(get: BulkGet) -> tonnage::Result<Got> {
    let prepared = get.prepare().await?;
    let (schema, keys) = (prepared.schema(), prepared.key_schema());
    let mut get = prepared.start()?;
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    while let Some(fetched) = get.next().await? {
        match fetched {
            Fetched::Rows(batch) => {
                assert_eq!(batch.schema(), schema, "rows come as was said before");
                lines(&batch, &mut rows);
            }
            Fetched::Missing(batch) => {
                assert_eq!(batch.schema(), keys);
                lines(&batch, &mut missing);
            }
        }
    }
    let report = get.finish()?;
    assert!(report.keys.balance());
    assert_eq!(report.rows, rows.len() as u64);
    assert_eq!(report.keys.missing, missing.len() as u64);
    Ok(Got {
        rows,
        missing,
        report,
    })
}

fn lines(batch: &RecordBatch, lines: &mut Vec<String>) {
    for row in 0..batch.num_rows() {
        let cells = batch
            .columns()
            .iter()
            .map(|column| array_value_to_string(column, row).unwrap());
        lines.push(cells.collect::<Vec<_>>().join("|"));
    }
}

/// One table of a key of one column, `k`, beside a column `v`.
pub struct Case {
    /// The table.
    pub table: &'static str,
    /// The keys asked.
    pub keys: &'static [&'static str],
    /// The values `v` that come, in the order of the keys asked.
    pub rows: &'static [&'static str],
    /// The keys that are missing, as they were asked.
    pub missing: &'static [&'static str],
}

/// Every case once and in order, over one connection and over several.
pub async fn check(target: &Arc<dyn Target>, cases: &[Case]) {
    for case in cases {
        for (jobs, request_keys) in [(1, 1000), (3, 1), (2, 2)] {
            let sorted = |values: &[String]| {
                let mut values = values.to_vec();
                values.sort();
                values
            };
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            let get = || {
                let get = get(target, case.table)
                    .keys(case.keys.to_vec())
                    .columns(["v"])
                    .jobs(jobs);
                get.options(|options| options.request_keys = request_keys)
            };
            let got = collect(get().ordered())
                .await
                .unwrap_or_else(|e| panic!("{}: {e}", case.table));
            assert_eq!(got.rows, texts(case.rows), "{} in order", case.table);
            assert_eq!(got.missing, texts(case.missing), "{} in order", case.table);
            let got = collect(get())
                .await
                .unwrap_or_else(|e| panic!("{}: {e}", case.table));
            assert_eq!(sorted(&got.rows), sorted(&texts(case.rows)), "{}", case.table);
            assert_eq!(
                sorted(&got.missing),
                sorted(&texts(case.missing)),
                "{}",
                case.table
            );
        }
    }
}

/// A table `(a, b, v)` of the key `(a, b)` with a row for each of 100 x 50, `v` being `a-b`, and gets of it.
pub async fn check_composite(target: &Arc<dyn Target>, table: &str) {
    let of = |get: BulkGet| collect(get.columns(["v"]));
    let got = of(get(target, table).keys(["7,3", "5,1", "7,3", "7,50", "7,1"]))
        .await
        .unwrap();
    assert_eq!(got.rows, ["5-1", "7-1", "7-3"]);
    assert_eq!(got.missing, ["7|50"]);
    assert_eq!((got.report.keys.asked, got.report.keys.distinct), (5, Some(4)));

    let got = of(get(target, table).keys(["9", "100"])).await.unwrap();
    assert_eq!(got.rows.len(), 50, "all rows below the first column");
    assert_eq!(got.missing, ["100"]);
    assert_eq!(got.report.keys.found, 1);

    let range = || get(target, table).keys(["9", "8", "9"]).ordered();
    let got = of(range().range_from("47").range_to("48")).await.unwrap();
    assert_eq!(got.rows, ["9-47", "9-48", "8-47", "8-48", "9-47", "9-48"]);
    let got = of(range().range_before("2")).await.unwrap();
    assert_eq!(got.rows, ["9-0", "9-1", "8-0", "8-1", "9-0", "9-1"]);
    let got = of(range().range_from("50")).await.unwrap();
    assert!(got.rows.is_empty());
    assert_eq!(got.missing, ["9", "8", "9"], "a key without a row in the range");

    // The columns of a key may be named in any order; a null is missing by itself.
    let got = of(get(target, table).by(["b", "a"]).keys(["3,7", ",7"]))
        .await
        .unwrap();
    assert_eq!(got.rows, ["7-3"]);
    assert_eq!(got.missing, ["7|"]);

    // Answers that outgrow what is held are passed on, or in order asked for in halves.
    let outgrown = |ordered: bool| {
        let get = get(target, table).keys((0..100).rev().map(|a| a.to_string()));
        get.jobs(2).options(|options| {
            options.ordered = ordered;
            options.held_bytes_max = 1_000;
            options.request_keys = 16;
        })
    };
    let got = of(outgrown(true)).await.unwrap();
    let expected = (0..100)
        .rev()
        .flat_map(|a| (0..50).map(move |b| format!("{a}-{b}")));
    assert_eq!(got.rows.len(), 5_000);
    assert!(
        got.rows
            .iter()
            .map(|row| row.split('-').next().unwrap().to_owned())
            .eq(expected.map(|row| row.split('-').next().unwrap().to_owned()))
    );
    let got = of(outgrown(false)).await.unwrap();
    assert_eq!(got.rows.len(), 5_000);
}
