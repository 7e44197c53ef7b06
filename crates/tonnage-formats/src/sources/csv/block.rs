//! Cuts a block from a file's text and makes typed columns of it.
//!
//! A block ends with the row that is its `block_rows`th or reaches its `block_bytes`th byte, where the file
//! ends, or before a record without an end (which is a block of its own): all of it decided by the text
//! alone.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array},
    datatypes::SchemaRef,
};
use tonnage_core::{
    error::{Error, Result},
    parse::{ParseContext, parse_column},
    reject::{Problem, Problems, Reject, RejectData, sqlstate},
    source::{Origin, ReadRequest},
};

use super::{
    dialect::Dialect,
    header::FileColumns,
    tokenise::{Fields, Flaw, Idle, Record, Span, Tokeniser, is_line_end},
};
use crate::sources::text::{drain, keep_good, reading::Parts, window::Window};

/// The most fields that the rejects of a block keep by name: one takes 40 bytes and more. Further rejects
/// keep their bytes as they are.
const REJECTED_FIELDS_MAX: usize = 1 << 20;

/// Where a record lies in its block.
#[derive(Debug, Clone, Copy)]
struct RecordSpan {
    /// Its row in the block, from 0.
    row: u32,
    start: u32,
    /// Without the line end.
    end: u32,
}

/// The records of a block. Kept from block to block for the room it has taken.
#[derive(Debug, Default)]
pub(super) struct Records {
    fields: Fields,
    good: Vec<RecordSpan>,
    bad: Vec<(RecordSpan, Flaw)>,
    /// Blank lines between them.
    blank_lines: u64,
}

/// How the cut came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// At a place in the window.
    At(usize),
    /// A record that does not end is all there is.
    Endless,
}

/// Everything that stays the same for the blocks of a file.
pub(super) struct Shape<'a> {
    /// The file, as the user named it.
    pub shown: &'a Arc<str>,
    /// Its columns.
    pub columns: &'a FileColumns,
    /// What cuts it.
    pub tokeniser: &'a Tokeniser,
    /// What is wanted.
    pub request: &'a ReadRequest,
    /// The schema of the batches.
    pub schema: &'a SchemaRef,
    /// What means null, and what spaces mean.
    pub dialect: &'a Dialect,
    /// For values of all types.
    pub context: &'a ParseContext,
}

/// Consumes lines that are no records. False where the file ends.
pub(super) fn skip_idle(window: &mut Window, tokeniser: &Tokeniser) -> Result<bool> {
    loop {
        let (mut at, mut blank_lines) = (0, 0);
        let idle = loop {
            match tokeniser.idle(window.text(), at, window.whole()) {
                Idle::Line { next } => {
                    blank_lines += u64::from(is_line_end(window.text()[at]));
                    at = next;
                }
                other => break other,
            }
        };
        window.consume(at);
        window.pass_blank_lines(blank_lines);
        match idle {
            Idle::Record => return Ok(true),
            Idle::End => return Ok(false),
            _ => window.read(window.text().len())?,
        }
    }
}

/// Cuts the next block and consumes it. The window has to be at a record. `rows_before`: rows of the file
/// before it.
pub(super) fn next(
    window: &mut Window,
    shape: &Shape<'_>,
    records: &mut Records,
    rows_before: u64,
) -> Result<Parts> {
    let offset = window.offsets_are_the_files().then(|| window.offset());
    let mut origin = Origin {
        file: shape.shown.clone(),
        first_row: rows_before + 1,
        first_offset: offset,
        rows: UInt32Array::from(Vec::<u32>::new()),
        offsets: offset.map(|_| UInt32Array::from(Vec::<u32>::new())),
        places: None,
    };
    match records.cut(window, shape.tokeniser, shape.request)? {
        Cut::At(end) => {
            let mut parts = records.read(window.text(), shape, origin)?;
            parts.rejects.sort_by_key(|reject| reject.row);
            window.consume(end);
            Ok(parts)
        }
        Cut::Endless => {
            let kept = drain(window, shape.tokeniser.record_bytes_max())?;
            origin.first_offset = offset;
            let reject = Reject {
                file: shape.shown.clone(),
                row: rows_before + 1,
                offset,
                problem: shape.problem(shape.tokeniser.too_long()),
                data: RejectData::Raw(kept),
            };
            Ok(Parts {
                rows: RecordBatch::new_empty(shape.schema.clone()),
                origin,
                rejects: vec![reject],
            })
        }
    }
}

impl Records {
    fn rows(&self) -> usize {
        self.good.len() + self.bad.len()
    }

    /// Finds the records of the next block, from the beginning of the window.
    fn cut(&mut self, window: &mut Window, tokeniser: &Tokeniser, request: &ReadRequest) -> Result<Cut> {
        self.fields.clear();
        self.good.clear();
        self.bad.clear();
        self.blank_lines = 0;
        let mut at = 0;
        loop {
            if let Some(cut) = self.cut_text(window.text(), window.whole(), &mut at, tokeniser, request) {
                window.pass_blank_lines(self.blank_lines);
                return Ok(cut);
            }
            // As much again as the record has so far: a long one is not scanned over and over.
            window.read(window.text().len() - at)?;
        }
    }

