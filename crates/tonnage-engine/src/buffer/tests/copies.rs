//! A journal that was copied, restored or deleted in part: one copy is gone on with, and what nobody can know is said.

use std::{fs, path::PathBuf};

use super::{journals::segments, *};

fn journaled(memory: &Memory, dir: &Path) -> BufferOptions {
    options(memory, dir)
        .journal(dir.join("journal"))
        .ack(Ack::Journaled)
        .drain(usize::MAX, NEVER)
}

fn accepting(memory: &Memory, dir: &Path) -> BufferOptions {
    journaled(memory, dir).journal_options(JournalOptions {
        directory: dir.join("journal"),
        bytes_max: JOURNAL_BYTES_MAX,
        accept_loss: true,
    })
}

async fn refused(options: BufferOptions) -> Error {
    options.open().await.err().expect("it is refused")
}

fn copy(dir: &Path, name: &str) -> PathBuf {
    let to = dir.join(name);
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(dir.join("journal")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to
}

/// Puts what was copied in the place of the journal.
fn restore(dir: &Path, from: &Path) {
    fs::remove_dir_all(dir.join("journal")).unwrap();
    fs::rename(from, dir.join("journal")).unwrap();
}

/// What the journal says an opening has to find.
fn newest(dir: &Path) -> serde_json::Value {
    let meta = fs::read(dir.join("journal/journal.json")).unwrap();
    let meta: serde_json::Value = serde_json::from_slice(&meta).unwrap();
    meta["newest"].clone()
}

async fn put(buffer: &Buffer, ids: std::ops::RangeInclusive<u64>) {
    for id in ids {
        buffer.put(row(id)).await.unwrap();
    }
}

#[tokio::test]
async fn of_two_copies_one_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    // A row is in the table, others in the journal alone.
    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    put(&buffer, 1..=1).await;
    buffer.flush_all().await.unwrap();
    put(&buffer, 2..=3).await;
    buffer.stop().await;
    let copied = copy(dir.path(), "copy");

    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    put(&buffer, 4..=5).await;
    let twin = || journaled(&memory, dir.path()).journal(&copied);
    // Also while the other goes on, which is not disturbed.
    let error = refused(twin()).await;
    assert_eq!(error.kind(), ErrorKind::Uncertain);
    assert!(
        error
            .to_string()
            .contains("it is a copy or an older state of one that was opened since"),
        "{error}"
    );
    // What the other one has put is in the table, or on its way.
    let is_said = (3..=5).any(|last| {
        let end = format!("rows 1 to {last} may be lost or doubled");
        error.to_string().ends_with(&end)
    });
    assert!(is_said, "{error}");
    put(&buffer, 6..=6).await;
    buffer.close().await.unwrap();
    assert_eq!(refused(twin()).await.kind(), ErrorKind::Uncertain);
    assert_eq!(ids(&memory), [1, 2, 3, 4, 5, 6]);
    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    assert_eq!(buffer.recovery(), &Recovery::default());
    buffer.close().await.unwrap();

    // Whoever has nothing else goes on with it, told what it costs; then the other one is the copy.
    let buffer = twin().journal_options(JournalOptions {
        directory: copied.clone(),
        bytes_max: JOURNAL_BYTES_MAX,
        accept_loss: true,
    });
    let buffer = buffer.open().await.unwrap();
    let uncertain = buffer.recovery().uncertain.clone().expect("it is said");
    assert_eq!((uncertain.first, uncertain.last), (1, Some(6)));
    assert_eq!(buffer.put(row(7)).await.unwrap(), 7);
    buffer.close().await.unwrap();
    assert_eq!(ids(&memory), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(
        refused(journaled(&memory, dir.path())).await.kind(),
        ErrorKind::Uncertain
    );
    let buffer = twin().open().await.unwrap();
    assert_eq!(buffer.recovery(), &Recovery::default());
}

#[tokio::test]
async fn a_copy_from_before_the_first_opening_ended_is_one_too() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    let copied = copy(dir.path(), "copy");
    let meta = copied.join("journal.json");
    let mut said: serde_json::Value = serde_json::from_slice(&fs::read(&meta).unwrap()).unwrap();
    // As it was before the ledger had a run of it.
    said["begun"] = false.into();
    said.as_object_mut().unwrap().remove("opening");
    fs::write(&meta, said.to_string()).unwrap();
    put(&buffer, 1..=2).await;
    buffer.close().await.unwrap();
    let error = refused(journaled(&memory, dir.path()).journal(&copied)).await;
    assert_eq!(error.kind(), ErrorKind::Uncertain, "{error}");
    assert_eq!(ids(&memory), [1, 2]);
}

