//! Arrays of a database, which it gives as text in braces, as lists where the format has them.
//!
//! - JSON has lists of lists, so that every array has a form; one whose places do not begin at 1 is its text.
//! - Parquet and Arrow have lists of a type: an array of several dimensions is an error, as the type of all rows is known
//!   before the first.
//! - Loaded again, each list is the array that it was.

use std::{borrow::Cow, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, StringArray},
    buffer::OffsetBuffer,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    parse::{ParseContext, parse_column},
    reader::{ReadColumn, schema},
    reject::Problems,
    types::ColumnType,
};
use tonnage_formats::sources::Format;

/// Nesting of one value: as many dimensions as an array of PostgreSQL has at most.
const DIMENSIONS_MAX: usize = 6;

/// The columns of a snapshot that become lists.
pub(super) struct Lists {
    columns: Vec<ListColumn>,
    schema: SchemaRef,
}

struct ListColumn {
    place: usize,
    name: String,
    element: ColumnType,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    List,
}

impl Lists {
    /// Of the columns that a format has lists for.
    pub fn of(columns: &[ReadColumn], format: Format) -> Self {
        let form = match format {
            Format::Csv | Format::Tsv => None,
            Format::Json => Some(Form::Json),
            Format::Parquet | Format::Arrow => Some(Form::List),
        };
        let plain = schema(columns);
        let mut fields: Vec<Arc<Field>> = plain.fields().iter().cloned().collect();
        let mut lists = Vec::new();
        for (place, column) in columns.iter().enumerate() {
            let (Some(element), Some(form)) = (column.item(), form) else {
                continue;
            };
            let field = match form {
                Form::Json => ColumnType::Json.field(&column.name, column.nullable),
                Form::List => {
                    let item = Arc::new(element.field("item", true));
                    Field::new(&column.name, DataType::List(item), column.nullable)
                }
            };
            fields[place] = Arc::new(field);
            lists.push(ListColumn {
                place,
                name: column.name.clone(),
                element,
                form,
            });
        }
        Self {
            schema: match lists.is_empty() {
                true => plain,
                false => Arc::new(Schema::new(fields)),
            },
            columns: lists,
        }
    }

    /// The schema of what is written.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A batch with its arrays as lists. `Schema` for one that has no such form.
    pub fn converted<'a>(&self, batch: &'a RecordBatch) -> Result<Cow<'a, RecordBatch>> {
        if self.columns.is_empty() {
            return Ok(Cow::Borrowed(batch));
        }
        let mut arrays = batch.columns().to_vec();
        for column in &self.columns {
            let texts = arrays[column.place]
                .as_string_opt::<i32>()
                .ok_or_else(|| Error::bug(format!("arrays of column '{}' are no text", column.name)))?;
            arrays[column.place] = match column.form {
                Form::Json => column.json(texts)?,
                Form::List => column.list(texts)?,
            };
        }
        let batch = RecordBatch::try_new(self.schema.clone(), arrays).map_err(arrow_bug)?;
        Ok(Cow::Owned(batch))
    }
}

