//! Segments and frames as bytes. docs/journal.md says the same for people.
//!
//! All numbers are little-endian. A checksum is XXH3 of 64 bits, its seed the journal's own identity, so that bytes of
//! another journal never pass for this one's.
//!
//! A segment begins with its header:
//!
//! | Bytes | What |
//! |---|---|
//! | 8 | `TONJRNL1` |
//! | 4 | length of the header, checksum included |
//! | 16 | identity of the journal |
//! | 8 | sequence number of the first row that may be in it |
//! | 4 | number of producers, and for each: |
//! | 2, n | length of its name, and the name |
//! | 8, 8, 8 | its first number, its highest, the sequence number of that row |
//! | 8 | checksum of all before |
//!
//! Frames follow, each a header of 40 bytes and its payload:
//!
//! | Bytes | What |
//! |---|---|
//! | 4 | `TFRM` |
//! | 4 | length of the payload |
//! | 8 | sequence number of its first row |
//! | 4 | number of rows, at least 1 |
//! | 1 | kind: 1 objects, 2 Arrow |
//! | 1 | 0 |
//! | 2 | length of the producer's name; 0 for none |
//! | 8 | the producer's own number of the first row |
//! | 8 | checksum of the 32 bytes before and of the payload |
//! | n | payload: the producer's name, then the rows |
//!
//! Objects are a number of 4 bytes a row, where its text ends, then the texts; Arrow is a stream of Arrow IPC.

use std::sync::Arc;

use arrow::{
    compute::concat_batches,
    ipc::{reader::StreamReader, writer::StreamWriter},
};
use memchr::memmem;
use xxhash_rust::xxh3::Xxh3;

use super::super::{
    producers::{PRODUCER_NAME_BYTES_MAX, PRODUCERS_MAX, Producer, Producers},
    row::Rows,
};
use crate::{
    error::{Error, Result},
    load::arrow_bug,
};

const SEGMENT_MAGIC: &[u8; 8] = b"TONJRNL1";
const FRAME_MAGIC: &[u8; 4] = b"TFRM";
/// Bytes of a frame before its payload.
pub const FRAME_HEADER_BYTES: usize = 40;
/// The most bytes of a segment's header.
pub const HEADER_BYTES_MAX: u64 = 48 + (PRODUCERS_MAX * (PRODUCER_NAME_BYTES_MAX + 26)) as u64;
const CHECKED_BYTES: usize = 32;
const OBJECTS: u8 = 1;
const ARROW: u8 = 2;

/// The identity of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalId(pub [u8; 16]);

impl JournalId {
    fn checksum(&self, parts: &[&[u8]]) -> u64 {
        let mut seed = [0; 8];
        seed.copy_from_slice(&self.0[8..]);
        let mut hasher = Xxh3::with_seed(u64::from_le_bytes(seed));
        parts.iter().for_each(|part| hasher.update(part));
        hasher.digest()
    }
}

/// A segment's header.
#[derive(Debug, PartialEq)]
pub struct SegmentHeader {
    /// The sequence number of the first row that may be in it.
    pub first: u64,
    /// What was known of producers before it.
    pub producers: Producers,
}

impl SegmentHeader {
    /// As bytes.
    pub fn encode(&self, id: JournalId) -> Vec<u8> {
        let mut bytes = SEGMENT_MAGIC.to_vec();
        bytes.extend([0; 4]);
        bytes.extend(id.0);
        bytes.extend(self.first.to_le_bytes());
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
        bytes.extend(id.checksum(&[&bytes]).to_le_bytes());
        bytes
    }

