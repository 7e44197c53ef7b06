//! A source with columns that its files do not have: texts, the name of the file, the number of the row, the time at which
//! the load began, the id of its run, and what functions make of other columns.

mod evaluate;
mod expression;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray},
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use tonnage_core::{
    convert::shown_value,
    error::{Error, Result, arrow_bug},
    extent::Extent,
    ledger::InputIdentity,
    parse::{ParseContext, parse_column, text_of_timestamp},
    reader::BeyondArrow,
    reject::{Problems, Reject, RejectData},
    slot::BlockMark,
    source::{Block, Origin, ReadRequest, Source, SourceColumn, SourceSchema, SourceTableInfo},
    table::{columns_hint, index_by_name},
    types::ColumnType,
};

use self::{
    evaluate::{Rows, evaluate, parsed, texts},
    expression::{Expression, Function},
};
use super::{Scan, infer::Guess, text::keep_good};

/// What `{run}` and `{now}` are.
#[derive(Debug)]
pub struct RunStart {
    /// The id of the run, once it has one.
    pub id: OnceLock<String>,
    /// When the attempt began, in microseconds since 1970.
    micros: i64,
}

impl Default for RunStart {
    /// Of an attempt that begins now.
    fn default() -> Self {
        Self {
            id: OnceLock::new(),
            micros: jiff::Timestamp::now().as_microsecond(),
        }
    }
}

/// A column of the schema.
#[derive(Debug, Clone)]
enum Column {
    /// The source's own, by its index there.
    Own(usize),
    /// Made, by its index among those that are.
    Added(usize),
}

/// A column that is added.
#[derive(Debug, Clone)]
struct Added {
    name: String,
    /// As it was written.
    text: String,
    value: Expression,
}

/// See the module.
struct WithAdded {
    inner: Box<dyn Source>,
    schema: SourceSchema,
    extents: Vec<Extent>,
    /// One a column of the schema.
    columns: Vec<Column>,
    added: Vec<Added>,
    context: ParseContext,
    start: Arc<RunStart>,
    /// Columns of the batches, by index, and the type each is to have.
    wanted: Vec<(usize, ColumnType)>,
    /// What is asked of the source: of its columns by index.
    asked: Vec<(usize, ColumnType)>,
    /// Columns that expressions name: by that name, and where they are in what is asked.
    used: Vec<(String, usize)>,
}

/// The columns of a source that these texts take their values from, by the names that are written in them.
pub fn used_columns(added: &[(String, String)]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (name, text) in added {
        let value = Expression::parse(text).map_err(|error| error.at(format!("--add {name}")))?;
        value.columns(&mut names);
    }
    Ok(names)
}

/// The column of these whose values are another run's in another run: `{run}` or `{now}` is in it.
pub fn changing(added: &[(String, String)]) -> Option<&str> {
    let changes = |text: &str| Expression::parse(text).is_ok_and(|value| value.changes());
    let column = added.iter().find(|(_, text)| changes(text));
    column.map(|(name, _)| name.as_str())
}

/// `source` with the columns of `added`: a name and a text, in which `{..}` is a column of the source, `{file}`, `{row}`,
/// `{run}`, `{now}`, or a function of such. A text that names columns may take the place of a column of the source.
/// `context` says how texts are read; the id of `start` is filled before the first block is read.
///
/// `Config` for braces that hold no expression, for columns that the source lacks, for another value under a name that it
/// has, and for a source without names.
pub fn with_columns(
    source: Box<dyn Source>,
    added: &[(String, String)],
    context: &ParseContext,
    start: Arc<RunStart>,
) -> Result<Box<dyn Source>> {
    if added.is_empty() {
        return Ok(source);
    }
    let known = source.schema().clone();
    if !known.named {
        return Err(
            Error::config("--add needs names, and the columns of the input have none")
                .hint("a header names them; with --no-header, --columns does not"),
        );
    }
    let mut made = WithAdded {
        schema: known.clone(),
        extents: source.extents().to_vec(),
        columns: (0..known.columns.len()).map(Column::Own).collect(),
        inner: source,
        added: Vec::new(),
        context: context.clone(),
        start,
        wanted: Vec::new(),
        asked: Vec::new(),
        used: Vec::new(),
    };
    for (name, text) in added {
        let value = Expression::parse(text).map_err(|error| error.at(format!("--add {name}")))?;
        let added = Added {
            name: name.clone(),
            text: text.clone(),
            value,
        };
        made.add(added, &known)?;
    }
    Ok(Box::new(made))
}

