//! From text to typed Arrow columns, exactly or not at all.

use arrow::array::ArrayRef;

use crate::{reject::Problems, types::ColumnType};

/// What the text alone does not say.
#[derive(Debug, Clone, Default)]
pub struct ParseContext {
    /// Zone of times that carry none, for [`ColumnType::TimestampTz`].
    pub timezone: Option<jiff::tz::TimeZone>,
}

/// Reads one column. A value that is not exactly of type `ty` is noted in `problems` under its row and is null in the
/// result. The result has `ty.arrow()` as its type and as many rows as `values`.
pub fn parse_column<'a>(
    ty: &ColumnType,
    column: &str,
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    context: &ParseContext,
    problems: &mut Problems,
) -> ArrayRef {
    let _ = (ty, column, values, context, problems);
    todo!()
}
