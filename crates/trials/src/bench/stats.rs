//! Medians, spreads and ratios of noisy rounds.

use std::fmt;

/// Median, minimum and maximum of the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(values: &[f64]) -> Self {
        let sorted = sorted(values);
        Self { median: percentile(&sorted, 0.5), min: sorted[0], max: sorted[sorted.len() - 1] }
    }

    /// Divides each value by the base of the same round: the machine's speed varies between rounds, less within one.
    pub fn ratio(ours: &[f64], base: &[f64]) -> Self {
        let ratios: Vec<f64> = ours.iter().zip(base).map(|(ours, base)| ours / base).collect();
        Self::of(&ratios)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}..{}]", short(self.median), short(self.min), short(self.max))
    }
}

/// Formats a number with about three significant digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

pub fn median(values: &[f64]) -> f64 {
    percentile(&sorted(values), 0.5)
}

/// Returns a percentile of sorted values; between two values, their mean.
fn percentile(sorted: &[f64], part: f64) -> f64 {
    assert!(!sorted.is_empty(), "no rounds");
    let place = part * (sorted.len() - 1) as f64;
    (sorted[place.floor() as usize] + sorted[place.ceil() as usize]) / 2.0
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_median_minimum_and_maximum() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(median(&[1.0, 2.0, 3.0, 4.0]), 2.5);
    }

    #[test]
    fn a_ratio_is_computed_within_each_round() {
        let spread = Spread::ratio(&[9.0, 45.0], &[10.0, 50.0]);
        assert_eq!(spread.to_string(), "0.90 [0.90..0.90]");
    }
}
