//! The engine against the reference target: the answer is that of a naive look-up, whatever the settings.

mod ask;
mod related;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow::{
    array::{Array, AsArray, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Int64Type, Schema},
};
use tonnage_core::{
    error::ErrorKind,
    report::RunState,
    table::{ColumnSpec, TableName, TableSpec},
    target::Target,
    types::ColumnType,
};
use tonnage_formats::sources::batches::BatchSource;
use tonnage_testing::memory::{Fault, Memory};

use super::*;
use crate::connected::Connected;

/// A small generator, so that a failure is repeated by its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

/// A table `t` of `(a, b, v)` with the key `(a, b)`.
async fn table(memory: &Memory, rows: &[(i64, i64, String)]) {
    let column = |name: &str, ty, nullable| ColumnSpec {
        name: name.to_owned(),
        ty,
        nullable,
    };
    let spec = TableSpec {
        name: TableName::bare("t"),
        columns: vec![
            column("a", ColumnType::Int64, false),
            column("b", ColumnType::Int64, false),
            column("v", ColumnType::TEXT, true),
        ],
        key: vec!["a".to_owned(), "b".to_owned()],
    };
    memory.create(&spec).await.unwrap();
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Int64, true),
        Field::new("v", DataType::Utf8, true),
    ]));
    let batch = RecordBatch::try_new(
        schema.clone(),
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.2))),
        ],
    )
    .unwrap();
    let source = BatchSource::new("rows", schema, std::iter::once(batch));
    let options = crate::plan::LoadOptions::new(TableName::bare("t"));
    let target: Arc<dyn Target> = Arc::new(memory.clone());
    let prepared = crate::load::prepare(target, "memory:".into(), Box::new(source), options)
        .await
        .unwrap();
    let ended = prepared.run(Arc::default(), Default::default()).await.unwrap();
    assert!(ended.error.is_none(), "{:?}", ended.error);
}

