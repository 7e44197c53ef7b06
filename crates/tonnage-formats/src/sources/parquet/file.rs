//! One Parquet file: its footer, and what is wrong with files.

use std::{fmt::Display, io, sync::Arc};

use arrow::datatypes::{DataType, FieldRef, Schema, TimeUnit};
use bytes::Bytes;
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    basic::{LogicalType, Type as PhysicalType},
    errors::Result as ParquetResult,
    file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData},
};
use tonnage_core::{
    convert::suggested,
    error::{Error, Result},
    reader::BeyondArrow,
    source::{ReadRequest, SourceColumn},
    types::ColumnType,
};
use tonnage_places::{END_BYTES, File, Share};
use xxhash_rust::xxh3::xxh3_64;

use super::claims::check_footer;
use crate::sources::{
    InputFile,
    damage::{METADATA_BYTES_MAX, guarded, has_changed},
};

/// At either end of every file.
const MAGIC: &[u8; 4] = b"PAR1";

/// At the end of a file whose footer is encrypted.
const MAGIC_ENCRYPTED: &[u8; 4] = b"PARE";

/// The length of the footer, then the magic.
const TAIL_BYTES: u64 = 8;

/// The most bytes that values of a fixed length may take in a block: room is made for as many as a block has rows,
/// also where all of them are null.
const FIXED_BLOCK_BYTES_MAX: u64 = 256 << 20;

/// What is kept of a file while others are read: little, because there may be thousands.
#[derive(Debug)]
pub(super) struct ParquetFile {
    pub input: InputFile,
    /// Size of the file.
    pub bytes: u64,
    /// Rows of all row groups.
    pub rows: u64,
    /// Bytes of all column chunks, encoded but not compressed.
    bytes_uncompressed: u64,
    /// Bytes of the longest values of a fixed length.
    fixed_bytes: u64,
    /// Of the bytes of the footer.
    pub footer_hash: u64,
}

/// What a footer says.
pub(super) struct Footer {
    /// How the columns are read.
    pub metadata: ArrowReaderMetadata,
    /// How Arrow would read them: times of 96 bits as nanoseconds.
    pub nanos: ArrowReaderMetadata,
    /// The columns, one an Arrow field.
    pub columns: Vec<SourceColumn>,
    /// For each column its index among the roots of the Parquet schema.
    pub roots: Vec<usize>,
    /// For each column whether it is a time of 96 bits.
    pub int96: Vec<bool>,
    /// Rows of each row group.
    pub group_rows: Vec<u64>,
    bytes_uncompressed: u64,
    fixed_bytes: u64,
    hash: u64,
}

impl ParquetFile {
    /// Opens the file and reads its footer.
    pub fn open(input: InputFile) -> Result<(Self, Footer)> {
        const FROM_ITS_END: &str = "save it to a file first: a Parquet file is read from its end";
        match (&input.path, &input.object) {
            (None, None) => {
                return Err(Error::config("Parquet cannot be read from standard input").hint(FROM_ITS_END));
            }
            (None, Some(object)) if !object.has_ranges() => {
                let error = format!(
                    "{}: the server gives the file from its beginning only",
                    input.shown
                );
                return Err(Error::config(error).hint(FROM_ITS_END));
            }
            _ => {}
        }
        let read = || {
            let (file, bytes) = open(&input)?;
            let footer = Footer::read(&file, bytes, &input.shown)?;
            Ok((bytes, footer))
        };
        let read = read();
        input.check()?;
        let (bytes, footer) = read?;
        let file = Self {
            input,
            bytes,
            rows: footer.group_rows.iter().sum(),
            bytes_uncompressed: footer.bytes_uncompressed,
            fixed_bytes: footer.fixed_bytes,
            footer_hash: footer.hash,
        };
        Ok((file, footer))
    }

    /// `Input` if the file is no longer what it was when it was found.
    pub fn check(&self) -> Result<()> {
        self.input.check()
    }

    /// The same of the file read as `open`.
    pub fn check_open(&self, open: &File) -> Result<()> {
        self.input.check_open(Some(open))
    }

