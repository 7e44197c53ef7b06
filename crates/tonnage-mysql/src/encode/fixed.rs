//! Floats that are declared with a number of digits, `double(10,2)`: the server rounds what it is given.
//!
//! What it makes of a value is worked out here as it does it, and a value passes where it stays as it is, or where it is
//! the float nearest to a decimal fraction that the column shows the same: -0.05 is kept as a float next to it, and
//! there is no other way to keep it.

/// How a column of so many digits keeps its values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounding {
    digits: usize,
    power: f64,
}

impl Rounding {
    /// Of a column that keeps so many digits after the point.
    pub fn to(scale: u32) -> Self {
        Self {
            digits: scale as usize,
            // As the nearest to the decimal number, which a power of a float need not be.
            power: format!("1e{scale}").parse().unwrap_or(f64::INFINITY),
        }
    }

    /// What the server makes of a double.
    fn rounded(self, value: f64) -> f64 {
        let whole = value.floor();
        whole + ((value - whole) * self.power).round_ties_even() / self.power
    }

    fn shown(self, value: f64) -> String {
        let text = format!("{value:.*}", self.digits);
        // Zero has no sign.
        match text
            .trim_start_matches('-')
            .bytes()
            .all(|byte| matches!(byte, b'0' | b'.'))
        {
            true => text.trim_start_matches('-').to_owned(),
            false => text,
        }
    }

    /// Whether a finite double is kept.
    pub fn keeps_double(self, value: f64) -> bool {
        let rounded = self.rounded(value);
        rounded == value || {
            let shown = self.shown(value);
            shown == self.shown(rounded) && shown.parse() == Ok(value)
        }
    }

    /// Whether a finite single is kept.
    pub fn keeps_single(self, value: f32) -> bool {
        let rounded = self.rounded(f64::from(value)) as f32;
        rounded == value || {
            let shown = self.shown(f64::from(value));
            shown == self.shown(f64::from(rounded)) && shown.parse() == Ok(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_more_digits_is_kept() {
        for (value, scale, wanted) in [
            (0.05, 2, true),
            (-0.05, 2, true),
            (-0.050_000_000_000_000_044, 2, true),
            (0.1, 1, true),
            (0.15, 1, false),
            (1.005, 2, false),
            (123_456_789.25, 2, true),
            (0.1 + 0.2, 1, false),
            (3.0, 0, true),
            (2.5, 0, false),
            // Lost beside the one that the server counts down from.
            (-1e-20, 20, false),
            (1e-20, 20, true),
            (0.0, 2, true),
            (-0.0, 2, true),
        ] {
            assert_eq!(Rounding::to(scale).keeps_double(value), wanted, "{value} {scale}");
        }
        for (value, scale, wanted) in [
            (0.1_f32, 3, true),
            (-7.125, 3, true),
            (0.1234, 3, false),
            (16_777_216.0, 1, true),
        ] {
            assert_eq!(Rounding::to(scale).keeps_single(value), wanted, "{value} {scale}");
        }
    }
}
