//! Rows that are put together, numbered by their producer, and looked at before.

use super::*;

fn rows(texts: impl IntoIterator<Item = String>) -> Rows {
    let mut rows = Rows::texts();
    for text in texts {
        assert!(rows.push(text.as_bytes()));
    }
    rows
}

fn numbered(ids: std::ops::Range<u64>) -> Rows {
    rows(ids.map(|id| format!("{{\"id\": {id}, \"v\": \"v{id}\"}}")))
}

#[tokio::test]
async fn what_a_producer_sends_again_is_taken_once_in_every_opening() {
    let memory = memory().await;
    let dir = tempfile::tempdir().expect("a directory");
    let open = || {
        options(&memory, dir.path())
            .journal(dir.path().join("journal"))
            .open()
    };
    let buffer = open().await.expect("it opens");
    let put = |last, taken, known| Put { last, taken, known };
    for (ids, first, wanted) in [
        (1..5, 1, put(4, 4, 0)),
        (1..5, 1, put(4, 0, 4)),
        (1..8, 1, put(7, 3, 4)),
        (8..9, 8, put(8, 1, 0)),
    ] {
        let done = buffer
            .put_rows(numbered(ids), Some(("a", first)), WhenFull::Fail)
            .await;
        assert_eq!(done.expect("it is put"), wanted);
    }
    let gap = buffer
        .put_rows(numbered(20..21), Some(("a", 20)), WhenFull::Fail)
        .await;
    assert_eq!(gap.expect_err("a gap").kind(), ErrorKind::Config);
    let known = buffer.producer("a").expect("it is known");
    assert_eq!((known.first, known.highest, known.sequence), (1, 8, 8));
    assert_eq!(buffer.producer("b"), None);
    buffer.close().await.expect("it is drained");
    let buffer = open().await.expect("it opens again");
    let done = buffer
        .put_rows(numbered(7..10), Some(("a", 7)), WhenFull::Wait)
        .await;
    assert_eq!(done.expect("it is put"), put(9, 1, 2));
    assert!(!buffer.closed());
    let report = buffer.close().await.expect("it is drained");
    assert_eq!(report.rows.written, 1);
}

#[tokio::test]
async fn bad_rows_are_found_before_they_are_put() {
    let memory = memory().await;
    let dir = tempfile::tempdir().expect("a directory");
    let buffer = options(&memory, dir.path()).open().await.expect("it opens");
    let mut check = buffer.check().expect("a check").expect("the table is known");
    let texts = [
        "{\"id\":1}",
        "nonsense",
        "{\"id\":\"x\"}",
        "{\"id\":\"4\"}",
        "{\"no\":1}",
        "{\"id\":6}",
    ];
    let found = check
        .rejects(&rows(texts.map(str::to_owned)), 101)
        .expect("they are read");
    let numbers: Vec<_> = found.iter().map(|reject| reject.row).collect();
    assert_eq!(numbers, [102, 103, 105]);
    assert_eq!(found[1].problem.column.as_deref(), Some("id"));
    let none = check
        .rejects(&Rows::Arrow(batch(1..4)), 1)
        .expect("they are read");
    assert!(none.is_empty());
    assert_eq!(buffer.accepted(), 0, "nothing was put");
    buffer.close().await.expect("it ends");
}