/// The state in the backup was never opened anew, so that only the rows tell.
#[tokio::test]
async fn an_older_state_that_the_database_is_ahead_of_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    put(&buffer, 1..=3).await;
    let copied = copy(dir.path(), "backup");
    put(&buffer, 4..=6).await;
    buffer.flush_all().await.unwrap();
    put(&buffer, 7..=9).await;
    buffer.stop().await;
    restore(dir.path(), &copied);
    for _ in 0..2 {
        let error = refused(journaled(&memory, dir.path())).await;
        assert_eq!(error.kind(), ErrorKind::Uncertain);
        assert!(
            error.to_string().ends_with(
                "it ends at row 3 and the database has row 6: rows 4 and on may be lost or doubled"
            ),
            "{error}"
        );
    }
    let buffer = accepting(&memory, dir.path()).open().await.unwrap();
    assert!(buffer.recovery().uncertain.is_some());
    assert_eq!(
        buffer.put(row(10)).await.unwrap(),
        7,
        "behind what the database has"
    );
    let report = buffer.close().await.unwrap();
    assert!(report.rows.balances() && report.recovery.uncertain.is_some());
    assert_eq!(ids(&memory), [1, 2, 3, 4, 5, 6, 10]);
    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    assert_eq!(buffer.recovery(), &Recovery::default(), "it is said once");
}

#[tokio::test]
async fn a_newest_segment_that_was_deleted_is_missed() {
    // How many of the newest go; whether the process died; the rows that the next opening ends at.
    for (gone, dies, last) in [(1, true, 3), (2, true, 0), (1, false, 3), (2, false, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        for rows in [1..=3, 4..=6] {
            let buffer = journaled(&memory, dir.path()).open().await.unwrap();
            memory.fail_after(0, Fault::Dead);
            put(&buffer, rows).await;
            match dies {
                // It notes nothing.
                true => {
                    let before = fs::read(dir.path().join("journal/journal.json")).unwrap();
                    buffer.stop().await;
                    fs::write(dir.path().join("journal/journal.json"), before).unwrap();
                }
                false => drop(buffer.stop().await),
            }
            memory.revive();
        }
        let paths = segments(dir.path());
        assert_eq!(paths.len(), 2);
        for path in paths.iter().rev().take(gone) {
            fs::remove_file(path).unwrap();
        }
        let error = refused(journaled(&memory, dir.path())).await;
        assert_eq!(error.kind(), ErrorKind::Uncertain, "{gone} {dies}: {error}");
        let expected = format!("rows {} and on may be lost or doubled", last + 1);
        assert!(error.to_string().ends_with(&expected), "{error}");
        assert!(error.to_string().contains("newest segment"), "{error}");
        let buffer = accepting(&memory, dir.path()).open().await.unwrap();
        assert_eq!(buffer.put(row(9)).await.unwrap(), last + 1);
        buffer.close().await.unwrap();
        let expected: Vec<u64> = (1..=last).chain([9]).collect();
        assert_eq!(ids(&memory), expected);
    }
}

#[tokio::test]
async fn a_segment_is_missed_once_another_has_followed_it() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let small = journaled(&memory, dir.path()).journal_options(JournalOptions {
        directory: dir.path().join("journal"),
        bytes_max: JOURNAL_BYTES_LEAST,
        accept_loss: false,
    });
    let buffer = small.clone().open().await.unwrap();
    let noted = || newest(dir.path())["segment"].as_u64().expect("a number");
    memory.fail_after(0, Fault::Dead);
    let first = noted();
    let wide = "x".repeat(20_000);
    let mut id = 0;
    // A thread of its own notes it.
    while noted() == first {
        id += 1;
        let row = Row::json(format!("{{\"id\": {id}, \"v\": \"{wide}\"}}"));
        buffer.put(row).await.unwrap();
    }
    let meta = fs::read(dir.path().join("journal/journal.json")).unwrap();
    let newest = noted();
    buffer.stop().await;
    memory.revive();
    fs::write(dir.path().join("journal/journal.json"), meta).unwrap();
    for path in segments(dir.path()) {
        let number: u64 = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        if number >= newest {
            fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(refused(small).await.kind(), ErrorKind::Uncertain);
}

#[tokio::test]
async fn a_journal_is_locked_also_without_its_lock_file() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    fs::remove_file(dir.path().join("journal/lock")).unwrap();
    let error = refused(journaled(&memory, dir.path())).await;
    assert!(
        error.to_string().ends_with("is in use by another process"),
        "{error}"
    );
    put(&buffer, 1..=2).await;
    buffer.close().await.unwrap();
    assert_eq!(ids(&memory), [1, 2]);
}

#[tokio::test]
async fn rows_are_not_acknowledged_in_a_file_that_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    put(&buffer, 1..=2).await;
    segments(dir.path())
        .iter()
        .for_each(|path| fs::remove_file(path).unwrap());
    assert_eq!(buffer.put(row(3)).await.unwrap_err().kind(), ErrorKind::InDoubt);
    buffer.stop().await;
}

