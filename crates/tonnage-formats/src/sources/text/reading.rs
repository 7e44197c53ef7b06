//! Files of text as a source: what all formats of text share.
//!
//! - A block holds rows of one file only and is cut by the text alone, so every attempt cuts it alike.
//! - Marks count bytes after decompression and decoding; the hash is over these bytes, byte order mark and
//!   header included, and over all bytes of the files before. The place where a file begins has offset 0, and
//!   whatever ends a file (blank lines, comments) belongs to its last block, so a block never begins behind the last
//!   row of a file.
//! - A block of a file that has changed since it was found is never handed on.
//! - Memory is bounded by a block, the longest record and what is read ahead; never by the file.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use tonnage_core::{
    error::{Error, Result},
    extent::Extent,
    ledger::InputIdentity,
    reject::Reject,
    report::Counted,
    slot::BlockMark,
    source::{Block, Origin, ReadRequest, Source, SourceSchema, SourceTableInfo},
};

use super::{
    batch_schema, begin, check_bounds,
    opening::Opening,
    window::{Window, chained},
};
use crate::sources::{
    InputFile,
    compress::digest_of,
    damage::{changed_before, has_changed},
    not_rereadable,
};

/// What tells one format of text from another.
pub(crate) trait TextFormat: Send {
    /// What is known of an open file beside its text.
    type File: Send;

    /// Options that decide how files are read, as [`Source::options`].
    fn options(&self) -> Vec<String>;

    /// Consumes what a file begins with before its first row.
    fn begin(&self, window: &mut Window, file: &InputFile) -> Result<Self::File>;

    /// Consumes text that is no row. False where the file ends.
    fn skip_idle(&self, window: &mut Window, file: &Self::File) -> Result<bool>;

    /// Cuts the next block and consumes it. The window is at a row.
    fn block(&mut self, window: &mut Window, file: &Self::File, wanted: &Wanted<'_>) -> Result<Parts>;
}

/// What a block is to be.
pub(crate) struct Wanted<'a> {
    /// The file, as the user named it.
    pub shown: &'a Arc<str>,
    /// What is asked for.
    pub request: &'a ReadRequest,
    /// The schema of the batches.
    pub schema: &'a SchemaRef,
    /// Rows of the file before the block.
    pub rows_before: u64,
}

/// What a block is made of; the source adds the marks.
pub struct Parts {
    /// Good rows.
    pub rows: RecordBatch,
    /// Where they came from.
    pub origin: Origin,
    /// Bad rows.
    pub rejects: Vec<Reject>,
}

/// Text files of one format as a source.
pub(crate) struct TextSource<F: TextFormat> {
    format: F,
    files: Vec<InputFile>,
    opening: Opening,
    schema: SourceSchema,
    extents: Vec<Extent>,
    names: Vec<Arc<str>>,
    request: Option<(ReadRequest, SchemaRef)>,
    /// The file being read; none behind the last.
    current: Option<OpenFile<F::File>>,
    /// Number of the next block, and where it begins.
    index: u64,
    mark: BlockMark,
    /// Bytes consumed of files that are done, and not yet counted to a block.
    carried_bytes: u64,
    /// The rolling hash before each file that is known so far, the first included.
    hashes: Vec<u64>,
    /// Blank lines of files that are done.
    blank_lines: u64,
}

/// A file being read.
struct OpenFile<K> {
    index: usize,
    known: K,
    window: Window,
    /// Rows consumed.
    rows: u64,
    /// Bytes counted to blocks.
    counted_bytes: u64,
    /// No block has been read since it was opened at its beginning.
    fresh: bool,
}

/// A window at the beginning of a file's text, behind its byte order mark. `Input` for what is not text.
pub(crate) fn open_window(file: &InputFile, opening: &Opening) -> Result<Window> {
    let mut window = Window::open(file, opening)?;
    begin(&mut window, &file.shown)?;
    Ok(window)
}

impl<F: TextFormat> TextSource<F> {
    /// A source that begins with `first`, the window of the first file and what its format knows of it: what has been
    /// read of a pipe to learn its columns is not read twice.
    pub(crate) fn new(
        format: F,
        files: Vec<InputFile>,
        opening: Opening,
        (schema, extents): (SourceSchema, Vec<Extent>),
        (window, known): (Window, F::File),
    ) -> Self {
        Self {
            format,
            files,
            opening,
            names: schema.columns.iter().map(|c| c.name.as_str().into()).collect(),
            schema,
            extents,
            request: None,
            current: Some(OpenFile::new(0, window, known)),
            index: 0,
            mark: BlockMark::default(),
            carried_bytes: 0,
            hashes: vec![0],
            blank_lines: 0,
        }
    }

    /// Opens a file and goes to its first row.
    fn open_file(&mut self, index: usize) -> Result<OpenFile<F::File>> {
        let before = self.hash_before(index)?;
        let file = &self.files[index];
        let mut window = open_window(file, &self.opening)?;
        window.follows(before);
        let known = self.format.begin(&mut window, file)?;
        if let Some(next) = self.files.get(index + 1).and_then(|next| next.object.as_ref()) {
            next.foresee_beginning();
        }
        Ok(OpenFile::new(index, window, known))
    }

    /// The rolling hash before a file. Files that were not read are read for it.
    fn hash_before(&mut self, index: usize) -> Result<u64> {
        while let (Some(before), true) = (self.hashes.last(), self.hashes.len() <= index) {
            let hash = chained(*before, digest_of(&self.files[self.hashes.len() - 1])?);
            self.hashes.push(hash);
        }
        Ok(self.hashes[index])
    }