    /// Opens the file once more.
    pub fn file(&self) -> Result<File> {
        Ok(open(&self.input)?.0)
    }

    /// Opens the file again to read rows. `Input` if it is not what it was.
    pub fn reopen(&self) -> Result<(File, Footer)> {
        self.check()?;
        let shown = &self.input.shown;
        let (file, bytes) = open(&self.input)?;
        if bytes != self.bytes {
            return Err(has_changed(shown));
        }
        let footer = Footer::read(&file, bytes, shown);
        let footer = footer.map_err(|error| self.check().err().unwrap_or(error))?;
        if footer.hash != self.footer_hash {
            return Err(has_changed(shown));
        }
        Ok((file, footer))
    }

    /// Rows of every block but the last: as many as have, on average over the file, `block_bytes` bytes
    /// before compression; at least one and at most `block_rows`.
    pub fn block_rows(&self, request: &ReadRequest) -> u64 {
        let rows =
            u128::from(self.rows) * request.block_bytes as u128 / u128::from(self.bytes_uncompressed.max(1));
        let most = (request.block_rows as u64).min(FIXED_BLOCK_BYTES_MAX / self.fixed_bytes.max(1));
        // Clamped to what is 64 bits.
        rows.clamp(1, u128::from(most.max(1))) as u64
    }

    /// The share of the file's bytes that its first `row` rows take.
    pub fn bytes_before(&self, row: u64) -> u64 {
        // At most `bytes`, since `row` is at most `rows`.
        (u128::from(self.bytes) * u128::from(row) / u128::from(self.rows.max(1))) as u64
    }
}

fn open(input: &InputFile) -> Result<(File, u64)> {
    let shown = &input.shown;
    let cannot = |cause: io::Error| Error::input(format!("cannot open {shown}: {cause}")).caused_by(cause);
    let file = input.opened().map_err(cannot)?;
    if let Some(open) = file.disk()
        && !open.metadata().map_err(cannot)?.is_file()
    {
        return Err(Error::input(format!("{shown} is not a file"))
            .hint("Parquet is read from its end, so a pipe or a directory will not do"));
    }
    let bytes = file.size().map_err(cannot)?;
    Ok((file, bytes))
}

impl Footer {
    fn read(file: &File, bytes: u64, shown: &str) -> Result<Self> {
        let encoded = footer_bytes(file, bytes, shown)?;
        check_footer(&encoded)
            .map_err(|why| incomplete(shown, format_args!("its footer makes no sense: {why}")))?;
        let metadata = guarded(|| ParquetMetaDataReader::decode_metadata(&encoded))
            .map_err(|cause| incomplete(shown, format_args!("its footer cannot be read: {cause}")))?;
        let counts =
            Counts::of(&metadata).ok_or_else(|| incomplete(shown, "its footer contradicts itself"))?;
        let metadata = without_absent_dictionaries(metadata);
        let unreadable = |cause| incomplete(shown, format_args!("its schema cannot be read: {cause}"));
        let plain = guarded(|| ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::new()))
            .map_err(unreadable)?;
        let roots = roots(&plain);
        let int96 = int96(&plain, &roots);
        let metadata = guarded(|| arrow_metadata(plain.clone(), &int96)).map_err(unreadable)?;
        let columns = columns(&metadata, &roots);
        let leaves = metadata.parquet_schema().columns().iter();
        let fixed = leaves
            .filter(|leaf| leaf.physical_type() == PhysicalType::FIXED_LEN_BYTE_ARRAY)
            .filter_map(|leaf| u64::try_from(leaf.type_length()).ok());
        let fixed_bytes = fixed.max().unwrap_or(0);
        Ok(Self {
            metadata,
            nanos: plain,
            columns,
            roots,
            int96,
            group_rows: counts.group_rows,
            bytes_uncompressed: counts.bytes_uncompressed,
            fixed_bytes,
            hash: xxh3_64(&encoded),
        })
    }
}

