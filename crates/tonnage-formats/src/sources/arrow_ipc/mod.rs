//! Apache Arrow IPC: the file form (Feather 2 is the same) and the stream form, compressed or not.
//!
//! Invariants:
//! - A block never crosses files. It ends with the row that is its `block_rows`th or reaches its
//!   `block_bytes`th byte, a row of a batch counting for the batch's bytes divided by its rows: so the cut
//!   follows from the file and the request alone, whatever the size of the file's batches.
//! - A stream that ends without its mark of the end is an error, since rows may be missing.
//! - Marks hold a row of the file and a hash: of the files before and of this one up to the batch that the row is in,
//!   of the file form also of its footer and dictionaries. The place where a file begins has offset 0.
//! - A block of a file that has changed since it was found is never handed on.
//! - Memory: one batch as it is in the file, the dictionaries, and the rows of one block; all of them bounded.
//!
//! Dictionaries and run-end encoded columns come as their values.

mod message;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, RunArray, UInt32Array},
    compute::{cast, concat_batches},
    datatypes::{
        DataType, Field, FieldRef, Int16Type, Int32Type, Int64Type, RunEndIndexType, Schema, SchemaRef,
    },
    error::ArrowError,
};
use tonnage_core::{
    convert::{innermost, suggested},
    error::{Error, Result},
    extent::Extent,
    ledger::InputIdentity,
    reader::BeyondArrow,
    slot::BlockMark,
    source::{Block, Origin, ReadRequest, Source, SourceColumn, SourceSchema, SourceTableInfo},
};
use tonnage_places::READ_BYTES_MAX;

use self::message::Messages;
use super::{
    DifferingColumns, InputFile,
    columns::{FileColumns, OTHER_COLUMNS, merge_columns, unite},
    damage::{changed_before, guarded, has_changed},
    foresee, not_rereadable, object_notes,
    text::{again, window::chained},
};

/// The most bytes that the dictionaries and runs of a block may stand for, of which the file has far fewer: as many
/// as a block of rows has, over a hundred times.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// Reads Arrow files and streams one after another.
pub struct ArrowSource {
    files: Vec<InputFile>,
    schema: SourceSchema,
    /// The columns of each file, where files may differ in them.
    united: Option<Vec<United>>,
    /// What is asked for, of a file that has all columns.
    wanted: Option<Arc<Wanted>>,
    /// The file being read; none behind the last.
    current: Option<OpenFile>,
    /// Number of the next block, and where it begins.
    index: u64,
    mark: BlockMark,
    /// Bytes of files that are done, and not yet counted to a block.
    carried_bytes: u64,
    /// The rolling hash before each file that is known so far, the first included.
    hashes: Vec<u64>,
}

/// The columns of a file, where files may differ in them.
struct United {
    own: Arc<Vec<SourceColumn>>,
    /// Where it has those of the source.
    places: Arc<FileColumns>,
}

/// What is read of a file.
struct Wanted {
    request: ReadRequest,
    /// The columns to read, ascending.
    read: Vec<usize>,
    /// For each column requested its place among those read.
    order: Vec<usize>,
    schema: SchemaRef,
}

struct OpenFile {
    index: usize,
    messages: Messages,
    pending: Option<Pending>,
    /// Why the next batch cannot be read; told when it is asked for.
    failed: Option<Error>,
    /// Rows given out.
    rows: u64,
    /// Bytes counted to blocks.
    counted_bytes: u64,
    /// Nothing was read behind the schema.
    fresh: bool,
}

/// A batch of which rows are left.
struct Pending {
    batch: RecordBatch,
    row_bytes: usize,
    taken: usize,
}

