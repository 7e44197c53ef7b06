//! Intervals as text.

use std::ops::Range;

use arrow::array::{Array, StringArray};

use super::encode::{Checked, Fault, Field};
use crate::reject::sqlstate;

/// The text of intervals, which the server would round to microseconds without a word.
pub(super) struct Intervals {
    text: StringArray,
    bytes: Box<dyn Field>,
}

impl Intervals {
    /// `text`, which `bytes` sends.
    pub fn new(text: StringArray, bytes: Box<dyn Field>) -> Self {
        Self { text, bytes }
    }
}

/// Whether a number in `text` has more than six digits behind its point that mean something.
fn finer_than_microseconds(text: &str) -> bool {
    text.split('.').skip(1).any(|behind| {
        let digits = behind.bytes().take_while(u8::is_ascii_digit);
        digits.skip(6).any(|digit| digit != b'0')
    })
}

impl Field for Intervals {
    fn measure(&mut self, rows: Range<usize>, sizes: &mut [usize]) -> Checked {
        for row in rows.clone() {
            if self.text.is_valid(row) && finer_than_microseconds(self.text.value(row)) {
                return Err(Fault {
                    row,
                    code: sqlstate::DATETIME_OVERFLOW,
                    message: format!("interval finer than a microsecond ({})", self.text.value(row)),
                });
            }
        }
        self.bytes.measure(rows, sizes)
    }

    fn write(&self, rows: Range<usize>, out: &mut [u8], at: &mut [usize]) {
        self.bytes.write(rows, out, at);
    }

    fn has_nulls(&self) -> bool {
        self.bytes.has_nulls()
    }
}

#[cfg(test)]
mod tests {
    use super::finer_than_microseconds;

    #[test]
    fn digits_beyond_microseconds_are_seen_where_they_mean_something() {
        for (text, finer) in [
            ("1.123456 s", false),
            ("1.1234560 s", false),
            ("1.1234567 s", true),
            ("1.5 days 00:00:01.0000001", true),
            ("PT0.000001S", false),
            ("1 day", false),
            ("", false),
        ] {
            assert_eq!(finer_than_microseconds(text), finer, "{text}");
        }
    }
}
