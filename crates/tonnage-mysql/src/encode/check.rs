//! The values that a column would change.

use std::net::{Ipv4Addr, Ipv6Addr};

use arrow::{
    array::{Array, ArrowPrimitiveType, BinaryArray, PrimitiveArray, StringArray},
    buffer::OffsetBuffer,
    datatypes::{Date32Type, Decimal128Type, Int16Type, Time64MicrosecondType, TimestampMicrosecondType},
};
use tonnage_core::{
    digits,
    parse::{PartialDate, TIME_MAX},
    reject::sqlstate,
    types::ColumnType,
};

use super::{
    Cells, ColumnEncoder, Texts, Wrong,
    fixed::Rounding,
    geometry::{SYSTEM_BYTES, push_stored},
};
use crate::types::Kind;

type Checked<T> = Result<T, Wrong>;

/// Characters of a value in a message.
const SHOWN_CHARACTERS: usize = 40;

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("'{}..'", &text[..end]),
        None => format!("'{text}'"),
    }
}

fn first<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, bad: impl Fn(T::Native) -> bool) -> Option<usize> {
    match array.nulls() {
        None => array.values().iter().position(|value| bad(*value)),
        Some(_) => array.iter().position(|value| value.is_some_and(&bad)),
    }
}

/// Microseconds that a column of so many digits cannot keep.
fn unit(precision: u32) -> i64 {
    10_i64.pow(6_u32.saturating_sub(precision))
}

impl ColumnEncoder {
    fn out_of_range(&self, row: usize, value: impl std::fmt::Display) -> Wrong {
        Wrong {
            row,
            code: sqlstate::OUT_OF_RANGE,
            message: format!("{value} is out of range for column '{}'", self.name),
        }
    }

    fn rounded(&self, row: usize, precision: u32) -> Wrong {
        Wrong {
            row,
            code: sqlstate::WOULD_CHANGE,
            message: format!(
                "column '{}' would round the time: it keeps {precision} digits of a second",
                self.name
            ),
        }
    }

    pub(super) fn within(&self, array: &dyn Array, values: Vec<i64>) -> Checked<Cells> {
        let Kind::Integer { least, most, .. } = self.kind else {
            return Ok(Cells::Signed(values));
        };
        let bad = |value: i64| i128::from(value) < least || i128::from(value) > most;
        // The value under a null means nothing.
        let found = values
            .iter()
            .enumerate()
            .find(|(row, value)| bad(**value) && array.is_valid(*row));
        match found {
            Some((row, value)) => Err(self.out_of_range(row, value)),
            None => Ok(Cells::Signed(values)),
        }
    }

    pub(super) fn unsigned(&self, array: &PrimitiveArray<Decimal128Type>) -> Checked<Cells> {
        let Kind::Integer { least, most, .. } = self.kind else {
            return Ok(Cells::Unsigned(Vec::new()));
        };
        match first(array, |value| value < least || value > most) {
            Some(row) => Err(self.out_of_range(row, array.value_as_string(row))),
            None => Ok(Cells::Unsigned(
                array.values().iter().map(|value| *value as u64).collect(),
            )),
        }
    }

    pub(super) fn finite<T: ArrowPrimitiveType>(
        &self,
        array: &PrimitiveArray<T>,
        unsigned: bool,
        is_finite: impl Fn(T::Native) -> bool,
        is_negative: impl Fn(T::Native) -> bool,
    ) -> Checked<()>
    where
        T::Native: std::fmt::Display,
    {
        match first(array, |value| {
            !is_finite(value) || (unsigned && is_negative(value))
        }) {
            Some(row) => Err(self.out_of_range(row, array.value(row))),
            None => Ok(()),
        }
    }

    /// That a column which keeps `scale` digits after the point keeps every value.
    pub(super) fn unrounded<T: ArrowPrimitiveType>(
        &self,
        array: &PrimitiveArray<T>,
        scale: Option<u32>,
        keeps: impl Fn(Rounding, T::Native) -> bool,
    ) -> Checked<()>
    where
        T::Native: std::fmt::Display,
    {
        let Some(scale) = scale else { return Ok(()) };
        let rounding = Rounding::to(scale);
        match first(array, |value| !keeps(rounding, value)) {
            Some(row) => Err(Wrong {
                row,
                code: sqlstate::WOULD_CHANGE,
                message: format!(
                    "column '{}' would round {}: it keeps {scale} digits after the point",
                    self.name,
                    array.value(row)
                ),
            }),
            None => Ok(()),
        }
    }

