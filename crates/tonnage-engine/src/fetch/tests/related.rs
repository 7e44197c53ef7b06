//! Rows of other tables: those that a naive look-up finds, after the rows that they belong to and each once, or within
//! them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use tonnage_formats::sinks::{Output, create};

use super::*;

/// A made-up shop: values of the columns of each row; the first is the key.
#[derive(Default)]
struct Shop {
    /// id, customer, v
    orders: Vec<Vec<Option<i64>>>,
    /// id, order, n
    lines: Vec<Vec<Option<i64>>>,
    /// id, x
    customers: Vec<Vec<Option<i64>>>,
    /// id, line
    parcels: Vec<Vec<Option<i64>>>,
}

const TABLES: [(&str, &[&str]); 4] = [
    ("orders", &["id", "customer", "v"]),
    ("lines", &["id", "of", "n"]),
    ("customers", &["id", "x"]),
    ("parcels", &["id", "line"]),
];

impl Shop {
    fn of(dice: &mut Dice) -> Self {
        let mut shop = Self::default();
        let some = |dice: &mut Dice, of: u64| match dice.below(8) {
            0 => None,
            _ => Some(dice.below(of) as i64),
        };
        for id in 0..dice.below(60) {
            let row = vec![Some(id as i64), some(dice, 12), some(dice, 1_000)];
            shop.orders.push(row);
        }
        for id in 0..dice.below(200) {
            let row = vec![Some(id as i64), some(dice, 70), some(dice, 9)];
            shop.lines.push(row);
        }
        for id in (0..10).filter(|id| id % 3 != 1) {
            shop.customers.push(vec![Some(id), Some(-id)]);
        }
        for id in 0..dice.below(150) {
            let row = vec![Some(id as i64), some(dice, 210)];
            shop.parcels.push(row);
        }
        shop
    }

    fn rows(&self, table: usize) -> &[Vec<Option<i64>>] {
        [&self.orders, &self.lines, &self.customers, &self.parcels][table]
    }

    async fn store(&self) -> Memory {
        let memory = Memory::new();
        for (table, (name, columns)) in TABLES.iter().enumerate() {
            let column = |name: &&str| ColumnSpec {
                name: (*name).to_owned(),
                ty: ColumnType::Int64,
                nullable: true,
            };
            let spec = TableSpec {
                name: TableName::bare(*name),
                columns: columns.iter().map(column).collect(),
                key: vec!["id".to_owned()],
            };
            memory.create(&spec).await.unwrap();
            let fields = columns
                .iter()
                .map(|name| Field::new(*name, DataType::Int64, true));
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let arrays = (0..columns.len()).map(|at| {
                let values: Int64Array = self.rows(table).iter().map(|row| row[at]).collect();
                Arc::new(values) as _
            });
            let batch = RecordBatch::try_new(schema.clone(), arrays.collect()).unwrap();
            let source = BatchSource::new("rows", schema, std::iter::once(batch));
            let options = crate::plan::LoadOptions::new(TableName::bare(*name));
            let target: Arc<dyn Target> = Arc::new(memory.clone());
            let prepared = crate::load::prepare(target, "memory:".into(), Box::new(source), options);
            let ended = prepared
                .await
                .unwrap()
                .run(Arc::default(), Default::default())
                .await
                .unwrap();
            assert!(ended.error.is_none(), "{:?}", ended.error);
        }
        memory
    }

    /// The rows whose column `at` is one of `values`.
    fn found(&self, table: usize, at: usize, values: &BTreeSet<i64>) -> Vec<&Vec<Option<i64>>> {
        let is_one = |row: &&Vec<Option<i64>>| row[at].is_some_and(|value| values.contains(&value));
        self.rows(table).iter().filter(is_one).collect()
    }
}

fn values(rows: &[&Vec<Option<i64>>], at: usize) -> BTreeSet<i64> {
    rows.iter().filter_map(|row| row[at]).collect()
}

fn shown(row: &[Option<i64>], columns: &[&str]) -> String {
    let value = |value: &Option<i64>| value.map_or("null".to_owned(), |value| value.to_string());
    let mut text = String::new();
    for (name, cell) in columns.iter().zip(row) {
        let comma = if text.is_empty() { "" } else { "," };
        write!(text, "{comma}\"{name}\":{}", value(cell)).unwrap();
    }
    text
}

fn asking(memory: &Memory, keys: &[i64], dice: &mut Dice) -> BulkGet {
    let column = Int64Array::from_iter_values(keys.iter().copied());
    let batch = RecordBatch::try_from_iter([("id", Arc::new(column) as _)]).unwrap();
    let source = BatchSource::new("keys", batch.schema(), std::iter::once(batch));
    BulkGet::new(
        Arc::new(memory.clone()),
        "memory:".into(),
        TableName::bare("orders"),
    )
    .keys_source(source)
    .with("parcels")
    .with("customers")
    .with("lines")
    .on("lines(of) = orders(id)")
    .on("parcels(line) = lines(id)")
    .on("orders(customer) = customers(id)")
    .jobs(1 + dice.below(3) as usize)
    .options(|options| {
        options.request_keys = 1 + dice.below(40) as usize;
        options.sort_bytes_max = 1 + dice.below(4_000) as usize;
        options.held_bytes_max = dice.below(5_000) as usize;
        options.nested_bytes_max = 1 + dice.below(30_000) as usize;
        options.ordered = dice.below(2) == 0;
        // Columns that are only joined by are read, and not shown.
        if dice.below(2) == 0 {
            options.columns = Some(vec!["v".to_owned()]);
        }
    })
}

