//! A source with columns that its files do not have: a constant, the name of the file, the number of the row, the time at
//! which the load began.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray},
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    extent::Extent,
    ledger::InputIdentity,
    parse::{ParseContext, parse_column, text_of_timestamp},
    reader::BeyondArrow,
    reject::Problems,
    slot::BlockMark,
    source::{Block, Origin, ReadRequest, Source, SourceColumn, SourceSchema, SourceTableInfo},
    table::find_by_name,
    types::ColumnType,
};

use super::infer::Guess;

/// A value that is the same, or told by where a row came from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Added {
    Constant(String),
    /// The file, as the user named it.
    File,
    /// The row of the file, from 1.
    Row,
    /// When the load began, in microseconds since 1970.
    Now(i64),
}

/// See the module.
struct WithAdded {
    inner: Box<dyn Source>,
    schema: SourceSchema,
    extents: Vec<Extent>,
    added: Vec<(String, Added)>,
    context: ParseContext,
    /// Columns of the batches, by index, and the type each is to have.
    wanted: Vec<(usize, ColumnType)>,
}

/// `source` with the columns of `added`: a name and a text, or `{file}`, `{row}`, `{now}`. `context` says how texts are
/// read where the source is text. `Config` for a name that the source has, and for a source without names.
pub fn with_columns(
    source: Box<dyn Source>,
    added: &[(String, String)],
    context: &ParseContext,
) -> Result<Box<dyn Source>> {
    if added.is_empty() {
        return Ok(source);
    }
    let known = source.schema();
    if !known.named {
        return Err(
            Error::config("--add needs names, and the columns of the input have none")
                .hint("a header names them; with --no-header, --columns does not"),
        );
    }
    let mut schema = known.clone();
    let mut extents = source.extents().to_vec();
    let mut columns = Vec::new();
    for (name, text) in added {
        if find_by_name(&schema.columns, name, |column| &column.name).is_some() {
            return Err(
                Error::config(format!("--add {name}: the input has a column of this name"))
                    .hint("name it otherwise, or leave it out"),
            );
        }
        let value = Added::of(name, text)?;
        let mut guess = Guess::default();
        guess.see(Some(value.sample().as_bytes()));
        schema.columns.push(SourceColumn {
            beyond_arrow: BeyondArrow::Refused,
            name: name.clone(),
            arrow: if known.text { DataType::Utf8 } else { value.arrow() },
            suggested: Some(value.suggested(&guess)),
            nullable: false,
            null_word: None,
        });
        if !extents.is_empty() || known.text {
            extents.push(guess.extent());
        }
        columns.push((name.clone(), value));
    }
    Ok(Box::new(WithAdded {
        inner: source,
        schema,
        extents,
        added: columns,
        context: context.clone(),
        wanted: Vec::new(),
    }))
}

impl Added {
    fn of(name: &str, text: &str) -> Result<Self> {
        match text {
            "{file}" => Ok(Self::File),
            "{row}" => Ok(Self::Row),
            "{now}" => Ok(Self::Now(jiff::Timestamp::now().as_microsecond())),
            text if text.starts_with('{') && text.ends_with('}') && !text.contains(['"', ':']) => {
                Err(Error::config(format!("--add {name}: there is no {text}"))
                    .hint("there are {file}, {row} and {now}; any other text is a constant"))
            }
            text => Ok(Self::Constant(text.to_owned())),
        }
    }

    /// A value, for whoever infers its type.
    fn sample(&self) -> String {
        match self {
            Self::Constant(text) => text.clone(),
            Self::File => "a file".to_owned(),
            Self::Row => "1".to_owned(),
            Self::Now(micros) => instant(*micros),
        }
    }

    fn suggested(&self, guess: &Guess) -> ColumnType {
        match self {
            Self::Constant(_) => guess.column_type(),
            Self::File => ColumnType::TEXT,
            Self::Row => ColumnType::Int64,
            Self::Now(_) => ColumnType::TimestampTz,
        }
    }

    /// The type it has where the source is not text.
    fn arrow(&self) -> DataType {
        match self {
            Self::Constant(_) | Self::File => DataType::Utf8,
            Self::Row => DataType::Int64,
            Self::Now(_) => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
        }
    }

    fn text(&self, origin: &Origin, row: usize) -> String {
        match self {
            Self::Constant(text) => text.clone(),
            Self::File => origin.file(row).to_string(),
            Self::Row => origin.row(row).to_string(),
            Self::Now(micros) => instant(*micros),
        }
    }

