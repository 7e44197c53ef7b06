use std::{collections::HashSet, num::NonZeroUsize, sync::mpsc};

use arrow::{
    array::{Array, AsArray},
    compute::concat_batches,
    datatypes::{DataType, Decimal128Type, Float64Type, Int32Type, TimeUnit, TimestampMicrosecondType},
};
use tonnage_core::types::TYPE_METADATA;
use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::sinks::{Settled, Sink, csv};

fn csv_text(batch: &RecordBatch) -> Vec<u8> {
    let mut encoder = csv::Encoder::new(&batch.schema(), &csv::CsvOptions::default()).unwrap();
    let mut out = Vec::new();
    encoder.header(&mut out);
    encoder.encode(batch, &mut out).unwrap();
    out
}

fn texts<'a>(batch: &'a RecordBatch, column: &str) -> Vec<&'a str> {
    let array = batch.column_by_name(column).unwrap().as_string::<i32>();
    array.iter().map(Option::unwrap_or_default).collect()
}

/// These rows are on people's disks and in their measurements: a change here breaks a promise.
#[test]
fn the_first_thousand_rows_stay_as_they_are() {
    let hashes = Workload::all().map(|w| (w.name(), xxh3_64(&csv_text(&w.batch(1, 0, 1_000)))));
    let wanted = [
        ("journal", 5_618_458_120_801_443_505),
        ("sbtest", 16_155_102_637_584_797_873),
        ("ycsb", 15_569_875_811_900_705_953),
        ("readings", 8_123_414_944_421_913_198),
    ];
    assert_eq!(hashes.collect::<Vec<_>>(), wanted);
}

#[test]
fn rows_do_not_depend_on_how_batches_are_cut() {
    for workload in Workload::all() {
        let whole = workload.batch(7, 100, 500);
        let cuts = [(100, 1), (101, 99), (200, 256), (456, 144)];
        let parts: Vec<_> = cuts
            .iter()
            .map(|(first, rows)| workload.batch(7, *first, *rows))
            .collect();
        assert_eq!(
            whole,
            concat_batches(&workload.schema(), &parts).unwrap(),
            "{workload}"
        );
    }
}

#[test]
fn seeds_differ_and_keys_are_unique() {
    for workload in Workload::all() {
        let batch = workload.batch(1, 0, 20_000);
        assert_ne!(batch, workload.batch(2, 0, 20_000), "{workload}");
        let key: Vec<_> = workload
            .key()
            .iter()
            .map(|name| batch.schema().index_of(name).unwrap())
            .collect();
        let text = csv_text(&batch.project(&key).unwrap());
        let records: HashSet<_> = text.split(|b| *b == b'\n').collect();
        // The header and the end of the last line make two more.
        assert_eq!(records.len(), 20_002, "{workload}");
    }
}

#[test]
fn columns_schema_and_nulls_agree() {
    for workload in Workload::all() {
        let batch = workload.batch(3, 0, 20_000);
        for (column, (field, array)) in workload
            .columns()
            .iter()
            .zip(batch.schema().fields().iter().zip(batch.columns()))
        {
            assert_eq!(column.name, *field.name());
            assert_eq!(column.ty.arrow(), *field.data_type());
            assert_eq!(
                field.metadata()[TYPE_METADATA].parse::<ColumnType>().unwrap(),
                column.ty
            );
            assert_eq!(
                column.nullable,
                array.null_count() > 0,
                "{workload}.{}",
                column.name
            );
            let chars_max = match column.ty {
                ColumnType::Text { chars_max: Some(n) } | ColumnType::Char { chars: n } => n as usize,
                _ => continue,
            };
            let longest = texts(&batch, &column.name)
                .iter()
                .map(|t| t.chars().count())
                .max();
            assert!(longest <= Some(chars_max), "{workload}.{}", column.name);
        }
    }
}

#[test]
fn names_are_found_and_misses_helped() {
    for workload in Workload::all() {
        assert_eq!(workload.name().parse::<Workload>().unwrap(), workload);
        assert_eq!(workload.definition().workload, workload);
    }
    assert_eq!("SBTEST".parse::<Workload>().unwrap(), Workload::Sbtest);
    let miss = "jornal".parse::<Workload>().unwrap_err();
    assert_eq!(miss.to_string(), "unknown workload 'jornal'");
    assert_eq!(miss.hint_text(), Some("did you mean journal?"));
    let miss = "qqq".parse::<Workload>().unwrap_err();
    assert_eq!(
        miss.hint_text(),
        Some("workloads are journal, sbtest, ycsb, readings")
    );
}

