//! How a file's text is cut: the options, checked and resolved.

use tonnage_core::error::{Error, Result};

use super::tokenise::Span;
use crate::sources::{DifferingColumns, Format, TextOptions, text::RECORD_BYTES_LIMIT};

/// Options resolved for a format.
#[derive(Debug, Clone)]
pub(super) struct Dialect {
    /// Between fields.
    pub delimiter: u8,
    /// Around fields; none where quotes are data.
    pub quote: Option<u8>,
    /// Before a quote inside a quoted field; none where the quote is doubled.
    pub escape: Option<u8>,
    /// First byte of lines that are skipped.
    pub comment: Option<u8>,
    /// The most bytes of a record.
    pub record_bytes_max: usize,
    /// Unquoted fields that mean null.
    pub nulls: Nulls,
    /// Whether spaces around unquoted fields mean nothing.
    pub trim: bool,
    /// What else is taken for quoting.
    pub quoting: Quoting,
    /// What else is taken for a row.
    pub lenient: Lenient,
    /// The delimiter, a tab, is in the place of runs of spaces and tabs of the file.
    pub blanks: bool,
}

/// Ways of quoting that files have and that the rules of COPY refuse. Detection turns them on where they make a file
/// readable that is not otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Quoting {
    /// A quote behind spaces opens a field, and spaces behind its closing quote mean nothing: `1, "a, b" ,2`.
    pub spaced: bool,
    /// A quote inside an unquoted field is a character of it: `5" pipe`.
    pub bare: bool,
    /// A quote inside a quoted field of one line closes it only before a delimiter or the end of the line, and is a character
    /// of it elsewhere: `"the "best" of"`.
    pub inner: bool,
}

/// Rows and lines that files have and that the rules of COPY refuse. Each is turned on where it was seen, loses nothing of
/// what the file says, and is said in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Lenient {
    /// A row may have fewer fields than there are columns: the others are null.
    pub short: bool,
    /// A row may have empty fields behind its last column.
    pub empty: bool,
    /// A line of spaces and tabs is blank.
    pub spaces: bool,
    /// Carriage returns outside of quotes are characters of their field; before a line feed they belong to the line end,
    /// however many there are.
    pub returns: bool,
}

impl Dialect {
    /// `Config` where two options contradict each other.
    pub fn new(format: Format, options: &TextOptions) -> Result<Self> {
        let delimiter = options.delimiter.unwrap_or(match format {
            Format::Tsv => b'\t',
            _ => b',',
        });
        // An escape that is the quote itself is the doubled quote.
        let escape = options.escape.filter(|escape| options.quote != Some(*escape));
        if escape.is_some() && options.quote.is_none() {
            return Err(Error::config("an escape without a quote has no meaning")
                .hint("leave --escape out, or give --quote too"));
        }
        let named = [
            ("delimiter", Some(delimiter)),
            ("quote", options.quote),
            ("escape", escape),
            ("comment", options.comment),
        ];
        let mut seen: Vec<(&str, u8)> = Vec::new();
        for (name, byte) in named {
            let Some(byte) = byte else { continue };
            if matches!(byte, b'\n' | b'\r' | 0) || !byte.is_ascii() {
                return Err(Error::config(format!(
                    "the {name} has to be one ASCII character, and no line end"
                )));
            }
            if let Some((other, _)) = seen.iter().find(|(_, b)| *b == byte) {
                return Err(Error::config(format!(
                    "{other} and {name} are both '{}'",
                    char::from(byte).escape_default()
                ))
                .hint("each needs a character of its own"));
            }
            seen.push((name, byte));
        }
        if options.record_bytes_max == 0 || options.record_bytes_max > RECORD_BYTES_LIMIT {
            return Err(Error::config(format!(
                "the most bytes of a record have to be between 1 and {RECORD_BYTES_LIMIT}"
            )));
        }
        Ok(Self {
            delimiter,
            quote: options.quote,
            escape,
            comment: options.comment,
            record_bytes_max: options.record_bytes_max,
            nulls: Nulls::new(&options.nulls),
            trim: options.trim,
            quoting: Quoting::default(),
            lenient: Lenient::default(),
            blanks: false,
        })
    }