    /// The values of so many rows, in the type it has of itself.
    fn values(&self, origin: &Origin, rows: usize) -> Result<ArrayRef> {
        Ok(match self {
            Self::Constant(_) | Self::File => {
                let texts = (0..rows).map(|row| Some(self.text(origin, row)));
                Arc::new(texts.collect::<StringArray>())
            }
            Self::Row => {
                let number = |row| i64::try_from(origin.row(row));
                let numbers: std::result::Result<Vec<i64>, _> = (0..rows).map(number).collect();
                let numbers = numbers.map_err(|_| Error::bug("a row has a number beyond 64 bits"))?;
                Arc::new(Int64Array::from(numbers))
            }
            Self::Now(micros) => {
                Arc::new(TimestampMicrosecondArray::from(vec![*micros; rows]).with_timezone("UTC"))
            }
        })
    }
}

fn instant(micros: i64) -> String {
    format!("{}Z", text_of_timestamp(micros))
}

impl WithAdded {
    /// An added column of a block of a text source, read as the type that is asked for.
    fn parsed(&self, at: usize, ty: &ColumnType, origin: &Origin, rows: usize) -> Result<ArrayRef> {
        let (name, value) = &self.added[at];
        let texts: Vec<String> = (0..rows).map(|row| value.text(origin, row)).collect();
        let mut problems = Problems::default();
        let values = texts.iter().map(|text| Some(text.as_bytes()));
        let array = parse_column(ty, name, values, &self.context, &mut problems);
        match problems.iter().next() {
            None => Ok(array),
            Some((_, problem)) => {
                Err(Error::config(&problem.message).at(format!("--add {name}={}", value.sample())))
            }
        }
    }
}

impl Source for WithAdded {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn extents(&self) -> &[Extent] {
        &self.extents
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        self.inner.identity()
    }

    fn not_rereadable(&self) -> &'static str {
        self.inner.not_rereadable()
    }

    fn table_info(&self) -> Option<&SourceTableInfo> {
        self.inner.table_info()
    }

    fn options(&self) -> Vec<String> {
        let added = self.added.iter().map(|(name, value)| match value {
            Added::Constant(text) => format!("add={name}={text}"),
            Added::File => format!("add={name}={{file}}"),
            Added::Row => format!("add={name}={{row}}"),
            // Another attempt begins at another time.
            Added::Now(_) => format!("add={name}={{now}}"),
        });
        self.inner.options().into_iter().chain(added).collect()
    }

    fn remarks(&self) -> Vec<String> {
        self.inner.remarks()
    }

    fn bytes_total(&self) -> Option<u64> {
        self.inner.bytes_total()
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        let known = self.schema.columns.len() - self.added.len();
        self.wanted.clone_from(&request.columns);
        let origin = Origin {
            file: self.schema.shown.clone(),
            first_row: 1,
            first_offset: None,
            rows: vec![0].into(),
            offsets: None,
            places: None,
        };
        for (index, ty) in &request.columns {
            // A value that no row could take is an error before the first.
            if let Some(at) = index.checked_sub(known).filter(|_| self.schema.text) {
                self.parsed(at, ty, &origin, 1)?;
            }
        }
        self.inner.request(&ReadRequest {
            columns: request
                .columns
                .iter()
                .filter(|(index, _)| *index < known)
                .copied()
                .collect(),
            ..request.clone()
        })
    }

    fn seek(&mut self, index: u64, mark: &BlockMark) -> Result<()> {
        self.inner.seek(index, mark)
    }

    fn next(&mut self) -> Result<Option<Block>> {
        let Some(mut block) = self.inner.next()? else {
            return Ok(None);
        };
        let known = self.schema.columns.len() - self.added.len();
        let rows = block.rows.num_rows();
        let mut of_inner = block.rows.columns().iter();
        let mut columns = Vec::with_capacity(self.wanted.len());
        let mut fields = Vec::with_capacity(self.wanted.len());
        for (index, ty) in &self.wanted {
            let array = match index.checked_sub(known) {
                None => of_inner
                    .next()
                    .cloned()
                    .ok_or_else(|| Error::bug("a block has fewer columns than were asked for"))?,
                Some(at) if self.schema.text => self.parsed(at, ty, &block.origin, rows)?,
                Some(at) => self.added[at].1.values(&block.origin, rows)?,
            };
            let name = self.schema.columns.get(*index).map_or("", |column| &column.name);
            fields.push(Field::new(name, array.data_type().clone(), true));
            columns.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::new(Schema::new(fields));
        block.rows = RecordBatch::try_new_with_options(schema, columns, &options).map_err(arrow_bug)?;
        Ok(Some(block))
    }
}
