//! Which of the rows that are there an update or an upsert meets: each once, or some more often than others.
//!
//! The distributions are those of the Yahoo! Cloud Serving Benchmark: uniform, Zipfian with the exponent 0.99 over keys in no
//! order, and latest, Zipfian from the last row backwards. Zipfian ranks are drawn as by Gray et al., "Quickly generating
//! billion-record synthetic databases", SIGMOD 1994, section 3.2. Only what is measured depends on them, never a file, so
//! their floats need not be the same on every platform.

use std::fmt;

use serde::{Deserialize, Serialize};
use tonnage_formats::generate::random::{Random, below, mix};

/// The exponent of Zipf's law: the tenth row of a million is met about a tenth as often as the first.
const EXPONENT: f64 = 0.99;

/// Which rows are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    /// Each once, in order.
    #[default]
    Each,
    /// Any, all equally often.
    Uniform,
    /// Some few very often.
    Zipfian,
    /// The later it was added the more often.
    Latest,
}

impl Touch {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Each, Self::Uniform, Self::Zipfian, Self::Latest];
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Each => "each",
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
            Self::Latest => "latest",
        })
    }
}

/// Draws rows, of so many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draws {
    touch: Touch,
    rows: u64,
    /// The sum of all ranks' shares, the first being 1; of Zipf's law only.
    sum: f64,
    /// What brings a uniform number to a rank behind the second.
    bend: f64,
}

impl Draws {
    /// From rows 0 to `rows - 1`, at least one. Takes time in proportion to them.
    pub(super) fn new(touch: Touch, rows: u64) -> Self {
        let rows = rows.max(1);
        let sum = match touch {
            Touch::Zipfian | Touch::Latest => (1..=rows).map(|rank| (rank as f64).powf(-EXPONENT)).sum(),
            Touch::Each | Touch::Uniform => 1.0,
        };
        let two = 1.0 + 0.5_f64.powf(EXPONENT);
        Self {
            touch,
            rows,
            sum,
            bend: (1.0 - (2.0 / rows as f64).powf(1.0 - EXPONENT)) / (1.0 - two / sum),
        }
    }

    /// The next row.
    pub(super) fn row(&self, random: &mut Random) -> u64 {
        let bits = random.draw();
        match self.touch {
            Touch::Each | Touch::Uniform => below(bits, self.rows),
            // Hot rows are anywhere.
            Touch::Zipfian => below(mix(self.rank(bits) + 1), self.rows),
            Touch::Latest => self.rows - 1 - self.rank(bits),
        }
    }

    /// From 0, the most frequent one.
    fn rank(&self, bits: u64) -> u64 {
        let uniform = (bits >> 11) as f64 / (1_u64 << 53) as f64;
        let share = uniform * self.sum;
        if share < 1.0 || self.rows < 2 {
            return 0;
        }
        if share < 1.0 + 0.5_f64.powf(EXPONENT) || self.rows < 3 {
            return 1;
        }
        let rank = self.rows as f64 * (self.bend * uniform - self.bend + 1.0).powf(1.0 / (1.0 - EXPONENT));
        (rank as u64).min(self.rows - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonnage_formats::generate::random::base;

    /// How often each of so many rows is drawn.
    fn counts(touch: Touch, rows: u64) -> Vec<u64> {
        let draws = Draws::new(touch, rows);
        let mut random = Random::of_row(base(1, 1), 0);
        let mut counts = vec![0; rows as usize];
        for _ in 0..100_000 {
            counts[draws.row(&mut random) as usize] += 1;
        }
        counts
    }

    #[test]
    fn few_rows_are_met_often_and_which_ones_is_as_asked_for() {
        let uniform = counts(Touch::Uniform, 1_000);
        assert!(
            uniform.iter().all(|count| (50..200).contains(count)),
            "{uniform:?}"
        );

        // Of a thousand the first rank has 1 / 7.7 of all: the sum of 1 / i^0.99.
        let latest = counts(Touch::Latest, 1_000);
        assert!((12_000..14_000).contains(&latest[999]), "{}", latest[999]);
        assert!((6_000..7_500).contains(&latest[998]), "{}", latest[998]);
        assert!(
            latest[900..].iter().sum::<u64>() > 60_000,
            "the last tenth has most"
        );

        let mut zipfian = counts(Touch::Zipfian, 1_000);
        assert!(
            zipfian[990..].iter().sum::<u64>() < 50_000,
            "hot rows are anywhere"
        );
        zipfian.sort_unstable();
        assert!(zipfian[999] >= 12_000, "{}", zipfian[999]);
    }

    #[test]
    fn few_rows_are_enough() {
        for touch in Touch::ALL {
            for rows in [1, 2, 3] {
                assert_eq!(counts(touch, rows).iter().sum::<u64>(), 100_000, "{touch} {rows}");
            }
        }
    }
}
