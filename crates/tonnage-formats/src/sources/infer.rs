//! Types inferred from a sample of text.
//!
//! A column gets a type only if every value of the sample is of it **and** would be the same text again or
//! the same value beyond doubt: `007` and `+5` are text, as is everything that some values of a column speak
//! against.

use jiff::civil;
use tonnage_core::{
    extent::Extent,
    parse::{Seen, ValueFormats, float64, is_null_word},
    types::ColumnType,
};

use super::Scan;

/// Integers up to here, and decimals of as many digits, are exact as floats.
const FLOAT_INTEGER_MAX: u64 = 1 << 53;
const FLOAT_DIGITS_MAX: usize = 15;

/// The largest offset from UTC that is taken for one, in hours.
const OFFSET_HOURS_MAX: u32 = 14;

/// Digits of a second that a column keeps.
const FRACTION_DIGITS_MAX: usize = 6;

/// What values of a column have been. One bit a kind, so that a set of them is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
enum Kind {
    Text = 1,
    Bool = 2,
    /// An integer that is exact as a float.
    Integer = 4,
    /// An integer of 64 bits that is not.
    WideInteger = 8,
    /// A decimal that a float gives back.
    Decimal = 16,
    /// A decimal, or an integer beyond 64 bits, that it does not.
    WideDecimal = 32,
    /// With an exponent, or a word such as `nan`.
    Float = 64,
    Date = 128,
    Time = 256,
    Timestamp = 512,
    TimestampTz = 1024,
    Uuid = 2048,
    /// An object or array of JSON.
    Nested = 4096,
}

const INTEGERS: u16 = Kind::Integer as u16 | Kind::WideInteger as u16;
const DECIMALS: u16 = INTEGERS | Kind::Decimal as u16 | Kind::WideDecimal as u16;
const FLOAT: u16 = Kind::Float as u16;

/// What is known of a column so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guess {
    kinds: u16,
    extent: Extent,
    nulls: bool,
    /// A word for "no value" that makes text of a column whose other values are something else.
    null_word: Option<String>,
}

impl Guess {
    /// Takes a value into account.
    pub fn see(&mut self, value: Option<&[u8]>) {
        let Some(value) = value else {
            self.nulls = true;
            return;
        };
        self.extent.see_text(value);
        if self.kinds & Kind::Text as u16 == 0 {
            match kind(value) {
                // Another text, or another word, settles that it is text.
                Kind::Text if is_null_word(value) && self.is_null_word(value) => {
                    self.null_word = Some(String::from_utf8_lossy(value).into_owned());
                }
                kind => {
                    self.kinds |= kind as u16;
                    self.measure(kind, value);
                }
            }
        }
    }

    /// Takes a value into account that is written as `formats` say.
    pub fn see_written(&mut self, value: Option<&[u8]>, formats: &ValueFormats) {
        match value {
            Some(text) if !formats.is_default() => match formats.seen(text) {
                Seen::Value(text) => self.see(Some(&text)),
                Seen::Text => self.see_string(text),
            },
            value => self.see(value),
        }
    }

    fn measure(&mut self, kind: Kind, value: &[u8]) {
        match kind {
            Kind::Integer | Kind::WideInteger | Kind::Decimal | Kind::WideDecimal | Kind::Float => {
                self.extent.see_number(value);
            }
            Kind::Date | Kind::Timestamp | Kind::TimestampTz => {
                let year = value.split_at_checked(4).and_then(|(year, _)| {
                    let (century, year) = year.split_at(2);
                    Some(two(century)? * 100 + two(year)?)
                });
                year.into_iter().for_each(|year| self.extent.see_year(year));
            }
            Kind::Text | Kind::Bool | Kind::Time | Kind::Uuid | Kind::Nested => {}
        }
    }

    /// What the values need of a type, of which `scan` says how many were looked at.
    pub fn extent(&self, scan: Scan) -> Extent {
        Extent {
            all: scan == Scan::All,
            ..self.extent
        }
    }

    /// Whether no other word was seen before.
    fn is_null_word(&self, value: &[u8]) -> bool {
        self.null_word
            .as_ref()
            .is_none_or(|word| word.as_bytes() == value)
    }

    /// The word without which the column would have the type that is told with it.
    pub fn null_word(&self) -> Option<(String, ColumnType)> {
        let word = self.null_word.clone()?;
        let others = self.type_of_kinds();
        (self.kinds != 0 && others != ColumnType::TEXT).then_some((word, others))
    }

    /// Takes a string into account whose quotes say that it is no number and no truth value.
    pub fn see_string(&mut self, value: &[u8]) {
        let kind = date_or_time(value).or_else(|| uuid(value)).unwrap_or(Kind::Text);
        self.kinds |= kind as u16;
        self.extent.see_text(value);
        self.measure(kind, value);
    }

