//! Openings of a journal while the database is away.

use super::*;

fn journaled(memory: &Memory, dir: &Path) -> BufferOptions {
    options(memory, dir)
        .journal(dir.join("journal"))
        .ack(Ack::Journaled)
        .drain(usize::MAX, NEVER)
}

/// A journal of `rows` rows of which the database has the first `committed`.
async fn begun(memory: &Memory, dir: &Path, committed: u64, rows: u64) {
    memory.check("t", |_| None);
    let buffer = journaled(memory, dir).open().await.unwrap();
    for id in 1..=rows {
        buffer.put(row(id)).await.unwrap();
        if id == committed {
            buffer.flush_all().await.unwrap();
        }
    }
    let report = buffer.stop().await;
    assert_eq!(report.rows.unfinished, rows - committed);
}

#[tokio::test]
async fn rows_are_taken_while_the_database_is_away_and_drained_when_it_is_back() {
    for (committed, rows) in [(5, 9), (9, 9)] {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        begun(&memory, dir.path(), committed, rows).await;
        memory.fail_after(0, Fault::Away);
        let mut next = rows + 1;
        // It may be closed again before the database is back.
        for _ in 0..3 {
            let buffer = journaled(&memory, dir.path()).open().await.unwrap();
            assert_eq!(buffer.columns(), ["id", "v"]);
            assert!(buffer.committed() <= committed);
            for _ in 0..4 {
                assert_eq!(buffer.put(row(next)).await.unwrap(), next);
                next += 1;
            }
            let report = buffer.stop().await;
            assert!(report.rows.balances(), "{:?}", report.rows);
            assert_eq!(
                (report.rows.put, report.rows.written, report.run_id),
                (4, 0, None)
            );
        }
        let buffer = journaled(&memory, dir.path()).open().await.unwrap();
        assert_eq!(buffer.put_many(batch(next..next + 3)).await.unwrap(), next + 2);
        assert_eq!(ids(&memory).len() as u64, committed);
        memory.revive();
        buffer.flush_all().await.unwrap();
        assert_eq!(buffer.committed(), next + 2);
        assert_eq!(ids(&memory), (1..next + 3).collect::<Vec<_>>());
        assert_eq!(buffer.recovery().rows, next - 1 - committed);
        buffer.put(row(next + 3)).await.unwrap();
        let report = buffer.close().await.unwrap();
        assert!(report.rows.balances(), "{:?}", report.rows);
        assert_eq!(report.rows.written, next + 3 - committed);
        assert_eq!(ids(&memory).len() as u64, next + 3);
    }
}

#[tokio::test]
async fn a_journal_that_the_database_was_never_told_of_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    memory.fail_after(0, Fault::Away);
    let error = journaled(&memory, dir.path())
        .open()
        .await
        .err()
        .expect("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Unsent);
    assert!(!dir.path().join("journal").exists(), "nothing was made");
}

#[tokio::test]
async fn a_database_that_comes_back_as_another_ends_the_buffer() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    begun(&memory, dir.path(), 5, 9).await;
    memory.fail_after(0, Fault::Away);
    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    buffer.put(row(10)).await.unwrap();
    memory.drop_table("t");
    memory.revive();
    assert_eq!(buffer.flush_all().await.unwrap_err().kind(), ErrorKind::Schema);
    let report = buffer.stop().await;
    assert!(report.rows.balances(), "{:?}", report.rows);
}

/// The disk goes back to what it held before: numbers that the database has are given to other rows.
#[tokio::test]
async fn numbers_that_the_database_has_are_not_taken_for_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    begun(&memory, dir.path(), 5, 9).await;
    let journal = dir.path().join("journal");
    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    let before: Vec<_> = std::fs::read_dir(&journal)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    for id in 10..=20 {
        buffer.put(row(id)).await.unwrap();
    }
    buffer.close().await.unwrap();
    std::fs::remove_dir_all(&journal).unwrap();
    std::fs::create_dir(&journal).unwrap();
    before
        .iter()
        .for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());

    memory.fail_after(0, Fault::Away);
    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    assert_eq!(buffer.put(row(30)).await.unwrap(), 10);
    memory.revive();
    let error = buffer.flush_all().await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("rows 10 and on were taken while the database was away"),
        "{error}"
    );
    buffer.stop().await;
    // Nor by the next opening.
    let error = journaled(&memory, dir.path())
        .open()
        .await
        .err()
        .expect("nobody knows");
    assert!(error.to_string().contains("which has row 20 already"), "{error}");
    assert_eq!(ids(&memory), (1..=20).collect::<Vec<_>>());
}
