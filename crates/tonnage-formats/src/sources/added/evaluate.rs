//! Expressions over the rows of a block, a column at a time.

use std::{borrow::Cow, collections::HashMap};

use arrow::{
    array::{Array, ArrayRef, AsArray, StringArray, StringBuilder},
    datatypes::TimestampMicrosecondType,
};
use serde_json::value::RawValue;
use tonnage_core::{
    convert::shown_value,
    error::{Error, Result},
    parse::{ParseContext, parse_column},
    reader::BeyondArrow,
    reject::{Problem, Problems, sqlstate},
    source::Origin,
    types::ColumnType,
};

use super::{
    expression::{Expression, Function, Step},
    instant,
};

/// The rows of a block, as far as expressions need them.
pub(super) struct Rows<'a> {
    /// How many.
    pub count: usize,
    /// The columns that are named, by that name.
    pub columns: &'a [(String, StringArray)],
    /// Where each row came from.
    pub origin: &'a Origin,
    /// The id of the run.
    pub run: &'a str,
    /// When the load began, in microseconds since 1970.
    pub now: i64,
    /// How texts are read.
    pub context: &'a ParseContext,
}

/// The values of `expression`, one a row. A row that has none is noted in `problems`, under the name `column`.
pub(super) fn evaluate(
    expression: &Expression,
    column: &str,
    rows: &Rows<'_>,
    problems: &mut Problems,
) -> Result<StringArray> {
    let each = |value: &dyn Fn(usize) -> String| (0..rows.count).map(|row| Some(value(row))).collect();
    Ok(match expression {
        Expression::Text(text) => each(&|_| text.clone()),
        Expression::File => each(&|row| rows.origin.file(row).to_string()),
        Expression::Row => each(&|row| rows.origin.row(row).to_string()),
        Expression::Run => each(&|_| rows.run.to_owned()),
        Expression::Now => each(&|_| instant(rows.now)),
        Expression::Column(name) => {
            let known = rows.columns.iter().find(|(known, _)| known == name);
            known
                .ok_or_else(|| Error::bug(format!("column '{name}' of an expression was not read")))?
                .1
                .clone()
        }
        Expression::Call(function, values) => {
            let values: Result<Vec<StringArray>> = values
                .iter()
                .map(|value| evaluate(value, column, rows, problems))
                .collect();
            call(function, &values?, column, rows, problems)?
        }
    })
}

/// What a column of any type is as text: [`shown_value`], which loads back.
pub(super) fn texts(array: &ArrayRef) -> StringArray {
    match array.as_string_opt::<i32>() {
        Some(texts) => texts.clone(),
        None => (0..array.len())
            .map(|row| shown_value(array, row, BeyondArrow::Refused))
            .collect(),
    }
}

