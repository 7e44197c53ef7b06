//! What is found in files that were used before, whatever part of the last write a crash has left in them.

use std::{fs, path::Path, sync::Arc, time::Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tonnage_formats::row::Row;

use super::{
    super::{
        producers::{PRODUCER_NAME_BYTES_MAX, Producers},
        row::{Chunk, Rows},
    },
    format::{self, FrameOffsets, JournalId, SegmentHeader, tests::old_segment},
    recover::{self, Found, file_name},
};

const ID: JournalId = JournalId(*b"fedcba9876543210");
/// The length of a prepared file.
const PREPARED: usize = 4096;
/// What a disk writes whole or not at all; small, so that little is torn in many ways.
const SECTOR: usize = 64;

/// A segment as it is being written.
struct Written {
    number: u64,
    next: u64,
    bytes: Vec<u8>,
    /// Where each frame begins and ends, and its last row.
    frames: Vec<(usize, usize, u64)>,
}

impl Written {
    /// Nothing yet, in a file that holds `before`.
    fn over(before: Vec<u8>, number: u64, first: u64) -> Self {
        Self {
            number,
            next: first,
            bytes: before,
            frames: Vec::new(),
        }
    }

    fn end(&self) -> usize {
        self.frames.last().map_or(0, |(_, end, _)| *end)
    }

    /// Writes a group, each frame of so many rows; with the header if it is the first one.
    fn group(&mut self, frames: &[u64]) -> &mut Self {
        let start = self.end();
        let mut header = Vec::new();
        if start == 0 {
            let prepared_bytes = self.bytes.len() as u64;
            let (first, producers) = (self.next, Producers::default());
            let head = SegmentHeader {
                prepared_bytes,
                first,
                producers,
            };
            header = head.encode(ID.segment(self.number));
        }
        let frames_at = start + header.len();
        let mut bytes = Vec::new();
        for count in frames {
            let begins = bytes.len();
            let mut text = Vec::new();
            let ends = (0..*count).map(|row| {
                text.extend(format!("{{\"id\":{}}}", self.next + row).bytes());
                text.len() as u32
            });
            let ends = ends.collect();
            format::encode(&mut bytes, self.next, &Rows::Json { text, ends }, None).unwrap();
            self.next += count;
            let place = (frames_at + begins, frames_at + bytes.len(), self.next - 1);
            self.frames.push(place);
        }
        let place = FrameOffsets {
            group: start as u64,
            frames: frames_at as u64,
        };
        format::seal(&mut bytes, ID.segment(self.number), place);
        header.extend(bytes);
        let end = start + header.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(&header);
        self
    }
}

/// A file that was segment 3 once, full of frames of rows 1 and on.
fn used_before() -> Vec<u8> {
    let mut before = Written::over(vec![0; PREPARED], 3, 1);
    before.group(&[1]);
    while before.end() + 200 < PREPARED {
        before.group(&[1, 2]);
    }
    assert_eq!(before.bytes.len(), PREPARED);
    before.bytes
}

fn write(directory: &Path, number: u64, bytes: &[u8]) {
    fs::write(directory.join(file_name(number)), bytes).unwrap();
}

fn find(files: &[(u64, &[u8])]) -> Found {
    let directory = tempfile::tempdir().unwrap();
    for (number, bytes) in files {
        write(directory.path(), *number, bytes);
    }
    recover::find(directory.path(), ID).unwrap()
}

fn losses(found: &Found) -> Vec<(u64, u64)> {
    found.lost.iter().map(|lost| (lost.first, lost.last)).collect()
}

/// Zeros, and a file that was used before.
fn fillers() -> [Vec<u8>; 2] {
    [vec![0; PREPARED], used_before()]
}

#[test]
fn what_a_file_held_before_is_nobodys() {
    let stale = used_before();
    assert_eq!(find(&[(3, &stale)]).torn, None, "it was right in its time");
    for filler in fillers() {
        // As it is renamed, before anything is written to it.
        let found = find(&[(8, &filler)]);
        assert_eq!((found.segments.len(), found.leftovers.len()), (0, 1));
        assert_eq!((found.last, found.torn, found.next_number), (0, None, 9));
        let mut written = Written::over(filler, 8, 1_001);
        for groups in 1..12 {
            written.group(&[1, 2]);
            let found = find(&[(8, &written.bytes)]);
            assert_eq!((found.first, found.last), (1_001, 1_000 + groups * 3));
            assert_eq!((losses(&found), found.torn), (vec![], None), "{groups} groups");
            let segment = &found.segments[0];
            assert_eq!(segment.bytes as usize, written.end());
            assert_eq!((segment.first, segment.last), (1_001, 1_000 + groups * 3));
        }
    }
}

/// All parts of the last write that may be on disk without the others, whether it began the segment or went on with it:
/// rows are found as far as they are whole from the first one on, none is said to be lost, and what is torn is told
/// where there is something of it.
#[test]
fn a_last_group_that_is_torn_in_any_way_is_cut_and_never_lost() {
    for filler in fillers() {
        for groups_before in [0, 1, 3] {
            let mut earlier = Written::over(vec![0; PREPARED], 7, 501);
            earlier.group(&[1]).group(&[2, 3]);
            let mut written = Written::over(filler.clone(), 8, earlier.next);
            for _ in 0..groups_before {
                written.group(&[2, 1]);
            }
            let (before, start, next) = (written.bytes.clone(), written.end(), written.next);
            written.group(&[1, 2, 1]);
            let frames = &written.frames[groups_before * 2..];
            let sectors: Vec<usize> = (start / SECTOR..=(written.end() - 1) / SECTOR).collect();
            for kept in 0..1_u32 << sectors.len() {
                let mut bytes = before.clone();
                for (bit, sector) in sectors.iter().enumerate() {
                    if kept & 1 << bit != 0 {
                        let range = sector * SECTOR..(sector + 1) * SECTOR;
                        bytes[range.clone()].copy_from_slice(&written.bytes[range]);
                    }
                }
                let is_whole = |range: std::ops::Range<usize>| bytes[range.clone()] == written.bytes[range];
                let whole = frames.iter().take_while(|(from, to, _)| is_whole(*from..*to));
                let whole: Vec<_> = whole.collect();
                let last = whole.last().map_or(next - 1, |(_, _, last)| *last);
                let end = whole.last().map_or(start, |(_, to, _)| *to);

                let found = find(&[(7, &earlier.bytes), (8, &bytes)]);
                let case = format!(
                    "{groups_before} groups before, sectors {kept:b} of {}",
                    sectors.len()
                );
                assert_eq!(losses(&found), [], "{case}");
                assert_eq!((found.first, found.last), (501, last), "{case}");
                if whole.len() == frames.len() {
                    assert_eq!(found.torn, None, "{case}");
                } else if kept == 0 {
                    assert_eq!(found.torn, None, "nothing of it is there");
                } else if end > start && is_whole(end..end + 12) {
                    let torn = found.torn.as_ref().expect(&case);
                    assert_eq!(torn.offset as usize, end, "{case}");
                    assert!(torn.bytes > 0 && end + torn.bytes as usize <= PREPARED, "{case}");
                }
                let rows: u64 = found.segments.iter().map(|s| s.last + 1 - s.first).sum();
                assert_eq!(rows, last + 1 - 501, "{case}");
            }
        }
    }
}

#[test]
fn a_damaged_middle_of_a_file_that_was_used_before_is_told_by_its_rows() {
    for filler in fillers() {
        let mut written = Written::over(filler, 8, 1_001);
        written.group(&[1]).group(&[2, 3, 1]).group(&[1]).group(&[2, 2]);
        let rows = [
            (1_001, 1_001),
            (1_002, 1_003),
            (1_004, 1_006),
            (1_007, 1_007),
            (1_008, 1_008),
        ];
        for (at, lost) in rows.into_iter().enumerate() {
            let (from, to, _) = written.frames[at];
            for damage in [from, from + 5, from + 14, from + 50, to - 1] {
                let mut bytes = written.bytes.clone();
                bytes[damage] ^= 0x20;
                let found = find(&[(8, &bytes)]);
                assert_eq!(losses(&found), [lost], "byte {damage}");
                assert_eq!(found.lost[0].offset as usize, from);
                assert_eq!((found.first, found.last, &found.torn), (1_001, 1_012, &None));
            }
        }
        // In the last group nobody can tell it from a write that was torn.
        for at in [5, 6] {
            let (from, to, _) = written.frames[at];
            let mut bytes = written.bytes.clone();
            bytes[to - 1] ^= 0x20;
            let found = find(&[(8, &bytes)]);
            assert_eq!((losses(&found), found.last), (vec![], written.frames[at - 1].2));
            let torn = found.torn.expect("it is told");
            assert_eq!(torn.offset as usize, from);
            assert_eq!(
                (torn.offset + torn.bytes) as usize,
                written.end(),
                "with what follows it"
            );
            // A segment behind it tells: it was begun once all before it was answered for.
            let mut next = Written::over(used_before(), 9, written.next);
            next.group(&[1]);
            let found = find(&[(8, &bytes), (9, &next.bytes)]);
            let lost = match at {
                5 => (1_009, 1_010),
                _ => (1_011, 1_012),
            };
            assert_eq!((losses(&found), found.last), (vec![lost], 1_013));
            assert_eq!(found.torn, None);
        }
        // Without its header it still has its rows.
        let mut bytes = written.bytes.clone();
        bytes[20] ^= 1;
        let found = find(&[(8, &bytes)]);
        assert_eq!((losses(&found), found.last), (vec![], 1_012));
        assert!(found.is_headless, "nobody knows whether rows were before");
    }
}

#[test]
fn a_segment_of_another_number_is_not_this_one() {
    let mut written = Written::over(vec![0; PREPARED], 8, 1);
    written.group(&[1]).group(&[4]);
    // The bytes of one segment under the name of another: a disk that mixes its blocks up.
    let found = find(&[(9, &written.bytes)]);
    assert_eq!((found.segments.len(), found.last), (0, 0));
}

#[test]
fn what_grew_behind_a_prepared_part_is_torn_whatever_it_is() {
    let mut written = Written::over(used_before(), 8, 1);
    while written.end() <= PREPARED {
        written.group(&[1, 2]);
    }
    let (end, last) = (written.end(), written.next - 1);
    let found = find(&[(8, &written.bytes)]);
    assert_eq!((found.last, found.torn), (last, None));
    let mut bytes = written.bytes.clone();
    bytes.extend([0; 9]);
    let torn = find(&[(8, &bytes)]).torn.expect("it is told");
    assert_eq!((torn.offset as usize, torn.bytes), (end, 9));
}

#[test]
fn segments_of_the_first_format_come_before_those_of_this_one() {
    let old = old_segment(ID.0, 41, &["{\"id\":41}", "{\"id\":42}"]);
    let mut written = Written::over(vec![0; PREPARED], 42, 43);
    written.group(&[2]);
    let found = find(&[(41, &old), (42, &written.bytes)]);
    assert_eq!((found.first, found.last, losses(&found)), (41, 44, vec![]));
    // Everything behind its last frame is a torn write, as its files only grew.
    let found = find(&[(41, &old[..old.len() - 1])]);
    assert_eq!(found.last, 41);
    assert!(found.torn.is_some());
    let mut bytes = old.clone();
    bytes[60] ^= 1;
    assert_eq!(losses(&find(&[(41, &bytes)])), [(41, 41)]);
}

/// What the journal's bound is kept by.
#[test]
fn a_frame_takes_no_more_than_its_rows_are_counted_for() {
    let batch = |columns: usize, rows: usize| {
        let columns = (0..columns).map(|column| {
            let values: ArrayRef = match column % 2 {
                0 => Arc::new(Int64Array::from([Some(1), None].repeat(rows)[..rows].to_vec())),
                _ => Arc::new(StringArray::from(
                    [Some("some text"), None].repeat(rows)[..rows].to_vec(),
                )),
            };
            (format!("a_column_of_this_table_{column}"), values)
        });
        Rows::Arrow(RecordBatch::try_from_iter(columns).unwrap())
    };
    let mut all = vec![
        Rows::one(&Row::json("{}")),
        Rows::one(&Row::json("x".repeat(5_000))),
    ];
    for columns in [1, 2, 7, 100] {
        all.extend([1, 2, 9, 1_000].map(|rows| batch(columns, rows)));
    }
    let name = "n".repeat(PRODUCER_NAME_BYTES_MAX);
    for rows in all {
        for tag in [None, Some((Arc::from(name.as_str()), 1))] {
            let chunk = Chunk {
                first: 1,
                born: Instant::now(),
                rows: rows.clone(),
                tag,
            };
            let tag = chunk.tag.as_ref().map(|(name, first)| (&**name, *first));
            let mut frame = Vec::new();
            format::encode(&mut frame, 1, &chunk.rows, tag).unwrap();
            assert!(
                frame.len() <= chunk.bytes(),
                "{} bytes of {}: {:?}",
                frame.len(),
                chunk.bytes(),
                chunk.rows
            );
        }
    }
}
