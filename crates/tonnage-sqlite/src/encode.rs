//! Arrow columns as SQLite values, exactly or not at all.
//!
//! What each type becomes: bool 0 or 1; integers and doubles themselves (a single widened, which is exact;
//! -0.0 becomes 0.0, which SQLite cannot tell apart on disk); exact decimals numbers in numeric columns (see
//! [`number`]) and text in others; dates and times text (see [`temporal`]); a uuid its hyphenated lower-case
//! text; bytes a blob; text and JSON text.
//!
//! A value that the column's affinity would rewrite is a bad row, found here, before SQLite sees it. How a
//! column is encoded is decided once, when a writer is opened.

use std::ops::Range;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BinaryArray, BooleanArray, PrimitiveArray, RecordBatch, StringArray,
        StringBuilder,
    },
    datatypes::{
        ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
        Int64Type, Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use rusqlite::{Statement, ToSql, types::Value};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reject::sqlstate,
    types::ColumnType,
};

use super::{
    number::{self, Number},
    temporal,
    types::Affinity,
};

/// A column of a batch, ready to be bound.
enum Values {
    Bool(BooleanArray),
    Int16(PrimitiveArray<Int16Type>),
    Int32(PrimitiveArray<Int32Type>),
    Int64(PrimitiveArray<Int64Type>),
    Float32(PrimitiveArray<Float32Type>),
    Float64(PrimitiveArray<Float64Type>),
    Text(StringArray),
    Bytes(BinaryArray),
    Numbers(Vec<Number>),
    Mixed(Vec<Value>),
}

/// A row that cannot be written.
pub(super) struct Bad {
    /// Its place in the batch.
    pub(super) row: usize,
    /// The column that is to blame.
    pub(super) column: String,
    /// What is wrong, kind `Rejected`.
    pub(super) error: Error,
}

/// Rows ready to be bound, up to the first bad one.
pub(super) struct Encoded {
    columns: Vec<Values>,
    /// The first bad row.
    pub(super) bad: Option<Bad>,
}

/// How the plan's columns are encoded.
pub(super) struct Encoder {
    columns: Vec<ColumnEncoder>,
}

struct ColumnEncoder {
    name: String,
    ty: ColumnType,
    rule: Rule,
}

/// What is done to the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Bound as it is.
    AsIs,
    /// Integers for a column that makes reals of them.
    IntegersAsReals,
    /// Floats: SQLite stores NaN as null.
    NoNan,
    /// Text for a column that makes numbers of text that looks like one.
    NotNumeric,
    /// Exact decimals as numbers; as reals only, for a column that makes reals of integers.
    Numbers { reals: bool },
    /// Exact decimals for a column that keeps what it is given: numbers where SQLite holds them as they are written, else
    /// text.
    NumbersOrText,
    /// Anything else, as its text.
    AsText,
}

impl Encoder {
    /// Decides how columns of these names and types are written to columns of these affinities.
    pub(super) fn new(columns: impl IntoIterator<Item = (String, ColumnType, Affinity)>) -> Result<Self> {
        let columns = columns
            .into_iter()
            .map(|(name, ty, affinity)| {
                let rule = rule(&ty, affinity).ok_or_else(|| {
                    Error::schema(format!("column {name} would turn {ty} values into text"))
                        .hint(format!("load it as text: --type {name}=text"))
                })?;
                Ok(ColumnEncoder { name, ty, rule })
            })
            .collect::<Result<_>>()?;
        Ok(Self { columns })
    }

    /// Encodes a batch, column by column.
    pub(super) fn encode(&self, rows: &RecordBatch) -> Result<Encoded> {
        if rows.num_columns() != self.columns.len() {
            return Err(Error::bug(format!(
                "a batch of {} columns reached a writer of {}",
                rows.num_columns(),
                self.columns.len()
            )));
        }
        let mut encoded = Encoded {
            columns: Vec::with_capacity(self.columns.len()),
            bad: None,
        };
        for (column, array) in self.columns.iter().zip(rows.columns()) {
            let (values, bad) = column.encode(array)?;
            encoded.columns.push(values);
            if let Some(bad) = bad
                && encoded.bad.as_ref().is_none_or(|first| bad.row < first.row)
            {
                encoded.bad = Some(bad);
            }
        }
        Ok(encoded)
    }
}

