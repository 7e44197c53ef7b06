//! Segments and frames as bytes. docs/journal.md says the same for people.
//!
//! Invariants:
//! - A header or a frame is right in one segment of one journal only, a frame also at one place only: a file that becomes
//!   another segment holds nothing that is right in its new life, whatever it held in its old one.
//! - What one write brings and one fsync answers for is a group, and a frame says where its group begins: a frame of a
//!   later group proves that all before it was answered for.
//!
//! All numbers are little-endian. A checksum is XXH3 of 64 bits, its seed the journal's own identity, so that bytes of
//! another journal never pass for this one's.
//!
//! A segment begins with its header:
//!
//! | Bytes | What |
//! |---|---|
//! | 8 | `TONJRNL2` |
//! | 4 | length of the header, checksum included |
//! | 16 | identity of the journal |
//! | 8 | number of the segment |
//! | 8 | bytes of the file that were prepared before it was begun; 0 where it grows |
//! | 8 | sequence number of the first row that may be in it |
//! | 4 | number of producers, and for each: |
//! | 2, n | length of its name, and the name |
//! | 8, 8, 8 | its first number, its highest, the sequence number of that row |
//! | 8 | checksum of all before |
//!
//! Frames follow, each a header of 56 bytes and its payload:
//!
//! | Bytes | What |
//! |---|---|
//! | 4 | `TFR2` |
//! | 8 | number of the segment |
//! | 4 | length of the payload |
//! | 8 | where in the segment its group begins; 0 for the group that came with the header |
//! | 8 | sequence number of its first row |
//! | 4 | number of rows, at least 1 |
//! | 1 | kind: 1 objects, 2 Arrow |
//! | 1 | 0 |
//! | 2 | length of the producer's name; 0 for none |
//! | 8 | the producer's own number of the first row |
//! | 8 | checksum of where in the segment the frame begins (8 bytes), the 48 bytes before and the payload |
//! | n | payload: the producer's name, then the rows |
//!
//! Objects are a number of 4 bytes a row, where its text ends, then the texts; Arrow is a stream of Arrow IPC.
//!
//! The first format had neither numbers nor groups (`TONJRNL1`, `TFRM`, and checksums without the place). It is still
//! read; its files only ever grew and were never used again, so every frame in them is their own.

use std::sync::Arc;

use arrow::{
    compute::concat_batches,
    ipc::{reader::StreamReader, writer::StreamWriter},
};
use memchr::memmem;
use tonnage_core::error::{Error, Result, arrow_bug};
use xxhash_rust::xxh3::Xxh3;

use super::super::{
    producers::{PRODUCER_NAME_BYTES_MAX, PRODUCERS_MAX, Producer, Producers},
    row::Rows,
};

const SEGMENT_MAGIC: &[u8; 8] = b"TONJRNL2";
const SEGMENT_MAGIC_OLD: &[u8; 8] = b"TONJRNL1";
const FRAME_MAGIC: &[u8; 4] = b"TFR2";
const FRAME_MAGIC_OLD: &[u8; 4] = b"TFRM";
/// What both have in common.
const FRAME_MAGIC_STEM: &[u8] = b"TFR";
/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: usize = CHECKED_BYTES + 8;
/// The most bytes of a segment's header.
pub const HEADER_BYTES_MAX: u64 = 64 + (PRODUCERS_MAX * (PRODUCER_NAME_BYTES_MAX + 26)) as u64;
const CHECKED_BYTES: usize = 48;
const CHECKED_BYTES_OLD: usize = 32;
const OBJECTS: u8 = 1;
const ARROW: u8 = 2;

/// The identity of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalId(pub [u8; 16]);

impl JournalId {
    /// The segment with this number.
    pub fn segment(self, number: u64) -> SegmentId {
        SegmentId {
            journal: self,
            number,
        }
    }

    fn checksum(&self, parts: &[&[u8]]) -> u64 {
        let mut seed = [0; 8];
        seed.copy_from_slice(&self.0[8..]);
        let mut hasher = Xxh3::with_seed(u64::from_le_bytes(seed));
        parts.iter().for_each(|part| hasher.update(part));
        hasher.digest()
    }
}

