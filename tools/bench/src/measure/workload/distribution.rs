//! Chooses the record of an operation.

use rand::Rng;

use crate::{
    measure::{
        permutation::Permutation,
        zipf::{Zipf, below, miss_beyond},
    },
    row::Shape,
};

/// The percentage of operations that go to the hot spot.
const HOT_OPERATIONS: u64 = 80;
/// The hot spot is one record in this many.
const HOT_RECORDS: u64 = 100;
/// Seed of the bijection from ranks to records; fixed, so that every run and store has the same hot records.
const SPREAD: u64 = 0x5eed_0001;

/// A distribution over `0..records`. Shared by all threads.
#[derive(Debug)]
pub(crate) struct Distribution {
    shape: Shape,
    zipf: Option<Zipf>,
    spread: Permutation,
    /// The records of a range of keys (shape `Stretch`).
    stretch: Vec<u64>,
}

impl Distribution {
    /// A distribution over `records` records, at least 1. `theta` matters only for the shapes that follow Zipf's law.
    pub(crate) fn new(shape: Shape, records: u64, theta: f64) -> Self {
        let zipf = matches!(shape, Shape::Zipfian | Shape::Latest).then(|| Zipf::new(records, theta));
        Distribution { shape, zipf, spread: Permutation::new(records, SPREAD), stretch: Vec::new() }
    }

    /// A distribution over the records of a key range, which has at least one.
    pub(crate) fn over(stretch: Vec<u64>) -> Self {
        Distribution { stretch, ..Self::new(Shape::Stretch, 1, 0.0) }
    }

    /// Draws a record. `progress` is the elapsed fraction of the run, 0 to 1. `newest` is one above the newest record
    /// and at least the number of records.
    pub(crate) fn sample(&self, rng: &mut impl Rng, progress: f64, newest: u64) -> u64 {
        let records = self.spread.size();
        match (self.shape, &self.zipf) {
            (Shape::Zipfian, Some(zipf)) => self.spread.apply(zipf.sample(rng)),
            (Shape::Latest, Some(zipf)) => newest - 1 - zipf.sample(rng),
            (Shape::Stretch, _) => self.stretch[below(rng.next_u64(), self.stretch.len() as u64).0 as usize],
            (Shape::Hotspot, _) => self.spread.apply(hotspot(rng, records, progress)),
            _ => below(rng.next_u64(), records).0,
        }
    }
}

fn hotspot(rng: &mut impl Rng, records: u64, progress: f64) -> u64 {
    if below(rng.next_u64(), 100).0 >= HOT_OPERATIONS {
        return below(rng.next_u64(), records).0;
    }
    let start = (progress.clamp(0.0, 1.0) * records as f64) as u64;
    let hot = (records / HOT_RECORDS).max(1);
    (start + below(rng.next_u64(), hot).0) % records
}

/// The fraction of draws that miss a cache of the hottest `kept` records; `None` for shapes whose hot records change.
pub(crate) fn ideal_miss(shape: Shape, records: u64, theta: f64, kept: u64) -> Option<f64> {
    match shape {
        Shape::Uniform => Some(1.0 - kept.min(records) as f64 / records as f64),
        Shape::Zipfian => Some(miss_beyond(kept, records, theta)),
        Shape::Latest | Shape::Hotspot | Shape::Stretch | Shape::Trace => None,
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::SmallRng};

    use super::*;

    fn counts(shape: Shape, records: u64, draws: u64, progress: f64, newest: u64) -> Vec<u64> {
        let (distribution, mut rng) = (Distribution::new(shape, records, 0.99), SmallRng::seed_from_u64(3));
        let mut counts = vec![0; usize::try_from(newest).unwrap()];
        for _ in 0..draws {
            counts[usize::try_from(distribution.sample(&mut rng, progress, newest)).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn uniform_draws_every_record_equally() {
        let counts = counts(Shape::Uniform, 1000, 1_000_000, 0.0, 1000);
        let square: f64 = counts.iter().map(|&count| (count as f64 - 1000.0).powi(2) / 1000.0).sum();
        // 999 expected, standard deviation 45.
        assert!((square - 999.0).abs() < 5.0 * 45.0, "{square}");
    }

    #[test]
    fn zipfian_is_a_rearranged_zipf() {
        let mut spread = counts(Shape::Zipfian, 1000, 200_000, 0.0, 1000);
        let hottest = spread.iter().enumerate().max_by_key(|(_, count)| **count).unwrap().0;
        assert_eq!(hottest as u64, Permutation::new(1000, SPREAD).apply(0));
        spread.sort_unstable();
        let latest = counts(Shape::Latest, 1000, 200_000, 0.0, 1000);
        assert!(spread[999].abs_diff(latest[999]) < 2000, "{} and {}", spread[999], latest[999]);
    }

    #[test]
    fn latest_prefers_the_newest_and_reaches_exactly_all() {
        let counts = counts(Shape::Latest, 100, 100_000, 0.0, 150);
        assert!(counts[..50].iter().all(|&count| count == 0));
        assert!(counts[50..].iter().all(|&count| count > 0));
        assert!(counts[149] > counts[148] && counts[148] > counts[140]);
    }

    #[test]
    fn a_stretch_is_drawn_from_equally() {
        let (distribution, mut rng) = (Distribution::over(vec![7, 3, 900]), SmallRng::seed_from_u64(3));
        let draws: Vec<u64> = (0..3000).map(|_| distribution.sample(&mut rng, 0.0, 1000)).collect();
        for record in [7, 3, 900] {
            assert!((850..1150).contains(&draws.iter().filter(|drawn| **drawn == record).count()));
        }
    }

    #[test]
    fn the_hot_spot_moves() {
        let (early, late) = (
            counts(Shape::Hotspot, 10_000, 100_000, 0.0, 10_000),
            counts(Shape::Hotspot, 10_000, 100_000, 0.5, 10_000),
        );
        let hot = |counts: &[u64]| counts.iter().filter(|&&count| count > 300).count();
        assert_eq!((hot(&early), hot(&late)), (100, 100));
        assert!(early.iter().zip(&late).all(|(a, b)| *a < 300 || *b < 300));
    }
}
