//! The rejects file: JSON lines, one a bad row, mode 0600. In a store it is an object that is rewritten with every
//! record, on the condition that nobody else has written it.
//!
//! Invariants:
//! - A record is fsynced before the position that skips its row is committed ([`RejectsFile::append`] returns after
//!   the fsync, and a lane commits afterwards).
//! - The ledger counts the rejects of every slot. A slot's records are in the file in slot order, so the first
//!   `rejected` records of a slot are those whose positions were committed; a resume keeps these and drops the rest,
//!   which are about to be found again ([`RejectsFile::resume`]).
//! - A write that is undone takes its records back ([`RejectsFile::retract`]).
//! - A path is put on record for a run only if there is nothing in the file, so that a resume, which drops what it does not
//!   know, finds only what the run has written.
//! - Only who owns the run puts a new file into its place: a process that was taken over while it began knows less of what
//!   was committed than the file has.
//! - A process writes to the file that it has made or found, never to another that is at the path later. A resume
//!   puts a new file there, so what the process before it still writes or takes back reaches nobody.
//!
//! A record: `{"file":"orders.csv","row":7,"offset":211,"column":"qty","code":"22P02","message":"..","slot":0,
//! "data":{"id":"7","qty":"x"}}`. `data` holds the fields as text, null for null. A record that cannot be cut
//! into fields has its text under `raw` instead, or under `raw_hex` where it is no UTF-8.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reject::{Reject, RejectData},
    sync::Lock,
};
use tonnage_places::{Rewritten, url_of};

/// How often a file is looked at that another process holds.
const LOOK: Duration = Duration::from_millis(20);

/// Where bad rows go. Made with the first of them.
pub struct RejectsFile {
    path: PathBuf,
    /// None before the first record, where there was no file.
    file: Mutex<Option<File>>,
    /// The object that is used in place of the file.
    object: Option<Mutex<Rewritten>>,
    records: AtomicU64,
}

/// Records of one write, so that they can be taken back.
#[derive(Debug, Default)]
pub struct Appended(Vec<u8>);

impl RejectsFile {
    /// For a new run, whose path has been [looked at](RejectsFile::check) before it was put on record.
    pub fn create(path: &Path) -> Result<Self> {
        let found = Self::check(path)?;
        Ok(Self {
            file: Mutex::new(found),
            ..Self::at(path)?
        })
    }