impl ArrowSource {
    /// Opens files or pipes. `Input` where one is not Arrow, or where the columns differ in name, order or type and may not;
    /// `Config` for no files. Pipes but the first are opened in their turn; where columns may differ they are refused.
    pub fn open(files: Vec<InputFile>, differing: DifferingColumns) -> Result<Self> {
        let Some(first) = files.first() else {
            return Err(Error::config("no input is named"));
        };
        let messages = Messages::open(first)?;
        let mut columns = columns_of(messages.schema());
        let mut own = vec![Arc::new(columns.clone())];
        for (at, file) in files[1..].iter().enumerate() {
            if file.identity.is_some() {
                foresee(&files[1..], at);
            }
            match differing {
                DifferingColumns::Refused if file.identity.is_none() => {}
                DifferingColumns::Refused => {
                    let others = columns_of(Messages::open(file)?.schema());
                    merge_columns(&mut columns, &first.shown, &others, &file.shown)
                        .map_err(|error| error.hint(OTHER_COLUMNS))?;
                }
                DifferingColumns::United => {
                    again(file)?;
                    let others = columns_of(Messages::open(file)?.schema());
                    unite(&mut columns, &first.shown, &others, &file.shown)?;
                    // Files are many, and mostly alike.
                    let same = own.last().filter(|last| ***last == others).cloned();
                    own.push(same.unwrap_or_else(|| Arc::new(others)));
                }
            }
        }
        let united = (differing == DifferingColumns::United).then(|| {
            let mut united: Vec<United> = Vec::with_capacity(own.len());
            for own in own {
                let same = united.last().filter(|last| Arc::ptr_eq(&last.own, &own));
                let places = match same {
                    Some(same) => same.places.clone(),
                    None => {
                        let names: Vec<String> = own.iter().map(|column| column.name.clone()).collect();
                        Arc::new(FileColumns::of(&columns, &names))
                    }
                };
                united.push(United { own, places });
            }
            united
        });
        let shown = first.shown.clone();
        Ok(Self {
            current: Some(OpenFile::new(0, messages)),
            schema: SourceSchema {
                shown,
                columns,
                named: true,
                text: false,
                header: false,
                notes: object_notes(&files, READ_BYTES_MAX, false),
            },
            files,
            united,
            wanted: None,
            index: 0,
            mark: BlockMark::default(),
            carried_bytes: 0,
            hashes: vec![0],
        })
    }

    fn open_file(&self, index: usize) -> Result<OpenFile> {
        let file = &self.files[index];
        let messages = Messages::open(file)?;
        let others = columns_of(messages.schema());
        match &self.united {
            None => {
                let mut columns = self.schema.columns.clone();
                merge_columns(&mut columns, &self.files[0].shown, &others, &file.shown)
                    .map_err(|error| error.hint(OTHER_COLUMNS))?;
            }
            Some(united) if *united[index].own != others => return Err(has_changed(&file.shown)),
            Some(_) => {}
        }
        Ok(OpenFile::new(index, messages))
    }

    /// What is read of a file.
    fn wanted_of(&self, index: usize) -> Result<Arc<Wanted>> {
        let wanted = self.wanted.as_ref().ok_or_else(not_requested)?;
        match &self.united {
            None => Ok(wanted.clone()),
            Some(united) => {
                let United { own, places } = &united[index];
                Ok(Arc::new(Wanted::of(places.request(&wanted.request), own)?))
            }
        }
    }

    /// Rows of a file with all columns that are asked for.
    fn completed(&self, rows: RecordBatch, index: usize) -> Result<RecordBatch> {
        match (&self.united, &self.wanted) {
            (Some(united), Some(whole)) => {
                let places = &united[index].places;
                places.complete(&rows, &whole.request, &self.schema.columns)
            }
            _ => Ok(rows),
        }
    }

    /// The rolling hash before a file. Files that were not read are read for it.
    fn hash_before(&mut self, index: usize) -> Result<u64> {
        while let (Some(before), true) = (self.hashes.last().copied(), self.hashes.len() <= index) {
            let at = self.hashes.len() - 1;
            let wanted = self.wanted_of(at)?;
            let file = &self.files[at];
            file.check()?;
            let whole = Messages::open(file)?.whole_hash(&wanted.read)?;
            self.hashes.push(chained(before, whole));
        }
        Ok(self.hashes[index])
    }
}

impl Wanted {
    /// Of a file that has `columns`.
    fn of(request: ReadRequest, columns: &[SourceColumn]) -> Result<Self> {
        let mut fields = Vec::with_capacity(request.columns.len());
        for (index, _) in &request.columns {
            let column = columns
                .get(*index)
                .ok_or_else(|| Error::bug(format!("an Arrow source was asked for column {index}")))?;
            fields.push(Field::new(&column.name, column.arrow.clone(), true));
        }
        let requested: Vec<usize> = request.columns.iter().map(|(index, _)| *index).collect();
        let mut read = requested.clone();
        read.sort_unstable();
        read.dedup();
        Ok(Self {
            request,
            order: requested
                .iter()
                .filter_map(|index| read.binary_search(index).ok())
                .collect(),
            read,
            schema: Arc::new(Schema::new(fields)),
        })
    }
}