    /// Goes to the next row, in this file or a further one. False where there is none.
    fn reach_row(&mut self) -> Result<bool> {
        while let Some(open) = &mut self.current {
            open.fresh = false;
            let file = &self.files[open.index];
            let row = self.format.skip_idle(&mut open.window, &open.known);
            if file.unchanged(open.window.file(), row)? {
                return Ok(true);
            }
            self.blank_lines += open.window.blank_lines();
            self.carried_bytes += open.window.disk_bytes() - open.counted_bytes;
            let following = open.index + 1;
            if self.hashes.len() == following {
                self.hashes.push(open.window.hash_behind());
            }
            self.current = match following < self.files.len() {
                true => Some(self.open_file(following)?),
                false => None,
            };
        }
        Ok(false)
    }
}

impl<K> OpenFile<K> {
    fn new(index: usize, window: Window, known: K) -> Self {
        Self {
            index,
            known,
            window,
            rows: 0,
            counted_bytes: 0,
            fresh: true,
        }
    }

    /// Goes to `mark`, which lies behind the file's beginning. False if the text does not reach there.
    fn go_to(&mut self, mark: &BlockMark) -> Result<bool> {
        // A header ends behind the mark only where it has changed.
        let reached = self.window.consume_to(mark.offset.max(self.window.offset()))?;
        self.fresh = false;
        self.counted_bytes = self.window.disk_bytes();
        Ok(reached && self.window.offset() == mark.offset)
    }
}

impl<F: TextFormat> Source for TextSource<F> {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn extents(&self) -> &[Extent] {
        &self.extents
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        self.files.iter().map(|file| file.identity.clone()).collect()
    }

    fn not_rereadable(&self) -> &'static str {
        not_rereadable(&self.files)
    }

    fn table_info(&self) -> Option<&SourceTableInfo> {
        None
    }

    fn options(&self) -> Vec<String> {
        self.format.options()
    }

    fn remarks(&self) -> Vec<String> {
        let current = self.current.as_ref().map_or(0, |open| open.window.blank_lines());
        match self.blank_lines + current {
            0 => Vec::new(),
            1 => vec!["1 blank line of the input is no row".to_owned()],
            lines => vec![format!(
                "{} of the input are no rows",
                Counted(lines, "blank line")
            )],
        }
    }

    fn bytes_total(&self) -> Option<u64> {
        self.files
            .iter()
            .map(|file| Some(file.identity.as_ref()?.bytes))
            .sum()
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        check_bounds(request)?;
        let schema = batch_schema(&self.names, request)?;
        self.request = Some((request.clone(), schema));
        Ok(())
    }

    fn seek(&mut self, index: u64, mark: &BlockMark) -> Result<()> {
        let file_index = mark.file as usize;
        let Some(file) = self.files.get(file_index) else {
            return Err(Error::input(format!(
                "the run stopped in input {}, but there are {} inputs",
                file_index + 1,
                self.files.len()
            )));
        };
        let there = |open: &OpenFile<_>| open.index == file_index && open.fresh;
        if mark.offset > 0 || !self.current.as_ref().is_some_and(there) {
            if file.identity.is_none() {
                return Err(
                    Error::input(format!("{} cannot be read a second time", file.shown))
                        .hint("put the data into a file, whose load can be resumed"),
                );
            }
            let shown = file.shown.clone();
            let mut open = self.open_file(file_index)?;
            if mark.offset > 0 && !open.go_to(mark)? {
                return Err(has_changed(shown));
            }
            open.rows = mark.file_rows;
            self.current = Some(open);
        }
        // Where a file begins, its header lies behind the mark.
        let hash = match (&self.current, mark.offset) {
            (Some(open), 1..) => open.window.hash(),
            _ => self.hash_before(file_index)?,
        };
        if mark.hash != 0 && mark.hash != hash {
            return Err(changed_before(
                |number| Some(&self.files.get(number)?.shown),
                mark,
            ));
        }
        self.index = index;
        self.mark = *mark;
        self.carried_bytes = 0;
        self.blank_lines = 0;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Block>> {
        if self.request.is_none() {
            return Err(Error::bug("a block was asked for before the columns were"));
        }
        if !self.reach_row()? {
            return Ok(None);
        }
        let (Some(open), Some((request, schema))) = (&mut self.current, &self.request) else {
            return Ok(None);
        };
        let wanted = Wanted {
            shown: &self.files[open.index].shown,
            request,
            schema,
            rows_before: open.rows,
        };
        let file = &self.files[open.index];
        let mut cut = || {
            let parts = self.format.block(&mut open.window, &open.known, &wanted)?;
            let more = self.format.skip_idle(&mut open.window, &open.known)?;
            Ok((parts, more))
        };
        let cut = cut();
        let (parts, more) = file.unchanged(open.window.file(), cut)?;
        let rows = (parts.rows.num_rows() + parts.rejects.len()) as u64;
        open.rows += rows;
        let start = self.mark;
        let rows_in_all = start.rows + rows;
        self.mark = match more || open.index + 1 == self.files.len() {
            true => BlockMark {
                file: open.index as u32,
                offset: open.window.offset(),
                file_rows: open.rows,
                rows: rows_in_all,
                hash: open.window.hash(),
            },
            false => BlockMark {
                file: open.index as u32 + 1,
                rows: rows_in_all,
                hash: open.window.hash_behind(),
                ..BlockMark::default()
            },
        };
        let consumed = open.window.disk_bytes();
        let bytes = self.carried_bytes + consumed - open.counted_bytes;
        self.carried_bytes = 0;
        open.counted_bytes = consumed;
        let index = self.index;
        self.index += 1;
        Ok(Some(Block {
            index,
            rows: parts.rows,
            origin: parts.origin,
            rejects: parts.rejects,
            start,
            end: self.mark,
            bytes,
        }))
    }
}
