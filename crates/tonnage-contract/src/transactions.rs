//! What is there of a write, and what a writer finds of its table, without a ledger.

use std::sync::Arc;

use tonnage_core::{
    ErrorKind,
    error::Error,
    operation::{Method, Mode},
    table::Table,
    target::{Claim, Guard, Target, WriteRequest, Writer},
};

use crate::{
    Alteration, Fixture, WIDE, Writers, described, drop_t,
    ledger::{batch, new_run, request},
    make, make_of, methods, operation, rows,
};

/// Writes to the first two columns of `table`.
fn request_by(target: &Arc<dyn Target>, table: &Table, mode: Mode, method: Method) -> WriteRequest {
    let mut request = WriteRequest {
        operation: operation(mode),
        method,
        ..request(target, table)
    };
    request.columns.truncate(2);
    request
}

async fn opened(target: &Arc<dyn Target>, request: &WriteRequest) -> Box<dyn Writer> {
    target.writer(request, None).await.expect("a writer")
}

/// Rows `ids`, in a transaction that is left open.
async fn write(writer: &mut dyn Writer, request: &WriteRequest, ids: std::ops::Range<i64>) {
    assert_eq!(writer.begin(&[]).await.expect("a claim"), Claim::Held);
    if let Some(places) = writer.places() {
        *places = ids.clone().map(|id| id as u64).collect();
    }
    let outcome = writer
        .write(&batch(request, ids), Guard::None)
        .await
        .expect("rows go");
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    assert!(outcome.bytes_sent > 0 && outcome.statements > 0);
}

/// Whether it is undone or its writer is dropped, nothing of a write is left, and nothing of it is in the way of the next one.
/// Without transactions, the next one is there once.
pub async fn what_is_not_committed_is_not_there(fixture: &dyn Fixture) {
    let target = fixture.target();
    let (table, _) = make(&target).await;
    for method in methods(&target, &table, Mode::Insert) {
        let table = described(&target).await;
        let request = request_by(&target, &table, Mode::Insert, method);
        let mut writer = opened(&target, &request).await;
        write(&mut *writer, &request, 0..3).await;
        for _ in 0..2 {
            writer.rollback().await.expect("a rollback");
        }
        write(&mut *writer, &request, 0..100).await;
        drop(writer);
        let mut writer = opened(&target, &request).await;
        let outside = writer.write(&batch(&request, 0..1), Guard::None).await;
        assert_eq!(outside.expect_err("nothing is open").kind(), ErrorKind::Bug);
        if table.transactional {
            assert_eq!(fixture.count("t").await, 0, "{method}");
        }
        // It waits for the locks of the one that is gone.
        write(&mut *writer, &request, 0..100).await;
        writer.commit(&[]).await.expect("a commit");
        assert_eq!(rows(fixture).await.len(), 100, "{method}");
        drop_t(&target).await;
        make(&target).await;
    }
}

/// How somebody else alters the table.
enum Change {
    Dropped,
    MadeAnew,
    Stated(Alteration),
}

/// Whatever has become of its table, nothing is written that the plan was not made for, by writers that were open and by others.
pub async fn a_table_that_was_altered_is_not_written(fixture: &dyn Fixture) {
    let target = fixture.target();
    let mut changes = vec![Change::Dropped, Change::MadeAnew];
    let stated = fixture
        .language()
        .map_or(&[][..], |language| language.alterations());
    changes.extend(stated.iter().copied().map(Change::Stated));
    let (table, _) = make_of(&target, WIDE).await;
    let of = |mode| {
        methods(&target, &table, mode)
            .into_iter()
            .map(move |method| (mode, method))
    };
    let ways: Vec<_> = of(Mode::Insert).chain(of(Mode::Upsert).take(1)).collect();
    for (number, change) in changes.iter().enumerate() {
        for (mode, method) in &ways {
            drop_t(&target).await;
            let (table, _) = make_of(&target, WIDE).await;
            // Only a ledger knows the tables of a database that does not number them.
            let identity = format!("{number} {mode:?} {method}");
            let run = new_run(&table, &identity, &format!("/{identity}"));
            target.ledger().start(&run).await.expect("a run starts");
            let table = described(&target).await;
            let request = request_by(&target, &table, *mode, *method);
            let mut writer = opened(&target, &request).await;
            for id in 1..3 {
                write(&mut *writer, &request, id..id + 1).await;
                writer.commit(&[]).await.expect("a commit");
            }
            if let Some(language) = fixture.language() {
                language.run(language.harmless()).await;
            }
            assert_eq!(writer.begin(&[]).await.expect("nothing was altered"), Claim::Held);
            writer.rollback().await.expect("a rollback");
            let (message, refused) = match (change, fixture.language()) {
                (Change::Stated(alteration), Some(language)) => {
                    language.run(alteration.statements).await;
                    (alteration.message, alteration.refused)
                }
                (Change::Dropped, _) => {
                    drop_t(&target).await;
                    ("was dropped", Writers::All)
                }
                _ => {
                    drop_t(&target).await;
                    make_of(&target, WIDE).await;
                    ("was ", Writers::All)
                }
            };
            let mut writers = vec![writer];
            let says_so = |error: Error| {
                let said = error.to_string();
                assert_eq!(error.kind(), ErrorKind::Altered, "{message} by {method}: {said}");
                assert!(said.contains(message), "{message} by {method}: {said}");
                assert!(said.ends_with("while rows were written to it"), "{said}");
            };
            if refused == Writers::All {
                // A database may look before the first row.
                match target.writer(&request, None).await {
                    Ok(writer) => writers.push(writer),
                    Err(error) => says_so(error),
                }
            }
            // Without transactions nothing begins that could look: the next write finds out.
            for mut writer in writers.into_iter().filter(|_| table.transactional) {
                for _ in 0..2 {
                    says_so(writer.begin(&[]).await.expect_err(message));
                }
            }
        }
    }
}
