//! The first rows of a load as they would arrive, for whoever asks before anything is written.

use std::fmt;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use tonnage_core::{
    error::{Result, arrow_bug},
    reject::Reject,
    source::ReadRequest,
    types::ColumnType,
};

use super::{Prepared, deal::Convert};

/// Rows that are read for a preview at most: bad ones among them are counted.
const ROWS_READ: usize = 1_000;

/// Characters of a value that are shown.
const VALUE_CHARS_MAX: usize = 40;

/// What the first rows come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The table's columns that are filled, and their types.
    pub columns: Vec<(String, ColumnType)>,
    /// The first good rows; none is null.
    pub rows: Vec<Vec<Option<String>>>,
    /// Rows that were read.
    pub read: u64,
    /// Of them bad ones, and what is wrong with the first.
    pub bad: Option<(u64, String)>,
}

impl Prepared {
    /// Reads the first rows, and converts them as the load would; `shown` of them are returned. The load cannot be run
    /// afterwards, as its source has been read. Errors as of reading a source.
    pub async fn preview(self, shown: usize) -> Result<Preview> {
        let Self {
            mut source,
            plan,
            context,
            run_start,
            ..
        } = self;
        // Nothing is run.
        let _ = run_start.id.set("(run)".to_owned());
        let work = move || {
            let convert = Convert::new(&plan, source.schema(), &context)?;
            source.request(&ReadRequest {
                columns: plan
                    .columns
                    .iter()
                    .map(|column| (column.source, column.ty))
                    .collect(),
                block_rows: plan.block_rows.min(ROWS_READ),
                block_bytes: plan.block_bytes,
            })?;
            let columns = plan
                .columns
                .iter()
                .map(|column| (column.name.clone(), column.ty))
                .collect();
            let Some(block) = source.next()? else {
                return Ok(Preview {
                    columns,
                    rows: Vec::new(),
                    read: 0,
                    bad: None,
                });
            };
            let read = block.end.rows - block.start.rows;
            let mut rejects = block.rejects;
            let (rows, _) = convert.apply(block.rows, block.origin, &mut rejects)?;
            let options = FormatOptions::default();
            let formatters: Vec<_> = rows
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column, &options).map_err(arrow_bug))
                .collect::<Result<_>>()?;
            let row_of = |row: usize| {
                let values = formatters.iter().zip(rows.columns());
                let value = |(formatter, column): (&ArrayFormatter<'_>, &arrow::array::ArrayRef)| {
                    (!column.is_null(row)).then(|| formatter.value(row).to_string())
                };
                values.map(value).collect()
            };
            Ok(Preview {
                columns,
                rows: (0..rows.num_rows().min(shown)).map(row_of).collect(),
                read,
                bad: first_of(&rejects),
            })
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(preview) => preview,
            Err(error) => Err(tonnage_core::error::Error::bug(format!(
                "the first rows were not read: {error}"
            ))),
        }
    }
}

/// How many rejects there are, and the first of the file.
fn first_of(rejects: &[Reject]) -> Option<(u64, String)> {
    let first = rejects.iter().min_by_key(|reject| reject.row)?;
    let place = match &first.problem.column {
        Some(column) => format!("{} row {}, column '{column}'", first.file, first.row),
        None => format!("{} row {}", first.file, first.row),
    };
    Some((
        rejects.len() as u64,
        format!("{place}: {}", first.problem.message),
    ))
}

impl fmt::Display for Preview {
    /// A line a column: its name, its type, and its first values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.read == 0 {
            return writeln!(f, "the input has no rows");
        }
        writeln!(f, "the first rows, as they would arrive:")?;
        let names = self.columns.iter().map(|(name, _)| name.chars().count());
        let width = names.max().unwrap_or(0).min(VALUE_CHARS_MAX);
        for (at, (name, ty)) in self.columns.iter().enumerate() {
            let values = self.rows.iter().filter_map(|row| row.get(at));
            let values: Vec<String> = values.map(|value| shown(value.as_deref())).collect();
            writeln!(
                f,
                "  {name:<width$}  {:<12}  {}",
                ty.to_string(),
                values.join(" | ")
            )?;
        }
        match &self.bad {
            None => writeln!(f, "  no bad row among the first {}", self.read),
            Some((count, first)) => writeln!(f, "  {count} bad among the first {}; {first}", self.read),
        }
    }
}

fn shown(value: Option<&str>) -> String {
    let Some(value) = value else {
        return "null".to_owned();
    };
    let mut chars = value.chars();
    let start: String = chars.by_ref().take(VALUE_CHARS_MAX).collect();
    let start = start
        .escape_debug()
        .to_string()
        .replace("\\'", "'")
        .replace("\\\"", "\"");
    match chars.next() {
        Some(_) => format!("{start}.."),
        None => start,
    }
}