/// How values of `ty` survive in a column of this affinity; none where none would.
fn rule(ty: &ColumnType, affinity: Affinity) -> Option<Rule> {
    Some(match (ty, affinity) {
        (
            ColumnType::Bool
            | ColumnType::Int16
            | ColumnType::Int32
            | ColumnType::Int64
            | ColumnType::Float32
            | ColumnType::Float64,
            Affinity::Text,
        ) => return None,
        (ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64, Affinity::Real) => Rule::IntegersAsReals,
        (ColumnType::Bool | ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64, _) => Rule::AsIs,
        (ColumnType::Float32 | ColumnType::Float64, _) => Rule::NoNan,
        (ColumnType::Decimal { .. } | ColumnType::Numeric, Affinity::Integer | Affinity::Numeric) => {
            Rule::Numbers { reals: false }
        }
        (ColumnType::Decimal { .. } | ColumnType::Numeric, Affinity::Real) => Rule::Numbers { reals: true },
        (ColumnType::Numeric, Affinity::None) => Rule::NumbersOrText,
        (ColumnType::Numeric, Affinity::Text) => Rule::AsIs,
        (
            ColumnType::Text { .. } | ColumnType::Char { .. } | ColumnType::Json | ColumnType::Any,
            Affinity::Integer | Affinity::Numeric | Affinity::Real,
        ) => Rule::NotNumeric,
        (ColumnType::Text { .. } | ColumnType::Char { .. } | ColumnType::Json | ColumnType::Any, _) => {
            Rule::AsIs
        }
        // A blob is never converted.
        (ColumnType::Bytes, _) => Rule::AsIs,
        // Their texts never look like numbers, so no affinity touches them.
        (
            ColumnType::Date
            | ColumnType::Time
            | ColumnType::Timestamp
            | ColumnType::TimestampTz
            | ColumnType::Uuid,
            _,
        ) => Rule::AsText,
        (ColumnType::Decimal { .. }, _) => Rule::AsText,
    })
}

impl ColumnEncoder {
    fn encode(&self, array: &ArrayRef) -> Result<(Values, Option<Bad>)> {
        let odd = || {
            Error::bug(format!(
                "column {} reached the writer as {} instead of {}",
                self.name,
                array.data_type(),
                self.ty.arrow()
            ))
        };
        if *array.data_type() != self.ty.arrow() {
            return Err(odd());
        }
        let (values, bad) = match self.rule {
            Rule::AsIs => (plain(array).ok_or_else(odd)?, None),
            Rule::NoNan => {
                let values = plain(array).ok_or_else(odd)?;
                let nan = match &values {
                    Values::Float32(floats) => first(floats, |float| float.is_nan()),
                    Values::Float64(floats) => first(floats, |float| float.is_nan()),
                    _ => return Err(odd()),
                };
                (values, nan)
            }
            Rule::NotNumeric => {
                let texts = array.as_string_opt::<i32>().ok_or_else(odd)?;
                let numeric = texts
                    .iter()
                    .position(|text| text.is_some_and(number::looks_numeric));
                (Values::Text(texts.clone()), numeric)
            }
            Rule::IntegersAsReals => match array.data_type() {
                arrow::datatypes::DataType::Int16 => {
                    integers_as_reals(array.as_primitive_opt::<Int16Type>().ok_or_else(odd)?)
                }
                arrow::datatypes::DataType::Int32 => {
                    integers_as_reals(array.as_primitive_opt::<Int32Type>().ok_or_else(odd)?)
                }
                _ => integers_as_reals(array.as_primitive_opt::<Int64Type>().ok_or_else(odd)?),
            },
            Rule::Numbers { reals } => self.numbers(array, reals).ok_or_else(odd)?,
            Rule::NumbersOrText => {
                let texts = array.as_string_opt::<i32>().ok_or_else(odd)?;
                let value = |text: &str| match number::as_written(text) {
                    Some(Number::Integer(integer)) => Value::Integer(integer),
                    Some(Number::Real(real)) => Value::Real(real),
                    Some(Number::Null) | None => Value::Text(text.to_owned()),
                };
                let values = texts.iter().map(|text| text.map_or(Value::Null, value));
                (Values::Mixed(values.collect()), None)
            }
            Rule::AsText => self.texts(array).ok_or_else(odd)?,
        };
        let bad = bad.map(|row| Bad {
            row,
            column: self.name.clone(),
            error: self.problem(array, row),
        });
        Ok((values, bad))
    }