/// A segment of a journal: what makes bytes its own.
#[derive(Debug, Clone, Copy)]
pub struct SegmentId {
    /// The journal.
    pub journal: JournalId,
    /// The segment's number; a later one has a higher.
    pub number: u64,
}

/// A segment's header.
#[derive(Debug, PartialEq)]
pub struct SegmentHeader {
    /// Bytes of the file that were there before it was begun: after its rows they mean nothing. What is beyond them
    /// was appended.
    pub prepared_bytes: u64,
    /// The sequence number of the first row that may be in it.
    pub first: u64,
    /// What was known of producers before it.
    pub producers: Producers,
}

impl SegmentHeader {
    /// As bytes.
    pub fn encode(&self, id: SegmentId) -> Vec<u8> {
        let mut bytes = SEGMENT_MAGIC.to_vec();
        bytes.extend([0; 4]);
        bytes.extend(id.journal.0);
        for number in [id.number, self.prepared_bytes, self.first] {
            bytes.extend(number.to_le_bytes());
        }
        let count = self.producers.iter().count() as u32;
        bytes.extend(count.to_le_bytes());
        for (name, producer) in self.producers.iter() {
            bytes.extend((name.len() as u16).to_le_bytes());
            bytes.extend(name.as_bytes());
            for number in [producer.first, producer.highest, producer.sequence] {
                bytes.extend(number.to_le_bytes());
            }
        }
        let length = (bytes.len() + 8) as u32;
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        bytes.extend(id.journal.checksum(&[&bytes]).to_le_bytes());
        bytes
    }

    /// The header at the beginning of `bytes`, and its length; none where there is no whole one of this segment.
    pub fn decode(bytes: &[u8], id: SegmentId) -> Option<(Self, usize)> {
        let mut from = Cursor(bytes);
        let magic = from.take(8)?;
        let is_old = magic == SEGMENT_MAGIC_OLD;
        if !is_old && magic != SEGMENT_MAGIC {
            return None;
        }
        let length = from.u32()? as usize;
        let header = bytes.get(..length)?;
        let (checked, checksum) = header.split_at_checked(length.checked_sub(8)?)?;
        if checksum != id.journal.checksum(&[checked]).to_le_bytes() || from.take(16)? != id.journal.0 {
            return None;
        }
        let mut prepared_bytes = 0;
        if !is_old {
            if from.u64()? != id.number {
                return None;
            }
            prepared_bytes = from.u64()?;
        }
        let first = from.u64()?;
        let mut producers = Producers::default();
        for _ in 0..from.u32()? {
            let length = from.u16()?;
            let name = std::str::from_utf8(from.take(length.into())?).ok()?;
            let producer = Producer {
                first: from.u64()?,
                highest: from.u64()?,
                sequence: from.u64()?,
            };
            producers.restore(Arc::from(name), producer);
        }
        let header = Self {
            prepared_bytes,
            first,
            producers,
        };
        Some((header, length))
    }

    /// How long a header of this segment was to be that was being written to the beginning of `bytes`, whole or not;
    /// none where there was none.
    pub fn begun_bytes(bytes: &[u8], id: SegmentId) -> Option<usize> {
        let mut from = Cursor(bytes);
        let is_segment = from.take(8)? == SEGMENT_MAGIC;
        let length = from.u32()? as usize;
        let is_own = from.take(16)? == id.journal.0 && from.u64()? == id.number;
        (is_segment && is_own).then_some(length)
    }
}

/// A frame of rows.
#[derive(Debug)]
pub struct Frame {
    /// Where in the segment its group begins.
    pub group: u64,
    /// The sequence number of the first row.
    pub first: u64,
    /// How many rows it has.
    pub count: u64,
    /// The producer and its own number of the first row.
    pub tag: Option<(Arc<str>, u64)>,
    kind: u8,
    body: Vec<u8>,
}

