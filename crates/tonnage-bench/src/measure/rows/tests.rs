//! Which rows runs are fed with, and which are there before.

use arrow::datatypes::Int32Type;
use tonnage_core::{
    operation::Method,
    source::{ReadRequest, Source},
    types::ColumnType,
};

use super::*;
use crate::measure::answer::tests::cell;

fn made(operation: Mode, rows: u64) -> Arc<Rows> {
    touching(operation, Touch::Each, rows)
}

fn touching(operation: Mode, touch: Touch, rows: u64) -> Arc<Rows> {
    let from = RowsFrom::Workload {
        workload: Workload::Sbtest,
        columns: None,
        seed: 1,
    };
    let which = Which {
        kind: Workload::Sbtest.into(),
        columns: None,
        operation,
        touch,
        added: false,
    };
    Arc::new(Rows::make(from, which, rows, KEPT_BYTES_MAX, &[]).unwrap())
}

fn ids(mut source: impl Source) -> Vec<i32> {
    let request = ReadRequest {
        columns: vec![(0, ColumnType::Int32)],
        block_rows: 65_536,
        block_bytes: 1 << 20,
    };
    source.request(&request).unwrap();
    let mut ids = Vec::new();
    while let Some(block) = source.next().unwrap() {
        ids.extend(block.rows.column(0).as_primitive::<Int32Type>().values());
    }
    ids
}

#[test]
fn a_run_has_as_many_rows_as_asked_for_whether_they_are_kept_or_made() {
    let rows = made(Mode::Insert, 10_000);
    assert!(rows.rows_kept() >= 10_000);
    assert!(rows.ceiling().rows_per_second > 0.0);
    let (kept, ceiling) = (rows.rows_kept(), rows.ceiling().rows_per_second);
    let ceiling_of = |parts: &[Range<u64>]| rows.ceiling_of(parts).unwrap_or_default() / ceiling;
    let is = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}, not {wanted}");
    assert_eq!(rows.ceiling_of(&[]), None);
    assert_eq!(
        rows.ceiling_of(&[0..kept / 2, kept / 2..kept]),
        None,
        "nothing has to be made"
    );
    is(ceiling_of(std::slice::from_ref(&(0..2 * kept))), 2.0);
    // The second half of the one is made, and all of the other beside it.
    is(ceiling_of(&[0..2 * kept, 2 * kept..4 * kept]), 2.0);
    is(ceiling_of(&[0..kept, kept..3 * kept]), 1.5);
    let found = ids(rows.source(0..20_001));
    assert_eq!(found, (1..=20_001).collect::<Vec<_>>());
    assert_eq!(ids(rows.source(0..20_001)), found, "every run has the same rows");
}

#[test]
fn rows_are_met_as_often_as_asked_for_and_all_of_them_are_there() {
    let distinct = |ids: &[i32]| ids.iter().collect::<std::collections::HashSet<_>>().len();
    let mut met = Vec::new();
    for touch in [Touch::Each, Touch::Uniform, Touch::Zipfian, Touch::Latest] {
        let rows = touching(Mode::Update, touch, 5_000);
        let mut there = ids(rows.source_there(rows.met(0..5_000)));
        there.sort_unstable();
        assert_eq!(there, (1..=5_000).collect::<Vec<_>>(), "{touch}");
        let found = ids(rows.source(0..5_000));
        assert_eq!(found.len(), 5_000, "{touch}");
        assert!(found.iter().all(|id| there.binary_search(id).is_ok()), "{touch}");
        assert_eq!(
            ids(rows.source(0..5_000)),
            found,
            "{touch}: every run has the same rows"
        );
        met.push(distinct(&found));
    }
    // Of those drawn uniformly 1 / e are not met.
    assert_eq!(met[0], 5_000);
    assert!((3_000..3_300).contains(&met[1]), "{met:?}");
    assert!(met[2] < 2_500 && met[3] < 2_500, "{met:?}");

    let rows = touching(Mode::Upsert, Touch::Latest, 2_000);
    let mut there = ids(rows.source_there(rows.met(0..2_000)));
    there.sort_unstable();
    let found = ids(rows.source(0..2_000));
    for (at, id) in found.iter().enumerate() {
        assert_eq!(there.binary_search(id).is_ok(), at % 2 == 0, "row {at}: {id}");
    }
    let old: Vec<i32> = found.iter().copied().step_by(2).collect();
    assert!(distinct(&old) < 700, "{}", distinct(&old));
}

#[test]
fn every_second_row_of_an_upsert_is_there() {
    let rows = made(Mode::Upsert, 1);
    let mut there = ids(rows.source_there(0..u64::MAX));
    there.sort_unstable();
    assert_eq!(there.len() as u64, rows.there());
    let found = ids(rows.source(0..50_000));
    assert_eq!(found.len(), 50_000);
    for (at, id) in found.iter().enumerate() {
        assert_eq!(there.binary_search(id).is_ok(), at % 2 == 0, "row {at}: {id}");
    }
}