/// Keys in batches of `batch`; none is null.
fn keys(
    columns: &[Vec<Option<i64>>],
    batch: usize,
) -> BatchSource<impl Iterator<Item = RecordBatch> + Send + use<>> {
    let fields = ["a", "b"][..columns.len()]
        .iter()
        .map(|name| Field::new(*name, DataType::Int64, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns
        .iter()
        .map(|column| Arc::new(Int64Array::from(column.clone())) as _);
    let all = RecordBatch::try_new(schema.clone(), arrays.collect()).unwrap();
    let starts: Vec<usize> = (0..all.num_rows()).step_by(batch).collect();
    let cut = starts
        .into_iter()
        .map(move |at| all.slice(at, batch.min(all.num_rows() - at)));
    BatchSource::new("keys", schema, cut.collect::<Vec<_>>().into_iter())
}

fn get(memory: &Memory) -> BulkGet {
    BulkGet::new(Arc::new(memory.clone()), "memory:".into(), TableName::bare("t"))
}

/// What came: values `v` in order, missing keys in order, and the account.
async fn collect(get: BulkGet) -> Result<(Vec<String>, Vec<Vec<Option<i64>>>, GetReport)> {
    let mut get = get.start().await?;
    let (mut values, mut missing) = (Vec::new(), Vec::new());
    while let Some(fetched) = get.next().await? {
        match fetched {
            Fetched::Rows(rows) => {
                let column = rows.column_by_name("v").unwrap().as_string::<i32>().clone();
                values.extend(column.iter().map(|v| v.unwrap().to_owned()));
            }
            Fetched::Related { .. } => panic!("no other table was asked for"),
            Fetched::Missing(keys) => {
                for row in 0..keys.num_rows() {
                    let value = |column: &arrow::array::ArrayRef| {
                        let column = column.as_primitive::<Int64Type>();
                        column.is_valid(row).then(|| column.value(row))
                    };
                    missing.push(keys.columns().iter().map(value).collect());
                }
            }
        }
    }
    Ok((values, missing, get.finish()?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_is_that_of_a_naive_look_up() {
    for seed in 0..80 {
        let mut dice = Dice(seed);
        let memory = Memory::new();
        let mut rows = BTreeMap::new();
        for _ in 0..dice.below(400) {
            let key = (dice.below(40) as i64, dice.below(30) as i64);
            rows.insert(key, format!("v{}-{}", key.0, key.1));
        }
        let stored: Vec<_> = rows.iter().map(|((a, b), v)| (*a, *b, v.clone())).collect();
        table(&memory, &stored).await;

        let partial = dice.below(2) == 1;
        let mut value = |of| match dice.below(25) {
            0 => None,
            _ => Some(dice.below(of) as i64),
        };
        let asked: Vec<(Option<i64>, Option<i64>)> = (0..value(700).unwrap_or(0))
            .map(|_| (value(50), if partial { None } else { value(35) }))
            .collect();
        let mut columns = vec![asked.iter().map(|key| key.0).collect::<Vec<_>>()];
        if !partial {
            columns.push(asked.iter().map(|key| key.1).collect());
        }
        let ordered = dice.below(2) == 1;
        let range = (partial && dice.below(2) == 1).then(|| (dice.below(20) as i64, dice.below(30) as i64));
        let mut get = get(&memory)
            .keys_source(keys(&columns, 1 + dice.below(100) as usize))
            .jobs(1 + dice.below(4) as usize)
            .options(|options| {
                options.ordered = ordered;
                options.request_keys = 1 + dice.below(90) as usize;
                options.sort_bytes_max = 1 + dice.below(6_000) as usize;
                options.held_bytes_max = dice.below(9_000) as usize;
            });
        if let Some((from, to)) = range {
            get = get.range_from(from.to_string()).range_before(to.to_string());
        }
        let (values, missing, report) = collect(get).await.unwrap();

        // The rows of a key, in the order of the table.
        let naive = |key: &(Option<i64>, Option<i64>)| -> Vec<String> {
            rows.iter()
                .filter(|((a, b), _)| {
                    key.0 == Some(*a)
                        && (partial || key.1 == Some(*b))
                        && range.is_none_or(|(from, to)| (from..to).contains(b))
                })
                .map(|(_, v)| v.clone())
                .collect()
        };
        let shown = |key: &(Option<i64>, Option<i64>)| match partial {
            true => vec![key.0],
            false => vec![key.0, key.1],
        };
        let wanted: Vec<_> = match ordered {
            true => asked.clone(),
            false => asked
                .iter()
                .copied()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        };
        let wanted_values: Vec<String> = wanted.iter().flat_map(&naive).collect();
        let wanted_missing: Vec<_> = wanted
            .iter()
            .filter(|key| naive(key).is_empty())
            .map(shown)
            .collect();
        if ordered {
            assert_eq!(values, wanted_values, "seed {seed}");
        } else {
            let sorted = |mut values: Vec<String>| {
                values.sort();
                values
            };
            assert_eq!(sorted(values), sorted(wanted_values), "seed {seed}");
        }
        assert_eq!(missing, wanted_missing, "seed {seed}");
        assert_eq!(report.keys.asked, asked.len() as u64, "seed {seed}");
        assert_eq!(report.keys.missing, wanted_missing.len() as u64, "seed {seed}");
        assert!(
            report.keys.balance() && report.state == RunState::Finished,
            "seed {seed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_asked_for_again_and_no_row_comes_twice() {
    let memory = Memory::new();
    let stored: Vec<_> = (0..500).map(|at| (at, 0, format!("v{at}"))).collect();
    table(&memory, &stored).await;
    let asked: Vec<Option<i64>> = (0..600).map(|at| Some(at * 7 % 600)).collect();
    let (mut finished, mut failed) = (0, 0);
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let kind = [ErrorKind::Overloaded, ErrorKind::Unsent, ErrorKind::InDoubt][dice.below(3) as usize];
        let fault = if dice.below(2) == 0 {
            Fault::Before(kind)
        } else {
            Fault::After
        };
        memory.fail_after(dice.below(30), fault);
        let result = collect(
            get(&memory)
                .keys_source(keys(std::slice::from_ref(&asked), 50))
                .jobs(1 + dice.below(3) as usize)
                .options(|options| {
                    options.request_keys = 100;
                    options.ordered = dice.below(2) == 0;
                    options.held_bytes_max = 1_000 + dice.below(60_000) as usize;
                }),
        )
        .await;
        memory.revive();
        match result {
            Ok((mut values, missing, report)) => {
                values.sort();
                let mut wanted: Vec<_> = stored.iter().map(|row| row.2.clone()).collect();
                wanted.sort();
                assert_eq!(values, wanted, "seed {seed}");
                assert_eq!(missing.len(), 100, "seed {seed}");
                assert_eq!(report.keys.found, 500);
                finished += 1;
            }
            // A connection that is lost when half an answer is out cannot be made up for.
            Err(error) => {
                assert!(error.is_transient(), "seed {seed}: {error}");
                failed += 1;
            }
        }
    }
    assert!(
        finished > 20 && finished + failed == 60,
        "{finished} finished, {failed} failed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_beyond_memory_are_each_asked_once() {
    let memory = Memory::new();
    table(&memory, &[(7, 1, "seven".to_owned()), (7, 2, "more".to_owned())]).await;
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
    // Twice as many keys as there are different ones, far apart.
    let batches = (0..200).map(|at: i64| {
        let first = at % 100 * 1_000;
        let column = Int64Array::from_iter_values((first..first + 1_000).map(|key| key * 31 % 100_000));
        let fields = vec![Field::new("a", DataType::Int64, false)];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![Arc::new(column)]).unwrap()
    });
    let source = BatchSource::new("keys", schema, batches);
    let get = get(&memory).keys_source(source).jobs(2).options(|options| {
        options.sort_bytes_max = 64 << 10;
        options.request_keys = 10_000;
    });
    let (values, missing, report) = collect(get).await.unwrap();
    assert_eq!(values, ["seven", "more"]);
    assert_eq!(missing.len(), 99_999);
    assert!(
        missing.is_sorted(),
        "missing keys come in the order of the requests"
    );
    assert_eq!(
        report.keys,
        KeyCounts {
            asked: 200_000,
            distinct: Some(100_000),
            found: 1,
            missing: 99_999
        }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_asked_is_refused() {
    let memory = Memory::new();
    table(&memory, &[(1, 1, "v".to_owned())]).await;
    let bare = TableSpec {
        name: TableName::bare("bare"),
        columns: vec![ColumnSpec {
            name: "x".to_owned(),
            ty: ColumnType::TEXT,
            nullable: true,
        }],
        key: Vec::new(),
    };
    memory.create(&bare).await.unwrap();
    let of_table =
        |name: &str| BulkGet::new(Arc::new(memory.clone()), "memory:".into(), TableName::bare(name));
    let cases: Vec<(BulkGet, &str, &str)> = vec![
        (
            of_table("tt").keys(["1"]),
            "there is no table tt",
            "did you mean t?",
        ),
        (
            of_table("bare").keys(["1"]),
            "table bare has no primary or unique key to look rows up by",
            "add one to the table, or read it whole: tonnage unload --where",
        ),
        (
            get(&memory),
            "no keys were given",
            ".keys([..]) or .keys_from(..) gives them",
        ),
        (
            get(&memory).keys(["1,2,3"]),
            "keys: a key has 3 fields, but the key (a, b) of t has 2 columns",
            "a key is a CSV record: quote a field with a comma in it, as in '\"a,b\"'",
        ),
        (
            get(&memory).by(["b"]).keys(["1"]),
            "no key of table t begins with (b)",
            "its keys are (a, b); rows by other columns: tonnage unload --where",
        ),
        (
            get(&memory).by(["a", "c"]).keys(["1"]),
            "table t has no column 'c'",
            "its columns are a, b, v",
        ),
        (
            get(&memory).keys(["1"]).columns(["w"]),
            "table t has no column 'w'",
            "its columns are a, b, v",
        ),
        (
            get(&memory).keys(["1,1"]).range_from("2"),
            "a range needs a key column that no key gives, and (a, b) is all of the key of t",
            "give the first columns of a longer key; the range is on the next one",
        ),
        (
            get(&memory).keys(["1"]).range_from("two"),
            "where the range begins, column 'b': 'two' is not an int64",
            "the range is on 'b', which is int64",
        ),
        (
            get(&memory).keys_source(keys(&[vec![Some(1)]], 1)).by(["a", "b"]),
            "keys has no column 'b' of the key (a, b) of t",
            "its columns are a; where the first line is a key and not names, --keys-no-header",
        ),
    ];
    for (get, message, hint) in cases {
        let error = collect(get).await.expect_err(message);
        assert_eq!(error.to_string(), message);
        assert_eq!(error.hint_text(), Some(hint), "{message}");
    }
    let error = collect(get(&memory).keys(["1,1", "2,x"])).await.err().unwrap();
    assert_eq!(error.to_string(), "keys row 2, column 'b': 'x' is not an int64");
    assert_eq!(error.kind(), ErrorKind::Rejected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_get_that_is_dropped_ends() {
    let memory = Memory::new();
    table(&memory, &[(1, 1, "v".to_owned())]).await;
    let endless = (0..).map(|at: i64| {
        let column = Int64Array::from_iter_values(at * 100..at * 100 + 100);
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, false)]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(column)]).unwrap()
    });
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
    let source = BatchSource::new("keys", schema, endless);
    let get = get(&memory)
        .keys_source(source)
        .ordered()
        .options(|options| options.request_keys = 10);
    let mut get = get.start().await.unwrap();
    assert!(get.next().await.unwrap().is_some());
    // The runtime waits for blocking threads when it is dropped: one that read on would hold it up for ever.
    let report = get.finish().unwrap();
    assert_eq!(report.state, RunState::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentence_and_a_stream() {
    use futures::TryStreamExt;
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let memory = Memory::new();
    table(&memory, &[(1, 1, "one".to_owned()), (2, 1, "two".to_owned())]).await;
    let get = get(&memory)
        .keys(["2", "9"])
        .columns(["v"])
        .start()
        .await
        .unwrap();
    let all: Vec<Fetched> = is_send(get.into_stream()).try_collect().await.unwrap();
    assert!(
        matches!(all.as_slice(), [Fetched::Rows(rows), Fetched::Missing(keys)]
        if rows.num_columns() == 1 && rows.num_rows() == 1 && keys.num_rows() == 1)
    );
    let _ = |database: &Connected| database.bulk_get("orders").keys(["1"]);
}