/// What came of each table, a line a row as JSON.
async fn lines_of(get: BulkGet) -> Result<(BTreeMap<String, Vec<String>>, GetReport)> {
    let directory = tempfile::tempdir().unwrap();
    let prepared = get.prepare().await?;
    let mut names = vec!["orders".to_owned()];
    let mut schemas = vec![prepared.schema()];
    for (related, schema) in prepared.plan().related.iter().zip(prepared.related_schemas()) {
        names.push(related.plan.table.name.name.clone());
        schemas.push(schema.clone());
    }
    let path = |name: &str| directory.path().join(format!("{name}.jsonl"));
    let outputs = names.iter().map(|name| Output::new(path(name)));
    let mut sinks: Vec<_> = outputs
        .zip(&schemas)
        .map(|(output, schema)| create(&output, schema).unwrap())
        .collect();
    let mut get = prepared.start()?;
    while let Some(fetched) = get.next().await? {
        match fetched {
            Fetched::Rows(rows) => sinks[0].write(&rows).unwrap(),
            Fetched::Related { table, rows } => sinks[table + 1].write(&rows).unwrap(),
            Fetched::Missing(_) => {}
        }
    }
    let report = get.finish()?;
    sinks.into_iter().for_each(|sink| {
        sink.finish().unwrap();
    });
    let read = |name: &String| {
        let text = std::fs::read_to_string(path(name)).unwrap();
        (name.clone(), text.lines().map(str::to_owned).collect())
    };
    Ok((names.iter().map(read).collect(), report))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_tables_rows_are_those_of_a_naive_look_up() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let shop = Shop::of(&mut dice);
        let memory = shop.store().await;
        let keys: Vec<i64> = (0..dice.below(80)).map(|_| dice.below(70) as i64).collect();
        let (found, report) = lines_of(asking(&memory, &keys, &mut dice)).await.unwrap();

        let orders = shop.found(0, 0, &keys.iter().copied().collect());
        let lines = shop.found(1, 1, &values(&orders, 0));
        let customers = shop.found(2, 0, &values(&orders, 1));
        let parcels = shop.found(3, 1, &values(&lines, 0));
        for (table, wanted) in [(1, lines), (2, customers), (3, parcels)] {
            let (name, columns) = TABLES[table];
            let mut wanted: Vec<_> = wanted
                .iter()
                .map(|row| format!("{{{}}}", shown(row, columns)))
                .collect();
            wanted.sort();
            let mut came = found[name].clone();
            came.sort();
            assert_eq!(came, wanted, "seed {seed}: {name}");
            let account = report
                .related
                .iter()
                .find(|account| account.table == name)
                .unwrap();
            assert_eq!(account.rows, wanted.len() as u64, "seed {seed}: {name}");
            assert!(account.keys.balance() && account.keys.distinct.is_some());
        }
        assert_eq!(report.rows, found["orders"].len() as u64);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_rows_stand_within_those_that_they_belong_to() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let shop = Shop::of(&mut dice);
        let memory = shop.store().await;
        let keys: Vec<i64> = (0..dice.below(80)).map(|_| dice.below(70) as i64).collect();
        let mut all_columns = false;
        let get = asking(&memory, &keys, &mut dice).nested();
        let get = get.options(|options| all_columns = options.columns.is_none());
        let (found, report) = lines_of(get).await.unwrap();

        let one = |value: Option<i64>| value.into_iter().collect();
        let mut wanted = Vec::new();
        let ordered = report.ordered;
        let distinct: Vec<i64> = match ordered {
            true => keys.clone(),
            false => keys
                .iter()
                .copied()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        };
        for order in distinct.iter().flat_map(|key| shop.found(0, 0, &one(Some(*key)))) {
            let own = match all_columns {
                true => shown(order, TABLES[0].1),
                false => shown(&order[2..], &["v"]),
            };
            let lines = shop.found(1, 1, &one(order[0])).into_iter().map(|line| {
                let parcels = shop.found(3, 1, &one(line[0])).into_iter();
                let parcels: Vec<_> = parcels
                    .map(|row| format!("{{{}}}", shown(row, TABLES[3].1)))
                    .collect();
                format!(
                    "{{{},\"parcels\":[{}]}}",
                    shown(line, TABLES[1].1),
                    parcels.join(",")
                )
            });
            let lines = lines.collect::<Vec<_>>().join(",");
            let customer = match shop.found(2, 0, &one(order[1])).first() {
                Some(row) => format!("{{{}}}", shown(row, TABLES[2].1)),
                None => "null".to_owned(),
            };
            // In the order in which they are joined: as --on says it, one after another.
            wanted.push(format!("{{{own},\"lines\":[{lines}],\"customers\":{customer}}}"));
        }
        let mut came = found["orders"].clone();
        if !ordered {
            came.sort();
            wanted.sort();
        }
        assert_eq!(came, wanted, "seed {seed}");
        assert_eq!(found.len(), 1, "no other table comes by itself");
        assert!(report.related.iter().all(|account| account.keys.balance()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_of_another_table_is_asked_for_again() {
    let mut dice = Dice(7);
    let shop = Shop::of(&mut dice);
    let memory = shop.store().await;
    let keys: Vec<i64> = (0..60).collect();
    let wanted = |get: BulkGet| async { lines_of(get).await.unwrap().0 };
    let get = |dice: &mut Dice, nested: bool| {
        let get = asking(&memory, &keys, dice).options(|options| {
            options.nested = nested;
            options.columns = None;
            options.held_bytes_max = 1 << 20;
            options.ordered = true;
        });
        get.jobs(1)
    };
    let mut retried = 0;
    for nested in [false, true] {
        let whole = wanted(get(&mut Dice(1), nested)).await;
        for seed in 0..60 {
            let mut dice = Dice(seed);
            let kind = [ErrorKind::Overloaded, ErrorKind::Unsent][dice.below(2) as usize];
            let fault = [Fault::Before(kind), Fault::After][dice.below(2) as usize];
            let get = get(&mut dice, nested);
            // Behind the opening of the connections, which is not tried again.
            memory.fail_after(4 + dice.below(60), fault);
            let result = lines_of(get).await;
            memory.revive();
            let (found, report) =
                result.unwrap_or_else(|error| panic!("nested {nested}, seed {seed}: {error}"));
            for (name, rows) in &whole {
                let sorted = |rows: &Vec<String>| rows.iter().cloned().collect::<BTreeSet<_>>();
                assert_eq!(
                    found[name].len(),
                    rows.len(),
                    "nested {nested}, seed {seed}: {name}"
                );
                assert_eq!(
                    sorted(&found[name]),
                    sorted(rows),
                    "nested {nested}, seed {seed}: {name}"
                );
            }
            retried += report.related.iter().map(|account| account.retries).sum::<u64>();
        }
    }
    assert!(retried > 0, "no answer of another table was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_joined_or_nested_is_refused() {
    let memory = Shop::default().store().await;
    let get = || {
        let get = BulkGet::new(
            Arc::new(memory.clone()),
            "memory:".into(),
            TableName::bare("orders"),
        );
        get.keys(["1"])
    };
    let cases: Vec<(BulkGet, &str)> = vec![
        (get().with("lines"), "no foreign key joins lines to orders"),
        (get().with("linse"), "there is no table linse"),
        (get().with("orders"), "orders is to come twice"),
        (
            get().nested(),
            "nothing is joined: no other table comes with the rows",
        ),
        (
            get().with("lines").on("lines(of)"),
            "'lines(of)' joins no tables: it is not of the form TABLE(COLUMNS) = TABLE(COLUMNS)",
        ),
    ];
    for (get, message) in cases {
        let error = get.prepare().await.err().expect(message);
        assert_eq!(error.to_string(), message);
        assert!(error.hint_text().is_some(), "{message}");
    }
    let spec = TableSpec {
        name: TableName::bare("v"),
        columns: vec![ColumnSpec {
            name: "of".to_owned(),
            ty: ColumnType::Int64,
            nullable: false,
        }],
        key: Vec::new(),
    };
    memory.create(&spec).await.unwrap();
    let error = get()
        .with("v")
        .on("v(of) = orders(id)")
        .nested()
        .prepare()
        .await
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "rows of v cannot stand within others under their table's name: 'v' is there already"
    );
    assert!(get().with("v").on("v(of) = orders(id)").prepare().await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_belongs_to_one_row_has_a_bound() {
    let shop = Shop {
        orders: vec![vec![Some(1), None, None]],
        lines: (0..1_000).map(|id| vec![Some(id), Some(1), None]).collect(),
        ..Shop::default()
    };
    let memory = shop.store().await;
    let get = |bytes: usize| {
        let get = BulkGet::new(
            Arc::new(memory.clone()),
            "memory:".into(),
            TableName::bare("orders"),
        );
        let get = get.keys(["1"]).with("lines").on("lines(of)=orders(id)").nested();
        get.options(|options| {
            options.nested_bytes_max = 1;
            options.nested_row_bytes_max = bytes;
        })
    };
    // A single row may take more than rows together do.
    let (found, _) = lines_of(get(1 << 20)).await.unwrap();
    assert_eq!(found["orders"][0].matches("\"n\"").count(), 1_000);
    let error = lines_of(get(4 << 10)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "what belongs to one row takes more than 4.0 KiB, and is held until it is put into it"
    );
}
