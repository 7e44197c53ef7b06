//! What measuring asks of MariaDB: tables of the forms that were asked for.

use tonnage::{
    generate::Workload,
    measure::{
        TableForm,
        form::{Keys, Storage},
    },
    table::TableName,
};

use super::{Place, Server};

on_every_server! {
    a_table_is_made_of_the_form_that_was_asked_for,
}

async fn a_table_is_made_of_the_form_that_was_asked_for(server: Server) {
    let place = Place::on(server).await;
    let gauge = place.target.gauge().unwrap();
    let make = async |workload: Workload, form: TableForm, name: &str| {
        assert_eq!(gauge.obstacle(&form).await.unwrap(), None, "{form}");
        let columns = workload.columns_of(form.columns);
        let key = workload.key().iter().map(|name| (*name).to_owned()).collect();
        let making = form.making(TableName::bare(name), columns, key);
        gauge.make(&making).await.unwrap();
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
        page_bytes: None,
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
        let why = gauge.obstacle(&form).await.unwrap();
        assert!(why.as_deref().is_some_and(|why| why.contains(told)), "{why:?}");
    }
}