    /// What a field means; none for null.
    #[inline]
    pub fn value<'a>(&self, field: &'a [u8], span: Span) -> Option<&'a [u8]> {
        if span.is_quoted() {
            return Some(field);
        }
        if span.is_absent() {
            return None;
        }
        let field = match self.trim {
            true => field.trim_ascii(),
            false => field,
        };
        (!self.nulls.contains(field)).then_some(field)
    }

    /// Everything that decides how text is read, as `name=value`.
    pub fn describe(&self, options: &TextOptions) -> Vec<String> {
        let byte = |b: Option<u8>| match b {
            Some(b) => char::from(b).escape_default().to_string(),
            None => "none".to_owned(),
        };
        let mut parts = vec![
            // TSV is text with another delimiter: the same file by another name is the same input.
            "format=text".to_owned(),
            format!("delimiter={}", byte(Some(self.delimiter))),
            format!("quote={}", byte(self.quote)),
            format!("escape={}", byte(self.escape)),
            format!("comment={}", byte(self.comment)),
            format!("header={}", options.header),
            format!("null={:?}", options.nulls),
            format!("encoding={}", options.encoding.to_ascii_lowercase()),
            format!("timezone={}", options.timezone.as_deref().unwrap_or("none")),
            format!("record_bytes_max={}", self.record_bytes_max),
        ];
        // Not there where an earlier version had no such option, whose runs are gone on with.
        let flags = [
            ("trim", self.trim),
            ("union", options.differing == DifferingColumns::United),
            ("spaced_quotes", self.quoting.spaced),
            ("bare_quotes", self.quoting.bare),
            ("inner_quotes", self.quoting.inner),
            ("short_rows", self.lenient.short),
            ("empty_fields", self.lenient.empty),
            ("blank_spaces", self.lenient.spaces),
            ("carriage_returns", self.lenient.returns),
            ("blanks", self.blanks),
        ];
        parts.extend(
            flags
                .iter()
                .filter(|(_, is_on)| *is_on)
                .map(|(name, _)| format!("{name}=true")),
        );
        parts.extend(
            options
                .skip
                .filter(|lines| *lines > 0)
                .map(|lines| format!("skip={lines}")),
        );
        if options.skip_footer > 0 {
            parts.push(format!("skip_footer={}", options.skip_footer));
        }
        parts.extend(options.formats.describe());
        parts
    }
}

/// The texts that mean null.
#[derive(Debug, Clone)]
pub(super) struct Nulls {
    texts: Vec<Vec<u8>>,
    /// One more than the bytes of the longest; 0 where there is none.
    bytes_bound: usize,
}

impl Nulls {
    fn new(texts: &[String]) -> Self {
        Self {
            texts: texts.iter().map(|t| t.clone().into_bytes()).collect(),
            bytes_bound: texts.iter().map(|t| t.len() + 1).max().unwrap_or(0),
        }
    }

    /// Whether an unquoted field means null. For most fields their length alone says no.
    #[inline]
    pub fn contains(&self, field: &[u8]) -> bool {
        field.len() < self.bytes_bound && self.texts.iter().any(|text| text == field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let base = TextOptions::default();
        let cases = [
            (
                TextOptions {
                    delimiter: Some(b'"'),
                    ..base.clone()
                },
                "delimiter and quote are both '\\\"'",
            ),
            (
                TextOptions {
                    comment: Some(b','),
                    ..base.clone()
                },
                "delimiter and comment are both ','",
            ),
            (
                TextOptions {
                    delimiter: Some(b'\n'),
                    ..base.clone()
                },
                "the delimiter has to be one ASCII character, and no line end",
            ),
            (
                TextOptions {
                    quote: None,
                    escape: Some(b'\\'),
                    ..base.clone()
                },
                "an escape without a quote has no meaning",
            ),
        ];
        for (options, message) in cases {
            assert_eq!(
                Dialect::new(Format::Csv, &options).unwrap_err().to_string(),
                message
            );
        }
        let same = TextOptions {
            escape: Some(b'"'),
            ..base
        };
        assert_eq!(Dialect::new(Format::Tsv, &same).unwrap().escape, None);
    }

    #[test]
    fn nulls_are_whole_fields() {
        let nulls = Nulls::new(&["".to_owned(), "NA".to_owned()]);
        assert!(nulls.contains(b"") && nulls.contains(b"NA"));
        assert!(!nulls.contains(b"N") && !nulls.contains(b"NAN") && !nulls.contains(b"na"));
        assert!(!Nulls::new(&[]).contains(b""));
    }
}
