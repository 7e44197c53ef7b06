//! What sources of text share: bytes to UTF-8, a window that moves over it, and what is done with bad rows.

pub(crate) mod blanks;
pub(crate) mod decode;
pub(crate) mod opening;
pub(crate) mod reading;
pub(crate) mod window;

use std::sync::Arc;

use arrow::{
    array::{BooleanArray, RecordBatch, UInt32Array},
    compute::{filter, filter_record_batch},
    datatypes::{Field, Schema, SchemaRef},
};
use memchr::memchr;
use tonnage_core::{
    error::{Error, Result},
    reject::Problems,
    source::{Origin, ReadRequest},
};

use self::window::Window;
use super::{InputFile, compress::PARQUET_MAGIC};

/// Types are inferred from at most this much of the input.
pub(crate) const SAMPLE_BYTES: usize = 4 << 20;
/// And from at most this many rows: as many as DuckDB looks at.
pub(crate) const SAMPLE_ROWS: usize = 20_480;

/// The largest block: places within one have 30 bits, and its last record comes on top.
pub(crate) const BLOCK_BYTES_MAX: usize = 256 << 20;

/// The largest bound on a record: offsets within a block have 30 bits, and a block may hold more than one
/// record.
pub(crate) const RECORD_BYTES_LIMIT: usize = 512 << 20;

/// The most bytes kept of a record that does not end.
const ENDLESS_KEPT_BYTES: usize = 64 << 10;

const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";
const UTF16_LE_MARK: &[u8] = b"\xff\xfe";
const UTF16_BE_MARK: &[u8] = b"\xfe\xff";

/// Consumes a byte order mark, and refuses what is not text of the expected kind. What was
/// made UTF-8 here is text.
fn begin(window: &mut Window, shown: &str) -> Result<()> {
    let decoded = window.is_decoded();
    window.read(PARQUET_MAGIC.len())?;
    let text = window.text();
    if text.starts_with(PARQUET_MAGIC) {
        return Err(Error::input(format!("{shown} is a Parquet file, not text"))
            .hint("read it with --format parquet"));
    }
    if decoded {
        return Ok(());
    }
    for (mark, label) in [(UTF16_LE_MARK, "utf-16le"), (UTF16_BE_MARK, "utf-16be")] {
        if text.starts_with(mark) {
            return Err(Error::input(format!("{shown} is UTF-16 text, not UTF-8"))
                .hint(format!("read it with --encoding {label}")));
        }
    }
    if text.starts_with(UTF8_MARK) {
        window.consume(UTF8_MARK.len());
    }
    Ok(())
}

/// `Config` for blocks that are empty or too large to be cut.
fn check_bounds(request: &ReadRequest) -> Result<()> {
    if request.block_rows == 0 || u32::try_from(request.block_rows).is_err() {
        return Err(Error::config(format!(
            "the rows of a block have to be between 1 and {}",
            u32::MAX
        )));
    }
    if request.block_bytes == 0 || request.block_bytes > BLOCK_BYTES_MAX {
        return Err(Error::config(format!(
            "the bytes of a block have to be between 1 and {BLOCK_BYTES_MAX}"
        )));
    }
    Ok(())
}

/// The schema of the batches that `request` asks for.
pub(crate) fn batch_schema(names: &[Arc<str>], request: &ReadRequest) -> Result<SchemaRef> {
    let fields: Vec<Field> = request
        .columns
        .iter()
        .map(|(index, ty)| {
            let name = names.get(*index).ok_or_else(|| {
                Error::bug(format!("column {index} was requested, there are {}", names.len()))
            })?;
            Ok(Field::new(&**name, ty.arrow(), true))
        })
        .collect::<Result<_>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

/// Consumes a record that does not end within its bound, up to the next line end; returns its beginning.
pub(crate) fn drain(window: &mut Window, record_bytes_max: usize) -> Result<Vec<u8>> {
    let text = window.text();
    // The window holds at least as many bytes as a record may have; how many more is chance.
    let kept_bytes = record_bytes_max.min(ENDLESS_KEPT_BYTES);
    let kept = text[..text.len().min(kept_bytes)].to_vec();
    loop {
        match memchr(b'\n', window.text()) {
            Some(hit) => {
                window.consume(hit + 1);
                return Ok(kept);
            }
            None => window.consume(window.text().len()),
        }
        if window.whole() {
            return Ok(kept);
        }
        window.read(1)?;
    }
}

/// Takes the rows that have problems out of a batch and its origin.
pub(crate) fn keep_good(rows: RecordBatch, origin: &mut Origin, problems: &Problems) -> Result<RecordBatch> {
    if problems.is_empty() {
        return Ok(rows);
    }
    let mask: BooleanArray = (0..rows.num_rows())
        .map(|row| Some(!problems.contains(row)))
        .collect();
    origin.rows = filter_numbers(&origin.rows, &mask)?;
    origin.offsets = match &origin.offsets {
        Some(offsets) => Some(filter_numbers(offsets, &mask)?),
        None => None,
    };
    filter_record_batch(&rows, &mask).map_err(filter_failed)
}

fn filter_numbers(numbers: &UInt32Array, mask: &BooleanArray) -> Result<UInt32Array> {
    let filtered = filter(numbers, mask).map_err(filter_failed)?;
    Ok(UInt32Array::from(filtered.to_data()))
}

fn filter_failed(cause: arrow::error::ArrowError) -> Error {
    Error::bug(format!("bad rows cannot be taken out of a block: {cause}"))
}
/// The file, where it can be read a second time. `Config` where it cannot.
pub(crate) fn again(file: &InputFile) -> Result<&InputFile> {
    match file.identity {
        Some(_) => Ok(file),
        None => Err(Error::config(format!(
            "{} cannot be looked at first and read afterwards",
            file.shown
        ))
        .hint("write it to a file; or leave --scan all, or --union, out")),
    }
}