#[tokio::test]
async fn another_directory_in_its_place_gets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    put(&buffer, 1..=2).await;
    // A thread of its own notes that it has rows.
    while newest(dir.path())["row"] == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    fs::rename(dir.path().join("journal"), dir.path().join("moved")).unwrap();
    let other = journaled(&memory, dir.path())
        .rejects(dir.path().join("others.jsonl"), 1)
        .open()
        .await
        .unwrap();
    assert!(buffer.put(row(3)).await.is_err());
    buffer.stop().await;
    put(&other, 4..=4).await;
    other.close().await.unwrap();
    assert_eq!(segments(dir.path()).len(), 1, "its own");
    let moved = journaled(&memory, dir.path()).journal(dir.path().join("moved"));
    moved.open().await.unwrap().close().await.unwrap();
    let found: BTreeSet<u64> = ids(&memory).into_iter().collect();
    assert!(found.is_superset(&[1, 2, 4].into()), "{found:?}");
}

/// Openings that end anywhere between journal and ledger: the next one goes on, and a copy of whatever they left does not
/// go on beside it.
#[tokio::test]
async fn an_opening_may_end_between_journal_and_ledger() {
    for fault in [Fault::Dead, Fault::After, Fault::Away] {
        for calls in 0..12 {
            let dir = tempfile::tempdir().unwrap();
            let memory = memory().await;
            for life in 0..3 {
                // The first may be interrupted too, and the second after one that was.
                if life != 1 {
                    memory.fail_after(calls, fault);
                    let opening = journaled(&memory, dir.path()).open();
                    if let Ok(Ok(buffer)) = tokio::time::timeout(Duration::from_millis(50), opening).await {
                        buffer.stop().await;
                    }
                    memory.revive();
                }
                let journal = dir.path().join("journal");
                let copied = journal
                    .exists()
                    .then(|| copy(dir.path(), &format!("copy-{life}")));
                let buffer = journaled(&memory, dir.path()).open().await;
                let buffer = buffer.unwrap_or_else(|error| panic!("{fault:?} at {calls}: {error}"));
                put(&buffer, life * 2 + 1..=life * 2 + 2).await;
                buffer.stop().await;
                if let Some(copied) = copied
                    && fs::read_to_string(copied.join("journal.json")).is_ok_and(|meta| !meta.is_empty())
                {
                    let error = refused(journaled(&memory, dir.path()).journal(&copied)).await;
                    assert_eq!(
                        error.kind(),
                        ErrorKind::Uncertain,
                        "{fault:?} at {calls}: {error}"
                    );
                }
            }
            let buffer = journaled(&memory, dir.path()).open().await.unwrap();
            buffer.close().await.unwrap();
            assert_eq!(ids(&memory), [1, 2, 3, 4, 5, 6], "{fault:?} at {calls}");
        }
    }
}