    /// Goes on at `at` as far as `text` reaches. None if that is not far enough.
    fn cut_text(
        &mut self,
        text: &[u8],
        whole: bool,
        at: &mut usize,
        tokeniser: &Tokeniser,
        request: &ReadRequest,
    ) -> Option<Cut> {
        loop {
            let rows = self.rows();
            if rows > 0 && (rows >= request.block_rows || *at >= request.block_bytes) {
                return Some(Cut::At(*at));
            }
            match tokeniser.idle(text, *at, whole) {
                Idle::Record => {}
                Idle::Line { next } => {
                    self.blank_lines += u64::from(is_line_end(text[*at]));
                    *at = next;
                    continue;
                }
                Idle::Incomplete => return None,
                Idle::End => return Some(Cut::At(*at)),
            }
            // Blocks and records are bounded so that their places fit.
            let place = |end: usize| RecordSpan {
                row: rows as u32,
                start: *at as u32,
                end: end as u32,
            };
            match tokeniser.record(text, *at, whole, &mut self.fields) {
                Record::Good { end, next } => {
                    self.good.push(place(end));
                    *at = next;
                }
                Record::Bad { end, next, flaw } => {
                    self.bad.push((place(end), flaw));
                    *at = next;
                }
                Record::Incomplete => return None,
                Record::Endless if rows > 0 => return Some(Cut::At(*at)),
                Record::Endless => return Some(Cut::Endless),
            }
        }
    }

    /// Makes columns of the records. `origin` is complete but for its rows.
    fn read(&self, text: &[u8], shape: &Shape<'_>, mut origin: Origin) -> Result<Parts> {
        let stride = shape.columns.names.len();
        let mut problems = Problems::default();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(shape.request.columns.len());
        for (index, ty) in &shape.request.columns {
            let Some(field) = shape.columns.fields.get(*index).copied().flatten() else {
                arrays.push(new_null_array(&ty.arrow(), self.good.len()));
                continue;
            };
            let name = shape.columns.names.get(field).map_or("", |n| n);
            let spans = self.fields.spans.get(field..).unwrap_or_default();
            let values = spans
                .iter()
                .step_by(stride)
                .map(|span| self.value(*span, text, shape.dialect));
            arrays.push(parse_column(ty, name, values, shape.context, &mut problems));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.good.len()));
        let rows = RecordBatch::try_new_with_options(shape.schema.clone(), arrays, &options)
            .map_err(|cause| Error::bug(format!("columns of a block do not fit together: {cause}")))?;
        origin.rows = self.good.iter().map(|place| place.row).collect::<Vec<_>>().into();
        origin.offsets = origin.first_offset.map(|_| {
            self.good
                .iter()
                .map(|place| place.start)
                .collect::<Vec<_>>()
                .into()
        });
        let rows = keep_good(rows, &mut origin, &problems)?;
        let mut rejects = Vec::with_capacity(self.bad.len() + problems.len());
        for (place, flaw) in &self.bad {
            let raw = text[place.start as usize..place.end as usize].to_vec();
            rejects.push(shape.reject(&origin, *place, shape.problem(*flaw), RejectData::Raw(raw)));
        }
        let mut kept_fields = 0;
        for (row, problem) in problems.iter() {
            let Some(place) = self.good.get(row) else { continue };
            let data = match kept_fields < REJECTED_FIELDS_MAX {
                true => self.data(row, *place, text, shape),
                false => RejectData::Raw(text[place.start as usize..place.end as usize].to_vec()),
            };
            kept_fields += stride;
            rejects.push(shape.reject(&origin, *place, problem.clone(), data));
        }
        Ok(Parts {
            rows,
            origin,
            rejects,
        })
    }

    #[inline]
    fn value<'a>(&'a self, span: Span, text: &'a [u8], dialect: &Dialect) -> Option<&'a [u8]> {
        dialect.value(self.fields.bytes(span, text), span)
    }

    /// The fields of good record `row` by name; its bytes where they are not all UTF-8.
    fn data(&self, row: usize, place: RecordSpan, text: &[u8], shape: &Shape<'_>) -> RejectData {
        let names = &shape.columns.names;
        let spans = self.fields.spans.get(row * names.len()..).unwrap_or_default();
        let fields: Option<Vec<_>> = names
            .iter()
            .zip(spans)
            .map(|(name, span)| match self.value(*span, text, shape.dialect) {
                None => Some((name.clone(), None)),
                Some(bytes) => Some((name.clone(), Some(std::str::from_utf8(bytes).ok()?.to_owned()))),
            })
            .collect();
        match fields {
            Some(fields) => RejectData::Fields(fields),
            None => RejectData::Raw(text[place.start as usize..place.end as usize].to_vec()),
        }
    }
}

impl Shape<'_> {
    fn reject(&self, origin: &Origin, place: RecordSpan, problem: Problem, data: RejectData) -> Reject {
        Reject {
            file: self.shown.clone(),
            row: origin.first_row + u64::from(place.row),
            offset: origin.first_offset.map(|first| first + u64::from(place.start)),
            problem,
            data,
        }
    }

    fn problem(&self, flaw: Flaw) -> Problem {
        let column = flaw.field().and_then(|field| self.columns.names.get(field));
        Problem {
            column: column.map(|name| name.to_string()),
            code: sqlstate::BAD_FORMAT.to_owned(),
            message: flaw.to_string(),
            hint: flaw.hint().map(str::to_owned),
        }
    }
}
