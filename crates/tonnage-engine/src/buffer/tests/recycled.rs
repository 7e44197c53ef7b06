//! Files that are prepared ahead and used again: what they held before is never taken for rows, whatever is copied,
//! torn or damaged, and a disk without room for them costs nothing but speed.

use std::{
    fs,
    io::{Error as Io, ErrorKind as IoKind},
    path::PathBuf,
    sync::atomic::AtomicU64,
};

use super::{
    super::journal::{Journal, Storage, old_segment},
    journals::{frames, segments, segments_in},
    *,
};

/// Rows of this many bytes fill segments soon.
const WIDE: usize = 3_000;

fn wide(id: u64) -> Row {
    Row::json(format!(r#"{{"id": {id}, "v": "{}"}}"#, "x".repeat(WIDE)))
}

fn small(memory: &Memory, dir: &Path) -> BufferOptions {
    bounded(memory, dir, "journal", false)
}

fn bounded(memory: &Memory, dir: &Path, name: &str, accept_loss: bool) -> BufferOptions {
    options(memory, dir)
        .journal_options(JournalOptions {
            directory: dir.join(name),
            bytes_max: JOURNAL_BYTES_LEAST,
            accept_loss,
        })
        .ack(Ack::Journaled)
        .drain(usize::MAX, NEVER)
}

/// The number that a segment's file is named by.
fn number(path: &Path) -> u64 {
    let name = path.file_stem().unwrap().to_str().unwrap();
    name.parse().unwrap()
}

/// Whether frames lie in a file that are right in it, and such that were right when it was an earlier segment.
fn holds(path: &Path) -> (bool, bool) {
    let bytes = fs::read(path).unwrap_or_default();
    let own = number(path).to_le_bytes();
    let frames = memchr::memmem::find_iter(&bytes, b"TFR2").map(|at| bytes.get(at + 4..at + 12));
    frames.fold((false, false), |(is_own, is_other), frame| match frame {
        Some(frame) if frame == own => (true, is_other),
        _ => (is_own, true),
    })
}

/// The last segment that has rows, if its file was used before.
fn used_again(journal: &Path) -> Option<PathBuf> {
    let mut found = segments_in(journal).into_iter().map(|path| (holds(&path), path));
    let last = found.rfind(|((has_own, _), _)| *has_own);
    last.and_then(|((_, has_other), path)| has_other.then_some(path))
}

/// Puts rows and has them drained until they go to a file that was used before; then the database is away, and a few more
/// are put, by themselves. The last row that the database has, and the last one.
async fn into_a_used_file(buffer: &Buffer, memory: &Memory, dir: &Path) -> (u64, u64) {
    let mut last = 0;
    while used_again(&dir.join("journal")).is_none() {
        for _ in 0..5 {
            last = buffer.put(wide(last + 1)).await.unwrap();
        }
        buffer.flush_all().await.unwrap();
    }
    memory.fail_after(0, Fault::Dead);
    for id in last + 1..=last + 6 {
        assert_eq!(buffer.put(row(id)).await.unwrap(), id);
    }
    (last, last + 6)
}

/// A journal in `killed` as a kill would leave it whose last six rows, which the database has not got, are in such a file;
/// the last row that it has, and the last.
async fn killed_in_a_used_file(memory: &Memory, dir: &Path) -> (PathBuf, u64, u64) {
    let buffer = small(memory, dir).open().await.unwrap();
    let (committed, last) = into_a_used_file(&buffer, memory, dir).await;
    let killed = copied(dir, "killed");
    buffer.stop().await;
    memory.revive();
    (killed, committed, last)
}

/// The journal's directory as a kill would leave it now: while files are renamed in it, it is looked at again.
fn copied(dir: &Path, to: &str) -> PathBuf {
    let listed = || {
        let entries = fs::read_dir(dir.join("journal")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let to = dir.join(to);
    loop {
        let _ = fs::remove_dir_all(&to);
        fs::create_dir(&to).unwrap();
        let names = listed();
        let copies = names
            .iter()
            .map(|name| fs::copy(dir.join("journal").join(name), to.join(name)));
        if copies.into_iter().all(|copy| copy.is_ok()) && listed() == names {
            return to;
        }
    }
}

#[tokio::test]
async fn records_of_an_earlier_life_are_not_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    memory.check("t", |_| None);
    let (killed, committed, last) = killed_in_a_used_file(&memory, dir.path()).await;
    // What a kill may leave of files that were being prepared.
    fs::write(killed.join("ahead.segment.partial"), [0; 5_000]).unwrap();

    let buffer = bounded(&memory, dir.path(), "killed", false)
        .open()
        .await
        .unwrap();
    let recovery = buffer.recovery();
    assert_eq!((&recovery.torn, &recovery.lost[..]), (&None, &[][..]));
    assert_eq!((recovery.rows, buffer.accepted()), (last - committed, last));
    assert!(!killed.join("ahead.segment.partial").exists());
    assert_eq!(buffer.put(row(last + 1)).await.unwrap(), last + 1);
    let report = buffer.close().await.unwrap();
    assert!(report.rows.balances());
    assert_eq!(ids(&memory), (1..=last + 1).collect::<Vec<_>>());
}

/// Copies the journal in the middle of writes and before fsyncs, while nothing is written: what a kill would leave then.
struct Kills {
    dir: PathBuf,
    calls: AtomicU64,
    acknowledged: AtomicU64,
    /// The copies, and the row that had been acknowledged by then.
    copies: Mutex<Vec<(PathBuf, u64)>>,
}

impl Kills {
    fn copy(&self) {
        let mut copies = self.copies.lock().unwrap();
        let before = self.acknowledged.load(Ordering::SeqCst);
        let name = format!("killed-{}", copies.len());
        copies.push((copied(&self.dir, &name), before));
    }

    /// Whether it is time for a copy: the thread that appends stands still, and a file is in use again.
    fn are_due(&self, one_in: u64) -> bool {
        std::thread::current().name() == Some("journal")
            && self.calls.fetch_add(1, Ordering::SeqCst).is_multiple_of(one_in)
            && self.copies.lock().unwrap().len() < 12
            && used_again(&self.dir.join("journal")).is_some()
    }
}

struct Watched(fs::File, Arc<Kills>);

impl Storage for Watched {
    fn write(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        if self.1.are_due(5) {
            Storage::write(&mut self.0, &bytes[..bytes.len() / 2], offset)?;
            self.1.copy();
        }
        Storage::write(&mut self.0, bytes, offset)
    }

    fn sync(&mut self) -> std::io::Result<()> {
        if self.1.are_due(7) {
            self.1.copy();
        }
        Storage::sync(&mut self.0)
    }

    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        Storage::cut(&mut self.0, length)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_time_leaves_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    memory.check("t", |_| None);
    let kills = Arc::new(Kills {
        dir: dir.path().to_owned(),
        calls: AtomicU64::new(0),
        acknowledged: AtomicU64::new(0),
        copies: Mutex::default(),
    });
    let watched = kills.clone();
    let store: Store = Arc::new(move |file| Box::new(Watched(file, watched.clone())));
    let asked = small(&memory, dir.path()).drain(20_000, Duration::from_millis(1));
    let buffer = Buffer::open_on(asked, store).await.unwrap();
    let mut last = 0;
    while kills.copies.lock().unwrap().len() < 12 {
        last = buffer.put(wide(last + 1)).await.unwrap();
        kills.acknowledged.store(last, Ordering::SeqCst);
    }
    buffer.flush_all().await.unwrap();
    buffer.stop().await;
    let copies = std::mem::take(&mut *kills.copies.lock().unwrap());
    for (copy, before) in copies {
        let journal = Journal::open(&copy).unwrap();
        assert_eq!(journal.lost(journal.position_least()), [], "{}", copy.display());
        let found = journal.last();
        // The one that is being written may be there or not.
        assert!((before..=before + 1).contains(&found), "{found} after {before}");
        drop(journal);
        let name = copy.file_name().unwrap().to_str().unwrap();
        // The database is ahead of it, as no kill leaves it: so it is said that rows may be lost.
        let buffer = bounded(&memory, dir.path(), name, true).open().await.unwrap();
        assert_eq!(buffer.accepted(), last, "the database has them all");
        buffer.stop().await;
    }
    assert_eq!(ids(&memory), (1..=last).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_torn_end_in_a_file_that_was_used_before_is_cut_and_never_applied() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    memory.check("t", |_| None);
    let (killed, committed, last) = killed_in_a_used_file(&memory, dir.path()).await;
    let torn = used_again(&killed).expect("it was used before");
    let mut bytes = fs::read(&torn).unwrap();
    let start = *frames(&torn).last().unwrap();
    // A sector of the last row is as it was before.
    bytes[start + 60..start + 70].fill(b'x');
    fs::write(&torn, &bytes).unwrap();

    let buffer = bounded(&memory, dir.path(), "killed", false)
        .open()
        .await
        .unwrap();
    let recovery = buffer.recovery();
    let told = recovery.torn.clone().expect("it is told");
    assert_eq!((told.offset, recovery.rows), (start as u64, last - 1 - committed));
    assert!(told.bytes < 200, "no more than the row: {told:?}");
    assert_eq!(fs::metadata(&torn).unwrap().len(), start as u64, "it is cut");
    assert_eq!(buffer.put(row(1_000_000)).await.unwrap(), last);
    buffer.close().await.unwrap();
    assert_eq!(
        ids(&memory),
        (1..last).chain([1_000_000]).collect::<Vec<_>>(),
        "the torn row is not there"
    );
}

#[tokio::test]
async fn a_damaged_middle_in_a_file_that_was_used_before_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    memory.check("t", |_| None);
    let (killed, committed, last) = killed_in_a_used_file(&memory, dir.path()).await;
    let damaged = used_again(&killed).expect("it was used before");
    let mut bytes = fs::read(&damaged).unwrap();
    // The last but two of the rows, each of which is a group by itself.
    let starts = frames(&damaged);
    let start = starts[starts.len() - 3];
    bytes[start + 30] ^= 4;
    fs::write(&damaged, &bytes).unwrap();

    let error = bounded(&memory, dir.path(), "killed", false).open().await;
    let said = error.err().expect("a row is lost").to_string();
    let row = last - 2;
    let place = format!("{} at byte {start}", damaged.display());
    assert!(
        said.contains(&format!("rows {row} to {row} cannot be read: {place}")),
        "{said}"
    );
    let accepting = bounded(&memory, dir.path(), "killed", true);
    let buffer = accepting.open().await.unwrap();
    assert_eq!(buffer.recovery().rows, last - committed - 1);
    buffer.close().await.unwrap();
    let expected: Vec<u64> = (1..=last).filter(|id| *id != row).collect();
    assert_eq!(ids(&memory), expected);
}

/// A disk that has no room for what is prepared, or none for anything at all.
struct Narrow(fs::File);

impl Storage for Narrow {
    fn write(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        match bytes.iter().all(|byte| *byte == 0) {
            true => Err(Io::from(IoKind::StorageFull)),
            false => Storage::write(&mut self.0, bytes, offset),
        }
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Storage::sync(&mut self.0)
    }

    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        Storage::cut(&mut self.0, length)
    }
}

#[tokio::test]
async fn what_cannot_be_prepared_is_no_error_of_a_row() {
    let on_disk: Store = Arc::new(|file| Box::new(file));
    let narrow: Store = Arc::new(|file| Box::new(Narrow(file)));
    for (store, is_taken) in [(narrow, false), (on_disk, true)] {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        memory.check("t", |_| None);
        let buffer = Buffer::open_on(small(&memory, dir.path()), store).await.unwrap();
        if is_taken {
            // Nobody can write a file where a directory is.
            fs::create_dir(dir.path().join("journal/ahead.segment.partial")).unwrap();
        }
        // More than one segment takes: the next one is made when it is needed.
        for id in 1..=120 {
            assert_eq!(buffer.put(wide(id)).await.unwrap(), id);
        }
        let count = segments(dir.path()).len();
        assert!(count > 1, "{count} segments");
        assert_eq!(buffer.metrics().refused, 0);
        buffer.flush_all().await.unwrap();
        buffer.close().await.unwrap();
        assert_eq!(ids(&memory), (1..=120).collect::<Vec<_>>());
    }
}

/// The bytes of all files of the journal. One that is renamed meanwhile may be missed, but none counts twice.
fn on_disk(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir.join("journal")).unwrap();
    let lengths = entries.filter_map(|entry| entry.unwrap().metadata().ok());
    lengths.map(|file| file.len()).sum()
}

/// What `journal.json` takes beside the segments.
const META_BYTES: u64 = 4_096;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_prepared_counts_against_the_bound() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    memory.check("t", |_| None);
    let asked = small(&memory, dir.path())
        .memory(AREA_BYTES_LEAST)
        .when_full(WhenFull::Fail)
        .drain(20_000, Duration::from_millis(1));
    let buffer = asked.open().await.unwrap();
    let mut last = 0;
    // The journal fills up, is drained, and fills up again, now with files that were used before.
    for round in 0..3 {
        memory.fail_after(0, Fault::Dead);
        let mut refused = 0;
        loop {
            let put = buffer.put(wide(last + 1)).await;
            let found = on_disk(dir.path());
            assert!(
                found <= JOURNAL_BYTES_LEAST + META_BYTES,
                "{found} bytes on disk in round {round}"
            );
            let counted = buffer.metrics().journal_bytes;
            assert!(counted <= JOURNAL_BYTES_LEAST, "{counted} bytes in round {round}");
            match put {
                Ok(sequence) => last = sequence,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Overloaded);
                    // Rows get what is prepared, once the thread that settles and prepares files is given its turn.
                    let rows = buffer.accepted() - buffer.committed();
                    if rows * WIDE as u64 > JOURNAL_BYTES_LEAST / 2 {
                        break;
                    }
                    refused += 1;
                    assert!(
                        refused < 60_000,
                        "rows get what is prepared: {rows} in round {round}"
                    );
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
        memory.revive();
        buffer.flush_all().await.unwrap();
        // Files that are done with are settled by a thread of their own.
        while buffer.metrics().journal_bytes > JOURNAL_BYTES_LEAST / 4 * 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let report = buffer.close().await.unwrap();
    assert_eq!(ids(&memory), (1..=last).collect::<Vec<_>>());
    let left = on_disk(dir.path());
    assert!(left < JOURNAL_BYTES_LEAST / 4, "{left} bytes are left");
    assert!(report.metrics.journal_bytes <= left && left <= report.metrics.journal_bytes + META_BYTES);
}

#[tokio::test]
async fn a_journal_of_the_first_format_is_gone_on_with_in_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let buffer = small(&memory, dir.path()).open().await.unwrap();
    for id in 1..=3 {
        buffer.put(row(id)).await.unwrap();
    }
    buffer.flush_all().await.unwrap();
    buffer.stop().await;
    let meta_path = dir.path().join("journal/journal.json");
    let mut meta: serde_json::Value = serde_json::from_slice(&fs::read(&meta_path).unwrap()).unwrap();
    assert_eq!(meta["format"], 3);
    meta["format"] = 1.into();
    meta.as_object_mut().unwrap().remove("newest");
    fs::write(&meta_path, meta.to_string()).unwrap();
    let id = u128::from_str_radix(meta["id"].as_str().unwrap(), 16).unwrap();
    let texts: Vec<String> = (1..=5)
        .map(|id| format!(r#"{{"id": {id}, "v": "old"}}"#))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for path in segments(dir.path()) {
        fs::remove_file(path).unwrap();
    }
    let old = old_segment(id.to_be_bytes(), 1, &texts);
    fs::write(dir.path().join("journal/00000000000000000001.segment"), old).unwrap();

    let buffer = small(&memory, dir.path()).open().await.unwrap();
    assert_eq!((buffer.recovery().rows, buffer.accepted()), (2, 5));
    let meta: serde_json::Value = serde_json::from_slice(&fs::read(&meta_path).unwrap()).unwrap();
    assert_eq!((&meta["format"], &meta["begun"]), (&3.into(), &true.into()));
    assert_eq!(buffer.put(row(6)).await.unwrap(), 6);
    buffer.close().await.unwrap();
    assert_eq!(ids(&memory), [1, 2, 3, 4, 5, 6]);

    let mut later = meta.clone();
    later["format"] = 4.into();
    fs::write(&meta_path, later.to_string()).unwrap();
    let error = small(&memory, dir.path())
        .open()
        .await
        .err()
        .expect("nobody knows it");
    assert!(
        error
            .to_string()
            .contains("has format 4, this release knows 1 to 3"),
        "{error}"
    );
}