/// Appends rows to `to` as a frame, which belongs to no segment until it is [sealed](seal).
pub fn encode(to: &mut Vec<u8>, first: u64, rows: &Rows, tag: Option<(&str, u64)>) -> Result<()> {
    let start = to.len();
    to.resize(start + FRAME_HEADER_BYTES, 0);
    let (name, own_first) = tag.unwrap_or_default();
    to.extend(name.as_bytes());
    let kind = match rows {
        Rows::Json { text, ends } => {
            ends.iter().for_each(|end| to.extend(end.to_le_bytes()));
            to.extend(text);
            OBJECTS
        }
        Rows::Arrow(batch) => {
            let mut writer = StreamWriter::try_new(&mut *to, &batch.schema()).map_err(arrow_bug)?;
            writer.write(batch).map_err(arrow_bug)?;
            writer.finish().map_err(arrow_bug)?;
            ARROW
        }
    };
    let length = to.len() - start - FRAME_HEADER_BYTES;
    let length = u32::try_from(length).map_err(|_| Error::config("rows of 4 GiB and more at once"))?;
    let count = u32::try_from(rows.count()).map_err(|_| Error::config("more than 2^32 rows at once"))?;
    let header = &mut to[start..start + FRAME_HEADER_BYTES];
    header[..4].copy_from_slice(FRAME_MAGIC);
    header[12..16].copy_from_slice(&length.to_le_bytes());
    header[24..32].copy_from_slice(&first.to_le_bytes());
    header[32..36].copy_from_slice(&count.to_le_bytes());
    header[36] = kind;
    header[38..40].copy_from_slice(&(name.len() as u16).to_le_bytes());
    header[40..48].copy_from_slice(&own_first.to_le_bytes());
    Ok(())
}

/// Where in a segment frames go.
#[derive(Debug, Clone, Copy)]
pub struct FrameOffsets {
    /// Where their group begins, with the segment's header if it brings that.
    pub group: u64,
    /// Where the first of the frames begins.
    pub frames: u64,
}