/// The footer as it is in the file.
fn footer_bytes(file: &File, bytes: u64, shown: &str) -> Result<Bytes> {
    let cannot = |cause: io::Error| Error::input(format!("cannot read {shown}: {cause}")).caused_by(cause);
    if bytes == 0 {
        return Err(incomplete(shown, "it is empty"));
    }
    if bytes < TAIL_BYTES + MAGIC.len() as u64 {
        return Err(incomplete(shown, format_args!("it has {bytes} bytes only")));
    }
    // Of an object both ends come at once, and most footers with them.
    let ends = vec![0..MAGIC.len() as u64, bytes.saturating_sub(END_BYTES)..bytes];
    let file = file.positioned(ends, Share::whole()).map_err(cannot)?;
    let head = file.bytes_at(0, MAGIC.len()).map_err(cannot)?;
    let tail = file
        .bytes_at(bytes - TAIL_BYTES, TAIL_BYTES as usize)
        .map_err(cannot)?;
    let (length, magic) = tail.split_at(4);
    if magic == MAGIC_ENCRYPTED {
        return Err(
            Error::input(format!("{shown} is encrypted, which cannot be read yet"))
                .hint("decrypt it first, with the tool that wrote it"),
        );
    }
    if head != MAGIC.as_slice() {
        return Err(
            Error::input(format!("{shown} is not a Parquet file")).hint("name its format with --format")
        );
    }
    if magic != MAGIC {
        return Err(incomplete(shown, "its end is missing"));
    }
    let length = length
        .iter()
        .rev()
        .fold(0, |length, byte| length << 8 | u64::from(*byte));
    let room = bytes - TAIL_BYTES - MAGIC.len() as u64;
    if length > room {
        return Err(incomplete(
            shown,
            format_args!("its footer of {length} bytes does not fit into it"),
        ));
    }
    if length > METADATA_BYTES_MAX {
        return Err(incomplete(
            shown,
            format_args!("its footer of {length} bytes is longer than {METADATA_BYTES_MAX}"),
        ));
    }
    file.bytes_at(bytes - TAIL_BYTES - length, length as usize)
        .map_err(cannot)
}

/// Some writers say that the dictionary of a column without one is at place 0, where the file has its magic.
fn without_absent_dictionaries(metadata: ParquetMetaData) -> ParquetMetaData {
    let absent = |chunk: &ColumnChunkMetaData| chunk.dictionary_page_offset() == Some(0);
    if !metadata
        .row_groups()
        .iter()
        .any(|group| group.columns().iter().any(absent))
    {
        return metadata;
    }
    let chunk = |chunk: &ColumnChunkMetaData| {
        let whole = chunk.clone().into_builder();
        let whole = match absent(chunk) {
            true => whole.set_dictionary_page_offset(None),
            false => whole,
        };
        whole.build()
    };
    let group = |group: &RowGroupMetaData| {
        let chunks = group.columns().iter().map(chunk).collect::<ParquetResult<_>>()?;
        group.clone().into_builder().set_column_metadata(chunks).build()
    };
    let groups: ParquetResult<Vec<_>> = metadata.row_groups().iter().map(group).collect();
    match groups {
        Ok(groups) => metadata.into_builder().set_row_groups(groups).build(),
        // What is wrong with it is told when it is read.
        Err(_) => metadata,
    }
}

/// Counts of the footer, checked: they are signed in the format.
struct Counts {
    group_rows: Vec<u64>,
    bytes_uncompressed: u64,
}

impl Counts {
    fn of(metadata: &ParquetMetaData) -> Option<Self> {
        let mut counts = Self {
            group_rows: Vec::with_capacity(metadata.num_row_groups()),
            bytes_uncompressed: 0,
        };
        let mut rows = 0u64;
        for group in metadata.row_groups() {
            let group_rows = u64::try_from(group.num_rows()).ok()?;
            counts.group_rows.push(group_rows);
            rows = rows.checked_add(group_rows)?;
            for column in group.columns() {
                let bytes = u64::try_from(column.uncompressed_size()).ok()?;
                counts.bytes_uncompressed = counts.bytes_uncompressed.checked_add(bytes)?;
            }
        }
        (u64::try_from(metadata.file_metadata().num_rows()).ok()? == rows).then_some(counts)
    }
}