impl Added {
    /// The type it would have in a table that is made for it.
    fn suggested(&self, guess: &Guess) -> ColumnType {
        match &self.value {
            Expression::Text(_) => guess.column_type(),
            Expression::Row => ColumnType::Int64,
            Expression::Now => ColumnType::TimestampTz,
            Expression::Call(Function::Cast(ty), _) => *ty,
            _ => ColumnType::TEXT,
        }
    }

    /// The type it has where the source is not text.
    fn arrow(&self) -> DataType {
        match &self.value {
            Expression::Row => DataType::Int64,
            Expression::Now => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
            Expression::Call(Function::Cast(ty), _) => ty.arrow(),
            _ => DataType::Utf8,
        }
    }

    /// The values, in the type it has of itself.
    fn values(&self, rows: &Rows<'_>, problems: &mut Problems) -> Result<ArrayRef> {
        Ok(match &self.value {
            Expression::Row => {
                let number = |row| i64::try_from(rows.origin.row(row));
                let numbers: std::result::Result<Vec<i64>, _> = (0..rows.count).map(number).collect();
                let numbers = numbers.map_err(|_| Error::bug("a row has a number beyond 64 bits"))?;
                Arc::new(Int64Array::from(numbers))
            }
            Expression::Now => {
                Arc::new(TimestampMicrosecondArray::from(vec![rows.now; rows.count]).with_timezone("UTC"))
            }
            Expression::Call(Function::Cast(ty), values) if values.len() == 1 => {
                let texts = evaluate(&values[0], &self.name, rows, problems)?;
                parsed(ty, &texts, &self.name, rows, problems)
            }
            value => Arc::new(evaluate(value, &self.name, rows, problems)?),
        })
    }
}

fn index_of(columns: &[SourceColumn], name: &str) -> Option<usize> {
    index_by_name(columns, name, |column| &column.name)
}

fn instant(micros: i64) -> String {
    format!("{}Z", text_of_timestamp(micros))
}

impl WithAdded {
    /// Adds a column, or puts it in the place of one that `known`, the source's own schema, has.
    fn add(&mut self, added: Added, known: &SourceSchema) -> Result<()> {
        let name = &added.name;
        let mut used = Vec::new();
        added.value.columns(&mut used);
        for column in &used {
            if index_of(&known.columns, column).is_none() {
                let names = known.columns.iter().map(|column| column.name.as_str());
                return Err(Error::config(format!("--add {name}: {} has no column '{column}'", known.shown))
                    .hint(format!(
                        "{} ({{file}}, {{row}}, {{run}} and {{now}} are there as well, {{{{ and }}}} are braces as such)",
                        columns_hint(column, names)
                    )));
            }
        }
        let mut guess = Guess::default();
        let sample = match &added.value {
            Expression::Text(text) => Some(text.clone()),
            Expression::File => Some("a file".to_owned()),
            Expression::Row => Some("1".to_owned()),
            Expression::Now => Some(instant(self.start.micros)),
            _ => None,
        };
        guess.see(sample.as_deref().map(str::as_bytes));
        let column = SourceColumn {
            beyond_arrow: BeyondArrow::Refused,
            name: name.clone(),
            arrow: match known.text {
                true => DataType::Utf8,
                false => added.arrow(),
            },
            suggested: Some(added.suggested(&guess)),
            nullable: !used.is_empty(),
            null_word: None,
        };
        let there = index_of(&self.schema.columns, name);
        let is_replaced = |at: &usize| !used.is_empty() && matches!(self.columns[*at], Column::Own(_));
        match (there, there.filter(is_replaced)) {
            (_, Some(at)) => {
                self.schema.columns[at] = SourceColumn {
                    name: self.schema.columns[at].name.clone(),
                    ..column
                };
                self.columns[at] = Column::Added(self.added.len());
                if let Some(extent) = self.extents.get_mut(at) {
                    *extent = guess.extent(Scan::Sample);
                }
            }
            (Some(_), None) => {
                return Err(
                    Error::config(format!("--add {name}: the input has a column of this name"))
                        .hint("name it otherwise, or leave it out"),
                );
            }
            (None, None) => {
                self.schema.columns.push(column);
                self.columns.push(Column::Added(self.added.len()));
                if !self.extents.is_empty() || known.text {
                    self.extents.push(guess.extent(Scan::Sample));
                }
            }
        }
        self.added.push(added);
        Ok(())
    }

    /// What the source is to be asked for: what is wanted of its own, and as text what expressions are made of.
    fn ask(&mut self) {
        self.asked.clear();
        self.used.clear();
        let mut names = Vec::new();
        for (index, ty) in &self.wanted {
            match self.columns[*index] {
                Column::Own(own) => self.asked.push((own, *ty)),
                Column::Added(at) => self.added[at].value.columns(&mut names),
            }
        }
        let known = self.inner.schema();
        for name in names {
            let Some(own) = index_of(&known.columns, &name) else {
                continue;
            };
            // A source of types has each of its columns once, in its own type.
            let there = self
                .asked
                .iter()
                .position(|(asked, ty)| *asked == own && (!known.text || *ty == ColumnType::TEXT));
            let at = there.unwrap_or_else(|| {
                self.asked.push((own, ColumnType::TEXT));
                self.asked.len() - 1
            });
            self.used.push((name, at));
        }
    }

