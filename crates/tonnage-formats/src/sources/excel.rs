//! A sheet of an Excel or OpenDocument file as CSV text, which is then read like any other.
//!
//! - Text is in quotes, so that `007` and `1,5` stay text; a number is its shortest decimal; a date is as ISO 8601 has
//!   it, without a time where no value of its column has one; an empty cell is null, and so is an empty text.
//! - A cell with an error (`#N/A`) is its text.
//! - Rows without a value are blank lines, which are no rows.
//! - The file is held in memory, and so is its text: both have a bound.

use std::{
    io::{Cursor, Read},
    sync::Arc,
};

use calamine::{Data, ExcelDateTime, Range, Reader, open_workbook_auto_from_rs};
use tonnage_core::{
    error::{Error, Result},
    table::nearest,
};

use super::archive::ZIP_MAGIC;

/// What files of Excel before 2007 begin with.
const OLD_MAGIC: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";

/// The most bytes of a file.
const FILE_BYTES_MAX: u64 = 128 << 20;

/// The most bytes that its parts have without compression.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// Endings of names of such files.
pub(super) const ENDINGS: [&str; 5] = ["xlsx", "xlsm", "xlsb", "xls", "ods"];

/// Whether a file that begins so, under this name, may be one.
pub(super) fn is_excel(start: &[u8], shown: &str) -> bool {
    let ending = shown.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_named = ENDINGS.contains(&ending.as_str());
    start.starts_with(OLD_MAGIC) || (start.starts_with(ZIP_MAGIC) && is_named)
}

/// A sheet as text.
#[derive(Debug)]
pub(super) struct Sheet {
    /// CSV.
    pub text: Vec<u8>,
    /// What there is to say of which sheet it is.
    pub note: Option<String>,
}

/// The text of `sheet`, or of the first one that has a value, of a file whose bytes `reader` reads. `Input` for a file that
/// is damaged or larger than the bounds, `Config` for a sheet that is not there.
pub(super) fn text(shown: &Arc<str>, mut reader: impl Read, sheet: Option<&str>) -> Result<Sheet> {
    let unread = |why: String| {
        Error::input(format!("{shown}: cannot be read as an Excel file: {why}"))
            .hint("is it whole, and not encrypted? open it and save it again, or save it as CSV")
    };
    let mut bytes = Vec::new();
    (&mut reader)
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|cause| unread(cause.to_string()).caused_by(cause))?;
    let too_large = |bytes: u64| {
        Error::input(format!(
            "{shown}: an Excel file is read as a whole, and this one has more than {bytes} bytes"
        ))
        .hint("save it as CSV and load that")
    };
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large(FILE_BYTES_MAX));
    }
    if bytes.starts_with(ZIP_MAGIC) {
        let archive = zip::ZipArchive::new(Cursor::new(&bytes[..]))
            .map_err(|cause| unread(cause.to_string()).caused_by(cause))?;
        if unpacked_bytes(archive).is_none_or(|bytes| bytes > UNPACKED_BYTES_MAX) {
            return Err(too_large(UNPACKED_BYTES_MAX));
        }
    }
    let bytes: Arc<[u8]> = bytes.into();
    let mut book = open_workbook_auto_from_rs(Cursor::new(bytes))
        .map_err(|cause| unread(cause.to_string()).caused_by(cause))?;
    let names = book.sheet_names();
    let mut range_of = |name: &str| {
        book.worksheet_range(name)
            .map_err(|cause| unread(format!("sheet '{name}': {cause}")).caused_by(cause))
    };
    let name = match sheet {
        None => {
            let first = names
                .first()
                .ok_or_else(|| unread("it has no sheet".to_owned()))?;
            for name in &names {
                let range = range_of(name)?;
                if !range.is_empty() {
                    let note = format!(
                        "sheet '{name}' of {shown} is read, those before it are empty; --sheet names another"
                    );
                    return Ok(Sheet {
                        text: csv_of(&range),
                        note: (name != first).then_some(note),
                    });
                }
            }
            first
        }
        Some(wanted) => names.iter().find(|name| *name == wanted).ok_or_else(|| {
            let near = nearest(wanted, names.iter().map(String::as_str));
            let listed = if near.is_empty() {
                names.join(", ")
            } else {
                near.join(" or ")
            };
            Error::config(format!("{shown} has no sheet '{wanted}'")).hint(format!("there is {listed}"))
        })?,
    };
    Ok(Sheet {
        text: csv_of(&range_of(name)?),
        note: None,
    })
}

