//! Hashes of many rows, cut into parts by key, in bounded memory: what does not fit goes to an anonymous temporary file
//! (`TMPDIR`), which vanishes with the process.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
};

use tonnage_core::error::{Error, ErrorKind, Result};

/// Parts that rows are cut into; one is in memory at a time, so that a thousandth of the hashes has to fit.
pub(super) const PARTS: usize = 1_024;
/// Bytes of a part that are held before they go to the file.
const HELD_BYTES: usize = 4 << 10;
/// Bytes of a record on disk.
const RECORD_BYTES: usize = 40;

/// A row by its hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Of its key.
    pub key: u128,
    /// Of all that is compared.
    pub row: u128,
    /// Its place in the source; 0 in a table.
    pub place: u64,
}

/// The part that a key falls to: by other bits than its bucket.
pub(super) fn part_of(key: u128) -> usize {
    (key >> 32) as usize % PARTS
}

/// Records of one side, or of what one worker has seen of it.
pub(super) struct Parts {
    held: Vec<Vec<u8>>,
    /// Where each part's chunks of [`HELD_BYTES`] or a little more begin, and their lengths.
    chunks: Vec<Vec<(u64, u32)>>,
    file: Option<File>,
    end: u64,
}

impl Parts {
    /// Without a record.
    pub fn new() -> Self {
        Self {
            held: vec![Vec::new(); PARTS],
            chunks: vec![Vec::new(); PARTS],
            file: None,
            end: 0,
        }
    }

    /// Adds a record. `Refused` where the temporary file cannot be written.
    pub fn push(&mut self, record: Record) -> Result<()> {
        let part = part_of(record.key);
        let held = &mut self.held[part];
        held.extend_from_slice(&record.key.to_le_bytes());
        held.extend_from_slice(&record.row.to_le_bytes());
        held.extend_from_slice(&record.place.to_le_bytes());
        if held.len() < HELD_BYTES {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile().map_err(|error| failed(&error))?),
        };
        file.write_all(held).map_err(|error| failed(&error))?;
        let length = held.len() as u32;
        self.chunks[part].push((self.end, length));
        self.end += u64::from(length);
        held.clear();
        Ok(())
    }

    /// The records of a part, in the order in which they came.
    pub fn part(&mut self, part: usize) -> Result<Vec<Record>> {
        let mut bytes = Vec::new();
        if let Some(file) = &mut self.file {
            for (start, length) in &self.chunks[part] {
                file.seek(SeekFrom::Start(*start))
                    .map_err(|error| failed(&error))?;
                let read = file.take(u64::from(*length)).read_to_end(&mut bytes);
                read.map_err(|error| failed(&error))?;
            }
        }
        bytes.append(&mut self.held[part]);
        let number = |bytes: &[u8]| bytes.try_into().map(u128::from_le_bytes).unwrap_or_default();
        let place = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let records = bytes.chunks_exact(RECORD_BYTES).map(|record| Record {
            key: number(&record[..16]),
            row: number(&record[16..32]),
            place: place(&record[32..]),
        });
        Ok(records.collect())
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!(
            "temporary file for comparing in {}: {error}",
            std::env::temp_dir().display()
        ),
    )
    .hint("TMPDIR names another directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_comes_back_in_its_part() {
        let record = |n: u64| Record {
            key: xxhash_rust::xxh3::xxh3_128(&n.to_le_bytes()),
            row: u128::from(n),
            place: n,
        };
        let mut parts = Parts::new();
        (0..300_000).try_for_each(|n| parts.push(record(n))).unwrap();
        let mut seen = 0;
        for part in 0..PARTS {
            let records = parts.part(part).unwrap();
            assert!(records.iter().all(|record| part_of(record.key) == part));
            assert!(records.is_sorted_by_key(|record| record.place));
            assert!(records.iter().all(|found| *found == record(found.place)));
            seen += records.len();
        }
        assert_eq!(seen, 300_000);
    }
}