    /// Takes an object or array of JSON into account.
    pub fn see_nested(&mut self) {
        self.kinds |= Kind::Nested as u16;
    }

    /// Whether all values seen are of another type than text, and there were some.
    pub fn is_typed(&self) -> bool {
        self.kinds != 0 && self.null_word.is_none() && self.column_type() != ColumnType::TEXT
    }

    /// Whether a value is of another kind than those seen, which make a type: it would make text of the column.
    pub fn is_foreign(&self, value: &[u8]) -> bool {
        let mut with = self.clone();
        with.see(Some(value));
        self.is_typed() && !with.is_typed()
    }

    /// Whether there were nulls.
    pub fn nulls(&self) -> bool {
        self.nulls
    }

    /// The type that holds all values seen; text where there were none.
    pub fn column_type(&self) -> ColumnType {
        match (&self.null_word, self.kinds & Kind::Nested as u16) {
            (Some(_), 0) => ColumnType::TEXT,
            _ => self.type_of_kinds(),
        }
    }

    fn type_of_kinds(&self) -> ColumnType {
        let only = |kind: Kind| self.kinds == kind as u16;
        let within = |kinds: u16| self.kinds & !kinds == 0;
        if self.kinds & Kind::Nested as u16 != 0 {
            ColumnType::Json
        } else if self.kinds == 0 || self.kinds & Kind::Text as u16 != 0 {
            ColumnType::TEXT
        } else if only(Kind::Bool) {
            ColumnType::Bool
        } else if within(INTEGERS) {
            ColumnType::Int64
        } else if within(DECIMALS) {
            ColumnType::Numeric
        } else if within(DECIMALS | FLOAT) {
            match self.extent.rounded_by_double {
                false => ColumnType::Float64,
                true => ColumnType::Numeric,
            }
        } else if only(Kind::Date) {
            ColumnType::Date
        } else if only(Kind::Time) {
            ColumnType::Time
        } else if only(Kind::Timestamp) {
            ColumnType::Timestamp
        } else if only(Kind::TimestampTz) {
            ColumnType::TimestampTz
        } else if only(Kind::Uuid) {
            ColumnType::Uuid
        } else {
            ColumnType::TEXT
        }
    }
}

fn kind(value: &[u8]) -> Kind {
    match value {
        [b'0'..=b'9' | b'-' | b'.', ..] => number(value)
            .or_else(|| date_or_time(value))
            .or_else(|| uuid(value))
            .or_else(|| word(value)),
        _ => word(value).or_else(|| uuid(value)),
    }
    .unwrap_or(Kind::Text)
}

fn word(value: &[u8]) -> Option<Kind> {
    let is = |words: &[&str]| words.iter().any(|w| value.eq_ignore_ascii_case(w.as_bytes()));
    // `T` and `F` in capitals are more often codes than truth values.
    if is(&["true", "false"]) || value == b"t" || value == b"f" {
        return Some(Kind::Bool);
    }
    is(&["nan", "inf", "-inf", "infinity", "-infinity"]).then_some(Kind::Float)
}

fn number(value: &[u8]) -> Option<Kind> {
    let body = value.strip_prefix(b"-").unwrap_or(value);
    let whole = digits(body);
    let rest = &body[whole..];
    if whole > 1 && body[0] == b'0' {
        return None;
    }
    let (places, rest) = match rest {
        [b'.', rest @ ..] => (digits(rest), &rest[digits(rest)..]),
        rest => (0, rest),
    };
    if whole + places == 0 {
        return None;
    }
    match rest {
        [] if body.len() == whole => Some(integer(value, body)),
        [] if whole + places <= FLOAT_DIGITS_MAX => Some(Kind::Decimal),
        [] => Some(Kind::WideDecimal),
        [b'e' | b'E', exponent @ ..] => {
            let exponent = exponent
                .strip_prefix(b"-")
                .or(exponent.strip_prefix(b"+"))
                .unwrap_or(exponent);
            // As a load takes it, so that no column is made that refuses its own values.
            let fits = || float64(value).is_ok_and(f64::is_finite);
            (!exponent.is_empty() && digits(exponent) == exponent.len() && fits()).then_some(Kind::Float)
        }
        _ => None,
    }
}

/// `value` is an integer, `body` its digits.
fn integer(value: &[u8], body: &[u8]) -> Kind {
    let parsed = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse::<i64>().ok());
    match parsed {
        Some(number) if number.unsigned_abs() <= FLOAT_INTEGER_MAX => Kind::Integer,
        Some(_) => Kind::WideInteger,
        None if body.len() <= FLOAT_DIGITS_MAX => Kind::Decimal,
        None => Kind::WideDecimal,
    }
}