impl ListColumn {
    fn json(&self, texts: &StringArray) -> Result<ArrayRef> {
        let value = |text: Option<&str>| {
            let Some(text) = text else { return Ok(None) };
            let mut json = String::with_capacity(text.len() + 2);
            match text.starts_with('{') {
                true => self.push_json(text, &mut json)?,
                // `[0:1]={1,2}`: where it begins is a part of it.
                false => push_string(&mut json, text)?,
            }
            Ok(Some(json))
        };
        let values = texts.iter().map(value).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(StringArray::from(values)))
    }

    fn push_json(&self, text: &str, json: &mut String) -> Result<()> {
        let is_number = self.element.is_number();
        for part in Parts::of(text) {
            match part.ok_or_else(|| self.malformed(text))? {
                Part::Begin => json.push('['),
                Part::End => json.push(']'),
                Part::Next => json.push(','),
                Part::Item(None) => json.push_str("null"),
                Part::Item(Some(item)) if self.element == ColumnType::Bool => {
                    json.push_str(if item == "t" { "true" } else { "false" });
                }
                // Words such as NaN are no numbers of JSON.
                Part::Item(Some(item))
                    if is_number && !item.contains(|c: char| c.is_alphabetic() && c != 'e') =>
                {
                    json.push_str(&item);
                }
                Part::Item(Some(item)) => push_string(json, &item)?,
            }
        }
        Ok(())
    }

    fn list(&self, texts: &StringArray) -> Result<ArrayRef> {
        let mut items: Vec<Option<Cow<'_, str>>> = Vec::new();
        let mut lengths = Vec::with_capacity(texts.len());
        for text in texts {
            let before = items.len();
            // `[0:1]={1,2}` is no text of an array without bounds; in `{{}}` no item comes before the second list.
            if text.is_some_and(|text| text.starts_with('[') || text.starts_with("{{")) {
                return Err(self.has_no_list(text));
            }
            for part in text.into_iter().flat_map(Parts::of) {
                match part.ok_or_else(|| self.malformed(text.unwrap_or_default()))? {
                    Part::Begin if items.len() > before => return Err(self.has_no_list(text)),
                    Part::Item(item) => items.push(item),
                    Part::Begin | Part::End | Part::Next => {}
                }
            }
            // As the same value alone, which is an error too.
            let is_finite =
                |item: &Option<Cow<'_, str>>| item.as_ref().is_none_or(|item| !item.ends_with("infinity"));
            let is_time = matches!(
                self.element,
                ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz
            );
            if is_time && !items[before..].iter().all(is_finite) {
                return Err(self.has_no_list(text));
            }
            lengths.push(items.len() - before);
        }
        let mut problems = Problems::default();
        let values = items.iter().map(|item| item.as_ref().map(|item| item.as_bytes()));
        let context = ParseContext::default();
        let values = parse_column(&self.element, &self.name, values, &context, &mut problems);
        if let Some((_, problem)) = problems.iter().next() {
            return Err(Error::schema(format!(
                "column '{}': an item of an array {}",
                self.name, problem.message
            ))
            .hint(self.as_text()));
        }
        let item = Arc::new(self.element.field("item", true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let list = ListArray::try_new(item, offsets, values, texts.nulls().cloned()).map_err(arrow_bug)?;
        Ok(Arc::new(list))
    }

    fn has_no_list(&self, text: Option<&str>) -> Error {
        let text = tonnage_core::parse::shown(text.unwrap_or_default().as_bytes());
        Error::schema(format!(
            "column '{}': the array {text} is no list of {}",
            self.name, self.element
        ))
        .hint(self.as_text())
    }

    fn as_text(&self) -> String {
        format!(
            "--text {} gives the column as the database's text; JSON lines have lists of lists",
            self.name
        )
    }

    fn malformed(&self, text: &str) -> Error {
        let text = tonnage_core::parse::shown(text.as_bytes());
        Error::bug(format!("column '{}': {text} is no array", self.name))
    }
}

fn push_string(json: &mut String, text: &str) -> Result<()> {
    let string = serde_json::to_string(text)
        .map_err(|cause| Error::bug(format!("a text cannot be written as JSON: {cause}")))?;
    json.push_str(&string);
    Ok(())
}

/// A part of an array's text.
#[derive(Debug, PartialEq)]
enum Part<'a> {
    Begin,
    End,
    Next,
    /// A value; none for null.
    Item(Option<Cow<'a, str>>),
}

/// The parts of an array as PostgreSQL writes it: `{1,NULL,"a \"b\""}`. None for what is none, once.
struct Parts<'a> {
    rest: &'a str,
    depth: usize,
    has_ended: bool,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            rest: text,
            depth: 0,
            has_ended: false,
        }
    }

    fn part(&mut self) -> Option<Part<'a>> {
        let (part, length) = match self.rest.as_bytes().first()? {
            b'{' if self.depth < DIMENSIONS_MAX => {
                self.depth += 1;
                (Part::Begin, 1)
            }
            b'}' if self.depth > 0 => {
                self.depth -= 1;
                (Part::End, 1)
            }
            b',' if self.depth > 0 => (Part::Next, 1),
            b'"' if self.depth > 0 => {
                let (item, length) = quoted(self.rest)?;
                (Part::Item(Some(item)), length)
            }
            _ if self.depth > 0 => {
                let length = self.rest.find([',', '}'])?;
                let item = &self.rest[..length];
                let is_null = item == "NULL";
                (Part::Item((!is_null).then_some(Cow::Borrowed(item))), length)
            }
            _ => return None,
        };
        self.rest = &self.rest[length..];
        Some(part)
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Option<Part<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let part = self.part();
        self.has_ended = part.is_none() || self.depth == 0;
        let is_whole = part.is_some() && (self.depth > 0 || self.rest.is_empty());
        Some(part.filter(|_| is_whole))
    }
}