fn call(
    function: &Function,
    values: &[StringArray],
    column: &str,
    rows: &Rows<'_>,
    problems: &mut Problems,
) -> Result<StringArray> {
    // Of the first value, what is not null.
    let first = |make: &mut dyn FnMut(usize, &str) -> Option<String>| -> StringArray {
        let Some(texts) = values.first() else {
            return StringArray::new_null(rows.count);
        };
        let made = texts.iter().enumerate().map(|(row, text)| make(row, text?));
        made.collect()
    };
    let at = |values: &StringArray, row: usize| values.is_valid(row).then(|| values.value(row).to_owned());
    Ok(match function {
        Function::Trim => first(&mut |_, text| Some(text.trim().to_owned())),
        Function::Lower => first(&mut |_, text| Some(text.to_lowercase())),
        Function::Upper => first(&mut |_, text| Some(text.to_uppercase())),
        Function::Concat => {
            let mut made = StringBuilder::with_capacity(rows.count, 0);
            let mut text = String::new();
            for row in 0..rows.count {
                text.clear();
                let parts = values.iter().filter(|values| values.is_valid(row));
                parts.for_each(|values| text.push_str(values.value(row)));
                made.append_value(&text);
            }
            made.finish()
        }
        Function::Coalesce => (0..rows.count)
            .map(|row| values.iter().find_map(|values| at(values, row)))
            .collect(),
        Function::NullIf => first(&mut |row, text| {
            let same = values
                .get(1)
                .is_some_and(|other| other.is_valid(row) && other.value(row) == text);
            (!same).then(|| text.to_owned())
        }),
        Function::Replace => first(&mut |row, text| {
            let what = at(values.get(1)?, row)?;
            let by = at(values.get(2)?, row)?;
            Some(match what.is_empty() {
                true => text.to_owned(),
                false => text.replace(&what, &by),
            })
        }),
        Function::Substr(from, characters) => first(&mut |_, text| {
            let signs = text.chars().skip(from - 1);
            Some(signs.take(characters.unwrap_or(usize::MAX)).collect())
        }),
        Function::Split(number) => first(&mut |row, text| {
            let separator = at(values.get(1)?, row)?;
            part(text, &separator, *number).map(str::to_owned)
        }),
        Function::Json(path) => first(&mut |row, text| match serde_json::from_str::<&RawValue>(text) {
            Ok(value) => found(value.get(), path).map(Cow::into_owned),
            Err(_) => {
                let message = "not JSON, so nothing can be taken out of it".to_owned();
                problems.add(row, problem(column, sqlstate::INVALID_TEXT, message));
                None
            }
        }),
        Function::Cast(ty) => texts(&parsed(ty, &values[0], column, rows, problems)),
        Function::Format(pattern) => {
            let ticks = parsed(&ColumnType::Timestamp, &values[0], column, rows, problems);
            let ticks = ticks.as_primitive::<TimestampMicrosecondType>();
            let shown = ticks.iter().enumerate().map(|(row, micros)| {
                let failed = |error| {
                    let message = format!("cannot be shown as {pattern}: {error}");
                    problems.add(row, problem(column, sqlstate::DATETIME_OVERFLOW, message));
                };
                shown_by(pattern, micros?).map_err(failed).ok()
            });
            shown.collect()
        }
    })
}

fn problem(column: &str, code: &str, message: String) -> Problem {
    Problem {
        column: Some(column.to_owned()),
        code: code.to_owned(),
        message,
        hint: None,
    }
}

/// A timestamp, in microseconds since 1970, by a pattern of strftime.
fn shown_by(pattern: &str, micros: i64) -> std::result::Result<String, jiff::Error> {
    let instant = jiff::Timestamp::from_microsecond(micros)?;
    let time = instant.to_zoned(jiff::tz::TimeZone::UTC).datetime();
    jiff::fmt::strtime::format(pattern, time)
}

/// Texts as values of a type; those that are none are noted and null.
pub(super) fn parsed(
    ty: &ColumnType,
    texts: &StringArray,
    column: &str,
    rows: &Rows<'_>,
    problems: &mut Problems,
) -> ArrayRef {
    let values = texts.iter().map(|text| text.map(str::as_bytes));
    parse_column(ty, column, values, rows.context, problems)
}

/// The part of a text between separators: the first is 1, the last is -1.
fn part<'a>(text: &'a str, separator: &str, number: i64) -> Option<&'a str> {
    let place = usize::try_from(number.unsigned_abs()).ok()?.checked_sub(1)?;
    match (separator.is_empty(), number > 0) {
        (true, _) => (place == 0).then_some(text),
        (false, true) => text.split(separator).nth(place),
        (false, false) => text.rsplit(separator).nth(place),
    }
}

/// The value at a path: text without quotes, numbers and others as they are written; none where there is none or null.
fn found<'a>(value: &'a str, path: &[Step]) -> Option<Cow<'a, str>> {
    let Some((step, rest)) = path.split_first() else {
        return match value {
            "null" => None,
            text if text.starts_with('"') => serde_json::from_str::<Cow<'a, str>>(text).ok(),
            other => Some(Cow::Borrowed(other)),
        };
    };
    match step {
        Step::Index(at) => {
            let elements: Vec<&'a RawValue> = serde_json::from_str(value).ok()?;
            found(elements.get(*at)?.get(), rest)
        }
        Step::Key(key) => {
            let members: HashMap<Cow<'a, str>, &'a RawValue> = serde_json::from_str(value).ok()?;
            let member: &'a RawValue = members.get(key.as_str())?;
            found(member.get(), rest)
        }
    }
}
