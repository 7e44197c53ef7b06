//! What a journal holds when it is opened: its segments read from the first to the last, nothing applied that is not
//! whole.
//!
//! Invariants:
//! - Only what is right in its segment and place counts. Anything else in a file, zeros or what it held as an earlier
//!   segment, is filler.
//! - A group that is damaged was acknowledged if a later one follows it, in its segment or in another: its rows are
//!   lost. Without one it is the last, of which a crash may have left any part on disk: it is torn, and cut off from where
//!   it is not whole.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tonnage_core::error::Result;

use super::{
    super::producers::Producers,
    failed,
    format::{Frame, JournalId, SegmentHeader, SegmentId, frame_bytes, is_frame_begun},
};

/// A segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its number, which orders segments.
    pub number: u64,
    /// The file.
    pub path: PathBuf,
    /// The sequence number of the first row that may be in it.
    pub first: u64,
    /// The last row in it; less than `first` where it has none.
    pub last: u64,
    /// Where its last frame ends; 0 where it has no header yet.
    pub bytes: u64,
    /// The length of the file: after its frames is filler.
    pub length: u64,
    /// Whether the file may become a later segment: it was prepared in full, and none of it was cut off.
    pub is_reusable: bool,
}

impl Segment {
    /// A file that was prepared and is not begun yet.
    pub fn prepared(number: u64, path: PathBuf, length: u64) -> Self {
        Self {
            number,
            path,
            first: 1,
            last: 0,
            bytes: 0,
            length,
            is_reusable: true,
        }
    }

    /// Whether it has rows.
    pub fn has_rows(&self) -> bool {
        self.last >= self.first
    }
}

/// Rows that were in a journal and cannot be read any more.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Lost {
    /// The sequence number of the first of them.
    pub first: u64,
    /// And of the last.
    pub last: u64,
    /// The segment that follows them or that they are in.
    pub segment: String,
    /// Where in it the damage begins.
    pub offset: u64,
}

/// The end of the last segment, where writing was interrupted: cut off when the journal is opened.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Torn {
    /// The segment.
    pub segment: String,
    /// Its whole part.
    pub offset: u64,
    /// Bytes after it.
    pub bytes: u64,
}

/// Rows of which nothing says whether they are in the table.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Uncertain {
    /// The sequence number of the first that may be lost or doubled.
    pub first: u64,
    /// And of the last; none where it may be any that was ever acknowledged.
    pub last: Option<u64>,
    /// What was found.
    pub reason: String,
}

impl std::fmt::Display for Uncertain {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.last {
            Some(last) => write!(to, "{}: rows {} to {last}", self.reason, self.first)?,
            None => write!(to, "{}: rows {} and on", self.reason, self.first)?,
        }
        to.write_str(" may be lost or doubled")
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// The segments, in order.
    pub segments: Vec<Segment>,
    /// The sequence number of the first row that the journal has or had when it was cut last.
    pub first: u64,
    /// The highest sequence number in it; 0 where it never had a row.
    pub last: u64,
    /// What is known of producers.
    pub producers: Producers,
    /// Rows that are gone.
    pub lost: Vec<Lost>,
    /// What was torn.
    pub torn: Option<Torn>,
    /// Files that hold no segment: prepared and not begun, or torn before anything in them was answered for.
    pub leftovers: Vec<PathBuf>,
    /// Higher than the number of any file.
    pub next_number: u64,
    /// Whether the first segment has lost its header, so that nobody knows with which row it began.
    pub is_headless: bool,
}

/// What the name of a segment's file ends with.
const ENDING: &str = ".segment";
/// What the name of a file ends with that is not complete and may become a segment.
const PARTIAL: &str = ".segment.partial";

/// The name of a segment's file.
pub fn file_name(number: u64) -> String {
    format!("{number:020}{ENDING}")
}

/// The files of a directory.
#[derive(Default)]
struct Files {
    /// Of segments, in order.
    segments: Vec<(u64, PathBuf)>,
    partial: Vec<PathBuf>,
}

impl Files {
    fn of(directory: &Path) -> Result<Self> {
        let mut files = Self::default();
        let entries = fs::read_dir(directory).map_err(|e| failed(directory, &e))?;
        for entry in entries {
            let path = entry.map_err(|e| failed(directory, &e))?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let name = name.unwrap_or_default();
            let number = name.strip_suffix(ENDING).and_then(|number| number.parse().ok());
            match number {
                Some(number) => files.segments.push((number, path)),
                None if name.ends_with(PARTIAL) => files.partial.push(path),
                None => {}
            }
        }
        files.segments.sort();
        Ok(files)
    }
}

/// How far a file has come on its way to be a segment.
enum Stage {
    /// It holds nothing of its own.
    Prepared,
    /// The header that it was begun with is not whole, and was to have so many bytes; nothing was answered for.
    Torn(usize),
    Used,
}

fn stage(bytes: &[u8], id: SegmentId) -> Stage {
    if SegmentHeader::decode(bytes, id).is_some() || Frame::search(bytes, id, 0).is_some() {
        return Stage::Used;
    }
    SegmentHeader::begun_bytes(bytes, id).map_or(Stage::Prepared, Stage::Torn)
}

/// Whether a group that is damaged at `offset` was acknowledged: a later one follows it.
fn is_answered(bytes: &[u8], id: SegmentId, mut offset: usize) -> bool {
    let damage = offset as u64;
    while let Some((frame, at, length)) = Frame::search(&bytes[offset..], id, offset as u64) {
        if frame.group > damage {
            return true;
        }
        offset += at + length;
    }
    false
}