#[test]
fn every_row_of_an_update_or_a_delete_is_there_and_an_update_changes_it() {
    let values = |mut source: Box<dyn Source>| {
        let request = ReadRequest {
            columns: vec![(1, ColumnType::Int32)],
            block_rows: 65_536,
            block_bytes: 1 << 20,
        };
        source.request(&request).unwrap();
        let mut found = Vec::new();
        while let Some(block) = source.next().unwrap() {
            found.extend(block.rows.column(0).as_primitive::<Int32Type>().values().to_vec());
        }
        found
    };
    for operation in [Mode::Update, Mode::Delete] {
        let rows = made(operation, 3_000);
        assert_eq!(rows.there(), 3_000);
        assert_eq!(ids(rows.source_there(0..u64::MAX)), ids(rows.source(0..3_000)));
        assert_eq!(ids(rows.source_there(0..10)).len(), 10);
        let (before, after) = (
            values(Box::new(rows.source_there(0..u64::MAX))),
            values(Box::new(rows.source(0..3_000))),
        );
        let same = before.iter().zip(&after).filter(|(a, b)| a == b).count();
        match operation {
            Mode::Update => assert!(same < 30, "{same} rows keep their k"),
            _ => assert_eq!(same, 3_000),
        }
    }
}

fn setting(operation: Mode, touch: Touch, reads: u8) -> Setting {
    Setting {
        operation,
        touch,
        reads,
        ..cell(Method::Array, 100, 1, &[1.0]).setting
    }
}

#[test]
fn what_several_operations_have_in_common_is_made_once() {
    let [insert, update, delete, hot] = [
        (Mode::Insert, Touch::Each),
        (Mode::Update, Touch::Each),
        (Mode::Delete, Touch::Each),
        (Mode::Update, Touch::Zipfian),
    ]
    .map(|(operation, touch)| setting(operation, touch, 0));
    for settings in [[hot, insert, update, delete], [delete, update, hot, insert]] {
        let all = AllRows::make(&settings, None, 1, 70_000).unwrap();
        let of = |setting: &Setting| all.of(setting).unwrap();
        let first = of(&insert);
        for same in [of(&update), of(&delete)] {
            assert_eq!(first.kept.len(), same.kept.len());
            for (a, b) in first.kept.iter().zip(&same.kept) {
                assert!(Arc::ptr_eq(a.column(0), b.column(0)), "the same columns");
            }
        }
        let hot = of(&hot);
        let picks = hot.picks.as_ref().unwrap();
        let begin = |batch: &RecordBatch| batch.column(0).to_data().buffers()[0].as_ptr();
        assert_eq!(
            begin(&first.kept[0]),
            begin(&picks.pool[0]),
            "picked from the same"
        );
    }
}

#[test]
fn rows_that_reads_meet_are_there_and_others_are_added() {
    let added = setting(Mode::Insert, Touch::Latest, 95);
    let settings = [added, setting(Mode::Update, Touch::Zipfian, 50)];
    let all = AllRows::make(&settings, None, 1, 3_000).unwrap();
    let rows = all.of(&added).unwrap();
    assert_eq!(rows.there(), 3_000);
    assert_eq!(
        ids(rows.source_there(rows.met(0..3_000))),
        (1..=3_000).collect::<Vec<_>>()
    );
    assert_eq!(ids(rows.source(0..3_000)), (3_001..=6_000).collect::<Vec<_>>());
    assert_eq!(
        ids(rows.keys_there(10..20).unwrap()),
        (11..=20).collect::<Vec<_>>()
    );
    // Rows are written alike, whichever of them are read.
    let same = all.of(&setting(Mode::Insert, Touch::Each, 5)).unwrap();
    assert!(Arc::ptr_eq(&rows, &same));
    let met = all.of(&settings[1]).unwrap();
    assert_eq!(
        ids(met.keys_there(0..u64::MAX).unwrap()),
        (1..=3_000).collect::<Vec<_>>()
    );
}

#[test]
fn parts_are_all_rows_each_once() {
    for operation in [Mode::Insert, Mode::Update, Mode::Upsert] {
        let rows = made(operation, 50_000);
        let whole = ids(rows.source(0..50_000));
        for parts in [1, 3, 4] {
            let mut dealt = Vec::new();
            for part in 0..parts {
                let range = Rows::part(50_000, part, parts);
                let there = ids(rows.source_there(rows.met(range.clone())));
                let of_part = ids(rows.source(range));
                match operation {
                    Mode::Insert => assert!(there.is_empty()),
                    Mode::Update => assert_eq!(there, of_part),
                    _ => assert_eq!(there.len() as u64, rows.there()),
                }
                assert!(of_part.len().abs_diff(50_000 / parts as usize) <= 1);
                dealt.extend(of_part);
            }
            assert_eq!(dealt, whole, "{operation:?} {parts}");
        }
    }
}