    fn numbers(&self, array: &ArrayRef, reals: bool) -> Option<(Values, Option<usize>)> {
        let fit = |number: Number| match number {
            Number::Integer(integer) if reals => number::integer_as_real(integer).map(Number::Real),
            number => Some(number),
        };
        let found = match self.ty {
            ColumnType::Decimal { scale, .. } => {
                let decimals = array.as_primitive_opt::<Decimal128Type>()?;
                collect(decimals.len(), decimals.iter(), |decimal| {
                    number::from_decimal(decimal, u32::from(scale)).and_then(fit)
                })
            }
            _ => {
                let texts = array.as_string_opt::<i32>()?;
                collect(texts.len(), texts.iter(), |text| {
                    number::from_text(text).and_then(fit)
                })
            }
        };
        Some(found)
    }

    fn texts(&self, array: &ArrayRef) -> Option<(Values, Option<usize>)> {
        let found = match self.ty {
            ColumnType::Date => write_all(array.as_primitive_opt::<Date32Type>()?, 10, |days, out| {
                temporal::write_date(i64::from(days), out)
            }),
            ColumnType::Time => write_all(
                array.as_primitive_opt::<Time64MicrosecondType>()?,
                15,
                temporal::write_time,
            ),
            ColumnType::Timestamp => write_all(
                array.as_primitive_opt::<TimestampMicrosecondType>()?,
                26,
                temporal::write_timestamp,
            ),
            ColumnType::TimestampTz => write_all(
                array.as_primitive_opt::<TimestampMicrosecondType>()?,
                32,
                |micros, out| {
                    let written = temporal::write_timestamp(micros, out);
                    out.push_str("+00:00");
                    written
                },
            ),
            ColumnType::Decimal { .. } => {
                let decimals = array.as_primitive_opt::<Decimal128Type>()?;
                let mut texts = StringBuilder::with_capacity(decimals.len(), decimals.len() * 16);
                for row in 0..decimals.len() {
                    texts.append_option((!decimals.is_null(row)).then(|| decimals.value_as_string(row)));
                }
                (Values::Text(texts.finish()), None)
            }
            ColumnType::Uuid => {
                let uuids = array.as_fixed_size_binary_opt()?;
                let mut texts = StringBuilder::with_capacity(uuids.len(), uuids.len() * 36);
                let mut buffer = uuid::Uuid::encode_buffer();
                for uuid in uuids {
                    match uuid {
                        None => texts.append_null(),
                        Some(bytes) => {
                            let uuid = uuid::Uuid::from_slice(bytes).ok()?;
                            texts.append_value(uuid.as_hyphenated().encode_lower(&mut buffer));
                        }
                    }
                }
                (Values::Text(texts.finish()), None)
            }
            _ => return None,
        };
        Some(found)
    }

