//! The journal by itself: damage, full and failing disks, bounds, owners.

use std::{
    fs::File,
    io::{Error as Io, ErrorKind as IoKind},
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64},
};

use super::{super::journal::Storage, *};

fn journaled(memory: &Memory, dir: &Path) -> BufferOptions {
    options(memory, dir)
        .journal(dir.join("journal"))
        .ack(Ack::Journaled)
        .drain(usize::MAX, NEVER)
}

/// The files of segments, in order.
pub(super) fn segments(dir: &Path) -> Vec<PathBuf> {
    segments_in(&dir.join("journal"))
}

pub(super) fn segments_in(journal: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(journal).unwrap();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "segment"))
        .collect();
    paths.sort();
    paths
}

/// Puts rows, a frame each, and dies. The database is away meanwhile, so that what was there before stays there.
async fn put_and_die(memory: &Memory, dir: &Path, rows: std::ops::RangeInclusive<u64>) {
    let buffer = journaled(memory, dir).open().await.unwrap();
    memory.fail_after(0, Fault::Dead);
    for id in rows {
        assert_eq!(buffer.put(row(id)).await.unwrap(), id);
    }
    // Whoever dies notes nothing.
    let meta = dir.join("journal/journal.json");
    let before = std::fs::read(&meta).unwrap();
    buffer.stop().await;
    std::fs::write(&meta, before).unwrap();
    memory.revive();
}

/// Where the frames of a segment begin, of those that are its own.
pub(super) fn frames(path: &Path) -> Vec<usize> {
    let bytes = std::fs::read(path).unwrap();
    let number: u64 = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let own = [&b"TFR2"[..], &number.to_le_bytes()].concat();
    memchr::memmem::find_iter(&bytes, &own).collect()
}

#[tokio::test]
async fn a_torn_end_is_found_reported_and_cut_and_never_applied() {
    let whole = tempfile::tempdir().unwrap();
    let made = memory().await;
    put_and_die(&made, whole.path(), 1..=4).await;
    let last = segments(whole.path()).pop().unwrap();
    let bytes = std::fs::read(&last).unwrap();
    let starts = frames(&last);
    for cut in (starts[3]..bytes.len()).step_by(7) {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        put_and_die(&memory, dir.path(), 1..=4).await;
        let last = segments(dir.path()).pop().unwrap();
        let length = std::fs::metadata(&last).unwrap().len();
        assert_eq!(length, bytes.len() as u64);
        File::options()
            .write(true)
            .open(&last)
            .unwrap()
            .set_len(cut as u64)
            .unwrap();
        let buffer = journaled(&memory, dir.path()).open().await.unwrap();
        assert_eq!(buffer.recovery().rows, 3);
        match (&buffer.recovery().torn, cut - starts[3]) {
            (None, 0) => {}
            (Some(torn), bytes) => {
                assert_eq!((torn.offset, torn.bytes), (starts[3] as u64, bytes as u64));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(
            std::fs::metadata(&last).unwrap().len(),
            starts[3] as u64,
            "it is cut"
        );
        assert_eq!(buffer.put(row(40)).await.unwrap(), 4);
        buffer.close().await.unwrap();
        assert_eq!(ids(&memory), [1, 2, 3, 40]);
    }
}

#[tokio::test]
async fn a_damaged_middle_is_reported_with_what_is_lost_and_the_rest_can_be_had() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    put_and_die(&memory, dir.path(), 1..=9).await;
    put_and_die(&memory, dir.path(), 10..=12).await;
    let segments = segments(dir.path());
    let [first, second] = segments.as_slice() else {
        panic!("a segment for each opening: {segments:?}");
    };
    let starts = frames(first);
    let mut bytes = std::fs::read(first).unwrap();
    // Rows 4 and 5, and the length of row 7's frame, which leads nowhere then.
    for at in [starts[3] + 50, starts[4] + 10, starts[6] + 13] {
        bytes[at] ^= 0x40;
    }
    std::fs::write(first, &bytes).unwrap();
    let error = journaled(&memory, dir.path())
        .open()
        .await
        .err()
        .expect("rows are lost");
    assert_eq!(error.kind(), ErrorKind::Input);
    let said = error.to_string();
    assert!(
        said.contains(&format!(
            "rows 4 to 5 cannot be read: {} at byte {}",
            first.display(),
            starts[3]
        )) && said.ends_with("; 3 rows are lost in all"),
        "{said}"
    );
    assert_eq!(ids(&memory), [0; 0], "nothing was done");

    let accepting = journaled(&memory, dir.path()).journal_options(JournalOptions {
        directory: dir.path().join("journal"),
        bytes_max: JOURNAL_BYTES_MAX,
        accept_loss: true,
    });
    let buffer = accepting.open().await.unwrap();
    let lost: Vec<_> = buffer.recovery().lost.iter().map(|l| (l.first, l.last)).collect();
    assert_eq!((lost, buffer.recovery().rows), (vec![(4, 5), (7, 7)], 9));
    assert_eq!(buffer.accepted(), 12);
    let report = buffer.close().await.unwrap();
    assert!(report.rows.balances());
    assert_eq!(ids(&memory), [1, 2, 3, 6, 8, 9, 10, 11, 12]);
    assert!(second.exists() || !first.exists(), "the first goes first");
    let again = journaled(&memory, dir.path()).open().await.unwrap();
    assert_eq!(
        again.recovery(),
        &Recovery::default(),
        "what is passed is not lost again"
    );
}

#[tokio::test]
async fn a_missing_segment_and_a_damaged_header_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    for rows in [1..=3, 4..=6, 7..=9] {
        put_and_die(&memory, dir.path(), rows).await;
    }
    let paths = segments(dir.path());
    let mut bytes = std::fs::read(&paths[1]).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&paths[1], &bytes).unwrap();
    put_and_die(&memory, dir.path(), 10..=10).await;
    std::fs::remove_file(&paths[2]).unwrap();
    let error = journaled(&memory, dir.path())
        .open()
        .await
        .err()
        .expect("rows are lost");
    assert!(
        error.to_string().contains("rows 7 to 9 cannot be read"),
        "{error}"
    );
    std::fs::remove_file(&paths[0]).unwrap();
    let error = journaled(&memory, dir.path())
        .open()
        .await
        .err()
        .expect("rows are lost");
    assert!(
        error.to_string().contains("rows 1 to 3 cannot be read"),
        "{error}"
    );
    assert!(error.to_string().contains("6 rows are lost in all"), "{error}");
}