impl OpenFile {
    fn new(index: usize, messages: Messages) -> Self {
        Self {
            index,
            messages,
            pending: None,
            failed: None,
            rows: 0,
            counted_bytes: 0,
            fresh: true,
        }
    }

    /// Sees to it that rows are pending; false where the file ends.
    fn more(&mut self, wanted: &Wanted) -> Result<bool> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.fresh {
            self.fresh = false;
            self.messages.project(&wanted.read)?;
        }
        while self.pending.is_none() {
            let Some(batch) = self.messages.next()? else {
                return Ok(false);
            };
            if batch.num_rows() > 0 {
                let bytes = batch
                    .columns()
                    .iter()
                    .map(bytes_of)
                    .fold(0, usize::saturating_add);
                self.pending = Some(Pending {
                    row_bytes: (bytes / batch.num_rows()).max(1),
                    taken: 0,
                    batch,
                });
            }
        }
        Ok(true)
    }

    /// Takes up to `rows` pending rows.
    fn take(&mut self, rows: usize) -> Option<RecordBatch> {
        let pending = self.pending.as_mut()?;
        let rows = rows.min(pending.batch.num_rows() - pending.taken);
        let taken = pending.batch.slice(pending.taken, rows);
        pending.taken += rows;
        if pending.taken == pending.batch.num_rows() {
            self.pending = None;
        }
        self.rows += rows as u64;
        Some(taken)
    }

    /// Leaves the rows before `row` behind. False if the file ends before.
    fn go_to(&mut self, row: u64, wanted: &Wanted) -> Result<bool> {
        self.fresh = false;
        self.messages.project(&wanted.read)?;
        self.rows = self.messages.skip(row)?;
        while self.rows < row {
            if !self.more(wanted)? {
                return Ok(false);
            }
            // A batch has fewer rows than memory has bytes.
            self.take(usize::try_from(row - self.rows).unwrap_or(usize::MAX));
        }
        self.more(wanted)?;
        self.counted_bytes = self.messages.disk_bytes();
        Ok(true)
    }

    /// The rows of the next block, of which there is at least one.
    fn block(&mut self, wanted: &Wanted, shown: &Arc<str>) -> Result<RecordBatch> {
        let request = &wanted.request;
        let first_row = self.rows;
        let mut parts = Vec::new();
        let (mut rows, mut bytes) = (0, 0usize);
        while rows < request.block_rows && (rows == 0 || bytes < request.block_bytes) && self.more(wanted)? {
            let Some(pending) = &self.pending else { break };
            let row_bytes = pending.row_bytes;
            let by_bytes = request
                .block_bytes
                .saturating_sub(bytes)
                .div_ceil(row_bytes)
                .max(1);
            let Some(part) = self.take(by_bytes.min(request.block_rows - rows)) else {
                break;
            };
            rows += part.num_rows();
            bytes = bytes.saturating_add(part.num_rows().saturating_mul(row_bytes));
            parts.push(part);
        }
        let whole = guarded(|| {
            let columns = parts.iter().flat_map(RecordBatch::columns);
            let unpacked_bytes =
                columns.fold(0, |sum: u64, column| sum.saturating_add(unpacked_bytes(column)));
            if unpacked_bytes > UNPACKED_BYTES_MAX {
                return Err(ArrowError::InvalidArgumentError(format!(
                    "its dictionaries and runs stand for {unpacked_bytes} bytes in {rows} rows"
                )));
            }
            let parts: Vec<_> = parts
                .iter()
                .map(|part| unpacked(part, wanted))
                .collect::<Result<_, ArrowError>>()?;
            match parts.as_slice() {
                [part] => Ok(part.clone()),
                parts => concat_batches(&wanted.schema, parts),
            }
        });
        whole.map_err(|why| {
            Error::input(format!(
                "{shown} is damaged at or after row {}: {why}",
                first_row + 1
            ))
            .hint("copy or write the file again; no row from here on can be read")
        })
    }
}

