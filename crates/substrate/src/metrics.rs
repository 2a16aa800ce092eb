//! Counters and histograms that many threads update: relaxed atomics, nothing allocated after their creation.

use std::{
    array, fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// A counter, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `n`; it wraps around at 2^64.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Value bits that a bucket distinguishes, below the highest one: buckets are 1/8 of their value wide.
const PRECISION: u32 = 3;
const STEPS: usize = 1 << PRECISION;
const BUCKETS: usize = STEPS * (u64::BITS - PRECISION + 1) as usize;

/// A distribution of values, such as latencies in nanoseconds, to one part in eight. Takes 4 KiB.
pub struct Histogram {
    buckets: Box<[AtomicU64; BUCKETS]>,
    sum: AtomicU64,
    largest: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = Box::new(array::from_fn(|_| AtomicU64::new(0)));
        Histogram { buckets, sum: AtomicU64::new(0), largest: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts one value.
    pub fn record(&self, value: u64) {
        self.buckets[bucket(value)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
        self.largest.fetch_max(value, Ordering::Relaxed);
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// The sum of the values; it wraps around at 2^64.
    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// The largest value, exactly; 0 if there is none.
    pub fn largest(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }

    /// A value that a share `q` (0.0 to 1.0) of the values does not exceed, at most an eighth too large. 0 if there are
    /// no values.
    pub fn quantile(&self, q: f64) -> u64 {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let rank = ((total as f64 * q.clamp(0.0, 1.0)).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        let reached = counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        reached.map_or(0, |bucket| upper_end(bucket).min(self.largest()))
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, high) = (self.quantile(0.5), self.quantile(0.99));
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("p50", &median)
            .field("p99", &high)
            .finish_non_exhaustive()
    }
}

fn bucket(value: u64) -> usize {
    let steps = STEPS as u64;
    if value < steps {
        return value as usize;
    }
    let exponent = value.ilog2() - PRECISION;
    STEPS * (exponent as usize + 1) + ((value >> exponent) - steps) as usize
}

/// The largest value that `bucket` counts.
fn upper_end(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (exponent, step) = (bucket / STEPS - 1, (bucket % STEPS + STEPS) as u64);
    (step << exponent) + ((1_u64 << exponent) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        for bucket_number in 0..BUCKETS - 1 {
            let end = upper_end(bucket_number);
            assert_eq!(bucket(end), bucket_number);
            assert_eq!(bucket(end + 1), bucket_number + 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(upper_end(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn quantiles_are_within_an_eighth() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), 0);
        (1..=10_000).for_each(|value| histogram.record(value));
        for (q, exact) in [(0.5, 5_000), (0.9, 9_000), (0.99, 9_900), (0.0, 1), (1.0, 10_000)] {
            let found = histogram.quantile(q);
            assert!(found >= exact && found <= exact + exact / STEPS as u64, "{q}: {found}");
        }
        assert_eq!((histogram.count(), histogram.sum(), histogram.largest()), (10_000, 50_005_000, 10_000));
    }

    #[test]
    fn counters_lose_nothing_between_threads() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| counter.increment()));
            }
        });
        assert_eq!(counter.get(), 40_000);
    }
}
