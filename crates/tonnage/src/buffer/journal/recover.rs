//! What a journal holds when it is opened: its segments read from the first to the last, nothing applied that is not
//! whole.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    super::producers::Producers,
    failed,
    format::{Frame, JournalId, SegmentHeader},
};
use crate::error::Result;

/// A segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The file.
    pub path: PathBuf,
    /// The sequence number of the first row that may be in it.
    pub first: u64,
    /// The last row in it; less than `first` where it has none.
    pub last: u64,
    /// Its length.
    pub bytes: u64,
}

impl Segment {
    /// Whether it has any.
    pub fn has_rows(&self) -> bool {
        self.last >= self.first
    }
}

/// Rows that were in a journal and cannot be read any more.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Torn {
    /// The segment.
    pub segment: String,
    /// Its whole part.
    pub offset: u64,
    /// Bytes after it.
    pub bytes: u64,
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
    /// What is to be cut off.
    pub torn: Option<Torn>,
}

/// The name of a segment's file.
pub fn file_name(first: u64) -> String {
    format!("{first:020}.segment")
}

/// Reads all segments.
pub fn find(directory: &Path, id: JournalId) -> Result<Found> {
    let mut files: Vec<(u64, PathBuf)> = Vec::new();
    let entries = fs::read_dir(directory).map_err(|e| failed(directory, &e))?;
    for entry in entries {
        let path = entry.map_err(|e| failed(directory, &e))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let number = name.as_deref().and_then(|name| name.strip_suffix(".segment"));
        if let Some(first) = number.and_then(|number| number.parse().ok()) {
            files.push((first, path));
        }
    }
    files.sort();
    let mut found = Found::default();
    let mut expected: Option<u64> = None;
    let count = files.len();
    for (at, (named, path)) in files.into_iter().enumerate() {
        let is_last = at + 1 == count;
        let shown = path.display().to_string();
        let bytes = fs::read(&path).map_err(|e| failed(&path, &e))?;
        let (first, mut offset) = match SegmentHeader::decode(&bytes, id) {
            Some((header, length)) => {
                if expected.is_none() {
                    found.producers = header.producers;
                }
                (header.first, length)
            }
            // Its name says as much, and its frames speak for themselves.
            None => (named, 0),
        };
        match expected {
            None => found.first = first,
            Some(expected) if first > expected => found.lost.push(Lost {
                first: expected,
                last: first - 1,
                segment: shown.clone(),
                offset: 0,
            }),
            Some(_) => {}
        }
        expected = Some(expected.unwrap_or(first).max(first));
        let mut segment = Segment {
            path,
            first: named,
            last: named.saturating_sub(1),
            bytes: bytes.len() as u64,
        };
        while offset < bytes.len() {
            let rest = &bytes[offset..];
            let next = Frame::decode(rest, id).map(|(frame, length)| (frame, 0, length));
            let Some((frame, at, length)) = next.or_else(|| Frame::search(rest, id)) else {
                if is_last {
                    found.torn = Some(Torn {
                        segment: shown.clone(),
                        offset: offset as u64,
                        bytes: rest.len() as u64,
                    });
                    segment.bytes = offset as u64;
                }
                break;
            };
            let due = *expected.get_or_insert(frame.first);
            if frame.first > due {
                found.lost.push(Lost {
                    first: due,
                    last: frame.first - 1,
                    segment: shown.clone(),
                    offset: offset as u64,
                });
            }
            expected = Some(due.max(frame.last() + 1));
            if let Some((name, own_first)) = &frame.tag {
                found.producers.note(name, *own_first, frame.count, frame.last());
            }
            segment.last = frame.last();
            offset += at + length;
        }
        found.last = expected.map_or(0, |expected| expected.saturating_sub(1));
        found.segments.push(segment);
    }
    Ok(found)
}