/// The text in quotes at the beginning of `text`, and its length with them.
fn quoted(text: &str) -> Option<(Cow<'_, str>, usize)> {
    let body = &text[1..];
    let plain = body.find(['"', '\\'])?;
    if body.as_bytes()[plain] == b'"' {
        return Some((Cow::Borrowed(&body[..plain]), plain + 2));
    }
    let mut item = String::new();
    let mut signs = body.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return Some((Cow::Owned(item), at + 2)),
            '\\' => item.push(signs.next()?.1),
            other => item.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Int32Type;

    use super::*;

    fn lists(element: ColumnType, format: Format) -> Lists {
        let column = ReadColumn {
            name: "a".to_owned(),
            ty: ColumnType::TEXT,
            element: Some(element),
            declared: "x[]".to_owned(),
            nullable: true,
        };
        Lists::of(&[column], format)
    }

    fn batch(texts: &[Option<&str>]) -> RecordBatch {
        let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        RecordBatch::try_from_iter([("a", texts)]).unwrap()
    }

    fn json(element: ColumnType, text: &str) -> String {
        let batch = batch(&[Some(text)]);
        let converted = lists(element, Format::Json)
            .converted(&batch)
            .unwrap()
            .into_owned();
        converted.column(0).as_string::<i32>().value(0).to_owned()
    }

    #[test]
    fn json_has_lists_of_all_arrays() {
        assert_eq!(json(ColumnType::Int32, "{1,NULL,-3}"), "[1,null,-3]");
        assert_eq!(json(ColumnType::Int32, "{{1,2},{3,4}}"), "[[1,2],[3,4]]");
        assert_eq!(json(ColumnType::Int32, "{}"), "[]");
        assert_eq!(json(ColumnType::Int32, "[0:1]={1,2}"), "\"[0:1]={1,2}\"");
        assert_eq!(
            json(ColumnType::Float64, "{1.5,1e+20,NaN,-Infinity}"),
            "[1.5,1e+20,\"NaN\",\"-Infinity\"]"
        );
        assert_eq!(json(ColumnType::Bool, "{t,f}"), "[true,false]");
        assert_eq!(
            json(ColumnType::TEXT, r#"{a,"b, c","d \"e\" \\ f","","NULL"}"#),
            r#"["a","b, c","d \"e\" \\ f","","NULL"]"#
        );
    }

    #[test]
    fn parquet_has_lists_of_one_dimension() {
        let lists = lists(ColumnType::Int32, Format::Parquet);
        let batch = batch(&[Some("{1,2}"), None, Some("{}"), Some("{NULL}")]);
        let converted = lists.converted(&batch).unwrap();
        let list = converted.column(0).as_list::<i32>();
        let rows: Vec<Option<Vec<Option<i32>>>> = list
            .iter()
            .map(|row| Some(row?.as_primitive::<Int32Type>().iter().collect()))
            .collect();
        assert_eq!(
            rows,
            [Some(vec![Some(1), Some(2)]), None, Some(vec![]), Some(vec![None])]
        );
        for text in ["{{1,2},{3,4}}", "[0:1]={1,2}"] {
            let error = lists.converted(&self::batch(&[Some(text)])).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("column 'a': the array '{text}' is no list of int32")
            );
            assert!(error.hint_text().unwrap().starts_with("--text a "));
        }
    }

    #[test]
    fn what_is_no_array_is_an_error_and_no_panic() {
        for text in [
            "",
            "{",
            "{1",
            "{\"",
            "{\"\\",
            "}",
            "1",
            "{1}x",
            "{1}}",
            "{{{{{{{1}}}}}}}",
        ] {
            let parts: Vec<_> = Parts::of(text).collect();
            assert!(parts.contains(&None), "{text}");
        }
    }
}