#[test]
fn rows_end_where_a_type_does() {
    let last = Workload::Sbtest.batch(1, i32::MAX as u64 - 1, 10);
    assert_eq!(last.column(0).as_primitive::<Int32Type>().values(), &[i32::MAX]);
    assert_eq!(Workload::Sbtest.batch(1, u64::MAX, 10).num_rows(), 0);
    assert_eq!(Workload::Journal.batch(1, u64::MAX - 5, 10).num_rows(), 5);
    assert_eq!(Workload::Ycsb.batch(1, u64::MAX - 5, 10).num_rows(), 5);
    assert_eq!(
        Workload::Readings.batch(1, readings::ROWS_MAX - 5, 10).num_rows(),
        5
    );
}

#[test]
fn a_journal_line_is_as_the_study_has_it() {
    let batch = Workload::Journal.batch(1, 0, 10_000);
    let stored: usize = ["id", "run_id", "scenario", "payload"]
        .iter()
        .map(|name| texts(&batch, name).iter().map(|t| t.len()).sum::<usize>())
        .sum();
    let row_bytes = stored / 10_000 + 8;
    assert!((1_300..=1_420).contains(&row_bytes), "{row_bytes} bytes a row");
    let mut balance = 0.0;
    for payload in texts(&batch, "payload") {
        let document: serde_json::Map<String, serde_json::Value> = serde_json::from_str(payload).unwrap();
        assert_eq!(document.len(), 25);
        assert!(document.values().all(|v| v.is_string() || v.is_number()));
        let amount = |name: &str| document[name].as_f64().unwrap();
        let (debit, credit) = (
            amount("ledgerJournalLineAccountedDebitAmount"),
            amount("ledgerJournalLineAccountedCreditAmount"),
        );
        assert!((debit == 0.0) != (credit == 0.0));
        balance += debit - credit;
    }
    assert!(f64::abs(balance) < 0.005, "out of balance by {balance}");
    assert!(
        texts(&batch, "id")
            .iter()
            .all(|id| id.parse::<uuid::Uuid>().unwrap().get_version_num() == 4)
    );
}

#[test]
fn sbtest_has_sysbenchs_form() {
    let batch = Workload::Sbtest.batch(1, 0, 1_000);
    let ids: Vec<i32> = (1..=1_000).collect();
    assert_eq!(
        batch.column(0).as_primitive::<Int32Type>().values(),
        ids.as_slice()
    );
    for (column, groups) in [("c", 10), ("pad", 5)] {
        for text in texts(&batch, column) {
            let parts: Vec<_> = text.split('-').collect();
            assert_eq!(parts.len(), groups);
            assert!(
                parts
                    .iter()
                    .all(|p| p.len() == 11 && p.bytes().all(|b| b.is_ascii_digit())),
                "{text}"
            );
        }
    }
}

#[test]
fn ycsb_keys_do_not_depend_on_the_seed() {
    let (one, two) = (Workload::Ycsb.batch(1, 50, 10), Workload::Ycsb.batch(2, 50, 10));
    assert_eq!(texts(&one, "key"), texts(&two, "key"));
    assert_ne!(texts(&one, "field0"), texts(&two, "field0"));
    let mut key = Vec::new();
    ycsb::push_key(&mut key, 50);
    assert_eq!(texts(&one, "key")[0].as_bytes(), key);
    assert!(texts(&one, "field9").iter().all(|f| f.len() == 100));
}