#[tokio::test]
async fn a_journal_has_one_owner_and_one_table() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let buffer = journaled(&memory, dir.path()).open().await.unwrap();
    let error = journaled(&memory, dir.path())
        .open()
        .await
        .err()
        .expect("it is locked");
    assert!(
        error.to_string().ends_with("is in use by another process"),
        "{error}"
    );
    buffer.put(row(1)).await.unwrap();
    buffer.close().await.unwrap();

    let upsert = journaled(&memory, dir.path()).upsert(["id"]).open().await;
    let error = upsert.err().expect("another operation");
    assert!(
        error
            .to_string()
            .contains("belongs to another table, operation or database"),
        "{error}"
    );

    // A journal that was lost: the rows of a new one are new.
    std::fs::remove_dir_all(dir.path().join("journal")).unwrap();
    let buffer = journaled(&memory, dir.path())
        .rejects(dir.path().join("others.jsonl"), 1)
        .open()
        .await
        .unwrap();
    assert_eq!(buffer.put(row(2)).await.unwrap(), 1);
    buffer.close().await.unwrap();
    assert_eq!(ids(&memory), [1, 2]);

    let strange = dir.path().join("strange");
    std::fs::create_dir(&strange).unwrap();
    std::fs::write(strange.join("notes.txt"), "mine").unwrap();
    let error = journaled(&memory, dir.path())
        .journal(&strange)
        .open()
        .await
        .err()
        .expect("no journal");
    assert!(error.to_string().contains("is no journal"), "{error}");
}

/// A disk that can be full, can fail, and can take its time.
#[derive(Default)]
struct Disk {
    full: AtomicBool,
    broken: AtomicBool,
    held: AtomicBool,
    syncs: AtomicU64,
}

struct OnDisk(File, Arc<Disk>);

impl Storage for OnDisk {
    fn write(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        if self.1.full.load(Ordering::Relaxed) {
            // A part of it gets there.
            Storage::write(&mut self.0, &bytes[..bytes.len() / 2], offset)?;
            return Err(Io::from(IoKind::StorageFull));
        }
        Storage::write(&mut self.0, bytes, offset)
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.1.syncs.fetch_add(1, Ordering::Relaxed);
        while self.1.held.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        match self.1.broken.load(Ordering::Relaxed) {
            true => Err(Io::other("the disk is broken")),
            false => Storage::sync(&mut self.0),
        }
    }

    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        Storage::cut(&mut self.0, length)
    }
}

fn on(disk: &Arc<Disk>) -> Store {
    let disk = disk.clone();
    Arc::new(move |file| Box::new(OnDisk(file, disk.clone())))
}