    /// The header at the beginning of `bytes`, and its length; none where there is no whole one of this journal.
    pub fn decode(bytes: &[u8], id: JournalId) -> Option<(Self, usize)> {
        let mut from = Cursor(bytes);
        let right = from.take(8)? == SEGMENT_MAGIC;
        let length = from.u32()? as usize;
        let header = bytes.get(..length)?;
        let (checked, checksum) = header.split_at_checked(length.checked_sub(8)?)?;
        if !right || checksum != id.checksum(&[checked]).to_le_bytes() || from.take(16)? != id.0 {
            return None;
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
        Some((Self { first, producers }, length))
    }
}

/// A frame of rows.
#[derive(Debug)]
pub struct Frame {
    /// The sequence number of the first row.
    pub first: u64,
    /// How many rows it has.
    pub count: u64,
    /// The producer and its own number of the first row.
    pub tag: Option<(Arc<str>, u64)>,
    kind: u8,
    body: Vec<u8>,
}

/// Appends rows to `to` as a frame.
pub fn encode(
    to: &mut Vec<u8>,
    id: JournalId,
    first: u64,
    rows: &Rows,
    tag: Option<(&str, u64)>,
) -> Result<()> {
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
    let (header, payload) = to[start..].split_at_mut(FRAME_HEADER_BYTES);
    header[..4].copy_from_slice(FRAME_MAGIC);
    header[4..8].copy_from_slice(&length.to_le_bytes());
    header[8..16].copy_from_slice(&first.to_le_bytes());
    header[16..20].copy_from_slice(&count.to_le_bytes());
    header[20] = kind;
    header[22..24].copy_from_slice(&(name.len() as u16).to_le_bytes());
    header[24..32].copy_from_slice(&own_first.to_le_bytes());
    let checksum = id.checksum(&[&header[..CHECKED_BYTES], payload]);
    header[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// The length of a frame whose header this is; none where it is no frame's.
pub fn frame_bytes(header: &[u8]) -> Option<usize> {
    let mut from = Cursor(header);
    let right = from.take(4)? == FRAME_MAGIC;
    let length = from.u32()? as usize;
    right.then_some(FRAME_HEADER_BYTES + length)
}

/// A header and a frame that have `bytes` for contents, and are otherwise right.
#[cfg(all(
    any(test, fuzzing),
    feature = "mysql",
    feature = "postgres",
    feature = "sqlite"
))]
pub(super) fn sealed(bytes: &[u8], id: JournalId) -> (Vec<u8>, Vec<u8>) {
    let length = SEGMENT_MAGIC.len() + 4 + id.0.len() + bytes.len() + 8;
    let mut header = SEGMENT_MAGIC.to_vec();
    header.extend((length as u32).to_le_bytes());
    header.extend(id.0);
    header.extend(bytes);
    header.extend(id.checksum(&[&header]).to_le_bytes());
    let (fixed, payload) = bytes.split_at(bytes.len().min(CHECKED_BYTES - 8));
    let mut frame = FRAME_MAGIC.to_vec();
    frame.extend((payload.len() as u32).to_le_bytes());
    frame.extend(fixed);
    frame.resize(CHECKED_BYTES, 0);
    // The other kind is for Arrow to read, which trusts what this program has written.
    frame[20] = OBJECTS;
    frame.extend(id.checksum(&[&frame, payload]).to_le_bytes());
    frame.extend(payload);
    (header, frame)
}

impl Frame {
    /// The frame at the beginning of `bytes`, and its length; none where there is no whole one of this journal.
    pub fn decode(bytes: &[u8], id: JournalId) -> Option<(Self, usize)> {
        let length = frame_bytes(bytes)?;
        let (header, payload) = bytes.get(..length)?.split_at(FRAME_HEADER_BYTES);
        let (checked, checksum) = header.split_at(CHECKED_BYTES);
        if checksum != id.checksum(&[checked, payload]).to_le_bytes() {
            return None;
        }
        let mut from = Cursor(&header[8..]);
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
        (known && count > 0 && first > 0 && first.checked_add(count).is_some()).then(|| {
            let frame = Self {
                first,
                count,
                tag,
                kind,
                body: body.to_vec(),
            };
            (frame, length)
        })
    }

    /// The next whole frame in `bytes` and where it begins, past whatever is damaged.
    pub fn search(bytes: &[u8], id: JournalId) -> Option<(Self, usize, usize)> {
        memmem::find_iter(bytes, FRAME_MAGIC).find_map(|at| {
            let (frame, length) = Self::decode(&bytes[at..], id)?;
            Some((frame, at, length))
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
mod tests {
    use super::*;

    const ID: JournalId = JournalId(*b"0123456789abcdef");

    fn rows(texts: &[&str]) -> Rows {
        let mut text = Vec::new();
        let ends = texts.iter().map(|t| {
            text.extend(t.bytes());
            text.len() as u32
        });
        let ends = ends.collect();
        Rows::Json { text, ends }
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        encode(
            &mut bytes,
            ID,
            7,
            &rows(&["{}", "", "{\"a\":1}"]),
            Some(("device", 3)),
        )
        .unwrap();
        let (frame, length) = Frame::decode(&bytes, ID).expect("it is whole");
        assert_eq!((frame.first, frame.last(), length), (7, 9, bytes.len()));
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
        encode(&mut bytes, ID, 7, &rows(&["{\"a\":1}"]), None).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(Frame::decode(&damaged, ID).is_none(), "byte {at} was changed");
            assert!(Frame::decode(&bytes[..at], ID).is_none(), "cut at byte {at}");
        }
        assert!(
            Frame::decode(&bytes, JournalId([7; 16])).is_none(),
            "another journal's"
        );
        let mut around = b"TFRM and TFR".to_vec();
        around.extend(&bytes);
        assert_eq!(
            Frame::search(&around, ID).map(|(frame, at, _)| (frame.first, at)),
            Some((7, 12))
        );
    }

    #[test]
    fn a_header_keeps_its_producers() {
        let mut producers = Producers::default();
        producers.note(&"a".into(), 5, 10, 20);
        producers.note(&"b".into(), 1, 1, 21);
        let header = SegmentHeader { first: 22, producers };
        let bytes = header.encode(ID);
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
}
