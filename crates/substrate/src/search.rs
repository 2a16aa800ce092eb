//! Search in sorted items from a guessed position.

/// The number of the `count` sorted items for which `is_before` is true; these come first. Searches next to `guess`,
/// then farther and farther away, so that a good guess takes few steps.
pub fn partition_near(count: usize, guess: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let guess = guess.min(count);
    let (mut low, mut high, mut step) = (guess, guess, 1);
    while low > 0 && !is_before(low - 1) {
        (low, high, step) = (low.saturating_sub(step), low, step * 2);
    }
    while high < count && is_before(high) {
        (low, high, step) = (high + 1, (high + step).min(count), step * 2);
    }
    while low < high {
        let middle = (low + high) / 2;
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_guess_leads_to_the_point() {
        for count in [0, 1, 2, 3, 10, 64, 65] {
            for (point, guess) in (0..=count).flat_map(|point| (0..=count + 2).map(move |guess| (point, guess))) {
                assert_eq!(partition_near(count, guess, |place| place < point), point, "{count}, {guess}");
            }
        }
    }

    #[test]
    fn a_good_guess_takes_few_steps() {
        for off in 0..=8 {
            let steps = std::cell::Cell::new(0);
            partition_near(1 << 20, (1 << 19) + off, |place| {
                steps.set(steps.get() + 1);
                place < 1 << 19
            });
            assert!(steps.get() <= 10, "{off}: {}", steps.get());
        }
    }
}
