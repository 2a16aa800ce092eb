//! Zipf's law over exactly n ranks: rank k, counted from 1, has the weight k^-theta.

use rand::Rng;

/// Each of the first ranks has its own bucket.
const HEAD: u64 = 256;
/// Behind the head, the width of a bucket exceeds 1 by its first rank divided by this.
const WIDTH: u64 = 32;

/// Ranks whose weights differ by less than `1 / WIDTH`. They are drawn together; rejection sampling picks one.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    first: u64,
    width: u64,
    /// A draw below this is accepted for any rank: the weight of the last rank divided by that of the first.
    surely: u64,
    /// Walker's alias method: a draw above `threshold` selects the bucket `alias`.
    threshold: u64,
    alias: u32,
}

/// A sampler of ranks `0..n`, exact up to the rounding of 64-bit floats. It takes about 25 KiB for any `n`.
#[derive(Debug)]
pub(crate) struct Zipf {
    theta: f64,
    buckets: Vec<Bucket>,
}

impl Zipf {
    /// A sampler over `n` ranks, at least 1, with exponent `theta`, at least 0.
    pub(crate) fn new(n: u64, theta: f64) -> Self {
        assert!(n > 0 && theta >= 0.0 && theta.is_finite(), "a Zipf distribution of {n} ranks with theta {theta}");
        let (mut buckets, mut masses) = (Vec::new(), Vec::new());
        let mut first = 1;
        while first <= n {
            let width = if first <= HEAD { 1 } else { (first / WIDTH).min(n - first + 1) };
            let surely = as_threshold(weight(first + width - 1, theta) / weight(first, theta));
            buckets.push(Bucket { first, width, surely, threshold: u64::MAX, alias: 0 });
            masses.push(sum(first, first + width, theta));
            first += width;
        }
        alias(&mut buckets, &masses);
        Zipf { theta, buckets }
    }

    /// Draws a rank, counted from 0.
    pub(crate) fn sample(&self, rng: &mut impl Rng) -> u64 {
        let (column, fraction) = below(rng.next_u64(), self.buckets.len() as u64);
        let drawn = &self.buckets[column as usize];
        // Branch-free, since the branch would be unpredictable.
        let place = if fraction > drawn.threshold { drawn.alias as usize } else { column as usize };
        let bucket = &self.buckets[place];
        loop {
            let (offset, fraction) = below(rng.next_u64(), bucket.width);
            if fraction <= bucket.surely || self.accepts(bucket, offset, fraction) {
                return bucket.first - 1 + offset;
            }
        }
    }

    /// Kept out of line: the compiler would take the powers out of the loop and compute them for every draw.
    #[cold]
    #[inline(never)]
    fn accepts(&self, bucket: &Bucket, offset: u64, fraction: u64) -> bool {
        let relative = weight(bucket.first + offset, self.theta) / weight(bucket.first, self.theta);
        fraction <= as_threshold(relative)
    }
}

/// The fraction of draws from `0..n` that miss the first `kept` ranks.
pub(crate) fn miss_beyond(kept: u64, n: u64, theta: f64) -> f64 {
    let kept = kept.min(n);
    1.0 - sum(1, kept + 1, theta) / sum(1, n + 1, theta)
}

/// Splits a random number into a uniform one below `n` and the remaining fraction.
pub(crate) fn below(random: u64, n: u64) -> (u64, u64) {
    let product = u128::from(random) * u128::from(n);
    ((product >> 64) as u64, product as u64)
}

fn weight(rank: u64, theta: f64) -> f64 {
    (rank as f64).powf(-theta)
}

/// A probability as a bound for uniform 64-bit numbers; 1 accepts all of them.
fn as_threshold(probability: f64) -> u64 {
    // The conversion saturates as intended.
    (probability * 2f64.powi(64)) as u64
}

/// The total weight of the ranks `from..to`. The head is summed one by one, the rest by the Euler-Maclaurin formula,
/// whose next term is below 10⁻¹¹ of the sum.
fn sum(from: u64, to: u64, theta: f64) -> f64 {
    let head: f64 = (from..to.min(HEAD + 1)).map(|rank| weight(rank, theta)).sum();
    let from = from.max(HEAD + 1);
    if from >= to {
        return head;
    }
    let slope = |rank: u64| -theta * weight(rank, theta + 1.0);
    head + integral(from, to, theta)
        + (weight(from, theta) - weight(to, theta)) / 2.0
        + (slope(to) - slope(from)) / 12.0
}

