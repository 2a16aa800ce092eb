//! The statistics that rounds, suites and reports share, and their noise thresholds.

/// Rounds with a larger spread, (max - min) / median, are noisy.
pub(crate) const NOISY: f64 = 0.05;
/// States of the machine that differ by more than this factor are not alike. Different states differ by nearly a factor
/// of 2, repetitions within one state by a few percent.
const ALIKE: f64 = 1.15;

/// Whether two speeds belong to the same state of the machine.
pub(crate) fn are_alike(one: f64, other: f64) -> bool {
    one.max(other) <= one.min(other) * ALIKE
}

/// The median; of an even count, the mean of the two middle numbers.
pub(crate) fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let sorted = sorted(numbers);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some(lower.midpoint(*upper))
}

/// The lower median: of an even count, the smaller of the two middle numbers.
pub(crate) fn lower_median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let sorted = sorted(numbers);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// The smallest and the largest.
pub(crate) fn range(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let sorted = sorted(numbers);
    Some((*sorted.first()?, *sorted.last()?))
}

/// The geometric mean.
pub(crate) fn geometric_mean(numbers: &[f64]) -> Option<f64> {
    let logarithms: f64 = numbers.iter().map(|number| number.ln()).sum();
    (!numbers.is_empty()).then(|| (logarithms / numbers.len() as f64).exp())
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = numbers.filter(|number| number.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let of = |numbers: &[f64]| (median(numbers.iter().copied()), lower_median(numbers.iter().copied()));
        assert_eq!(of(&[5.0, 1.0, 3.0]), (Some(3.0), Some(3.0)));
        assert_eq!(of(&[4.0, 1.0, 2.0, 8.0]), (Some(3.0), Some(2.0)));
        assert_eq!(of(&[]), (None, None));
        assert_eq!(geometric_mean(&[2.0, 8.0]), Some(4.0));
        assert_eq!(range([3.0, f64::NAN, 1.0].into_iter()), Some((1.0, 3.0)));
    }
}
