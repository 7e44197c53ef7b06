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
    /// Of each table that comes after them.
    pub related: Vec<Vec<String>>,
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
    let others = prepared.related_schemas().to_vec();
    let mut related: Vec<Vec<String>> = vec![Vec::new(); others.len()];
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
            Fetched::Related { table, rows } => {
                assert_eq!(rows.schema(), others[table]);
                lines(&rows, &mut related[table]);
            }
        }
    }
    let report = get.finish()?;
    assert!(report.keys.balance());
    assert_eq!(report.rows, rows.len() as u64);
    assert_eq!(report.keys.missing, missing.len() as u64);
    for (account, rows) in report.related.iter().zip(&related) {
        assert!(account.keys.balance());
        assert_eq!(account.rows, rows.len() as u64);
    }
    Ok(Got {
        rows,
        missing,
        related,
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

pub const fn case(
    table: &'static str,
    keys: &'static [&'static str],
    rows: &'static [&'static str],
    missing: &'static [&'static str],
) -> Case {
    Case {
        table,
        keys,
        rows,
        missing,
    }
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

/// Tables that name each other's rows; statements end at the ends of lines.
pub const RELATED: &str = "CREATE TABLE customers (id int PRIMARY KEY, name varchar(20));
CREATE TABLE orders (id bigint PRIMARY KEY, customer int, note varchar(20), FOREIGN KEY (customer) REFERENCES customers (id));
CREATE TABLE items (order_id bigint NOT NULL, item int NOT NULL, article varchar(20), PRIMARY KEY (order_id, item), FOREIGN KEY (order_id) REFERENCES orders (id));
CREATE TABLE parcels (id int PRIMARY KEY, order_id bigint, item int, FOREIGN KEY (order_id, item) REFERENCES items (order_id, item));
CREATE TABLE letters (id int PRIMARY KEY, sender int, receiver int, FOREIGN KEY (sender) REFERENCES customers (id), FOREIGN KEY (receiver) REFERENCES customers (id));
CREATE TABLE marks (item varchar(10), mark varchar(10));
INSERT INTO customers VALUES (10, 'Ada'), (11, 'Grace'), (12, 'Alan');
INSERT INTO orders VALUES (1, 10, 'first'), (2, 11, NULL), (3, 10, ''), (4, NULL, 'nobody');
INSERT INTO items VALUES (1, 1, 'pen'), (1, 2, 'ink'), (2, 1, 'lamp'), (3, 1, 'chair'), (4, 1, 'desk');
INSERT INTO parcels VALUES (100, 1, 1), (101, 1, 1), (102, 3, 1), (103, 2, 1), (104, NULL, NULL), (105, 4, NULL);
INSERT INTO letters VALUES (1, 10, 11), (2, 11, 10), (3, 12, 10);
INSERT INTO marks VALUES ('1', 'a'), ('2', 'b'), (NULL, 'c'), ('x', 'd')";

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

/// Gets of the tables of [`RELATED`].
pub async fn check_related(target: &Arc<dyn Target>) {
    let with = |get: BulkGet| get.with("parcels").with("customers").with("items");
    for (jobs, request_keys) in [(1, 1000), (3, 1), (2, 2)] {
        let of = |get: BulkGet| {
            let get = get
                .jobs(jobs)
                .options(|options| options.request_keys = request_keys);
            collect(get)
        };
        let got = of(with(get(target, "orders").keys(["3", "1", "4", "9", "3"])))
            .await
            .unwrap();
        assert_eq!(sorted(got.rows), ["1|10|first", "3|10|", "4||nobody"]);
        assert_eq!(got.missing, ["9"]);
        let names: Vec<_> = got
            .report
            .related
            .iter()
            .map(|related| related.on.clone())
            .collect();
        let plain = |name: &str| name.split(['.', ' ', '(']).map(str::to_owned).collect::<Vec<_>>();
        for (name, wanted) in names.iter().zip(["customers", "items", "parcels"]) {
            assert!(plain(name).iter().any(|part| part == wanted), "{names:?}");
        }
        let [customers, items, parcels] = got.related.try_into().unwrap();
        assert_eq!(customers, ["10|Ada"], "a parent of two rows comes once");
        assert_eq!(sorted(items), ["1|1|pen", "1|2|ink", "3|1|chair", "4|1|desk"]);
        assert_eq!(sorted(parcels), ["100|1|1", "101|1|1", "102|3|1"]);
        let account = &got.report.related[2];
        assert_eq!((account.keys.found, account.keys.missing), (2, 2));

        // Up from the grandchildren, by columns that are not handed out.
        let up = get(target, "parcels")
            .keys(["103", "105", "104", "102"])
            .columns(["id"]);
        let got = of(up.with("customers").with("orders").with("items"))
            .await
            .unwrap();
        assert_eq!(sorted(got.rows), ["102", "103", "104", "105"]);
        let [items, orders, customers] = got.related.try_into().unwrap();
        assert_eq!(sorted(items), ["2|1|lamp", "3|1|chair"]);
        assert_eq!(sorted(orders), ["2|11|", "3|10|"]);
        assert_eq!(sorted(customers), ["10|Ada", "11|Grace"]);

        let nested = of(with(get(target, "orders").keys(["4", "1", "1"]))
            .ordered()
            .nested())
        .await
        .unwrap();
        let one = "1|10|first|{id: 10, name: Ada}|[{order_id: 1, item: 1, article: pen, parcels: \
                   [{id: 100, order_id: 1, item: 1}, {id: 101, order_id: 1, item: 1}]}, \
                   {order_id: 1, item: 2, article: ink, parcels: []}]";
        let four = "4||nobody||[{order_id: 4, item: 1, article: desk, parcels: []}]";
        assert_eq!(nested.rows, [four, one, one]);
        assert!(nested.related.is_empty());
    }
    // Two foreign keys lead there.
    let letters = || get(target, "customers").keys(["10"]).with("letters");
    let error = collect(letters()).await.err().unwrap();
    assert!(
        error.to_string().contains("letters can be joined in 2 ways: "),
        "{error}"
    );
    assert!(error.hint_text().unwrap().starts_with("--on names one of them: "));
    for (on, wanted) in [
        ("letters(sender) = customers(id)", &["1|10|11"][..]),
        ("LETTERS(RECEIVER) = customers(id)", &["2|11|10", "3|12|10"]),
    ] {
        let got = collect(letters().on(on)).await.unwrap();
        assert_eq!(sorted(got.related[0].clone()), wanted, "{on}");
    }
    // Columns of other types: what cannot be one has no rows.
    let marks = get(target, "items")
        .keys(["1"])
        .with("marks")
        .on("marks(item) = items(item)");
    let got = collect(marks).await.unwrap();
    assert_eq!(sorted(got.related[0].clone()), ["1|a", "2|b"]);
    assert!(
        got.report
            .notes
            .iter()
            .any(|note| note.contains("no index of ") && note.contains("begins with (item)")),
        "{:?}",
        got.report.notes
    );
    let numbers = get(target, "orders")
        .keys(["1"])
        .with("items")
        .on("items(item) = orders(note)");
    let got = collect(numbers).await.unwrap();
    assert!(got.related[0].is_empty());
}

/// Rows of two tables while `write` commits: between the keys, before any is asked for.
pub async fn collect_while(
    target: &Arc<dyn Target>,
    nested: bool,
    write: impl Fn() + Send + Sync + 'static,
) -> Got {
    let batches = (0..4).map(move |at: i64| {
        if at == 2 {
            write();
        }
        let keys = arrow::array::Int64Array::from_iter_values([at]);
        RecordBatch::try_from_iter([("id", Arc::new(keys) as _)]).unwrap()
    });
    let field = arrow::datatypes::Field::new("id", arrow::datatypes::DataType::Int64, false);
    let schema = Arc::new(arrow::datatypes::Schema::new(vec![field]));
    let source = tonnage::sources::batches::BatchSource::new("keys", schema, batches);
    let get = get(target, "orders")
        .keys_source(source)
        .ordered()
        .with("items")
        .jobs(2);
    let get = get.options(|options| {
        options.nested = nested;
        options.request_keys = 1;
    });
    collect(get).await.unwrap()
}
