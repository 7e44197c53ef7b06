//! Rows by their keys.

use tonnage_core::target::Target;
use tonnage_engine::fetch::Fetched;

use crate::{Files, Fixture, Keyed, Row, assert_refused, connected, load, make, row, texts};

/// Keys that are there bring their rows, once; others are missing. Without look-up or key all of it is refused.
pub async fn found_and_missing(fixture: &dyn Fixture) {
    let target = fixture.target();
    let (_, keyed) = make(&target).await;
    let files = Files::new();
    let path = files.csv("input.csv", (0..500).map(|id| (id, format!("v{id}"))));
    load(&target, &path, &files.rejects()).run().await.expect("rows");
    let keys = (400..600).chain(450..460).map(|id| id.to_string());
    let get = connected(&target).bulk_get("t").keys(keys).jobs(2);
    let can = Target::parts(&*target).lookup.is_some() && keyed == Keyed::Yes;
    let mut get = match (can, get.start().await) {
        (true, get) => get.expect("a get"),
        (false, get) => return assert_refused(&get.err().expect("it cannot look rows up")),
    };
    let (mut rows, mut missing): (Vec<Row>, Vec<Row>) = (Vec::new(), Vec::new());
    while let Some(fetched) = get.next().await.expect("an answer") {
        match fetched {
            Fetched::Rows(batch) => rows.extend(texts(&batch)),
            Fetched::Missing(batch) => missing.extend(texts(&batch)),
            Fetched::Related { .. } => panic!("nothing related was asked for"),
        }
    }
    rows.sort();
    missing.sort();
    assert_eq!(
        rows,
        (400..500).map(|id| row(id, format!("v{id}"))).collect::<Vec<_>>()
    );
    assert_eq!(
        missing,
        (500..600)
            .map(|id: i64| vec![Some(id.to_string())])
            .collect::<Vec<_>>()
    );
    let report = get.finish().expect("an account");
    assert!(report.keys.balance());
    assert_eq!((report.keys.found, report.keys.missing), (100, 100));
    let wrong = connected(&target)
        .bulk_get("t")
        .by(["nothing"])
        .keys(["1"])
        .start()
        .await;
    assert_refused(&wrong.err().expect("there is no such column"));
}
