//! Durations: months, days and nanoseconds, each counted apart, all of one sign.
//!
//! Text is ISO 8601 (`P1Y2M3DT4H5M6.789S`, `-P1D`, `P2W`) or the database's own (`1y2mo3d4h5m6s7ms8us9ns`).

use super::number::{put_vint, take_vint, unzigzag, zigzag};

const NANOS: i64 = 1_000_000_000;

/// Months, days, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    months: i64,
    days: i64,
    nanos: i64,
}

impl Span {
    /// Reads text; none where it is no duration or does not fit.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, body) = match text.strip_prefix('-') {
            Some(body) => (true, body),
            None => (false, text),
        };
        let span = match body.strip_prefix(['P', 'p']) {
            Some(iso) => Self::of_iso(iso)?,
            None => Self::of_units(body)?,
        };
        let fits = |n: i64| i32::try_from(n).is_ok();
        let sign = if negative { -1 } else { 1 };
        (fits(span.months) && fits(span.days)).then_some(Self {
            months: sign * span.months,
            days: sign * span.days,
            nanos: sign * span.nanos,
        })
    }

    fn add(&mut self, amount: i64, unit: &str) -> Option<()> {
        let (count, factor): (&mut i64, i64) = match unit {
            "y" => (&mut self.months, 12),
            "mo" => (&mut self.months, 1),
            "w" => (&mut self.days, 7),
            "d" => (&mut self.days, 1),
            "h" => (&mut self.nanos, 3_600 * NANOS),
            "m" => (&mut self.nanos, 60 * NANOS),
            "s" => (&mut self.nanos, NANOS),
            "ms" => (&mut self.nanos, 1_000_000),
            "us" | "µs" => (&mut self.nanos, 1_000),
            "ns" => (&mut self.nanos, 1),
            _ => return None,
        };
        *count = count.checked_add(amount.checked_mul(factor)?)?;
        Some(())
    }

    fn of_units(text: &str) -> Option<Self> {
        let mut span = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let (amount, after) = rest.split_at(end);
            let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            span.add(amount.parse().ok()?, &unit.to_lowercase())?;
            rest = after;
        }
        (!text.is_empty()).then_some(span)
    }

    fn of_iso(text: &str) -> Option<Self> {
        let mut span = Self::default();
        let (mut rest, mut timed, mut any) = (text, false, false);
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix(['T', 't']) {
                if timed || after.is_empty() {
                    return None;
                }
                timed = true;
                rest = after;
                continue;
            }
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let (amount, after) = rest.split_at(end);
            let mut chars = after.chars();
            let unit = match (chars.next()?.to_ascii_uppercase(), timed) {
                ('Y', false) => "y",
                ('M', false) => "mo",
                ('W', false) => "w",
                ('D', false) => "d",
                ('H', true) => "h",
                ('M', true) => "m",
                ('S', true) => "s",
                _ => return None,
            };
            let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
            span.add(whole.parse().ok()?, unit)?;
            if amount.contains('.') {
                let digits = fraction.len();
                if unit != "s" || digits == 0 || digits > 9 {
                    return None;
                }
                span.add(fraction.parse::<i64>().ok()? * 10i64.pow(9 - digits as u32), "ns")?;
            }
            any = true;
            rest = chars.as_str();
        }
        any.then_some(span)
    }

    /// As the database has it: three integers of variable length.
    pub fn put(self, out: &mut Vec<u8>) {
        for part in [self.months, self.days, self.nanos] {
            put_vint(zigzag(part), out);
        }
    }

    /// The reverse of [`Span::put`].
    pub fn take(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut part = || take_vint(&mut rest).map(unzigzag);
        let span = Self {
            months: part()?,
            days: part()?,
            nanos: part()?,
        };
        rest.is_empty().then_some(span)
    }

    /// As ISO 8601.
    pub fn text(self) -> String {
        let negative = self.months < 0 || self.days < 0 || self.nanos < 0;
        let mut text = String::from(if negative { "-P" } else { "P" });
        let (months, days) = (self.months.unsigned_abs(), self.days.unsigned_abs());
        let nanos = self.nanos.unsigned_abs();
        for (amount, unit) in [(months / 12, 'Y'), (months % 12, 'M'), (days, 'D')] {
            if amount > 0 {
                text.push_str(&format!("{amount}{unit}"));
            }
        }
        let second = NANOS as u64;
        let (hours, minutes) = (nanos / (3_600 * second), nanos / (60 * second) % 60);
        let (seconds, fraction) = (nanos / second % 60, nanos % second);
        if nanos > 0 {
            text.push('T');
        }
        for (amount, unit) in [(hours, 'H'), (minutes, 'M')] {
            if amount > 0 {
                text.push_str(&format!("{amount}{unit}"));
            }
        }
        match (seconds, fraction) {
            (0, 0) => {}
            (seconds, 0) => text.push_str(&format!("{seconds}S")),
            (seconds, fraction) => {
                let digits = format!("{fraction:09}");
                text.push_str(&format!("{seconds}.{}S", digits.trim_end_matches('0')));
            }
        }
        if text.ends_with('P') {
            text.push_str("T0S");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_go_both_ways() {
        for (text, shown) in [
            ("P1Y2M3DT4H5M6.789S", "P1Y2M3DT4H5M6.789S"),
            ("1y2mo3d4h5m6s789ms", "P1Y2M3DT4H5M6.789S"),
            ("-P2W", "-P14D"),
            ("PT0S", "PT0S"),
            ("P14M3DT25H0.5S", "P1Y2M3DT25H0.5S"),
            ("9223372036854775807ns", "PT2562047H47M16.854775807S"),
        ] {
            let span = Span::parse(text).unwrap_or_else(|| panic!("{text}"));
            let mut bytes = Vec::new();
            span.put(&mut bytes);
            assert_eq!(Span::take(&bytes), Some(span));
            assert_eq!(span.text(), shown, "{text}");
        }
        for bad in ["", "P", "PT", "1", "1x", "P1S", "P1.5D", "9999999999d", "P1DT"] {
            assert_eq!(Span::parse(bad), None, "{bad}");
        }
    }
}