/// The schema as Arrow sees it, with two changes. Columns that were written from dictionaries are read as
/// their values: the file may hold more distinct values than the keys can count, and dictionaries differ from
/// page to page. The old 96-bit times are read as microseconds: as nanoseconds, Arrow's choice, they wrap
/// around after 2262.
fn arrow_metadata(plain: ArrowReaderMetadata, int96: &[bool]) -> ParquetResult<ArrowReaderMetadata> {
    let schema = plain.schema();
    let changed = |index: usize, field: &FieldRef| match field.data_type() {
        DataType::Dictionary(_, values) => Some(values.as_ref().clone()),
        _ if int96.get(index) == Some(&true) => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
        _ => None,
    };
    let mut any = false;
    let mut fields: Vec<FieldRef> = Vec::with_capacity(schema.fields().len());
    for (index, field) in schema.fields().iter().enumerate() {
        fields.push(match changed(index, field) {
            None => field.clone(),
            Some(data_type) => {
                any = true;
                Arc::new(field.as_ref().clone().with_data_type(data_type))
            }
        });
    }
    if !any {
        return Ok(plain);
    }
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    ArrowReaderMetadata::try_new(plain.metadata().clone(), options)
}

/// For each Arrow field whether the file has it as a time of 96 bits.
fn int96(metadata: &ArrowReaderMetadata, roots: &[usize]) -> Vec<bool> {
    let parquet = metadata.parquet_schema().root_schema().get_fields();
    let is_int96 = |root: &usize| {
        let root = parquet.get(*root);
        root.is_some_and(|root| root.is_primitive() && root.get_physical_type() == PhysicalType::INT96)
    };
    roots.iter().map(is_int96).collect()
}

/// For each Arrow field its root in the Parquet schema. Arrow leaves out groups without a field.
fn roots(metadata: &ArrowReaderMetadata) -> Vec<usize> {
    let arrow = metadata.schema().fields();
    let parquet = metadata.parquet_schema().root_schema().get_fields();
    if arrow.len() == parquet.len() {
        return (0..arrow.len()).collect();
    }
    // They are in the same order.
    let mut roots = parquet.iter().enumerate();
    let root = |field: &FieldRef| Some(roots.find(|(_, root)| root.name() == field.name())?.0);
    arrow.iter().filter_map(root).collect()
}

fn columns(metadata: &ArrowReaderMetadata, roots: &[usize]) -> Vec<SourceColumn> {
    let parquet = metadata.parquet_schema().root_schema().get_fields();
    metadata
        .schema()
        .fields()
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let root = roots.get(index).and_then(|root| parquet.get(*root));
            let logical = root.and_then(|root| root.get_basic_info().logical_type_ref());
            let suggested = match (logical, suggested(field)) {
                (Some(LogicalType::Uuid), Some(ColumnType::Bytes)) => Some(ColumnType::Uuid),
                (Some(LogicalType::Json), Some(ColumnType::Text { .. })) => Some(ColumnType::Json),
                (_, suggested) => suggested,
            };
            SourceColumn {
                beyond_arrow: BeyondArrow::Refused,
                name: field.name().clone(),
                arrow: field.data_type().clone(),
                suggested,
                nullable: field.is_nullable(),
                null_word: None,
            }
        })
        .collect()
}

fn incomplete(shown: &str, why: impl Display) -> Error {
    Error::input(format!("{shown} is not a complete Parquet file: {why}"))
        .hint("it may still be being written, or a copy of it was cut short: copy or write it again")
}

/// Rows that cannot be read, though the footer can. `row` is the first of them, from 0.
pub(super) fn damaged(shown: &str, row: u64, why: impl Display) -> Error {
    Error::input(format!("{shown} is damaged at or after row {}: {why}", row + 1))
        .hint("copy or write the file again; no row from here on can be read")
}
