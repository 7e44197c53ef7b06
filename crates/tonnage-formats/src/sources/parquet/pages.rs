//! The pages of a file, whose claims are checked before they are read.

use std::{
    io::BufReader,
    ops::Range,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use parquet::{
    arrow::arrow_reader::RowGroups,
    basic::{Compression, Encoding},
    column::page::{Page, PageIterator, PageMetadata, PageReader},
    errors::{ParquetError, Result as ParquetResult},
    file::{
        metadata::{ParquetMetaData, RowGroupMetaData},
        reader::{ChunkReader, Length, SerializedPageReader},
    },
    schema::types::ColumnDescPtr,
};
use tonnage_core::sync::Lock;
use tonnage_places::{File, Positioned, ReadFrom, Share};

use super::claims::{PAGE_BYTES_MAX, PageHead, check_deltas};

/// Some row groups of a file.
pub(super) struct Groups {
    pub file: File,
    pub metadata: Arc<ParquetMetaData>,
    /// Their numbers, ascending.
    pub groups: Vec<usize>,
    /// Columns that are read at once, and the bytes of all of them.
    pub columns: usize,
    pub bytes: u64,
}

impl Groups {
    /// Where the chunks of a column lie, group by group.
    fn ranges(&self, column: usize) -> Vec<Range<u64>> {
        let ranges = self.row_groups().map(|group| {
            let (offset, bytes) = group.column(column).byte_range();
            offset..offset.saturating_add(bytes)
        });
        ranges.collect()
    }

    /// The bytes of a column in all groups.
    pub fn bytes_of(&self, column: usize) -> u64 {
        let ranges = self.ranges(column).into_iter();
        ranges.fold(0, |sum, range| sum.saturating_add(range.end - range.start))
    }
}

impl RowGroups for Groups {
    fn num_rows(&self) -> usize {
        // Not below zero, as was checked when the footer was read.
        self.row_groups().map(|group| group.num_rows() as usize).sum()
    }

    fn column_chunks(&self, column: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let share = Share::of(self.bytes_of(column), self.bytes, self.columns);
        Ok(Box::new(Chunks {
            file: Arc::new(self.file.positioned(self.ranges(column), share)?),
            metadata: self.metadata.clone(),
            groups: self.groups.clone().into_iter(),
            column,
        }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.groups.iter().map(|group| self.metadata.row_group(*group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The chunks of one column, group by group.
struct Chunks {
    file: Arc<Positioned>,
    metadata: Arc<ParquetMetaData>,
    groups: std::vec::IntoIter<usize>,
    column: usize,
}

impl Iterator for Chunks {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.metadata.row_group(self.groups.next()?);
        let chunk = group.column(self.column);
        let column = chunk.column_descr_ptr();
        let file_bytes = match self.file.size() {
            Ok(bytes) => bytes,
            Err(cause) => return Some(Err(cause.into())),
        };
        let bytes = ChunkBytes {
            file: self.file.clone(),
            file_bytes,
            compression: chunk.compression(),
            repeated: column.max_rep_level() > 0,
            page: Mutex::new(None),
        };
        let pages = SerializedPageReader::new(Arc::new(bytes), chunk, group.num_rows() as usize, None);
        Some(pages.map(|pages| Box::new(Pages { pages, column }) as _))
    }
}

impl PageIterator for Chunks {}

/// The bytes of one chunk, which are read page after page: a head, then the page.
struct ChunkBytes {
    file: Arc<Positioned>,
    file_bytes: u64,
    compression: Compression,
    repeated: bool,
    /// Where the page begins whose head was read last, and that head.
    page: Mutex<Option<(u64, PageHead)>>,
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.file_bytes
    }
}

impl ChunkReader for ChunkBytes {
    type T = BufReader<ReadFrom>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let mut bytes = self.file.from(start);
        let mut page = self.page.locked();
        // Where a page begins it is not read this way, only asked for.
        if page.is_none_or(|(begin, _)| begin != start) {
            let head = PageHead::read(&mut bytes, self.compression, self.repeated);
            let head = head.map_err(ParquetError::General)?;
            bytes.seek_relative(-(head.head_bytes as i64))?;
            // Behind an empty page the next head begins where it does.
            *page = (!head.is_empty()).then_some((start + head.head_bytes, head));
        }
        Ok(bytes)
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let end = start.checked_add(length as u64);
        if length as u64 > PAGE_BYTES_MAX || end.is_none_or(|end| end > Length::len(self)) {
            return Err(ParquetError::EOF("a page lies beyond the end".to_owned()));
        }
        let bytes = self.file.bytes_at(start, length)?;
        let page = *self.page.locked();
        if let Some((_, head)) = page.filter(|(begin, _)| *begin == start) {
            let checked = head.check_page(&bytes, self.compression);
            checked.map_err(ParquetError::General)?;
        }
        Ok(bytes)
    }
}

/// The pages of one chunk.
struct Pages {
    pages: SerializedPageReader<ChunkBytes>,
    column: ColumnDescPtr,
}

impl Iterator for Pages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            check_lengths(page, &self.column).map_err(ParquetError::General)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.pages.at_record_boundary()
    }
}

/// Checks how many lengths a page of texts has, where they stand before the texts.
fn check_lengths(page: &Page, column: &ColumnDescPtr) -> Result<(), String> {
    let lists = match page.encoding() {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
        // Of what a text shares with the one before it, and of the rest.
        Encoding::DELTA_BYTE_ARRAY => 2,
        _ => return Ok(()),
    };
    let bytes = page.buffer();
    let levels = match page {
        Page::DataPageV2 {
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        } => Some(*def_levels_byte_len as usize + *rep_levels_byte_len as usize),
        Page::DataPage {
            rep_level_encoding,
            def_level_encoding,
            num_values,
            ..
        } => {
            let kinds = [
                (column.max_rep_level(), *rep_level_encoding),
                (column.max_def_level(), *def_level_encoding),
            ];
            kinds.into_iter().try_fold(0, |at, (max, encoding)| {
                Some(at + level_bytes(bytes.get(at..)?, max, encoding, *num_values)?)
            })
        }
        Page::DictionaryPage { .. } => Some(0),
    };
    let values = levels.and_then(|levels| bytes.get(levels..));
    check_deltas(
        values.ok_or_else(|| "a page ends within its levels".to_owned())?,
        lists,
        u64::from(page.num_values()),
    )
}

/// The bytes that the levels of a page take.
fn level_bytes(bytes: &[u8], max: i16, encoding: Encoding, values: u32) -> Option<usize> {
    if max <= 0 {
        return Some(0);
    }
    if encoding == Encoding::RLE {
        let length = u32::from_le_bytes(*bytes.first_chunk()?);
        return 4usize.checked_add(length as usize);
    }
    let bits = 16 - (max as u16).leading_zeros();
    Some((values as usize * bits as usize).div_ceil(8))
}
