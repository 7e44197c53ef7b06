//! Student's t, by which few and noisy measurements are judged.

/// The two-sided 99 % quantiles of one degree of freedom and more.
const QUANTILES_99: [f64; 30] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
    2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
];
/// That of any number.
pub const NORMAL_99: f64 = 2.576;

/// How many standard errors a mean may be off, 99 % of the time, where its variance is known from so many degrees of
/// `freedom`; infinity where it is known from none. To within 0.1 %.
pub fn student_99(freedom: usize) -> f64 {
    match freedom {
        0 => f64::INFINITY,
        freedom => {
            let listed = QUANTILES_99.get(freedom - 1).copied();
            // The first term of the expansion in 1/freedom.
            listed.unwrap_or(NORMAL_99 + 4.92 / freedom as f64)
        }
    }
}

/// The mean of `values` and their variance, which is 0 of fewer than two; none of none.
pub fn mean_and_variance(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    match values.len() {
        0 => None,
        1 => Some((mean, 0.0)),
        _ => Some((mean, squares / (count - 1.0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_fall_to_that_of_the_normal_distribution() {
        assert_eq!(student_99(0), f64::INFINITY);
        assert_eq!(student_99(1), 63.657);
        // 2.744 and 2.626 in the tables.
        assert!((student_99(31) - 2.744).abs() < 0.01 && (student_99(100) - 2.626).abs() < 0.001);
        assert!((1..200).all(|freedom| student_99(freedom) > student_99(freedom + 1)));
        assert!(student_99(1_000_000) - NORMAL_99 < 1e-5);
    }

    #[test]
    fn a_variance_takes_two() {
        assert_eq!(mean_and_variance(&[]), None);
        assert_eq!(mean_and_variance(&[3.0]), Some((3.0, 0.0)));
        assert_eq!(mean_and_variance(&[1.0, 3.0]), Some((2.0, 2.0)));
    }
}
