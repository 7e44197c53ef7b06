//! CSV records that are arguments and not lines of a file.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, StringBuilder},
    datatypes::{DataType, Field, Schema},
};
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    source::Source,
};

use super::{
    TextOptions,
    dialect::Dialect,
    tokenise::{Fields, Record, Tokeniser},
};
use crate::sources::{Format, batches::BatchSource};

/// A source of `texts`, each one record without a header, in the dialect of [`TextOptions::default`]: commas, double
/// quotes, nothing for null. Messages call it `shown`. `Config` where a text is no record, or has other fields than
/// the first.
pub fn records(shown: &str, texts: &[String]) -> Result<Box<dyn Source>> {
    let dialect = Dialect::new(Format::Csv, &TextOptions::default())?;
    let mut columns: Vec<StringBuilder> = Vec::new();
    let mut fields = Fields::default();
    for text in texts {
        let bad = |why: String| {
            Error::config(format!("'{text}' is not a CSV record: {why}"))
                .hint("quote a field with a comma in it and double the quotes in it, as in '\"a,\"\"b\"\"\"'")
        };
        fields.clear();
        let expected = (!columns.is_empty()).then_some(columns.len());
        let bytes = text.as_bytes();
        match Tokeniser::new(&dialect, expected).record(bytes, 0, true, &mut fields) {
            Record::Good { next, .. } if next == bytes.len() => {}
            Record::Good { .. } => return Err(bad("it has more than one line".to_owned())),
            Record::Bad { flaw, .. } => return Err(bad(flaw.to_string())),
            Record::Endless | Record::Incomplete => return Err(bad("it has no end".to_owned())),
        }
        if columns.is_empty() {
            columns.resize_with(fields.spans.len(), StringBuilder::new);
        }
        for (column, span) in columns.iter_mut().zip(&fields.spans) {
            match dialect.value(fields.bytes(*span, bytes), *span) {
                None => column.append_null(),
                // Cut at ASCII characters.
                Some(field) => column.append_value(String::from_utf8_lossy(field)),
            }
        }
    }
    let names = (1..=columns.len()).map(|number| Field::new(format!("c{number}"), DataType::Utf8, true));
    let schema = Arc::new(Schema::new(names.collect::<Vec<_>>()));
    let columns = columns.iter_mut().map(|column| Arc::new(column.finish()) as _);
    let batch = RecordBatch::try_new(schema.clone(), columns.collect()).map_err(arrow_bug)?;
    Ok(Box::new(
        BatchSource::new(shown, schema, std::iter::once(batch)).unnamed(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_records() {
        let texts = ["1,a", "2,\"b,\"\"c\"", "3,", "4,\"\""].map(str::to_owned);
        let mut source = records("arguments", &texts).unwrap();
        assert_eq!(source.schema().columns.len(), 2);
        source
            .request(&tonnage_core::source::ReadRequest {
                columns: vec![(1, tonnage_core::types::ColumnType::TEXT)],
                block_rows: 3,
                block_bytes: 1,
            })
            .unwrap();
        let mut values = Vec::new();
        while let Some(block) = source.next().unwrap() {
            let column = arrow::array::AsArray::as_string::<i32>(block.rows.column(0)).clone();
            values.extend(column.iter().map(|value| value.map(str::to_owned)));
        }
        assert_eq!(
            values,
            [Some("a"), Some("b,\"c"), None, Some("")].map(|value| value.map(str::to_owned))
        );
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for (texts, why) in [
            (
                &["1,2", "3"][..],
                "'3' is not a CSV record: 1 field where 2 were expected",
            ),
            (&["1\n2"], "'1\n2' is not a CSV record: it has more than one line"),
            (
                &["\"1"],
                "'\"1' is not a CSV record: a quote that is not closed before the file ends",
            ),
        ] {
            let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(records("arguments", &texts).err().unwrap().to_string(), why);
        }
    }
}