/// What the parts of an archive have without compression, by its directory; none where that is damaged. The library's own
/// sum has none either for parts with sizes behind them, as Google Sheets and others write all of theirs.
fn unpacked_bytes(mut archive: zip::ZipArchive<Cursor<&[u8]>>) -> Option<u64> {
    let parts = 0..archive.len();
    parts
        .map(|part| archive.by_index_raw(part).ok().map(|part| part.size()))
        .try_fold(0u64, |bytes, part| bytes.checked_add(part?))
}

fn csv_of(range: &Range<Data>) -> Vec<u8> {
    let mut has_times = vec![false; range.width()];
    for row in range.rows() {
        for (cell, has_times) in row.iter().zip(&mut has_times) {
            if let Data::DateTime(time) = cell {
                *has_times |= time_of_day(time).is_some();
            }
        }
    }
    let mut text = Vec::new();
    for row in range.rows() {
        let is_null = |cell: &Data| {
            matches!(cell, Data::Empty) || matches!(cell, Data::String(text) if text.is_empty())
        };
        if !row.iter().all(is_null) {
            for (column, cell) in row.iter().enumerate() {
                if column > 0 {
                    text.push(b',');
                }
                push(&mut text, cell, has_times[column]);
            }
        }
        text.push(b'\n');
    }
    text
}

fn push(text: &mut Vec<u8>, cell: &Data, has_times: bool) {
    match cell {
        Data::Empty => {}
        Data::String(value) if value.is_empty() => {}
        Data::String(value) => push_quoted(text, value),
        Data::Int(value) => text.extend_from_slice(value.to_string().as_bytes()),
        Data::Float(value) => text.extend_from_slice(value.to_string().as_bytes()),
        Data::Bool(value) => text.extend_from_slice(value.to_string().as_bytes()),
        Data::DateTime(time) => text.extend_from_slice(shown_time(time, has_times).as_bytes()),
        Data::DateTimeIso(value) | Data::DurationIso(value) => push_quoted(text, value),
        other => push_quoted(text, &other.to_string()),
    }
}

fn push_quoted(text: &mut Vec<u8>, value: &str) {
    text.push(b'"');
    for byte in value.bytes() {
        if byte == b'"' {
            text.push(b'"');
        }
        text.push(byte);
    }
    text.push(b'"');
}

/// Hours, minutes, seconds and milliseconds, if they are not all zero.
fn time_of_day(time: &ExcelDateTime) -> Option<(u8, u8, u8, u16)> {
    let (_, _, _, hour, minute, second, milli) = time.to_ymd_hms_milli();
    let parts = (hour, minute, second, milli);
    (time.is_duration() || parts != (0, 0, 0, 0)).then_some(parts)
}

fn shown_time(time: &ExcelDateTime, has_times: bool) -> String {
    let (year, month, day, hour, minute, second, milli) = time.to_ymd_hms_milli();
    let fraction = match milli {
        0 => String::new(),
        milli => format!(".{milli:03}"),
    };
    let of_day = format!("{minute:02}:{second:02}{fraction}");
    // A time without a date is a part of the day that the numbers begin with.
    if time.is_duration() || (0.0..1.0).contains(&time.as_f64()) {
        let hours = (time.as_f64() * 24.0 + 1e-9).floor() as i64;
        return format!("{hours:02}:{of_day}");
    }
    match has_times {
        true => format!("{year:04}-{month:02}-{day:02}T{hour:02}:{of_day}"),
        false => format!("{year:04}-{month:02}-{day:02}"),
    }
}