/// Number of digits at the beginning.
fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_digit()).count()
}

/// The number that two digits make.
fn two(text: &[u8]) -> Option<u32> {
    match text {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Some(u32::from(a - b'0') * 10 + u32::from(b - b'0')),
        _ => None,
    }
}

/// A date, a time or both.
fn date_or_time(value: &[u8]) -> Option<Kind> {
    if let [_, _, b':', ..] = value {
        let (seconds, rest) = clock(value)?;
        return (seconds && rest.is_empty()).then_some(Kind::Time);
    }
    let (day, rest) = value.split_at_checked(10)?;
    if !is_day(day) {
        return None;
    }
    let (_, rest) = match rest {
        [] => return Some(Kind::Date),
        [b' ' | b'T', rest @ ..] => clock(rest)?,
        _ => return None,
    };
    match rest {
        [] => Some(Kind::Timestamp),
        [b'Z'] => Some(Kind::TimestampTz),
        [b'+' | b'-', offset @ ..] => is_offset(offset).then_some(Kind::TimestampTz),
        _ => None,
    }
}

/// `YYYY-MM-DD`, and the calendar has it.
fn is_day(text: &[u8]) -> bool {
    let [_, _, _, _, b'-', _, _, b'-', _, _] = text else {
        return false;
    };
    let parts = (
        two(&text[..2]),
        two(&text[2..4]),
        two(&text[5..7]),
        two(&text[8..]),
    );
    let (Some(century), Some(year), Some(month), Some(day)) = parts else {
        return false;
    };
    let year = century * 100 + year;
    // All three are below 10,000, the latter two below 100.
    year > 0 && civil::Date::new(year as i16, month as i8, day as i8).is_ok()
}

/// `HH:MM[:SS[.ffffff]]`: whether it has seconds, and what follows.
fn clock(text: &[u8]) -> Option<(bool, &[u8])> {
    let (minutes, rest) = text.split_at_checked(5)?;
    if minutes[2] != b':' || two(&minutes[..2])? > 23 || two(&minutes[3..])? > 59 {
        return None;
    }
    let [b':', rest @ ..] = rest else {
        return Some((false, rest));
    };
    let (seconds, rest) = rest.split_at_checked(2)?;
    if two(seconds)? > 59 {
        return None;
    }
    let [b'.', rest @ ..] = rest else {
        return Some((true, rest));
    };
    match digits(rest) {
        places @ 1..=FRACTION_DIGITS_MAX => Some((true, &rest[places..])),
        _ => None,
    }
}

/// `HH`, `HHMM` or `HH:MM`.
fn is_offset(text: &[u8]) -> bool {
    let (hours, minutes) = match text {
        [_, _] => (text, None),
        [_, _, b':', rest @ ..] => (&text[..2], Some(rest)),
        [_, _, rest @ ..] => (&text[..2], Some(rest)),
        _ => return false,
    };
    two(hours).is_some_and(|h| h <= OFFSET_HOURS_MAX)
        && minutes.is_none_or(|m| two(m).is_some_and(|m| m <= 59))
}