    /// Refuses a path that holds something, or that cannot be written to. A file that is there, empty, is given back.
    pub fn check(path: &Path) -> Result<Option<File>> {
        let shown = path.display();
        if let Some(url) = url_of(path) {
            return match Rewritten::open(url)?.content() {
                [] => Ok(None),
                _ => Err(not_empty(path)),
            };
        }
        let found = match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(
                    Error::config(format!("rejects file {shown} is a directory")).hint("name a file in it")
                );
            }
            Ok(found) if !found.is_file() => return Err(no_file(path)),
            Ok(found) if found.len() > 0 => {
                return Err(not_empty(path));
            }
            Ok(_) => {
                let opened = appending().open(path);
                Some(opened.map_err(|error| Error::config(format!("rejects file {shown}: {error}")))?)
            }
            Err(_) => None,
        };
        let parent = path
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        match parent.is_dir() {
            true => Ok(found),
            false => Err(Error::config(format!(
                "rejects file {shown}: there is no directory {}",
                parent.display()
            ))
            .hint("make the directory first, or name another file with --rejects")),
        }
    }

    fn at(path: &Path) -> Result<Self> {
        let object = url_of(path).map(Rewritten::open).transpose()?;
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(None),
            object: object.map(Mutex::new),
            records: AtomicU64::new(0),
        })
    }

    /// For a resumed run: keeps the first `committed[slot]` records of every slot and drops the others. `owned` fails where
    /// another process has taken the run over since `committed` was read: records that it has added are not known here. It
    /// is asked while nobody else can put a new file into its place. Fails if records that were committed are missing.
    pub async fn resume(
        path: &Path,
        committed: &HashMap<u16, u64>,
        owned: impl Future<Output = Result<()>>,
    ) -> Result<Self> {
        #[derive(Deserialize)]
        struct Slot {
            slot: u16,
        }
        let this = Self::at(path)?;
        let mut seen: HashMap<u16, u64> = HashMap::new();
        let mut is_committed = |line: &[u8]| {
            // A line that was cut by a crash is one that was never fsynced, so never committed.
            let Ok(Slot { slot }) = serde_json::from_slice(line) else {
                return false;
            };
            let seen = seen.entry(slot).or_default();
            *seen += 1;
            *seen <= committed.get(&slot).copied().unwrap_or(0)
        };
        let found = loop {
            if this.object.is_some() {
                break None;
            }
            let found = match appending().open(path) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break None,
                Err(error) => return Err(this.failed(&error)),
            };
            if !found.metadata().is_ok_and(|found| found.is_file()) {
                return Err(no_file(path));
            }
            // Held until it is closed. Where the file system knows no locks, the look alone has to do.
            while let Err(TryLockError::WouldBlock) = found.try_lock() {
                tokio::time::sleep(LOOK).await;
            }
            // Else another process has just put a new one there.
            if this.is_current(&found).map_err(|e| this.failed(&e))? {
                break Some(found);
            }
        };
        if let Some(found) = found {
            owned.await?;
            let kept = this.renew(&found, is_committed);
            *this.lock() = Some(kept.map_err(|e| this.failed(&e))?);
        } else if let Some(object) = &this.object {
            owned.await?;
            keep_lines(&mut object.locked(), &mut is_committed)?;
        }
        for (slot, expected) in committed {
            let found = seen.get(slot).copied().unwrap_or(0);
            if found < *expected {
                return Err(Error::input(format!(
                    "rejects file {}: {found} records of slot {slot} where the ledger counts {expected}",
                    path.display()
                ))
                .hint("put the file back as the interrupted run left it, or load from the beginning with --restart"));
            }
        }
        this.records.store(committed.values().sum(), Ordering::Relaxed);
        Ok(this)
    }

    /// The path by which the ledger knows a rejects file wherever the next attempt is started.
    pub fn known_path(path: PathBuf) -> PathBuf {
        match url_of(&path) {
            Some(_) => path,
            None => std::path::absolute(&path).unwrap_or(path),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records in it.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Writes and fsyncs records, each with its slot.
    pub fn append<'a>(&self, rejects: impl IntoIterator<Item = (u16, &'a Reject)>) -> Result<Appended> {
        let mut lines = Vec::new();
        let mut count = 0;
        for (slot, reject) in rejects {
            serde_json::to_writer(&mut lines, &Record::new(slot, reject))
                .map_err(|e| Error::bug(format!("a reject record cannot be written as JSON: {e}")))?;
            lines.push(b'\n');
            count += 1;
        }
        if let Some(object) = &self.object {
            let mut object = object.locked();
            let content = [object.content(), &lines].concat();
            object.replace(content)?;
            self.records.fetch_add(count, Ordering::Relaxed);
            return Ok(Appended(lines));
        }
        let mut file = self.lock();
        let file = match &mut *file {
            Some(file) => file,
            file => file.insert(self.make()?),
        };
        let end = file.seek(SeekFrom::End(0)).map_err(|e| self.failed(&e))?;
        let written = file.write_all(&lines).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // Half a record must not precede whole ones of another lane.
            let _ = file.set_len(end);
            return Err(self.failed(&error));
        }
        self.records.fetch_add(count, Ordering::Relaxed);
        Ok(Appended(lines))
    }

    /// Makes the file, for the first record.
    fn make(&self) -> Result<File> {
        let made = match appending().create_new(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::new(
                    ErrorKind::Fenced,
                    format!("rejects file {} was made by another process", self.path.display()),
                )
                .hint("`tonnage runs` shows whether it has taken this run over; else move the file away"));
            }
            made => made.map_err(|e| self.failed(&e))?,
        };
        sync_parent(&self.path).map_err(|e| self.failed(&e))?;
        Ok(made)
    }

    /// Takes the records of a write back. Rare, so the file is rewritten.
    pub fn retract(&self, appended: &mut Appended) -> Result<()> {
        if appended.0.is_empty() {
            return Ok(());
        }
        let mut gone: HashMap<&[u8], u64> = HashMap::new();
        for line in appended.0.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            *gone.entry(line).or_default() += 1;
            self.records.fetch_sub(1, Ordering::Relaxed);
        }
        self.rewrite(|line| match gone.get_mut(line) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        })?;
        appended.0.clear();
        Ok(())
    }

    /// Rewrites the file with the lines that `keep` keeps, in one step. False where there is none, or where another
    /// process has put its own into its place: nothing is done then.
    fn rewrite(&self, mut keep: impl FnMut(&[u8]) -> bool) -> Result<bool> {
        if let Some(object) = &self.object {
            keep_lines(&mut object.locked(), &mut keep)?;
            return Ok(true);
        }
        let mut open = self.lock();
        let Some(file) = open.as_ref() else {
            return Ok(false);
        };
        // Whoever rewrites it holds it. Where the file system knows no locks, the look alone has to do.
        let _ = file.lock();
        let renewed = match self.is_current(file) {
            Ok(true) => self.renew(file, keep).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        let _ = file.unlock();
        match renewed {
            Ok(Some(new)) => {
                *open = Some(new);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Whether `file` is what is at the path.
    fn is_current(&self, file: &File) -> io::Result<bool> {
        let own = file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts a file with the lines of `file` that `keep` keeps into its place.
    fn renew(&self, file: &File, mut keep: impl FnMut(&[u8]) -> bool) -> io::Result<File> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let copy = || -> io::Result<File> {
            let mut from = BufReader::new(file);
            from.rewind()?;
            let mut to = BufWriter::new(appending().create_new(true).open(&partial)?);
            let mut line = Vec::new();
            while from.read_until(b'\n', &mut line)? > 0 {
                if line.last() == Some(&b'\n') && keep(&line[..line.len() - 1]) {
                    to.write_all(&line)?;
                }
                line.clear();
            }
            let to = to.into_inner()?;
            to.sync_all()?;
            fs::rename(&partial, &self.path)?;
            sync_parent(&self.path)?;
            Ok(to)
        };
        let mut copy = copy;
        copy().inspect_err(|_| {
            // Half a copy only takes room away.
            let _ = fs::remove_file(&partial);
        })
    }

    /// Takes all records out of the file, if it is still the one at the path: of a run that is forgotten.
    pub fn clear(&self) -> Result<()> {
        if let Some(object) = &self.object {
            return object.locked().replace(Vec::new());
        }
        let open = self.lock();
        let Some(file) = open.as_ref() else {
            return Ok(());
        };
        let cleared = match self.is_current(file) {
            Ok(true) => file.set_len(0),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        cleared.map_err(|e| self.failed(&e))
    }

    /// Moves the file out of the way, if it has records and is still the one at the path: see `set_aside`.
    pub fn set_aside(&self) -> Result<Option<PathBuf>> {
        if self.object.is_some() {
            return set_aside(&self.path);
        }
        let open = self.lock();
        let Some(file) = open.as_ref() else {
            return Ok(None);
        };
        let has_records = file.metadata().is_ok_and(|found| found.len() > 0);
        match self.is_current(file).map_err(|e| self.failed(&e))? && has_records {
            true => set_aside(&self.path),
            false => Ok(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<File>> {
        self.file.locked()
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::new(
            ErrorKind::Refused,
            format!("rejects file {}: {error}", self.path.display()),
        )
        .hint("the write it belongs to was undone; mend the cause and go on with --resume")
    }
}

/// Rewrites an object with the lines that `keep` keeps, where these are not all.
fn keep_lines(object: &mut Rewritten, keep: &mut impl FnMut(&[u8]) -> bool) -> Result<()> {
    let lines = object.content().split_inclusive(|byte| *byte == b'\n');
    let kept: Vec<&[u8]> = lines
        .filter(|line| line.strip_suffix(b"\n").is_some_and(&mut *keep))
        .collect();
    let kept = kept.concat();
    match kept.len() == object.content().len() {
        true => Ok(()),
        false => object.replace(kept),
    }
}

fn not_empty(path: &Path) -> Error {
    Error::config(format!("rejects file {} exists and is not empty", path.display()))
        .hint("move it away, or name another with --rejects")
}

/// A file that only its owner may read, to be read from anywhere and written to at its end.
fn appending() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600);
    options
}

/// What is taken back is taken out of a file, and a new file put into its place: not so of a device.
fn no_file(path: &Path) -> Error {
    Error::config(format!("rejects file {} is not a regular file", path.display()))
        .hint("name a file: a load that goes on counts the records in it")
}

/// Where the records of a run that was rolled back go.
pub fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".rolled-back");
    PathBuf::from(name)
}

/// Moves the records of a run that was rolled back out of the way, so that they are not taken for rows that the table
/// lacks; says where to. They still tell what is to be mended.
pub fn set_aside(path: &Path) -> Result<Option<PathBuf>> {
    let aside = aside(path);
    if let (Some(url), Some(to)) = (url_of(path), url_of(&aside)) {
        let records = Rewritten::open(url)?;
        if records.content().is_empty() {
            return Ok(None);
        }
        tonnage_places::write_whole(to, records.content().to_vec())?;
        tonnage_places::remove(url)?;
        return Ok(Some(aside));
    }
    match fs::rename(path, &aside) {
        Ok(()) => Ok(Some(aside)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::new(
            ErrorKind::Refused,
            format!("rejects file {}: {error}", path.display()),
        )
        .hint("its records are of a run that was rolled back: move it away")),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

/// A reject as it is in the file.
#[derive(Serialize)]
struct Record<'a> {
    file: &'a str,
    row: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<&'a str>,
    code: &'a str,
    message: &'a str,
    slot: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Fields<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_hex: Option<String>,
}

struct Fields<'a>(&'a [(std::sync::Arc<str>, Option<String>)]);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(&**name, value)?;
        }
        map.end()
    }
}