    /// A constant that no row could take is an error before the first.
    fn check_constants(&self) -> Result<()> {
        for (index, ty) in &self.wanted {
            let Column::Added(at) = self.columns[*index] else {
                continue;
            };
            let Added { name, value, .. } = &self.added[at];
            let Expression::Text(text) = value else { continue };
            if !self.schema.text {
                continue;
            }
            let mut problems = Problems::default();
            let values = std::iter::once(Some(text.as_bytes()));
            parse_column(ty, name, values, &self.context, &mut problems);
            if let Some((_, problem)) = problems.iter().next() {
                return Err(Error::config(&problem.message).at(format!("--add {name}={text}")));
            }
        }
        Ok(())
    }

    /// The rows of a block with the columns that are wanted, and what is wrong with some of them.
    fn complete(&self, rows: &RecordBatch, origin: &Origin) -> Result<(RecordBatch, Problems)> {
        let columns: Vec<(String, StringArray)> = self
            .used
            .iter()
            .map(|(name, at)| (name.clone(), texts(rows.column(*at))))
            .collect();
        let given = Rows {
            count: rows.num_rows(),
            columns: &columns,
            origin,
            run: self.start.id.get().map_or("", String::as_str),
            now: self.start.micros,
            context: &self.context,
        };
        let mut problems = Problems::default();
        let mut own = rows.columns().iter();
        let (mut arrays, mut fields) = (Vec::new(), Vec::new());
        for (index, ty) in &self.wanted {
            let array = match self.columns[*index] {
                Column::Own(_) => own
                    .next()
                    .cloned()
                    .ok_or_else(|| Error::bug("a block has fewer columns than were asked for"))?,
                Column::Added(at) if self.schema.text => {
                    let added = &self.added[at];
                    let texts = evaluate(&added.value, &added.name, &given, &mut problems)?;
                    parsed(ty, &texts, &added.name, &given, &mut problems)
                }
                Column::Added(at) => self.added[at].values(&given, &mut problems)?,
            };
            let name = self.schema.columns.get(*index).map_or("", |column| &column.name);
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let schema = Arc::new(Schema::new(fields));
        let rows = RecordBatch::try_new_with_options(schema, arrays, &options).map_err(arrow_bug)?;
        Ok((rows, problems))
    }

    /// The rows that have problems, with what was read of them.
    fn rejects(&self, rows: &RecordBatch, origin: &Origin, problems: &Problems) -> Vec<Reject> {
        let known = &self.inner.schema().columns;
        let names: Vec<Arc<str>> = self
            .asked
            .iter()
            .map(|(own, _)| known.get(*own).map_or("", |column| &column.name).into())
            .collect();
        let first_of = |at: usize| !names[..at].contains(&names[at]);
        let reject = |(row, problem): (usize, &tonnage_core::reject::Problem)| {
            let columns = names.iter().zip(rows.columns()).enumerate();
            let fields = columns
                .filter(|(at, _)| first_of(*at))
                .map(|(_, (name, array))| (name.clone(), shown_value(array, row, BeyondArrow::Refused)));
            Reject {
                file: origin.file(row),
                row: origin.row(row),
                offset: origin.offset(row),
                problem: problem.clone(),
                data: RejectData::Fields(fields.collect()),
            }
        };
        problems.iter().map(reject).collect()
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
        // As written: another attempt begins at another time.
        let added = self
            .added
            .iter()
            .map(|added| format!("add={}={}", added.name, added.text));
        self.inner.options().into_iter().chain(added).collect()
    }

    fn remarks(&self) -> Vec<String> {
        self.inner.remarks()
    }

    fn bytes_total(&self) -> Option<u64> {
        self.inner.bytes_total()
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        self.wanted.clone_from(&request.columns);
        self.check_constants()?;
        self.ask();
        self.inner.request(&ReadRequest {
            columns: self.asked.clone(),
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
        let (rows, problems) = self.complete(&block.rows, &block.origin)?;
        if !problems.is_empty() {
            let bad = self.rejects(&block.rows, &block.origin, &problems);
            block.rejects.extend(bad);
            block.rejects.sort_by_key(|reject| reject.row);
        }
        block.rows = keep_good(rows, &mut block.origin, &problems)?;
        Ok(Some(block))
    }
}
