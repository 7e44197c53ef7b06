//! Few numbers, honestly reported: a median, and how far it may be off.
//!
//! Below [`BOOTSTRAP_MIN`] samples the interval is the range of the samples: of three, the range holds the true median
//! with a probability of 75 %, of five 94 %. From there on it is the 95 % percentile interval of the bootstrapped
//! median, resampled from a fixed seed, so that equal samples always give an equal interval.

use serde::{Deserialize, Serialize};
use tonnage_formats::generate::random::{Random, base};

/// Samples from which on the interval is bootstrapped.
pub const BOOTSTRAP_MIN: usize = 6;
/// Resamples of a bootstrap: the ends of the interval then move by less than a percent of its width.
const RESAMPLES: u64 = 2_000;
/// The stream of random numbers that resampling takes.
const STREAM: u64 = 0x626f_6f74;

/// A median and its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Samples.
    pub samples: usize,
}

impl Estimate {
    /// Of at least one sample; none of none. Samples that are no numbers are left out.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples);
        let (low, high) = match sorted.len() {
            0 => return None,
            count if count < BOOTSTRAP_MIN => (sorted[0], sorted[count - 1]),
            _ => bootstrap(&sorted),
        };
        Some(Self {
            median: quantile(&sorted, 0.5),
            low,
            high,
            samples: sorted.len(),
        })
    }

    /// Half the width of the interval over the median: 0.03 for ±3 %.
    pub fn spread(&self) -> f64 {
        match self.median > 0.0 {
            true => (self.high - self.low) / 2.0 / self.median,
            false => 0.0,
        }
    }

    /// Whether the intervals have a point in common, so that neither can be said to be the larger.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// In order, without what is no number.
pub fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|s| s.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Of samples in order, between neighbours in proportion; 0 of none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let below = sorted[at.floor() as usize];
    let above = sorted[at.ceil() as usize];
    below + (above - below) * at.fract()
}

/// The 95 % percentile interval of the median.
fn bootstrap(sorted: &[f64]) -> (f64, f64) {
    let base = base(1, STREAM);
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|round| {
            let mut random = Random::of_row(base, round);
            let draw = |_: &f64| sorted[random.below(sorted.len() as u64) as usize];
            let mut drawn: Vec<f64> = sorted.iter().map(draw).collect();
            drawn.sort_by(f64::total_cmp);
            quantile(&drawn, 0.5)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    (quantile(&medians, 0.025), quantile(&medians, 0.975))
}

/// How one thing varied that was measured again and again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// Half the distance from the tenth to the ninetieth percentile over the median.
    pub noise: f64,
    /// The median of the last third over that of the first, minus 1; negative where it became slower.
    pub drift: f64,
    /// Samples.
    pub samples: usize,
}

impl Steadiness {
    /// Of samples in the order in which they were taken; none of fewer than two.
    pub fn of(in_order: &[f64]) -> Option<Self> {
        if in_order.len() < 2 {
            return None;
        }
        let all = sorted(in_order);
        let median = quantile(&all, 0.5);
        let third = (in_order.len() / 3).max(1);
        let first = quantile(&sorted(&in_order[..third]), 0.5);
        let last = quantile(&sorted(&in_order[in_order.len() - third..]), 0.5);
        let over = |value: f64, of: f64| if of > 0.0 { value / of } else { 0.0 };
        Some(Self {
            noise: over(quantile(&all, 0.9) - quantile(&all, 0.1), median) / 2.0,
            drift: over(last, first) - 1.0,
            samples: in_order.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_have_their_range_and_many_an_interval_within_it() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[f64::NAN]), None);
        let one = Estimate::of(&[7.0]).unwrap();
        assert_eq!(
            (one.median, one.low, one.high, one.spread()),
            (7.0, 7.0, 7.0, 0.0)
        );
        let three = Estimate::of(&[120.0, 90.0, 100.0]).unwrap();
        assert_eq!((three.median, three.low, three.high), (100.0, 90.0, 120.0));
        assert!((three.spread() - 0.15).abs() < 1e-12);
        let samples: Vec<f64> = (0..21).map(f64::from).collect();
        let many = Estimate::of(&samples).unwrap();
        assert_eq!(many.median, 10.0);
        assert!(
            many.low > 2.0 && many.low < 10.0 && many.high > 10.0 && many.high < 18.0,
            "{many:?}"
        );
        assert_eq!(
            Estimate::of(&samples),
            Some(many),
            "the same samples, the same interval"
        );
    }

    #[test]
    fn intervals_overlap_where_they_share_a_point() {
        let estimate = |low, high| Estimate {
            median: (low + high) / 2.0,
            low,
            high,
            samples: 3,
        };
        assert!(estimate(1.0, 2.0).overlaps(&estimate(2.0, 3.0)));
        assert!(estimate(1.0, 9.0).overlaps(&estimate(4.0, 5.0)));
        assert!(!estimate(1.0, 2.0).overlaps(&estimate(2.1, 3.0)));
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.5), 1.5);
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 1.0), 4.0);
    }

    #[test]
    fn noise_and_drift_are_told_apart() {
        assert_eq!(Steadiness::of(&[1.0]), None);
        let steady = Steadiness::of(&[100.0; 9]).unwrap();
        assert_eq!((steady.noise, steady.drift), (0.0, 0.0));
        let falling: Vec<f64> = (0..9).map(|at| 100.0 - 5.0 * f64::from(at)).collect();
        let drifting = Steadiness::of(&falling).unwrap();
        assert!(
            (drifting.drift - (65.0 / 95.0 - 1.0)).abs() < 1e-12,
            "{drifting:?}"
        );
        let shaking = Steadiness::of(&[50.0, 150.0, 50.0, 150.0, 50.0, 150.0]).unwrap();
        assert!(shaking.noise > 0.4, "{shaking:?}");
    }
}
