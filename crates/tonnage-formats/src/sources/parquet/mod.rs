//! Apache Parquet files.
//!
//! Invariants:
//! - A block never crosses files, and all blocks of a file but its last have the same number of rows, which
//!   follows from the file's footer and the request alone: row groups, pages and attempts do not matter to
//!   it.
//! - A file that is not what it was when the source was opened, or when a run began, is an error: never rows. A block
//!   of a file that has changed since it was found is never handed on.
//! - Memory: the rows of one block, one page a column, and the footer of the file at hand. Column chunks are
//!   read page by page; no row group is ever held whole. What a file claims is checked before memory is given to it
//!   (`claims`).

mod claims;
mod content;
mod file;
mod pages;
mod read;
mod thrift;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, iter, sync::Arc, thread};

use tonnage_core::{
    error::{Error, Result},
    extent::Extent,
    ledger::InputIdentity,
    slot::BlockMark,
    source::{Block, PIPE, ReadRequest, Source, SourceColumn, SourceSchema, SourceTableInfo},
};
use tonnage_places::COLUMNS_BYTES_MAX;

use self::{
    content::Content,
    file::{Footer, ParquetFile, damaged},
    read::BlockReader,
};
use super::{
    DifferingColumns, InputFile,
    columns::{FileColumns, OTHER_COLUMNS, merge_columns, unite},
    damage::{changed_before, has_changed},
    object_notes,
    text::window::chained,
};

/// Objects whose footers are read at once.
const OBJECTS_AT_ONCE: usize = 16;

/// Reads Parquet files one after another.
pub struct ParquetSource {
    files: Vec<ParquetFile>,
    schema: SourceSchema,
    /// Where each file has the columns, where files may differ in them.
    united: Option<Vec<Arc<FileColumns>>>,
    request: Option<ReadRequest>,
    at: BlockStart,
    /// Open at `at`, if open.
    reader: Option<BlockReader>,
    /// The rolling hash before each file that is known so far, the first included.
    hashes: Vec<u64>,
}

/// Where the next block begins.
#[derive(Debug, Clone, Copy, Default)]
struct BlockStart {
    /// Number of the block.
    block: u64,
    /// Index of the file.
    file: usize,
    /// Rows of the file before.
    row: u64,
    /// Rows of all files before.
    rows: u64,
    /// The rolling hash of what lies before.
    hash: u64,
}

/// Opens files in their order; those of stores several at once, as each takes round trips.
fn open_all(files: Vec<InputFile>) -> impl Iterator<Item = Result<(ParquetFile, Footer)>> {
    let at_once = match files.iter().any(|file| file.object.is_some()) {
        true => OBJECTS_AT_ONCE,
        false => 1,
    };
    let mut rest = files.into_iter();
    let groups = iter::from_fn(move || {
        let group: Vec<_> = rest.by_ref().take(at_once).collect();
        (!group.is_empty()).then_some(group)
    });
    groups.flat_map(open_at_once)
}

fn open_at_once(mut files: Vec<InputFile>) -> Vec<Result<(ParquetFile, Footer)>> {
    if files.len() == 1 {
        return files.drain(..).map(ParquetFile::open).collect();
    }
    thread::scope(|scope| {
        let open = |file| scope.spawn(|| ParquetFile::open(file));
        let opening: Vec<_> = files.into_iter().map(open).collect();
        let ended = opening.into_iter().map(|opening| {
            let opened = opening.join();
            opened.unwrap_or_else(|_| Err(Error::bug("opening a file ended in a panic")))
        });
        ended.collect()
    })
}