impl<'a> Record<'a> {
    fn new(slot: u16, reject: &'a Reject) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let (data, raw, raw_hex) = match &reject.data {
            RejectData::Fields(fields) => (Some(Fields(fields)), None, None),
            RejectData::Raw(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => (None, Some(text), None),
                Err(_) => (None, None, Some(hex(bytes))),
            },
        };
        Self {
            file: &reject.file,
            row: reject.row,
            offset: reject.offset,
            column: reject.problem.column.as_deref(),
            code: &reject.problem.code,
            message: &reject.problem.message,
            slot,
            data,
            raw,
            raw_hex,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonnage_core::reject::Problem;

    fn reject(row: u64) -> Reject {
        Reject {
            file: "f.csv".into(),
            row,
            offset: None,
            problem: Problem {
                column: None,
                code: "22P02".into(),
                message: "m".into(),
                hint: None,
            },
            data: RejectData::Fields(vec![("a".into(), Some("x\n\"".into())), ("b".into(), None)]),
        }
    }

    fn rows(path: &Path) -> Vec<(u64, u64)> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .map(|l| {
                let v: serde_json::Value = serde_json::from_str(l).expect("a record is JSON");
                (v["slot"].as_u64().unwrap(), v["row"].as_u64().unwrap())
            })
            .collect()
    }