impl Source for ArrowSource {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        self.files.iter().map(|file| file.identity.clone()).collect()
    }

    fn not_rereadable(&self) -> &'static str {
        not_rereadable(&self.files)
    }

    fn extents(&self) -> &[Extent] {
        &[]
    }

    fn table_info(&self) -> Option<&SourceTableInfo> {
        None
    }

    fn options(&self) -> Vec<String> {
        let mut options = vec!["format=arrow".to_owned()];
        // Not there where an earlier version had no such option, whose runs are gone on with.
        options.extend(self.united.is_some().then(|| "union=true".to_owned()));
        options
    }

    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    fn bytes_total(&self) -> Option<u64> {
        self.files
            .iter()
            .map(|file| Some(file.identity.as_ref()?.bytes))
            .sum()
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        if request.block_rows == 0 || u32::try_from(request.block_rows).is_err() {
            return Err(Error::bug(format!(
                "a block cannot have {} rows",
                request.block_rows
            )));
        }
        self.wanted = Some(Arc::new(Wanted::of(request.clone(), &self.schema.columns)?));
        Ok(())
    }

    fn seek(&mut self, index: u64, mark: &BlockMark) -> Result<()> {
        let number = mark.file as usize;
        let Some(file) = self.files.get(number) else {
            return Err(Error::input(format!(
                "there were more files when the run began: {} are left",
                self.files.len()
            ))
            .hint("give the files that the run began with, or --restart"));
        };
        let wanted = self.wanted_of(number)?;
        let there = |open: &OpenFile| open.index == number && open.fresh;
        if mark.offset > 0 || !self.current.as_ref().is_some_and(there) {
            if file.identity.is_none() {
                return Err(
                    Error::input(format!("{} cannot be read a second time", file.shown))
                        .hint("put the data into a file, whose load can be resumed"),
                );
            }
            let mut open = self.open_file(number)?;
            let reached = match mark.offset {
                0 => Ok(true),
                row => open.go_to(row, &wanted),
            };
            if !file.unchanged(open.messages.file(), reached)? {
                return Err(has_changed(&file.shown));
            }
            self.current = Some(open);
        }
        let mut hash = self.hash_before(number)?;
        if let (Some(open), true) = (&self.current, mark.offset > 0) {
            hash = chained(hash, open.messages.hash());
        }
        if mark.hash != 0 && hash != mark.hash {
            return Err(changed_before(
                |number| Some(&self.files.get(number)?.shown),
                mark,
            ));
        }
        self.index = index;
        self.mark = *mark;
        self.carried_bytes = 0;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Block>> {
        let wanted = loop {
            let Some(number) = self.current.as_ref().map(|open| open.index) else {
                self.wanted.as_ref().ok_or_else(not_requested)?;
                return Ok(None);
            };
            let wanted = self.wanted_of(number)?;
            let Some(open) = &mut self.current else {
                return Ok(None);
            };
            let file = &self.files[open.index];
            let more = open.more(&wanted);
            if file.unchanged(open.messages.file(), more)? {
                break wanted;
            }
            self.carried_bytes += open.messages.disk_bytes() - open.counted_bytes;
            let following = open.index + 1;
            if self.hashes.len() == following {
                self.hashes
                    .push(chained(self.hashes[open.index], open.messages.hash()));
            }
            self.current = match following < self.files.len() {
                true => Some(self.open_file(following)?),
                false => None,
            };
        };
        let Some(open) = &mut self.current else {
            return Ok(None);
        };
        let file = &self.files[open.index];
        let shown = &file.shown;
        let first_row = open.rows + 1;
        let rows = open.block(&wanted, shown);
        let rows = file.unchanged(open.messages.file(), rows)?;
        let count = rows.num_rows();
        // Rows that were read are not lost to damage behind them.
        let more = open.more(&wanted).unwrap_or_else(|error| {
            open.failed = Some(error);
            true
        });
        file.check_open(open.messages.file())?;
        let start = self.mark;
        let number = open.index;
        let last = number + 1 == self.files.len();
        let hash = chained(self.hashes[open.index], open.messages.hash());
        self.mark = match more || last {
            true => BlockMark {
                // More files than 32 bits can count cannot be named on a command line.
                file: open.index as u32,
                offset: open.rows,
                file_rows: open.rows,
                rows: start.rows + count as u64,
                hash,
            },
            false => BlockMark {
                file: open.index as u32 + 1,
                rows: start.rows + count as u64,
                hash,
                ..BlockMark::default()
            },
        };
        let consumed = open.messages.disk_bytes();
        let bytes = self.carried_bytes + consumed - open.counted_bytes;
        self.carried_bytes = 0;
        open.counted_bytes = consumed;
        let index = self.index;
        self.index += 1;
        let file = shown.clone();
        let rows = self.completed(rows, number)?;
        Ok(Some(Block {
            index,
            rows,
            origin: Origin {
                file,
                first_row,
                first_offset: None,
                // As many as fit 32 bits, as was checked when they were requested.
                rows: UInt32Array::from_iter_values(0..count as u32),
                offsets: None,
                places: None,
            },
            rejects: Vec::new(),
            start,
            end: self.mark,
            bytes,
        }))
    }
}

