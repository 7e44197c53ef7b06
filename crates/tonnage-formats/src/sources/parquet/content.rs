//! What lies before a row of a file, hashed as it lies there.
//!
//! Pages are read column by column and skipped where they can be, so what was read is no measure of what was passed
//! over. Hashed are the columns' bytes of every row group that begins before the row, whole: most of it is in the
//! system's memory when it is decoded.

use std::{
    collections::VecDeque,
    io::{self, Read, Seek, SeekFrom},
};

use tonnage_core::{error::Result, source::ReadRequest};
use tonnage_places::File;
use xxhash_rust::xxh3::Xxh3Default;

use super::file::{Footer, ParquetFile, damaged};
use crate::sources::{damage::guarded, pinned::Pinned};

/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;

/// The columns' bytes of a file, of which some have been hashed.
pub(super) struct Content {
    pub file: File,
    groups: VecDeque<Group>,
    hash: Xxh3Default,
    /// The version that stands for what was hashed, where there is one, and the row groups before.
    pinned: Option<(Pinned, u64)>,
    /// Bytes that may still be hashed: a footer may point to the same ones many times.
    left: u64,
    buffer: Vec<u8>,
}

/// A row group that has not been hashed.
struct Group {
    /// Rows of the file before it.
    rows_before: u64,
    /// Where its columns lie: offset and length.
    chunks: Vec<(u64, u64)>,
}

impl Content {
    /// Of the columns requested of a file.
    pub fn of(file: &ParquetFile, request: &ReadRequest) -> Result<Self> {
        let (open, footer) = file.reopen()?;
        let mut columns: Vec<usize> = request.columns.iter().map(|(index, _)| *index).collect();
        columns.sort_unstable();
        columns.dedup();
        Self::new(file, open, &footer, &columns)
    }

    /// Of `columns`, indices of Arrow fields. `open` is the file's alone.
    pub fn new(file: &ParquetFile, open: File, footer: &Footer, columns: &[usize]) -> Result<Self> {
        let metadata = footer.metadata.metadata();
        let roots: Vec<usize> = columns
            .iter()
            .filter_map(|index| footer.roots.get(*index).copied())
            .collect();
        let schema = footer.metadata.parquet_schema();
        let mut rows_before = 0;
        let mut groups = VecDeque::with_capacity(footer.group_rows.len());
        for (group, rows) in metadata.row_groups().iter().zip(&footer.group_rows) {
            let leaves = group.columns().iter().enumerate();
            let wanted = leaves.filter(|(leaf, _)| roots.contains(&schema.get_column_root_idx(*leaf)));
            let chunks = guarded(|| Ok::<_, String>(wanted.map(|(_, chunk)| chunk.byte_range()).collect()));
            groups.push_back(Group {
                rows_before,
                chunks: chunks.map_err(|why| damaged(&file.input.shown, rows_before, why))?,
            });
            rows_before += rows;
        }
        let mut hash = Xxh3Default::new();
        hash.update(&file.footer_hash.to_le_bytes());
        Ok(Self {
            file: open,
            groups,
            hash,
            pinned: Pinned::of(&file.input).map(|pinned| (pinned, 0)),
            left: file.bytes,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// The hash of what lies before `row`, which is not before that of an earlier call.
    pub fn hash_before(&mut self, row: u64) -> io::Result<u64> {
        while self.groups.front().is_some_and(|group| group.rows_before < row)
            && let Some(group) = self.groups.pop_front()
        {
            if let Some((_, begun)) = &mut self.pinned {
                *begun += 1;
                continue;
            }
            for (offset, bytes) in group.chunks {
                self.take(offset, bytes)?;
            }
        }
        Ok(match self.pinned {
            Some((pinned, begun)) => pinned.before(begun),
            None => self.hash.digest(),
        })
    }

    fn take(&mut self, offset: u64, bytes: u64) -> io::Result<()> {
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        self.file.seek(SeekFrom::Start(offset))?;
        let mut chunk = (&mut self.file).take(bytes);
        loop {
            match chunk.read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => self.hash.update(&self.buffer[..count]),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
    }
}