#[test]
fn readings_are_plausible() {
    let batch = Workload::Readings.batch(1, 0, 200_000);
    let floats = |name: &str| {
        batch
            .column_by_name(name)
            .unwrap()
            .as_primitive::<Float64Type>()
            .clone()
    };
    for (name, low, high) in [
        ("temperature", -20.0, 45.0),
        ("humidity", 20.0, 90.0),
        ("latitude", -90.0, 90.0),
        ("longitude", -180.0, 180.0),
    ] {
        assert!(
            floats(name).iter().flatten().all(|v| (low..=high).contains(&v)),
            "{name}"
        );
    }
    let voltage = batch
        .column_by_name("voltage")
        .unwrap()
        .as_primitive::<Decimal128Type>();
    assert!(voltage.iter().flatten().all(|v| (3_300..=4_203).contains(&v)));
    let ts = batch.column_by_name("ts").unwrap();
    assert_eq!(
        *ts.data_type(),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    );
    let ts = ts.as_primitive::<TimestampMicrosecondType>();
    let temperature = floats("temperature");
    for row in 1_000..200_000 {
        // The same device, one round before.
        assert!((9_000_000..=11_000_000).contains(&(ts.value(row) - ts.value(row - 1_000))));
        if temperature.is_valid(row) && temperature.is_valid(row - 1_000) {
            assert!((temperature.value(row) - temperature.value(row - 1_000)).abs() < 0.5);
        }
    }
    let notes: HashSet<_> = texts(&batch, "note").into_iter().collect();
    assert_eq!(notes.len(), 6, "{notes:?}");
    let devices: HashSet<_> = texts(&batch, "device").into_iter().collect();
    assert_eq!(devices.len(), 1_000);
    let larger = readings::fleet_arrays(200_000.try_into().unwrap(), 1, 0, 200_000);
    let devices: HashSet<_> = larger[0].as_string::<i32>().iter().flatten().collect();
    assert_eq!(devices.len(), 200_000);
}

/// Sends what it is given to the test, and closes after some batches if it is told to.
struct Collector {
    batches: mpsc::Sender<RecordBatch>,
    batches_left: usize,
    fails: bool,
}

impl Sink for Collector {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.batches_left = self.batches_left.saturating_sub(1);
        if self.fails && self.batches_left == 0 {
            return Err(Error::config("full"));
        }
        self.batches.send(batch.clone()).map_err(Error::bug)
    }

    fn settle(self: Box<Self>) -> Result<Settled> {
        Ok(Settled::of_bytes(42))
    }

    fn is_closed(&self) -> bool {
        self.batches_left == 0
    }
}

fn produce(
    rows: u64,
    threads: usize,
    batches_left: usize,
    fails: bool,
) -> (Result<Generated>, Vec<RecordBatch>) {
    let (batches, received) = mpsc::channel();
    let generation = Generation {
        workload: Workload::Journal,
        seed: 5,
        first_row: 3,
        rows,
        threads: NonZeroUsize::new(threads).unwrap(),
    };
    let sink = Collector {
        batches,
        batches_left,
        fails,
    };
    let generated = write(&generation, Box::new(sink));
    (generated, received.into_iter().collect())
}

#[test]
fn threads_keep_the_order() {
    for (rows, threads) in [
        (0, 1),
        (1, 8),
        (10_000, 1),
        (10_000, 3),
        (4_096, 4),
        (10_000, 1_000),
    ] {
        let (generated, batches) = produce(rows, threads, usize::MAX, false);
        let wanted = Generated {
            rows,
            bytes: 42,
            closed: false,
        };
        assert_eq!(generated.unwrap(), wanted);
        let all = concat_batches(&Workload::Journal.schema(), &batches).unwrap();
        assert_eq!(all, Workload::Journal.batch(5, 3, rows as usize));
    }
}

#[test]
fn a_closed_or_failing_sink_ends_the_work() {
    let (generated, batches) = produce(1_000_000_000_000, 3, 4, false);
    assert_eq!((generated.unwrap().closed, batches.len()), (true, 4));
    let (generated, batches) = produce(1_000_000_000_000, 3, 4, true);
    assert_eq!(
        (generated.unwrap_err().to_string().as_str(), batches.len()),
        ("full", 3)
    );
}

#[test]
fn too_many_rows_are_refused() {
    let generation = Generation {
        workload: Workload::Sbtest,
        seed: 1,
        first_row: 1,
        rows: 3_000_000_000,
        threads: NonZeroUsize::MIN,
    };
    let refused = generation.check().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "3000000000 rows are too many for sbtest: it ends at row 2147483647"
    );
    assert_eq!(refused.hint_text(), Some("ask for at most 2147483646 rows"));
}
