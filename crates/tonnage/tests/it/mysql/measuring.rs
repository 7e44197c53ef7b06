//! What measuring asks of MariaDB: tables of the forms that were asked for, and counters that only grow.

use tonnage::{
    generate::Workload,
    instruments::{Keys, Measured, Partitions, Storage, TableForm},
    table::TableName,
};

use super::{Server, TestDatabase};

on_every_server! {
    a_table_is_made_of_the_form_that_was_asked_for,
    every_commit_flushes_the_log_and_is_counted,
}

async fn a_table_is_made_of_the_form_that_was_asked_for(server: Server) {
    let place = TestDatabase::on(server).await;
    let instruments = place.target.instruments().unwrap();
    let make = async |workload: Workload, form: TableForm, name: &str| {
        assert_eq!(instruments.obstacle(&form).await.unwrap(), None, "{form}");
        let columns = workload.columns_of(form.columns);
        let key = workload.key().iter().map(|name| (*name).to_owned()).collect();
        let making = tonnage::measure::form::making(&form, TableName::bare(name), columns, key);
        instruments.make(&making).await.unwrap();
    };
    let of = async |what: &str, name: &str| {
        let (what, from) = what.split_once(" FROM ").unwrap();
        let sql = format!(
            "SELECT concat({what}, '') FROM information_schema.{from} \
             AND table_schema = database() AND table_name = '{name}' ORDER BY 1"
        );
        place.texts(&sql).await.into_iter().flatten().collect::<Vec<_>>()
    };
    let indexes = "count(DISTINCT index_name) FROM statistics WHERE index_name <> 'PRIMARY'";
    let columns = "count(*) FROM columns WHERE true";
    let numbered = "column_name FROM columns WHERE extra LIKE '%auto_increment%'";
    let format = "row_format FROM tables WHERE true";
    let form = TableForm {
        indexes: 3,
        columns: Some(20),
        keys: Keys::Generated,
        storage: Storage::Compressed,
        ..TableForm::default()
    };
    for workload in [Workload::Ycsb, Workload::Readings] {
        let name = workload.name();
        make(workload, form, name).await;
        assert_eq!(of(indexes, name).await, ["3"], "{workload}");
        assert_eq!(of(format, name).await, ["Compressed"], "{workload}");
        // What stands beside a key of several columns is one more.
        let (count, key) = match workload {
            Workload::Ycsb => ("20", "key"),
            _ => ("21", "id"),
        };
        assert_eq!(of(columns, name).await, [count], "{workload}");
        assert_eq!(of(numbered, name).await, [key], "{workload}");
    }
    make(Workload::Sbtest, TableForm::default(), "usual").await;
    assert_eq!(of(indexes, "usual").await, ["0"]);
    assert_eq!(of(columns, "usual").await, ["4"]);
    assert_eq!(of(numbered, "usual").await, [] as [&str; 0]);
    assert_eq!(of(format, "usual").await, ["Dynamic"]);

    // By a timestamp, and by a datetime.
    let ends = "partition_description FROM partitions WHERE partition_name IS NOT NULL";
    for (workload, keys, parts) in [
        (
            Workload::Readings,
            Keys::Given,
            ["1704067210", "1704067220", "MAXVALUE"],
        ),
        (
            Workload::Journal,
            Keys::None,
            [
                "'2024-01-01 00:00:10.000000'",
                "'2024-01-01 00:00:20.000000'",
                "MAXVALUE",
            ],
        ),
    ] {
        let form = TableForm {
            keys,
            partitions: 3,
            ..TableForm::default()
        };
        assert_eq!(instruments.obstacle(&form).await.unwrap(), None);
        let name = format!("timed_{workload}");
        let key = workload.key().iter().map(|name| (*name).to_owned()).collect();
        let mut making =
            tonnage::measure::form::making(&form, TableName::bare(&name), workload.columns(), key);
        making.partitions = Some(Partitions {
            column: "ts".to_owned(),
            ends: vec![1_704_067_210, 1_704_067_220],
        });
        instruments.make(&making).await.unwrap();
        assert_eq!(of(ends, &name).await, parts, "{workload}");
    }

    for (form, told) in [
        (
            TableForm {
                page_bytes: Some(4_096),
                ..TableForm::default()
            },
            "chosen when its data directory is made",
        ),
        (
            TableForm {
                storage: Storage::Unlogged,
                ..TableForm::default()
            },
            "has no tables without a log",
        ),
    ] {
        let why = instruments.obstacle(&form).await.unwrap();
        assert!(why.as_deref().is_some_and(|why| why.contains(told)), "{why:?}");
    }
}

/// The servers of these tests flush at every commit. Of commits one after another no flush can be for two.
async fn every_commit_flushes_the_log_and_is_counted(server: Server) {
    const COMMITS: u64 = 20;
    let place = TestDatabase::on(server).await;
    place.run("CREATE TABLE t (id integer PRIMARY KEY)").await;
    let instruments = place.target.instruments().unwrap();
    let before = instruments.work(None).await.unwrap();
    for id in 0..COMMITS {
        place.run(&format!("INSERT INTO t VALUES ({id})")).await;
    }
    let after = instruments.work(Some(&before)).await.unwrap();
    let grown = |after: Measured<u64>, before: Measured<u64>| after.unwrap() - before.unwrap();
    let flushes = grown(after.log_flushes, before.log_flushes);
    assert!(flushes >= COMMITS, "{flushes} flushes");
    let written = grown(after.written_bytes, before.written_bytes);
    // A row and its key, in the log at least.
    assert!(written >= COMMITS * 10, "{written} bytes");
    let servers = instruments.servers().await.unwrap().unwrap();
    assert_eq!((servers.listening.len(), servers.programs[0]), (1, "mariadbd"));
}