/// The integral of x^-theta over `from..to`, also near theta = 1.
fn integral(from: u64, to: u64, theta: f64) -> f64 {
    let (log, power) = ((to as f64 / from as f64).ln(), 1.0 - theta);
    let growth = if power.abs() < 1e-12 { log } else { (power * log).exp_m1() / power };
    growth * (from as f64).powf(power)
}

/// Fills in thresholds and aliases so that a uniform column and a comparison draw buckets with the given masses.
fn alias(buckets: &mut [Bucket], masses: &[f64]) {
    let mean = masses.iter().sum::<f64>() / masses.len() as f64;
    let mut heights: Vec<f64> = masses.iter().map(|mass| mass / mean).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..heights.len()).partition(|&bucket| heights[bucket] < 1.0);
    while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
        buckets[low].threshold = as_threshold(heights[low]);
        buckets[low].alias = u32::try_from(high).expect("a few thousand buckets");
        heights[high] -= 1.0 - heights[low];
        if heights[high] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::SmallRng};

    use super::*;

    /// Chi-square of the observed counts against the exact probabilities, in standard deviations of the chance
    /// distribution. Ranks are grouped so that each class expects at least 50 draws.
    fn surprise(n: u64, theta: f64, draws: u64, seed: u64) -> f64 {
        let (zipf, mut rng) = (Zipf::new(n, theta), SmallRng::seed_from_u64(seed));
        let mut counts = vec![0u64; usize::try_from(n).unwrap()];
        for _ in 0..draws {
            counts[usize::try_from(zipf.sample(&mut rng)).unwrap()] += 1;
        }
        let total: f64 = (1..=n).map(|rank| weight(rank, theta)).sum();
        let (mut square, mut classes, mut seen, mut expected) = (0.0, 0.0, 0.0, 0.0);
        for (rank, &count) in (1..).zip(&counts) {
            seen += count as f64;
            expected += weight(rank, theta) / total * draws as f64;
            if expected >= 50.0 || rank == n {
                square += (seen - expected).powi(2) / expected.max(1.0);
                classes += 1.0;
                (seen, expected) = (0.0, 0.0);
            }
        }
        (square - (classes - 1.0)) / (2.0 * classes).sqrt()
    }

    #[test]
    fn frequencies_are_those_of_zipf() {
        for (n, theta) in
            [(1, 0.99), (10, 0.5), (1000, 0.99), (256, 1.0), (257, 0.99), (50_000, 0.99), (50_000, 0.0), (50_000, 1.3)]
        {
            let surprise = surprise(n, theta, 2_000_000, n);
            assert!(surprise.abs() < 5.0, "n {n}, theta {theta}, seed {n}: {surprise} standard deviations off");
        }
    }

    #[test]
    fn wrong_frequencies_are_noticed() {
        let (zipf, mut rng) = (Zipf::new(1000, 0.9), SmallRng::seed_from_u64(1));
        let first = (0..1_000_000).filter(|_| zipf.sample(&mut rng) == 0).count() as f64 / 1e6;
        let exact = |theta| 1.0 / (1..=1000).map(|rank| weight(rank, theta)).sum::<f64>();
        assert!((first - exact(0.9)).abs() < 0.002, "{first}");
        assert!((first - exact(0.99)).abs() > 0.02, "{first}");
    }

    #[test]
    fn sums_are_exact() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.000_000_1, 1.5] {
            let plain: f64 = (1..=3_000_000).rev().map(|rank| weight(rank, theta)).sum();
            let ours = sum(1, 3_000_001, theta);
            assert!((ours / plain - 1.0).abs() < 1e-11, "theta {theta}: {ours} and {plain}");
        }
    }

    #[test]
    fn the_ideal_of_the_published_case() {
        let kept = (220 << 20) / 108;
        let miss = miss_beyond(kept, 20_000_000, 0.99);
        assert!((miss - 0.139).abs() < 0.0005, "{miss}");
        assert_eq!(miss_beyond(5, 5, 0.99), 0.0);
    }
}