/// In the canonical form only: 32 hexadecimal digits alone may be anything.
fn uuid(value: &[u8]) -> Option<Kind> {
    let hyphen = |index: usize| matches!(index, 8 | 13 | 18 | 23);
    let fits = |(index, byte): (usize, &u8)| match hyphen(index) {
        true => *byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    (value.len() == 36 && value.iter().enumerate().all(fits)).then_some(Kind::Uuid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tonnage_core::{
        parse::{ParseContext, parse_column},
        reject::Problems,
    };

    fn guessed(values: &[&str]) -> String {
        let mut guess = Guess::default();
        for value in values {
            guess.see(Some(value.as_bytes()));
        }
        guess.column_type().to_string()
    }

    #[test]
    fn columns_get_the_type_that_all_their_values_have() {
        let cases: &[(&[&str], &str)] = &[
            (&[], "text"),
            (&["true", "FALSE", "t", "f"], "bool"),
            (&["F", "T"], "text"),
            (&["0", "1"], "int64"),
            (&["-9223372036854775808", "9223372036854775807"], "int64"),
            (&["9223372036854775808"], "numeric"),
            (&["1", "2.50"], "numeric"),
            (&[".5", "-0.25"], "numeric"),
            (&["1", "1e5", "0.1", "nan", "-inf"], "float64"),
            (&["9007199254740993", "1e5"], "numeric"),
            (&["51.50735199999999", "1e-07"], "float64"),
            (&["1e999"], "text"),
            (&["1e-999", "0e5"], "text"),
            (&["0e5"], "float64"),
            (&["1.2345678901234567890e5"], "text"),
            (&["007"], "text"),
            (&["+5"], "text"),
            (&["00.5"], "text"),
            (&["1", "x"], "text"),
            (&["1 "], "text"),
            (&["-"], "text"),
            (&["."], "text"),
            (&["1e"], "text"),
            (&[""], "text"),
            (&["2024-02-29"], "date"),
            (&["2023-02-29"], "text"),
            (&["0000-01-01"], "text"),
            (&["2024-02-29 23:59", "2024-02-29T23:59:58.123456"], "timestamp"),
            (&["2024-02-29 23:59:58.1234567"], "text"),
            (
                &[
                    "2024-02-29T23:59:58Z",
                    "2024-02-29 23:59:58+01",
                    "2024-02-29 23:59:58.5-0130",
                ],
                "timestamptz",
            ),
            (&["2024-02-29 23:59:58+01:00"], "timestamptz"),
            (&["2024-02-29 23:59:58+25:00"], "text"),
            (&["2024-02-29", "2024-02-29 00:00:00"], "text"),
            (&["2024-02-29T23:59:58Z", "2024-02-29T23:59:58"], "text"),
            (&["23:59:58", "00:00:00.5"], "time"),
            (&["23:59"], "text"),
            (&["24:00:00"], "text"),
            (
                &[
                    "123e4567-e89b-12d3-a456-426614174000",
                    "a23e4567-e89b-12d3-a456-426614174000",
                ],
                "uuid",
            ),
            (&["123e4567e89b12d3a456426614174000"], "text"),
            (&["{\"a\": 1}"], "text"),
        ];
        for (values, expected) in cases {
            assert_eq!(guessed(values), *expected, "{values:?}");
        }
    }

    #[test]
    fn a_word_for_no_value_is_named() {
        let cases: &[(&[&str], &str)] = &[
            (&["1", "NA", "2", "NA"], "NA int64"),
            (&["NA", "2024-02-29"], "NA date"),
            (&["NA"], ""),
            (&["NA", "x"], ""),
            (&["1", "x", "NA"], ""),
            (&["1", "NA", "N/A"], ""),
            (&["1", "2"], ""),
            (&["1.5", "nan"], ""),
        ];
        for (values, expected) in cases {
            let mut guess = Guess::default();
            for value in *values {
                guess.see(Some(value.as_bytes()));
            }
            let found = guess.null_word().map(|(word, ty)| format!("{word} {ty}"));
            assert_eq!(found.unwrap_or_default(), *expected, "{values:?}");
            if !expected.is_empty() {
                assert_eq!(guess.column_type(), ColumnType::TEXT, "{values:?}");
            }
        }
    }

    #[test]
    fn nulls_say_nothing_about_the_type() {
        let mut guess = Guess::default();
        guess.see(None);
        assert_eq!(guess.column_type(), ColumnType::TEXT);
        guess.see(Some(b"1"));
        assert_eq!(guess.column_type(), ColumnType::Int64);
        assert!(guess.nulls());
    }

    /// Values of all kinds, and such as are almost of a kind.
    fn a_value() -> impl Strategy<Value = String> {
        prop_oneof![
            "-?[0-9]{1,20}",
            "-?[0-9]{0,3}\\.[0-9]{0,4}",
            "[0-9]\\.?[0-9]?e-?[0-9]{1,3}",
            "(20|00)[0-2][0-9]-[01][0-9]-[0-3][0-9]",
            "20[0-2][0-9]-0[0-9]-[0-2][0-9][T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\\.[0-9]{1,7})?)?",
            "20[0-2][0-9]-0[0-9]-[0-2][0-9] 10:11(:12)?(Z|[+-][01][0-9](:?[0-6][0-9])?)",
            "[0-2][0-9]:[0-5][0-9](:[0-6][0-9])?",
            "true|t|nan|-inf|[a-z]{0,4}",
        ]
    }

    proptest! {
        /// What is inferred from values, those values are read as.
        #[test]
        fn values_are_read_as_the_type_inferred(
            values in prop::collection::vec(
                a_value(),
                1..3,
            )
        ) {
            let mut guess = Guess::default();
            for value in &values {
                guess.see(Some(value.as_bytes()));
            }
            let ty = guess.column_type();
            let mut problems = Problems::default();
            let fields = values.iter().map(|v| Some(v.as_bytes()));
            parse_column(&ty, "c", fields, &ParseContext::default(), &mut problems);
            prop_assert!(problems.is_empty(), "{values:?} as {ty}: {problems:?}");
        }
    }
}