    /// Geometries as the server keeps them.
    pub(super) fn geometries(&self, array: &BinaryArray) -> Checked<Texts> {
        let mut values = Vec::with_capacity(array.value_data().len() + array.len() * SYSTEM_BYTES);
        let mut offsets = Vec::with_capacity(array.len() + 1);
        offsets.push(0_i32);
        for (row, value) in array.iter().enumerate() {
            if let Some(value) = value {
                push_stored(&mut values, value).map_err(|why| Wrong {
                    row,
                    code: sqlstate::INVALID_TEXT,
                    message: format!(
                        "column '{}' takes well-known binary (WKB), and the value {why}",
                        self.name
                    ),
                })?;
            }
            offsets.push(values.len() as i32);
        }
        Ok(Texts {
            offsets: OffsetBuffer::new(offsets.into()),
            values: values.into(),
            escape: false,
            hex: true,
        })
    }

    pub(super) fn not_negative(&self, array: &PrimitiveArray<Decimal128Type>, unsigned: bool) -> Checked<()> {
        match first(array, |value| unsigned && value < 0) {
            Some(row) => Err(self.out_of_range(row, array.value_as_string(row))),
            None => Ok(()),
        }
    }

    fn no_such_day(&self, row: usize) -> Wrong {
        Wrong {
            row,
            code: sqlstate::DATETIME_OVERFLOW,
            message: format!("column '{}' takes the years 0001 to 9999", self.name),
        }
    }

    pub(super) fn years(&self, array: &PrimitiveArray<Int16Type>) -> Checked<()> {
        match first(array, |year| !matches!(year, 0 | 1901..=2155)) {
            Some(row) => Err(self.out_of_range(row, array.value(row))),
            None => Ok(()),
        }
    }

    pub(super) fn days(&self, array: &PrimitiveArray<Date32Type>) -> Checked<()> {
        let bad = |days: i64| !digits::DAYS.contains(&days) && PartialDate::of_days(days).is_none();
        match first(array, |days| bad(i64::from(days))) {
            Some(row) => Err(self.no_such_day(row)),
            None => Ok(()),
        }
    }

    pub(super) fn of_day(
        &self,
        array: &PrimitiveArray<Time64MicrosecondType>,
        precision: u32,
    ) -> Checked<()> {
        if let Some(row) = first(array, |micros| !(-TIME_MAX..=TIME_MAX).contains(&micros)) {
            return Err(self.out_of_range(row, array.value(row)));
        }
        match first(array, |micros| micros % unit(precision) != 0) {
            Some(row) => Err(self.rounded(row, precision)),
            None => Ok(()),
        }
    }

    pub(super) fn moments(
        &self,
        array: &PrimitiveArray<TimestampMicrosecondType>,
        precision: u32,
    ) -> Checked<()> {
        let day = |micros: i64| micros.div_euclid(digits::DAY_MICROS);
        let partial = |micros: i64| PartialDate::of_micros(micros);
        let bad = |micros: i64| !digits::DAYS.contains(&day(micros)) && partial(micros).is_none();
        if let Some(row) = first(array, bad) {
            return Err(self.no_such_day(row));
        }
        let of_day = |micros: i64| match digits::DAYS.contains(&day(micros)) {
            true => micros,
            false => partial(micros).map_or(0, |(_, of_day)| of_day),
        };
        match first(array, |micros| of_day(micros) % unit(precision) != 0) {
            Some(row) => Err(self.rounded(row, precision)),
            None => Ok(()),
        }
    }

    pub(super) fn lengths(&self, array: &BinaryArray) -> Checked<()> {
        let (least, most) = match self.kind {
            Kind::Binary(bytes) => (bytes, bytes),
            Kind::Bytes(bytes) => (0, bytes),
            _ => return Ok(()),
        };
        for (row, value) in array.iter().enumerate() {
            let Some(value) = value else { continue };
            let length = value.len() as u64;
            if length > most {
                return Err(self.too_long(row, length, most, "bytes"));
            }
            if length < least {
                return Err(Wrong {
                    row,
                    code: sqlstate::WOULD_CHANGE,
                    message: format!(
                        "column '{}' would fill {length} bytes up with zeros to {least}",
                        self.name
                    ),
                });
            }
        }
        Ok(())
    }

    fn too_long(&self, row: usize, length: u64, most: u64, unit: &str) -> Wrong {
        Wrong {
            row,
            code: sqlstate::TOO_LONG,
            message: format!(
                "{length} {unit} are too long for column '{}', which takes {most}",
                self.name
            ),
        }
    }