fn not_requested() -> Error {
    Error::bug("an Arrow source was read before it was asked for columns")
}

fn columns_of(schema: &Schema) -> Vec<SourceColumn> {
    let column = |field: &FieldRef| SourceColumn {
        beyond_arrow: BeyondArrow::Refused,
        name: field.name().clone(),
        arrow: innermost(field.data_type()).clone(),
        suggested: suggested(field),
        nullable: field.is_nullable(),
        null_word: None,
    };
    schema.fields().iter().map(column).collect()
}

/// The columns requested, in their order, with dictionaries and runs as values.
fn unpacked(part: &RecordBatch, wanted: &Wanted) -> Result<RecordBatch, ArrowError> {
    let columns = wanted
        .order
        .iter()
        .map(|index| {
            let column = part.column(*index);
            match innermost(column.data_type()) {
                plain if plain == column.data_type() => Ok(column.clone()),
                plain => cast(column, plain),
            }
        })
        .collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(part.num_rows()));
    RecordBatch::try_new_with_options(wanted.schema.clone(), columns, &options)
}

/// Bytes of a column's values, those of a run as often as it has them, those of a dictionary as often as they occur on
/// average.
fn bytes_of(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Dictionary(..) => {
            let values = column.as_any_dictionary().values();
            (bytes_of(values) / values.len().max(1)).saturating_mul(column.len())
        }
        DataType::RunEndEncoded(..) => usize::try_from(unpacked_bytes(column)).unwrap_or(usize::MAX),
        _ => column.to_data().get_slice_memory_size().unwrap_or(0),
    }
}

/// The bytes of the values that a column will be cast to, where it names each of them once for many rows; 0 for others,
/// and for values that are not copied.
fn unpacked_bytes(column: &ArrayRef) -> u64 {
    match column.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let values = dictionary.values();
            // No value has more bytes than all of them, which is bound enough for most.
            let most = (bytes_of(values) as u64).saturating_mul(column.len() as u64);
            if values.is_empty() || most <= UNPACKED_BYTES_MAX {
                return 0;
            }
            let keys = dictionary.normalized_keys().into_iter();
            let average = average_bytes(values);
            keys.map(|key| value_bytes(values, average, key)).sum()
        }
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => run_bytes(column.as_run::<Int16Type>()),
            DataType::Int32 => run_bytes(column.as_run::<Int32Type>()),
            _ => run_bytes(column.as_run::<Int64Type>()),
        },
        _ => 0,
    }
}

fn run_bytes<R: RunEndIndexType>(runs: &RunArray<R>) -> u64 {
    let first = runs.get_start_physical_index();
    let mut before = 0;
    let lengths = runs.run_ends().sliced_values().map(|end| {
        let end = arrow::datatypes::ArrowNativeType::as_usize(end);
        end - std::mem::replace(&mut before, end)
    });
    let average = average_bytes(runs.values());
    let bytes = lengths
        .enumerate()
        .map(|(run, rows)| value_bytes(runs.values(), average, first + run).saturating_mul(rows as u64));
    bytes.fold(0, u64::saturating_add)
}

fn average_bytes(values: &ArrayRef) -> u64 {
    (bytes_of(values) / values.len().max(1)) as u64
}

/// The bytes of one value; of one that is no text the average.
fn value_bytes(values: &ArrayRef, average: u64, at: usize) -> u64 {
    match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().value_length(at) as u64,
        DataType::LargeUtf8 => values.as_string::<i64>().value_length(at) as u64,
        DataType::Binary => values.as_binary::<i32>().value_length(at) as u64,
        DataType::LargeBinary => values.as_binary::<i64>().value_length(at) as u64,
        DataType::Utf8View | DataType::BinaryView => 0,
        _ => average,
    }
}