impl ParquetSource {
    /// Opens the files and reads their footers. `Input` where one is not a whole Parquet file, or where their
    /// columns differ in name, order or type and may not; `Config` for no files and for standard input.
    pub fn open(files: Vec<InputFile>, differing: DifferingColumns) -> Result<Self> {
        let mut opened: Vec<ParquetFile> = Vec::with_capacity(files.len());
        let mut columns: Vec<SourceColumn> = Vec::new();
        let mut names: Vec<Arc<Vec<String>>> = Vec::new();
        for file in open_all(files) {
            let (file, footer) = file?;
            let own: Vec<String> = footer.columns.iter().map(|column| column.name.clone()).collect();
            match (opened.first(), differing) {
                (None, _) => columns = footer.columns,
                (Some(first), DifferingColumns::United) => {
                    unite(
                        &mut columns,
                        &first.input.shown,
                        &footer.columns,
                        &file.input.shown,
                    )?;
                }
                (Some(first), DifferingColumns::Refused) => {
                    merge_columns(
                        &mut columns,
                        &first.input.shown,
                        &footer.columns,
                        &file.input.shown,
                    )
                    .map_err(|error| error.hint(OTHER_COLUMNS))?;
                }
            }
            // Files are many, and mostly alike.
            match names.last().filter(|last| ***last == own) {
                Some(same) => names.push(same.clone()),
                None => names.push(Arc::new(own)),
            }
            opened.push(file);
        }
        let united = (differing == DifferingColumns::United).then(|| {
            let mut united: Vec<Arc<FileColumns>> = Vec::with_capacity(names.len());
            for (at, own) in names.iter().enumerate() {
                let is_alike = at > 0 && Arc::ptr_eq(own, &names[at - 1]);
                let same = united.last().filter(|_| is_alike).cloned();
                united.push(same.unwrap_or_else(|| Arc::new(FileColumns::of(&columns, own))));
            }
            united
        });
        let Some(first) = opened.first() else {
            return Err(Error::config("there is no Parquet file to read"));
        };
        let shown = first.input.shown.clone();
        let notes = object_notes(opened.iter().map(|file| &file.input), COLUMNS_BYTES_MAX, false);
        Ok(Self {
            files: opened,
            schema: SourceSchema {
                shown,
                columns,
                named: true,
                text: false,
                header: false,
                notes,
            },
            united,
            request: None,
            at: BlockStart::default(),
            reader: None,
            hashes: vec![0],
        })
    }

    /// Rows in all files, from their footers.
    pub fn rows_total(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// What is asked of a file.
    fn request_of(&self, number: usize) -> Result<Cow<'_, ReadRequest>> {
        let request = self.request.as_ref().ok_or_else(not_requested)?;
        Ok(match &self.united {
            Some(united) => Cow::Owned(united[number].request(request)),
            None => Cow::Borrowed(request),
        })
    }

    /// Leaves files that have no more rows behind, as long as there is another.
    fn skip_finished_files(&mut self) -> Result<()> {
        while self.at.file + 1 < self.files.len() && self.at.row >= self.files[self.at.file].rows {
            let following = self.at.file + 1;
            if self.hashes.len() == following && self.at.row > 0 {
                self.hashes.push(self.at.hash);
            }
            self.at.file = following;
            self.at.row = 0;
            self.at.hash = self.hash_before(following)?;
            self.reader = None;
        }
        Ok(())
    }

    /// The rolling hash before a file. Files that were not read are read for it.
    fn hash_before(&mut self, number: usize) -> Result<u64> {
        while let (Some(before), true) = (self.hashes.last().copied(), self.hashes.len() <= number) {
            let at = self.hashes.len() - 1;
            let file = &self.files[at];
            let mut content = Content::of(file, &*self.request_of(at)?)?;
            let hash = hash_at(file, &mut content, file.rows, before)?;
            self.hashes.push(hash);
        }
        Ok(self.hashes[number])
    }

    fn mark(&self) -> BlockMark {
        BlockMark {
            // More files than 32 bits can count cannot be named on a command line.
            file: self.at.file as u32,
            offset: self.at.row,
            file_rows: self.at.row,
            rows: self.at.rows,
            hash: self.at.hash,
        }
    }
}