    #[tokio::test]
    async fn a_resume_keeps_what_was_committed_and_drops_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let file = RejectsFile::create(&path).unwrap();
        assert!(!path.exists(), "no file without a reject");
        file.append([(0, &reject(1)), (1, &reject(2))]).unwrap();
        file.append([(0, &reject(3))]).unwrap();
        file.append([(1, &reject(4))]).unwrap();
        let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
        torn.write_all(b"{\"file\":\"f.c").unwrap();
        let resumed = RejectsFile::resume(&path, &HashMap::from([(0, 2), (1, 1)]), async { Ok(()) })
            .await
            .unwrap();
        assert_eq!(rows(&path), [(0, 1), (1, 2), (0, 3)]);
        assert_eq!(resumed.records(), 3);
        resumed.append([(1, &reject(4))]).unwrap();
        assert_eq!(rows(&path), [(0, 1), (1, 2), (0, 3), (1, 4)]);
    }

    #[tokio::test]
    async fn a_resume_misses_records_that_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let error = RejectsFile::resume(&path, &HashMap::from([(3, 1)]), async { Ok(()) })
            .await
            .err()
            .expect("nothing is there");
        assert!(
            error
                .to_string()
                .contains("0 records of slot 3 where the ledger counts 1")
        );
    }

    #[test]
    fn an_undone_write_takes_its_records_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let file = RejectsFile::create(&path).unwrap();
        let mut first = file.append([(0, &reject(1))]).unwrap();
        file.append([(1, &reject(2))]).unwrap();
        file.retract(&mut first).unwrap();
        file.retract(&mut first).unwrap();
        assert_eq!(rows(&path), [(1, 2)]);
        assert_eq!(file.records(), 1);
    }

    #[tokio::test]
    async fn who_was_taken_over_touches_nothing_of_its_successor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let before = RejectsFile::create(&path).unwrap();
        before.append([(0, &reject(1))]).unwrap();
        let mut undone = before.append([(1, &reject(2))]).unwrap();
        let after = RejectsFile::resume(&path, &HashMap::from([(0, 1)]), async { Ok(()) })
            .await
            .unwrap();
        before.append([(0, &reject(9))]).unwrap();
        after.append([(1, &reject(2))]).unwrap();
        before.retract(&mut undone).unwrap();
        assert_eq!(before.set_aside().unwrap(), None);
        after.append([(2, &reject(3))]).unwrap();
        assert_eq!(rows(&path), [(0, 1), (1, 2), (2, 3)]);
    }

    #[tokio::test]
    async fn who_was_taken_over_before_it_opens_them_leaves_the_records_of_its_successor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let after = RejectsFile::create(&path).unwrap();
        after.append([(0, &reject(1)), (1, &reject(2))]).unwrap();
        let before = RejectsFile::resume(&path, &HashMap::new(), async { Err(Error::fenced()) }).await;
        assert_eq!(before.err().map(|error| error.kind()), Some(ErrorKind::Fenced));
        after.append([(2, &reject(3))]).unwrap();
        assert_eq!(rows(&path), [(0, 1), (1, 2), (2, 3)]);
    }

    #[tokio::test]
    async fn nobody_is_asked_who_owns_a_run_while_another_holds_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        RejectsFile::create(&path)
            .unwrap()
            .append([(0, &reject(1))])
            .unwrap();
        let held = File::open(&path).unwrap();
        held.lock().unwrap();
        let asked = AtomicU64::new(0);
        let committed = HashMap::from([(0, 1)]);
        let resumed = RejectsFile::resume(&path, &committed, async {
            asked.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        let mut resumed = std::pin::pin!(resumed);
        let soon = tokio::time::timeout(Duration::from_millis(100), resumed.as_mut()).await;
        assert!(soon.is_err(), "somebody holds it");
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        held.unlock().unwrap();
        assert_eq!(resumed.await.unwrap().records(), 1);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn who_was_taken_over_before_its_first_record_makes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let before = RejectsFile::create(&path).unwrap();
        let after = RejectsFile::resume(&path, &HashMap::new(), async { Ok(()) })
            .await
            .unwrap();
        after.append([(1, &reject(2))]).unwrap();
        let error = before.append([(0, &reject(1))]).expect_err("it is another's");
        assert_eq!(error.kind(), ErrorKind::Fenced);
        assert_eq!(rows(&path), [(1, 2)]);
    }

    #[test]
    fn a_file_that_was_there_and_empty_is_used_and_a_device_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        File::create(&path).unwrap();
        let file = RejectsFile::create(&path).unwrap();
        file.append([(0, &reject(1))]).unwrap();
        assert_eq!(rows(&path), [(0, 1)]);
        let error = RejectsFile::create(Path::new("/dev/null")).err().unwrap();
        assert_eq!(error.to_string(), "rejects file /dev/null is not a regular file");
    }

    #[test]
    fn only_the_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        RejectsFile::create(&path)
            .unwrap()
            .append([(0, &reject(1))])
            .unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