/// Makes `frames`, as they were encoded, those of a segment and a place in it. They may be sealed again for another.
pub fn seal(mut frames: &mut [u8], id: SegmentId, place: FrameOffsets) {
    let mut at = place.frames;
    while let Some(length) = frame_bytes(frames)
        && let Some((frame, rest)) = std::mem::take(&mut frames).split_at_mut_checked(length)
    {
        let (header, payload) = frame.split_at_mut(FRAME_HEADER_BYTES);
        header[4..12].copy_from_slice(&id.number.to_le_bytes());
        header[16..24].copy_from_slice(&place.group.to_le_bytes());
        let checked = &header[..CHECKED_BYTES];
        let checksum = id.journal.checksum(&[&at.to_le_bytes(), checked, payload]);
        header[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        at += length as u64;
        frames = rest;
    }
}

/// The length of a frame whose header this is; none where it is no frame's.
pub fn frame_bytes(header: &[u8]) -> Option<usize> {
    let mut from = Cursor(header);
    let checked = match from.take(4)? {
        magic if magic == FRAME_MAGIC => {
            from.u64()?;
            CHECKED_BYTES
        }
        magic if magic == FRAME_MAGIC_OLD => CHECKED_BYTES_OLD,
        _ => return None,
    };
    Some(checked + 8 + from.u32()? as usize)
}

/// Whether a frame of this segment was being written to the beginning of `bytes`, whole or not, as far as the end of
/// the file lets it be seen.
pub fn is_frame_begun(bytes: &[u8], id: SegmentId) -> bool {
    let mut tag = FRAME_MAGIC.to_vec();
    tag.extend(id.number.to_le_bytes());
    let seen = tag.len().min(bytes.len());
    seen > 0 && bytes[..seen] == tag[..seen]
}

/// A header and a frame that have `bytes` for contents, and are otherwise right.
#[cfg(any(test, fuzzing))]
pub(super) fn sealed(bytes: &[u8], id: SegmentId) -> (Vec<u8>, Vec<u8>) {
    let mut header = SEGMENT_MAGIC.to_vec();
    let length = header.len() + 4 + id.journal.0.len() + 8 + bytes.len() + 8;
    header.extend((length as u32).to_le_bytes());
    header.extend(id.journal.0);
    header.extend(id.number.to_le_bytes());
    header.extend(bytes);
    header.extend(id.journal.checksum(&[&header]).to_le_bytes());
    let (fixed, payload) = bytes.split_at(bytes.len().min(CHECKED_BYTES - 16));
    let mut frame = FRAME_MAGIC.to_vec();
    frame.extend(id.number.to_le_bytes());
    frame.extend((payload.len() as u32).to_le_bytes());
    frame.extend(fixed);
    frame.resize(CHECKED_BYTES, 0);
    // The other kind is for Arrow to read, which trusts what this program has written.
    frame[36] = OBJECTS;
    let at = (header.len() as u64).to_le_bytes();
    frame.extend(id.journal.checksum(&[&at, &frame, payload]).to_le_bytes());
    frame.extend(payload);
    (header, frame)
}

impl Frame {
    /// The frame at the beginning of `bytes`, which are at `at` in the segment, and its length; none where there is no
    /// whole one of this segment and place.
    pub fn decode(bytes: &[u8], id: SegmentId, at: u64) -> Option<(Self, usize)> {
        let length = frame_bytes(bytes)?;
        let mut from = Cursor(bytes.get(..length)?);
        let is_old = from.take(4)? == FRAME_MAGIC_OLD;
        if !is_old && from.u64()? != id.number {
            return None;
        }
        from.u32()?;
        let group = if is_old { at } else { from.u64()? };
        let checked = if is_old { CHECKED_BYTES_OLD } else { CHECKED_BYTES };
        let (header, payload) = bytes[..length].split_at(checked + 8);
        let (header, checksum) = header.split_at(checked);
        let place = at.to_le_bytes();
        let place: &[u8] = if is_old { &[] } else { &place };
        if checksum != id.journal.checksum(&[place, header, payload]).to_le_bytes() {
            return None;
        }
        let first = from.u64()?;
        let count = u64::from(from.u32()?);
        let kind = from.take(2)?[0];
        let (name, body) = payload.split_at_checked(from.u16()?.into())?;
        let own_first = from.u64()?;
        let tag = match name {
            [] => None,
            name => Some((Arc::from(std::str::from_utf8(name).ok()?), own_first)),
        };
        let known = kind == OBJECTS || kind == ARROW;
        let is_right = known && count > 0 && first > 0 && first.checked_add(count).is_some() && group <= at;
        is_right.then(|| {
            let frame = Self {
                group,
                first,
                count,
                tag,
                kind,
                body: body.to_vec(),
            };
            (frame, length)
        })
    }

    /// The next whole frame in `bytes`, which are at `at` in the segment, and where in them it begins, past anything that is
    /// damaged.
    pub fn search(bytes: &[u8], id: SegmentId, at: u64) -> Option<(Self, usize, usize)> {
        memmem::find_iter(bytes, FRAME_MAGIC_STEM).find_map(|found| {
            let (frame, length) = Self::decode(&bytes[found..], id, at + found as u64)?;
            Some((frame, found, length))
        })
    }

    /// The sequence number of the last row.
    pub fn last(&self) -> u64 {
        self.first + self.count - 1
    }

    /// Its rows.
    pub fn rows(self) -> Result<Rows> {
        let broken = || Error::bug("a frame of the journal is whole and holds something else than its rows");
        let count = self.count as usize;
        if self.kind == OBJECTS {
            let (ends, text) = self.body.split_at_checked(count * 4).ok_or_else(broken)?;
            let (ends, _) = ends.as_chunks::<4>();
            let ends: Vec<u32> = ends.iter().map(|end| u32::from_le_bytes(*end)).collect();
            if !ends.is_sorted() || ends.last().map(|end| *end as usize) != Some(text.len()) {
                return Err(broken());
            }
            let text = text.to_vec();
            return Ok(Rows::Json { text, ends });
        }
        let reader = StreamReader::try_new(&*self.body, None).map_err(arrow_bug)?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>().map_err(arrow_bug)?;
        let batch = concat_batches(&schema, &batches).map_err(arrow_bug)?;
        match batch.num_rows() == count {
            true => Ok(Rows::Arrow(batch)),
            false => Err(broken()),
        }
    }
}

/// What is left of some bytes.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(bytes)?;
        self.0 = left;
        Some(taken)
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.number().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.number().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.number().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const ID: SegmentId = SegmentId {
        journal: JournalId(*b"0123456789abcdef"),
        number: 3,
    };
    const PLACE: FrameOffsets = FrameOffsets {
        group: 100,
        frames: 164,
    };

    fn rows(texts: &[&str]) -> Rows {
        let mut text = Vec::new();
        let ends = texts.iter().map(|t| {
            text.extend(t.bytes());
            text.len() as u32
        });
        let ends = ends.collect();
        Rows::Json { text, ends }
    }

    /// A segment of the first format: a row a frame, from row `first` on.
    pub fn old_segment(journal: [u8; 16], first: u64, texts: &[&str]) -> Vec<u8> {
        let journal = JournalId(journal);
        let mut bytes = SEGMENT_MAGIC_OLD.to_vec();
        bytes.extend(48_u32.to_le_bytes());
        bytes.extend(journal.0);
        bytes.extend(first.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(journal.checksum(&[&bytes]).to_le_bytes());
        for (sequence, text) in (first..).zip(texts) {
            let mut payload = (text.len() as u32).to_le_bytes().to_vec();
            payload.extend(text.bytes());
            let mut header = FRAME_MAGIC_OLD.to_vec();
            header.extend((payload.len() as u32).to_le_bytes());
            header.extend(sequence.to_le_bytes());
            header.extend(1_u32.to_le_bytes());
            header.extend([OBJECTS, 0, 0, 0]);
            header.extend(0_u64.to_le_bytes());
            header.extend(journal.checksum(&[&header, &payload]).to_le_bytes());
            bytes.extend(header);
            bytes.extend(payload);
        }
        bytes
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        encode(
            &mut bytes,
            7,
            &rows(&["{}", "", "{\"a\":1}"]),
            Some(("device", 3)),
        )
        .unwrap();
        seal(&mut bytes, ID, PLACE);
        let (frame, length) = Frame::decode(&bytes, ID, PLACE.frames).expect("it is whole");
        assert_eq!((frame.first, frame.last(), length), (7, 9, bytes.len()));
        assert_eq!(frame.group, PLACE.group);
        assert_eq!(frame.tag, Some(("device".into(), 3)));
        let Rows::Json { text, ends } = frame.rows().unwrap() else {
            panic!("objects were written");
        };
        assert_eq!(
            (text.as_slice(), ends.as_slice()),
            (&b"{}{\"a\":1}"[..], &[2, 2, 9][..])
        );
    }

    #[test]
    fn no_byte_can_change_and_no_part_can_be_missing() {
        let mut bytes = Vec::new();
        encode(&mut bytes, 7, &rows(&["{\"a\":1}"]), None).unwrap();
        seal(&mut bytes, ID, PLACE);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(
                Frame::decode(&damaged, ID, PLACE.frames).is_none(),
                "byte {at} was changed"
            );
            assert!(
                Frame::decode(&bytes[..at], ID, PLACE.frames).is_none(),
                "cut at byte {at}"
            );
        }
        let mut around = b"TFR2 and TFR".to_vec();
        let before = around.len();
        around.extend(&bytes);
        let begins = PLACE.frames - before as u64;
        assert_eq!(
            Frame::search(&around, ID, begins).map(|(frame, at, _)| (frame.first, at)),
            Some((7, before))
        );
    }

    #[test]
    fn a_frame_is_right_in_its_own_segment_and_place_only() {
        let mut bytes = Vec::new();
        for sequence in 7..10 {
            encode(&mut bytes, sequence, &rows(&["{\"a\":1}"]), None).unwrap();
        }
        seal(&mut bytes, ID, PLACE);
        let found = |bytes: &[u8], id, at| Frame::search(bytes, id, at).map(|(frame, ..)| frame.first);
        assert_eq!(found(&bytes, ID, PLACE.frames), Some(7));
        assert_eq!(found(&bytes, ID, PLACE.frames + 1), None, "another place");
        let later = SegmentId { number: 4, ..ID };
        assert_eq!(found(&bytes, later, PLACE.frames), None, "another segment");
        let journal = JournalId([7; 16]);
        let other = SegmentId { journal, ..ID };
        assert_eq!(found(&bytes, other, PLACE.frames), None, "another journal's");
        // The number by itself makes them nobody's.
        let mut renamed = bytes.clone();
        let length = frame_bytes(&bytes).unwrap();
        for frame in renamed.chunks_mut(length) {
            frame[4..12].copy_from_slice(&4_u64.to_le_bytes());
        }
        assert_eq!(found(&renamed, later, PLACE.frames), None);
        // Sealed again they are the other's, and only that.
        let place = FrameOffsets { group: 0, frames: 64 };
        seal(&mut bytes, later, place);
        assert_eq!(found(&bytes, later, 64), Some(7));
        assert_eq!(found(&bytes, ID, PLACE.frames), None);
        let starts = (0..3).map(|at| Frame::decode(&bytes[at * length..], later, (64 + at * length) as u64));
        let groups: Vec<_> = starts.map(|found| found.map(|(frame, _)| frame.group)).collect();
        assert_eq!(groups, [Some(0); 3]);
    }

    #[test]
    fn what_was_being_written_is_known_by_its_beginning() {
        let header = SegmentHeader {
            prepared_bytes: 4_096,
            first: 7,
            producers: Producers::default(),
        };
        let bytes = header.encode(ID);
        let later = SegmentId { number: 4, ..ID };
        assert_eq!(SegmentHeader::begun_bytes(&bytes[..40], ID), Some(bytes.len()));
        assert_eq!(SegmentHeader::begun_bytes(&bytes, later), None);
        assert_eq!(SegmentHeader::begun_bytes(&[0; 64], ID), None);
        let mut bytes = Vec::new();
        encode(&mut bytes, 7, &rows(&["{}"]), None).unwrap();
        seal(&mut bytes, ID, PLACE);
        for seen in [1, 4, 7, 12, bytes.len()] {
            assert!(is_frame_begun(&bytes[..seen], ID), "{seen} bytes");
        }
        assert!(!is_frame_begun(&bytes, later) && !is_frame_begun(&[0; 64], ID) && !is_frame_begun(&[], ID));
    }

    #[test]
    fn a_header_keeps_its_producers() {
        let mut producers = Producers::default();
        producers.note(&"a".into(), 5, 10, 20);
        producers.note(&"b".into(), 1, 1, 21);
        let header = SegmentHeader {
            prepared_bytes: 1 << 20,
            first: 22,
            producers,
        };
        let bytes = header.encode(ID);
        let later = SegmentId { number: 4, ..ID };
        assert!(
            SegmentHeader::decode(&bytes, later).is_none(),
            "another segment's"
        );
        assert_eq!(SegmentHeader::decode(&bytes, ID), Some((header, bytes.len())));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(
                SegmentHeader::decode(&damaged, ID).is_none(),
                "byte {at} was changed"
            );
            assert!(
                SegmentHeader::decode(&bytes[..at], ID).is_none(),
                "cut at byte {at}"
            );
        }
    }

    #[test]
    fn the_first_format_is_read() {
        let bytes = old_segment(ID.journal.0, 5, &["{\"a\":1}", "{}"]);
        let (header, mut at) = SegmentHeader::decode(&bytes, ID).expect("a header");
        assert_eq!((header.first, header.prepared_bytes), (5, 0));
        for (sequence, text) in [(5, &b"{\"a\":1}"[..]), (6, b"{}")] {
            let (frame, length) = Frame::decode(&bytes[at..], ID, at as u64).expect("a frame");
            assert_eq!((frame.first, frame.last()), (sequence, sequence));
            let Rows::Json { text: found, .. } = frame.rows().unwrap() else {
                panic!("objects were written");
            };
            assert_eq!(found, text);
            at += length;
        }
        assert_eq!(at, bytes.len());
    }
}
