//! Matrices, their cells and their order.

use tonnage_core::{
    operation::Method,
    target::{BATCH_BYTES, CommitTimes},
};

use super::*;

fn capabilities(writers_max: Option<usize>) -> Capabilities {
    Capabilities {
        product: "Example 1".to_owned(),
        writers_max,
        durability: &[Durability::Relaxed, Durability::Durable],
        methods: &[Method::Native, Method::Single],
        text_holds_nul: true,
        partial_dates: false,
        repeats_keys: true,
        batch_rows_default: 1,
        batch_bytes_default: BATCH_BYTES,
        commits: CommitTimes::Comparable,
        insert_replaces: false,
        says_key_exists: |_| false,
        own_schema: None,
        array_rows_max: |_| usize::MAX,
    }
}

fn budget() -> Budget {
    Budget {
        rows: 5_000,
        duration: Duration::from_secs(1),
        repeats: 3,
        warm_up: 0,
    }
}

fn matrix() -> Matrix {
    Matrix {
        workloads: vec![Workload::Sbtest.into()],
        operations: vec![Mode::Insert],
        ..Matrix::default()
    }
}

fn none(_: &Setting) -> Option<String> {
    None
}

#[test]
fn forms_of_tables_are_crossed_and_what_meets_an_obstacle_is_ruled_out() {
    let asked = Matrix {
        methods: Some(vec![BenchMethod::Load(Method::Single)]),
        jobs: Some(vec![1]),
        indexes: vec![0, 2],
        storage: vec![Storage::Plain, Storage::Unlogged],
        ..matrix()
    };
    let obstacle = |setting: &Setting| {
        let unlogged = setting.table.storage == Storage::Unlogged;
        (unlogged && setting.table.indexes > 0).then(|| "both are too much".to_owned())
    };
    let cells = asked.cells(&capabilities(None), &budget(), &obstacle).unwrap();
    let kinds: Vec<_> = cells.run.iter().map(|s| s.kind().to_string()).collect();
    assert_eq!(
        kinds,
        [
            "sbtest insert",
            "sbtest insert, unlogged",
            "sbtest insert, 2 indexes"
        ]
    );
    assert_eq!(cells.ruled_out.len(), 1);
    assert_eq!(cells.ruled_out[0].why, "both are too much");
}

#[test]
fn a_kind_of_rows_survives_its_file() {
    for (kind, text) in [(RowKind::Own, "\"own\""), (Workload::Ycsb.into(), "\"ycsb\"")] {
        assert_eq!(serde_json::to_string(&kind).unwrap(), text);
        assert_eq!(serde_json::from_str::<RowKind>(text).unwrap(), kind);
    }
    assert!(serde_json::from_str::<RowKind>("\"tpch\"").is_err());
}

#[test]
fn lists_are_crossed_and_a_single_row_has_one_batch_size() {
    let cells = matrix().cells(&capabilities(None), &budget(), &none).unwrap();
    let shown: Vec<_> = cells.run.iter().map(Setting::to_string).collect();
    assert_eq!(
        shown,
        [
            "native, 100 rows, 1 job",
            "native, 1,000 rows, 1 job",
            "native, 100 rows, 2 jobs",
            "native, 1,000 rows, 2 jobs",
            "native, 100 rows, 4 jobs",
            "native, 1,000 rows, 4 jobs",
            "single, 1 job",
            "single, 2 jobs",
            "single, 4 jobs",
        ]
    );
    assert!(cells.run.iter().all(|s| s.durability == Durability::Durable));
    let why: Vec<_> = cells.ruled_out.iter().map(|out| out.why.as_str()).collect();
    assert_eq!(why, ["a run has 5,000 rows only; --rows gives it more"; 3]);
    assert_eq!(
        cells.run[3].flags(),
        "--method native --batch-rows 1000 --jobs 2 --durability durable"
    );
}

#[test]
fn a_round_trip_is_a_kind_of_its_own() {
    let asked = Matrix {
        round_trips: vec![
            Duration::ZERO,
            Duration::from_micros(70_000),
            Duration::from_micros(500),
        ],
        methods: Some(vec![BenchMethod::Load(Method::Single)]),
        jobs: Some(vec![1]),
        ..matrix()
    };
    let cells = asked.cells(&capabilities(None), &budget(), &none).unwrap();
    let kinds: Vec<_> = cells.run.iter().map(|s| s.kind().to_string()).collect();
    assert_eq!(
        kinds,
        [
            "sbtest insert",
            "sbtest insert at 70ms a round trip",
            "sbtest insert at 0.5ms a round trip"
        ]
    );
}