#[tokio::test]
async fn a_full_disk_holds_producers_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let disk = Arc::new(Disk::default());
    let buffer = Buffer::open_on(journaled(&memory, dir.path()), on(&disk))
        .await
        .unwrap();
    buffer.put(row(1)).await.unwrap();
    disk.full.store(true, Ordering::Relaxed);
    let putting = {
        let buffer = buffer.clone();
        tokio::spawn(async move { buffer.put(row(2)).await })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!putting.is_finished(), "it is not acknowledged");
    assert_eq!(buffer.journaled(), 1);
    disk.full.store(false, Ordering::Relaxed);
    assert_eq!(putting.await.unwrap().unwrap(), 2);
    buffer.stop().await;
    let report = journaled(&memory, dir.path())
        .open()
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    assert_eq!(report.recovery.torn, None, "the part that got there was cut off");
    assert_eq!(ids(&memory), [1, 2]);
}

#[tokio::test]
async fn a_failed_fsync_poisons_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let disk = Arc::new(Disk::default());
    let buffer = Buffer::open_on(journaled(&memory, dir.path()), on(&disk))
        .await
        .unwrap();
    buffer.put(row(1)).await.unwrap();
    disk.broken.store(true, Ordering::Relaxed);
    assert_eq!(buffer.put(row(2)).await.unwrap_err().kind(), ErrorKind::InDoubt);
    disk.broken.store(false, Ordering::Relaxed);
    assert_eq!(
        buffer.put(row(3)).await.unwrap_err().kind(),
        ErrorKind::InDoubt,
        "it stays so"
    );
    assert!(buffer.flush_all().await.is_err());
    buffer.stop().await;
    journaled(&memory, dir.path())
        .open()
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    let found = ids(&memory);
    assert!(found == [1] || found == [1, 2], "row 2 was in doubt: {found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_fsync_serves_many() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let disk = Arc::new(Disk::default());
    let buffer = Buffer::open_on(journaled(&memory, dir.path()), on(&disk))
        .await
        .unwrap();
    let mut puts = tokio::task::JoinSet::new();
    // However fast the disk is: the rows come while an fsync goes on.
    disk.held.store(true, Ordering::Relaxed);
    for id in 1..=500 {
        let buffer = buffer.clone();
        puts.spawn(async move { buffer.put(row(id)).await.unwrap() });
    }
    while buffer.accepted() < 500 {
        if let Some(ended) = puts.try_join_next() {
            disk.held.store(false, Ordering::Relaxed);
            panic!("a put ended before any fsync: {ended:?}");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    disk.held.store(false, Ordering::Relaxed);
    let mut sequences: Vec<u64> = puts.join_all().await;
    sequences.sort();
    assert!(sequences.into_iter().eq(1..=500));
    let syncs = disk.syncs.load(Ordering::Relaxed);
    assert!(syncs < 50, "{syncs} fsyncs for 500 rows that were put at once");
}

/// A database that is away: memory fills, then the journal, then producers are held. When it comes back all is caught
/// up with, in order, and the journal gets small again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_database_spills_to_the_journal_up_to_its_bound() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    memory.check("t", |_| None);
    let wide = |id: u64| Row::json(format!(r#"{{"id": {id}, "v": "{}"}}"#, "x".repeat(2_000)));
    let asked = journaled(&memory, dir.path())
        .journal_options(JournalOptions {
            directory: dir.path().join("journal"),
            bytes_max: JOURNAL_BYTES_LEAST,
            accept_loss: false,
        })
        .memory(AREA_BYTES_LEAST)
        .when_full(WhenFull::Fail)
        .drain(20_000, Duration::from_millis(20));
    let buffer = asked.open().await.unwrap();
    memory.fail_after(0, Fault::Dead);
    let mut put = 0;
    let refused = loop {
        match buffer.put(wide(put + 1)).await {
            Ok(_) => put += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Overloaded);
    let metrics = buffer.metrics();
    assert!(metrics.journal_bytes <= JOURNAL_BYTES_LEAST, "{metrics:?}");
    assert!(metrics.journal_bytes > JOURNAL_BYTES_LEAST / 2, "{metrics:?}");
    assert!(metrics.depth_bytes_peak <= AREA_BYTES_LEAST as u64, "{metrics:?}");
    assert_eq!((buffer.committed(), buffer.journaled()), (0, put));
    memory.revive();
    buffer.flush_all().await.unwrap();
    // Files that are done with are settled by a thread of their own.
    while buffer.metrics().journal_bytes > JOURNAL_BYTES_LEAST / 4 * 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for round in 0..30 {
        let sequence = buffer.put(row(1_000_001 + round)).await.unwrap();
        assert_eq!(sequence, put + round + 1);
    }
    let report = buffer.close().await.unwrap();
    assert!(report.rows.balances());
    let expected: Vec<u64> = (1..=put).collect();
    assert_eq!(ids(&memory)[..expected.len()], expected);
    let on_disk: u64 = segments(dir.path())
        .iter()
        .map(|path| path.metadata().unwrap().len())
        .sum();
    assert!(on_disk < JOURNAL_BYTES_LEAST / 4, "{on_disk} bytes are left");
}