    /// Checks texts; those of a padded column lose the spaces that mean nothing where they are too long with them.
    pub(super) fn texts(&self, array: &StringArray) -> Checked<StringArray> {
        match &self.kind {
            Kind::Characters(most) => self
                .each(array, |text| match longer(text, *most) {
                    Some(length) => Err(TextFault::Long(length, u64::from(*most))),
                    None => Ok(()),
                })
                .map(|()| array.clone()),
            Kind::Padded(most) => self.padded(array, *most),
            // The excess is counted in bytes of UTF-8: the server says more where the column has another encoding.
            Kind::Text(most) => self
                .each(array, |text| {
                    match text.len() as u64 > *most && text.ends_with(' ') {
                        true => Err(TextFault::LongBytes(text.len() as u64, *most)),
                        false => Ok(()),
                    }
                })
                .map(|()| array.clone()),
            Kind::Label(labels) => self
                .each(array, |text| match labels.iter().any(|label| label == text) {
                    true => Ok(()),
                    false => Err(TextFault::NoLabel),
                })
                .map(|()| array.clone()),
            Kind::Labels(labels) => self
                .each(array, |text| {
                    let known = |member: &str| labels.iter().any(|label| label == member);
                    match text.is_empty() || text.split(',').all(known) {
                        true => Ok(()),
                        false => Err(TextFault::NoLabel),
                    }
                })
                .map(|()| array.clone()),
            Kind::Inet4 => self.addresses(array, |text| text.parse::<Ipv4Addr>().is_ok()),
            Kind::Inet6 => self.addresses(array, |text| text.parse::<Ipv6Addr>().is_ok()),
            Kind::Decimal {
                precision,
                scale,
                unsigned,
            } if self.ty == ColumnType::Numeric => self
                .each(array, |text| match fits(text, *precision, *scale, *unsigned) {
                    true => Ok(()),
                    false => Err(TextFault::Number),
                })
                .map(|()| array.clone()),
            _ => Ok(array.clone()),
        }
    }

    fn addresses(&self, array: &StringArray, is_one: impl Fn(&str) -> bool) -> Checked<StringArray> {
        self.each(array, |text| match is_one(text) {
            true => Ok(()),
            false => Err(TextFault::NoAddress),
        })
        .map(|()| array.clone())
    }

    fn each(&self, array: &StringArray, check: impl Fn(&str) -> Result<(), TextFault>) -> Checked<()> {
        for (row, text) in array.iter().enumerate() {
            let Some(text) = text else { continue };
            let wrong = |code, message| Wrong { row, code, message };
            match check(text) {
                Ok(()) => {}
                Err(TextFault::Long(length, most)) => {
                    return Err(self.too_long(row, length, most, "characters"));
                }
                Err(TextFault::LongBytes(length, most)) => {
                    return Err(self.too_long(row, length, most, "bytes"));
                }
                Err(TextFault::NoLabel) => {
                    return Err(wrong(
                        sqlstate::INVALID_TEXT,
                        format!("{} is no label of column '{}'", shown(text), self.name),
                    ));
                }
                Err(TextFault::NoAddress) => {
                    return Err(wrong(
                        sqlstate::INVALID_TEXT,
                        format!("{} is no address as column '{}' takes it", shown(text), self.name),
                    ));
                }
                Err(TextFault::Number) => {
                    return Err(wrong(
                        sqlstate::OUT_OF_RANGE,
                        format!("{} does not fit column '{}' exactly", shown(text), self.name),
                    ));
                }
            }
        }
        Ok(())
    }

    fn padded(&self, array: &StringArray, most: u32) -> Checked<StringArray> {
        let mut trimmed = false;
        self.each(array, |text| match longer(text.trim_end_matches(' '), most) {
            Some(length) => Err(TextFault::Long(length, u64::from(most))),
            None => Ok(()),
        })?;
        for text in array.iter().flatten() {
            if longer(text, most).is_some() {
                trimmed = true;
                break;
            }
        }
        Ok(match trimmed {
            true => array
                .iter()
                .map(|text| text.map(|text| text.trim_end_matches(' ')))
                .collect(),
            false => array.clone(),
        })
    }
}

/// Why a text cannot be sent.
enum TextFault {
    Long(u64, u64),
    LongBytes(u64, u64),
    NoLabel,
    NoAddress,
    Number,
}

/// How many characters a text has, where that is more than `most`.
fn longer(text: &str, most: u32) -> Option<u64> {
    // A character is at least a byte, so most texts need not be counted.
    if text.len() <= most as usize {
        return None;
    }
    let length = text.chars().count() as u64;
    (length > u64::from(most)).then_some(length)
}

/// Whether a decimal has no more digits than a column keeps.
fn fits(text: &str, precision: u32, scale: u32, unsigned: bool) -> bool {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain(whole) || !is_plain(fraction) || whole.len() + fraction.len() == 0 || (negative && unsigned)
    {
        return false;
    }
    let whole = whole.trim_start_matches('0').len() as u32;
    let fraction = fraction.trim_end_matches('0').len() as u32;
    whole <= precision - scale && fraction <= scale
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn decimals_keep_every_digit_or_do_not_fit() {
        for (text, wanted) in [
            ("12.50", true),
            ("-999.99", true),
            ("0001000", false),
            ("000999.9900", true),
            ("1.001", false),
            (".5", true),
            ("+7", true),
            ("NaN", false),
            ("Infinity", false),
            ("1e3", false),
            ("", false),
            (".", false),
            ("-", false),
        ] {
            assert_eq!(fits(text, 5, 2, false), wanted, "{text}");
        }
        assert!(!fits("-1", 5, 2, true));
        assert!(fits("1", 5, 2, true));
    }
}