    /// What is wrong with the value that this column refused.
    fn problem(&self, array: &ArrayRef, row: usize) -> Error {
        let shown = arrow::util::display::array_value_to_string(array, row).unwrap_or_default();
        let mut shown: String = shown.chars().take(60).collect();
        shown = format!("'{shown}'");
        let rejected = |message: String| Error::new(ErrorKind::Rejected, message);
        match self.rule {
            Rule::NotNumeric => rejected(format!("SQLite would store the text {shown} as a number"))
                .code(sqlstate::WOULD_CHANGE)
                .hint(format!(
                    "declare column {} as TEXT to keep text as it is",
                    self.name
                )),
            Rule::NoNan => rejected("SQLite would store NaN as null".to_owned()).code(sqlstate::WOULD_CHANGE),
            Rule::AsText => rejected(format!(
                "SQLite has no year outside 0000 to 9999, no time outside a day: {shown}"
            ))
            .code(sqlstate::DATETIME_OVERFLOW),
            Rule::AsIs | Rule::IntegersAsReals | Rule::Numbers { .. } | Rule::NumbersOrText => rejected(format!(
                "SQLite would round {shown}: it keeps what a double gives back, or 64-bit integers"
            ))
            .code(sqlstate::WOULD_CHANGE)
            .hint(format!(
                "declare column {0} as TEXT to keep every digit (--create: --type {0}=text), or as REAL to take the \
                 nearest double (--type {0}=float64)",
                self.name
            )),
        }
    }
}

/// A column that is bound as it is.
fn plain(array: &ArrayRef) -> Option<Values> {
    use arrow::datatypes::DataType;
    Some(match array.data_type() {
        DataType::Boolean => Values::Bool(array.as_boolean_opt()?.clone()),
        DataType::Int16 => Values::Int16(array.as_primitive_opt()?.clone()),
        DataType::Int32 => Values::Int32(array.as_primitive_opt()?.clone()),
        DataType::Int64 => Values::Int64(array.as_primitive_opt()?.clone()),
        DataType::Float32 => Values::Float32(array.as_primitive_opt()?.clone()),
        DataType::Float64 => Values::Float64(array.as_primitive_opt()?.clone()),
        DataType::Utf8 => Values::Text(array.as_string_opt()?.clone()),
        DataType::Binary => Values::Bytes(array.as_binary_opt()?.clone()),
        _ => return None,
    })
}

/// The first row whose value is `bad`.
fn first<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, bad: impl Fn(T::Native) -> bool) -> Option<usize> {
    array.iter().position(|value| value.is_some_and(&bad))
}

/// Numbers, and the first value that is not a number; such a value becomes null.
fn collect<T>(
    rows: usize,
    values: impl Iterator<Item = Option<T>>,
    number: impl Fn(T) -> Option<Number>,
) -> (Values, Option<usize>) {
    let mut numbers = Vec::with_capacity(rows);
    let mut bad = None;
    for (row, value) in values.enumerate() {
        match value.map(&number) {
            None => numbers.push(Number::Null),
            Some(Some(number)) => numbers.push(number),
            Some(None) => {
                numbers.push(Number::Null);
                bad.get_or_insert(row);
            }
        }
    }
    (Values::Numbers(numbers), bad)
}

fn integers_as_reals<T>(array: &PrimitiveArray<T>) -> (Values, Option<usize>)
where
    T: ArrowPrimitiveType,
    i64: From<T::Native>,
{
    collect(array.len(), array.iter(), |integer| {
        number::integer_as_real(i64::from(integer)).map(Number::Real)
    })
}

/// Texts of a column, and the first row that has none, which becomes null. `bytes` is the longest text.
fn write_all<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    bytes: usize,
    write: impl Fn(T::Native, &mut String) -> bool,
) -> (Values, Option<usize>) {
    let mut texts = StringBuilder::with_capacity(array.len(), array.len() * bytes);
    let mut text = String::with_capacity(bytes);
    let mut bad = None;
    for (row, value) in array.iter().enumerate() {
        match value {
            None => texts.append_null(),
            Some(value) => {
                text.clear();
                match write(value, &mut text) {
                    true => texts.append_value(&text),
                    false => {
                        texts.append_null();
                        bad.get_or_insert(row);
                    }
                }
            }
        }
    }
    (Values::Text(texts.finish()), bad)
}