#[test]
fn a_mix_and_several_tables_are_kinds_of_their_own() {
    let asked = Matrix {
        methods: Some(vec![BenchMethod::Load(Method::Single)]),
        jobs: Some(vec![4]),
        reads: vec![0, 50],
        several: vec![1, 2],
        partitions: vec![0, 3],
        ..matrix()
    };
    let cells = asked.cells(&capabilities(None), &budget(), &none).unwrap();
    let kinds: Vec<_> = cells.run.iter().map(|s| s.kind().to_string()).collect();
    assert_eq!(
        kinds,
        [
            "sbtest insert",
            "sbtest insert, 2 tables",
            "sbtest insert, 3 time partitions",
            "sbtest insert, 3 time partitions, 2 tables",
            "sbtest insert, 50% reads",
            "sbtest insert, 50% reads, 2 tables",
            "sbtest insert, 50% reads, 3 time partitions",
            "sbtest insert, 50% reads, 3 time partitions, 2 tables",
        ]
    );
    assert_eq!(
        cells.run[1].flags(),
        "--method single --jobs 2 --durability durable"
    );
    let uneven = Matrix {
        jobs: Some(vec![1, 2, 3]),
        several: vec![2],
        ..asked.clone()
    };
    let cells = uneven.cells(&capabilities(None), &budget(), &none).unwrap();
    assert!(cells.run.iter().all(|s| s.jobs == 2));
    let why: Vec<_> = cells.ruled_out.iter().map(|out| out.why.as_str()).collect();
    assert_eq!(
        why[0],
        "1 job cannot be dealt over 2 tables in equal parts; a multiple of 2 can"
    );
    let by_default = Matrix {
        jobs: None,
        several: vec![1, 2, 3, 8],
        reads: Vec::new(),
        partitions: Vec::new(),
        ..asked.clone()
    };
    let cells = by_default.cells(&capabilities(None), &budget(), &none).unwrap();
    let dealt: Vec<_> = cells.run.iter().map(|s| (s.table.tables, s.jobs)).collect();
    assert_eq!(dealt, [(1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (3, 3), (8, 8)]);
    assert_eq!(cells.ruled_out, []);
    let refused = |asked: Matrix| {
        let refused = asked.cells(&capabilities(None), &budget(), &none).unwrap_err();
        refused.to_string()
    };
    let only_reads = Matrix {
        reads: vec![50, 100],
        ..asked.clone()
    };
    assert_eq!(refused(only_reads), "100 of 100 operations cannot be reads");
    let no_table = Matrix {
        several: vec![0],
        ..asked
    };
    assert_eq!(refused(no_table), "--tables must be at least 1");
}

#[test]
fn what_a_database_has_not_is_ruled_out_and_what_means_nothing_refused() {
    let asked = Matrix {
        jobs: Some(vec![1, 2]),
        methods: Some(vec![BenchMethod::Load(Method::Single)]),
        ..matrix()
    };
    let cells = asked.cells(&capabilities(Some(1)), &budget(), &none).unwrap();
    assert_eq!((cells.run.len(), cells.ruled_out.len()), (1, 1));
    assert_eq!(cells.ruled_out[0].why, "Example 1 has 1 writer at a time");
    let nothing = Matrix {
        jobs: Some(vec![2]),
        ..asked
    };
    let refused = nothing
        .cells(&capabilities(Some(1)), &budget(), &none)
        .unwrap_err();
    assert!(
        refused.to_string().starts_with("nothing can be measured"),
        "{refused}"
    );
    let of_two_tables = Matrix {
        jobs: Some(vec![2]),
        several: vec![2],
        ..matrix()
    };
    let refused = of_two_tables
        .cells(&capabilities(Some(1)), &budget(), &none)
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "nothing can be measured: Example 1 has 1 writer at a time, and 2 tables take one each"
    );
    for (batch_rows, jobs) in [(0, 1), (1, 0)] {
        let zero = Matrix {
            batch_rows: Some(vec![batch_rows]),
            jobs: Some(vec![jobs]),
            ..matrix()
        };
        assert!(zero.cells(&capabilities(None), &budget(), &none).is_err());
    }
    let no_repeats = Budget {
        repeats: 0,
        ..budget()
    };
    assert!(matrix().cells(&capabilities(None), &no_repeats, &none).is_err());
}

#[test]
fn the_reference_is_the_plainest_cell_of_many_rows() {
    let cells = matrix().cells(&capabilities(None), &budget(), &none).unwrap();
    assert_eq!(cells.references()[0].to_string(), "native, 1,000 rows, 1 job");
    assert_eq!(cells.references().len(), cells.run.len());
}

#[test]
fn every_round_has_every_cell_once_and_the_seed_decides_their_order() {
    let of = |seed| rounds(20, 3, seed);
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    assert_ne!(of(1)[0], of(1)[1]);
    for mut round in of(1) {
        round.sort_unstable();
        assert_eq!(round, (0..20).collect::<Vec<_>>());
    }
    assert_eq!(rounds(0, 1, 1), vec![Vec::<usize>::new()]);
}