impl Source for ParquetSource {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        self.files
            .iter()
            .map(|file| file.input.identity.clone())
            .collect()
    }

    fn not_rereadable(&self) -> &'static str {
        PIPE
    }

    fn extents(&self) -> &[Extent] {
        &[]
    }

    fn table_info(&self) -> Option<&SourceTableInfo> {
        None
    }

    fn options(&self) -> Vec<String> {
        let mut options = vec!["format=parquet".to_owned()];
        // Not there where an earlier version had no such option, whose runs are gone on with.
        options.extend(self.united.is_some().then(|| "union=true".to_owned()));
        options
    }

    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    fn bytes_total(&self) -> Option<u64> {
        Some(self.files.iter().map(|file| file.bytes).sum())
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        if let Some((index, _)) = request
            .columns
            .iter()
            .find(|(index, _)| *index >= self.schema.columns.len())
        {
            return Err(Error::bug(format!(
                "a Parquet source was asked for column {index}"
            )));
        }
        if request.block_rows == 0 || u32::try_from(request.block_rows).is_err() {
            return Err(Error::bug(format!(
                "a block cannot have {} rows",
                request.block_rows
            )));
        }
        self.request = Some(request.clone());
        self.reader = None;
        Ok(())
    }

    fn seek(&mut self, index: u64, mark: &BlockMark) -> Result<()> {
        self.reader = None;
        if index == 0 && *mark == BlockMark::default() {
            self.at = BlockStart::default();
            return Ok(());
        }
        let number = mark.file as usize;
        let Some(file) = self.files.get(number) else {
            return Err(Error::input(format!(
                "there were more files when the run began: {} are left",
                self.files.len()
            ))
            .hint("give the files that the run began with, or --restart"));
        };
        if mark.offset > file.rows {
            return Err(has_changed(&file.input.shown));
        }
        let before: u64 = self.files[..number].iter().map(|file| file.rows).sum();
        if mark.rows != before + mark.offset {
            return Err(has_changed(format_args!("a file before {}", file.input.shown)));
        }
        let mut hash = self.hash_before(number)?;
        let file = &self.files[number];
        if mark.offset > 0 {
            let request = self.request_of(number)?;
            hash = hash_at(file, &mut Content::of(file, &request)?, mark.offset, hash)?;
        }
        if mark.hash != 0 && mark.hash != hash {
            return Err(changed_before(
                |number| Some(&self.files.get(number)?.input.shown),
                mark,
            ));
        }
        let request = self.request.as_ref().ok_or_else(not_requested)?;
        let blocks_before: u64 = self.files[..number]
            .iter()
            .map(|file| file.rows.div_ceil(file.block_rows(request)))
            .sum();
        let block_rows = file.block_rows(request);
        let aligned = mark.offset.is_multiple_of(block_rows) || mark.offset == file.rows;
        if !aligned || index != blocks_before + mark.offset.div_ceil(block_rows) {
            return Err(Error::bug(format!(
                "block {index} does not begin at row {} of {}",
                mark.offset + 1,
                file.input.shown
            )));
        }
        self.at = BlockStart {
            block: index,
            file: number,
            row: mark.offset,
            rows: mark.rows,
            hash,
        };
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Block>> {
        self.skip_finished_files()?;
        let before = self.hash_before(self.at.file)?;
        let request = self.request_of(self.at.file)?.into_owned();
        let file = &self.files[self.at.file];
        let rows = file.block_rows(&request).min(file.rows - self.at.row);
        if rows == 0 {
            return Ok(None);
        }
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => {
                let reader = BlockReader::open(file, &request, self.at.row)?;
                if let Some(object) = self
                    .files
                    .get(self.at.file + 1)
                    .and_then(|next| next.input.object.as_ref())
                {
                    object.foresee_beginning();
                    object.foresee_end();
                }
                self.reader.insert(reader)
            }
        };
        let mut read = || {
            // A block's rows fit 32 bits, as was checked when they were requested.
            let read = reader.read(rows as usize, &file.input.shown, self.at.row)?;
            let hash = hash_at(file, &mut reader.content, self.at.row + rows, before)?;
            Ok((read, hash))
        };
        let read = read();
        let read = file.check_open(&reader.content.file).and(read);
        let ((rows_read, origin, rejects), hash) = match read {
            Ok(read) => read,
            Err(error) => {
                // What has failed half way stands nobody knows where.
                self.reader = None;
                return Err(error);
            }
        };
        let rows_read = match (&self.united, &self.request) {
            (Some(united), Some(whole)) => {
                united[self.at.file].complete(&rows_read, whole, &self.schema.columns)?
            }
            _ => rows_read,
        };
        let start = self.mark();
        let bytes = file.bytes_before(self.at.row + rows) - file.bytes_before(self.at.row);
        let index = self.at.block;
        self.at.block += 1;
        self.at.row += rows;
        self.at.rows += rows;
        self.at.hash = hash;
        self.skip_finished_files()?;
        Ok(Some(Block {
            index,
            rows: rows_read,
            origin,
            rejects,
            start,
            end: self.mark(),
            bytes,
        }))
    }
}

/// The rolling hash before a row of a file, where `before` is that before the file.
fn hash_at(file: &ParquetFile, content: &mut Content, row: u64, before: u64) -> Result<u64> {
    let hash = content
        .hash_before(row)
        .map_err(|cause| damaged(&file.input.shown, row, &cause))?;
    Ok(chained(before, hash))
}

fn not_requested() -> Error {
    Error::bug("a Parquet source was read before it was asked for columns")
}