impl Encoded {
    /// A column's values, one by one; null for what cannot be written exactly.
    pub(super) fn values(&self, column: usize) -> Vec<Value> {
        fn all<T, V: Into<Value>>(
            values: impl Iterator<Item = Option<T>>,
            value: impl Fn(T) -> V,
        ) -> Vec<Value> {
            let each = |found: Option<T>| found.map_or(Value::Null, |found| value(found).into());
            values.map(each).collect()
        }
        match &self.columns[column] {
            Values::Bool(array) => all(array.iter(), i64::from),
            Values::Int16(array) => all(array.iter(), i64::from),
            Values::Int32(array) => all(array.iter(), i64::from),
            Values::Int64(array) => all(array.iter(), |value| value),
            Values::Float32(array) => all(array.iter(), f64::from),
            Values::Float64(array) => all(array.iter(), |value| value),
            Values::Text(array) => all(array.iter(), str::to_owned),
            Values::Bytes(array) => all(array.iter(), <[u8]>::to_vec),
            Values::Numbers(numbers) => all(numbers.iter().map(Some), |number| match number {
                Number::Integer(integer) => Value::Integer(*integer),
                Number::Real(real) => Value::Real(*real),
                Number::Null => Value::Null,
            }),
            Values::Mixed(values) => values.clone(),
        }
    }

    /// Binds the columns at `parameters` of `rows` to the statement's parameters, row after row; the type of
    /// a column is looked at once for all of them.
    pub(super) fn bind(
        &self,
        statement: &mut Statement<'_>,
        parameters: &[usize],
        rows: Range<usize>,
    ) -> rusqlite::Result<()> {
        let stride = parameters.len();
        for (parameter, column) in parameters.iter().enumerate() {
            let place = ParameterLayout {
                first: parameter + 1,
                stride,
            };
            let rows = rows.clone();
            match &self.columns[*column] {
                Values::Bool(array) => {
                    place.bind(statement, rows, |row| get(array, row, array.value(row)))?
                }
                Values::Int16(array) => {
                    place.bind(statement, rows, |row| get(array, row, array.value(row)))?
                }
                Values::Int32(array) => {
                    place.bind(statement, rows, |row| get(array, row, array.value(row)))?
                }
                Values::Int64(array) => {
                    place.bind(statement, rows, |row| get(array, row, array.value(row)))?
                }
                Values::Float32(array) => {
                    place.bind(statement, rows, |row| {
                        get(array, row, f64::from(array.value(row)))
                    })?;
                }
                Values::Float64(array) => {
                    place.bind(statement, rows, |row| get(array, row, array.value(row)))?
                }
                Values::Text(array) => {
                    place.bind(statement, rows, |row| get(array, row, array.value(row)))?
                }
                Values::Bytes(array) => {
                    place.bind(statement, rows, |row| get(array, row, array.value(row)))?
                }
                Values::Mixed(values) => place.bind(statement, rows, |row| Some(&values[row]))?,
                Values::Numbers(numbers) => {
                    for (index, row) in rows.enumerate() {
                        let parameter = place.first + index * place.stride;
                        match numbers[row] {
                            Number::Integer(integer) => statement.raw_bind_parameter(parameter, integer)?,
                            Number::Real(real) => statement.raw_bind_parameter(parameter, real)?,
                            Number::Null => statement.raw_bind_parameter(parameter, rusqlite::types::Null)?,
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// The value of a row, or null. The value under a null is defined, so it may be read before.
fn get<T>(array: &impl Array, row: usize, value: T) -> Option<T> {
    array.is_valid(row).then_some(value)
}

/// Where the values of a column go among the parameters.
#[derive(Clone, Copy)]
struct ParameterLayout {
    first: usize,
    stride: usize,
}

impl ParameterLayout {
    fn bind<T: ToSql>(
        self,
        statement: &mut Statement<'_>,
        rows: Range<usize>,
        value: impl Fn(usize) -> Option<T>,
    ) -> rusqlite::Result<()> {
        for (index, row) in rows.enumerate() {
            statement.raw_bind_parameter(self.first + index * self.stride, value(row))?;
        }
        Ok(())
    }
}