/// Where what was torn at `offset` ends; none where nothing of it is there.
fn torn_end(bytes: &[u8], id: SegmentId, offset: usize, prepared_bytes: u64) -> Option<usize> {
    let rest = &bytes[offset..];
    if offset as u64 >= prepared_bytes {
        return (!rest.is_empty()).then_some(bytes.len());
    }
    let is_begun = is_frame_begun(rest, id);
    let mut end = is_begun.then(|| bytes.len().min(offset + frame_bytes(rest).unwrap_or(rest.len())));
    // Frames behind it that are whole fall with it.
    let mut from = offset;
    while let Some((_, at, length)) = Frame::search(&bytes[from..], id, from as u64) {
        from += at + length;
        end = end.max(Some(from));
    }
    end
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| failed(path, &e))
}

/// Reads all segments.
pub fn find(directory: &Path, id: JournalId) -> Result<Found> {
    let Files {
        segments: mut files,
        partial,
    } = Files::of(directory)?;
    let mut found = Found {
        leftovers: partial,
        next_number: files.last().map_or(1, |(number, _)| number.saturating_add(1)),
        ..Found::default()
    };
    let mut last_used = None;
    while let Some((number, path)) = files.last() {
        let bytes = read(path)?;
        let segment = id.segment(*number);
        match stage(&bytes, segment) {
            Stage::Used => {
                last_used = Some(bytes);
                break;
            }
            Stage::Torn(length) => {
                found.torn = Some(Torn {
                    segment: path.display().to_string(),
                    offset: 0,
                    bytes: length.min(bytes.len()) as u64,
                });
            }
            Stage::Prepared => {}
        }
        found.leftovers.push(path.clone());
        files.pop();
    }
    let mut expected: Option<u64> = None;
    let count = files.len();
    for (at, (number, path)) in files.into_iter().enumerate() {
        let is_last = at + 1 == count;
        let bytes = match last_used.take_if(|_| is_last) {
            Some(bytes) => bytes,
            None => read(&path)?,
        };
        add(
            &mut found,
            &mut expected,
            &bytes,
            id.segment(number),
            path,
            is_last,
        );
    }
    Ok(found)
}

impl Found {
    /// Notes that rows are missing from the one that is `due` up to `first`.
    fn note_missing(&mut self, due: u64, first: u64, segment: &str, offset: u64) {
        if first > due {
            self.lost.push(Lost {
                first: due,
                last: first - 1,
                segment: segment.to_owned(),
                offset,
            });
        }
    }
}

/// Adds a segment to what was found. `expected` is the row that is due, if that is known.
fn add(
    found: &mut Found,
    expected: &mut Option<u64>,
    bytes: &[u8],
    id: SegmentId,
    path: PathBuf,
    is_last: bool,
) {
    let shown = path.display().to_string();
    // A later segment is begun once all groups before it were answered for.
    let is_followed = found.torn.is_some();
    let mut offset = 0;
    let mut first = None;
    // Of one that has lost its header nobody knows where it grows.
    let mut prepared_bytes = u64::MAX;
    if let Some((header, length)) = SegmentHeader::decode(bytes, id) {
        // It knows of all that were before it, also where their rows cannot be read.
        found.producers = header.producers;
        prepared_bytes = header.prepared_bytes;
        offset = length;
        first = Some(header.first);
        let due = *expected.get_or_insert(header.first);
        found.note_missing(due, header.first, &shown, 0);
        *expected = Some(due.max(header.first));
    }
    found.is_headless |= expected.is_none();
    let mut last = None;
    while offset < bytes.len() {
        let rest = &bytes[offset..];
        let whole = Frame::decode(rest, id, offset as u64).map(|(frame, length)| (frame, 0, length));
        let next = whole.or_else(|| {
            let next = Frame::search(rest, id, offset as u64)?;
            // Where it is the header that is damaged no row is missing.
            let is_torn = is_last
                && expected.is_some_and(|due| next.0.first > due)
                && !is_followed
                && !is_answered(bytes, id, offset);
            (!is_torn).then_some(next)
        });
        let Some((frame, at, length)) = next else {
            break;
        };
        let due = *expected.get_or_insert(frame.first);
        found.note_missing(due, frame.first, &shown, offset as u64);
        *expected = Some(due.max(frame.last() + 1));
        if let Some((name, own_first)) = &frame.tag {
            found.producers.note(name, *own_first, frame.count, frame.last());
        }
        first.get_or_insert(frame.first);
        last = Some(frame.last());
        offset += at + length;
    }
    if is_last && let Some(end) = torn_end(bytes, id, offset, prepared_bytes) {
        found.torn = Some(Torn {
            segment: shown,
            offset: offset as u64,
            bytes: (end - offset) as u64,
        });
    }
    found.last = expected.map_or(0, |expected| expected.saturating_sub(1));
    if offset == 0 {
        return found.leftovers.push(path);
    }
    let first = first.or(*expected).unwrap_or(1);
    if found.segments.is_empty() {
        found.first = first;
    }
    found.segments.push(Segment {
        number: id.number,
        path,
        first,
        last: last.unwrap_or(first.saturating_sub(1)),
        bytes: offset as u64,
        length: bytes.len() as u64,
        is_reusable: false,
    });
}
