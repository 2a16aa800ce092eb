//! Distinct bytes of the log: an estimate of the data that replay makes dirty.
//!
//! A log that writes the same keys again and again may be long, since replay keeps one record of each. So its limit
//! does not apply to its length but to its *weight*: the bytes of distinct records. Sketches count them (HyperLogLog:
//! registers that remember the rarest hash each has seen). Each interval of the log has one sketch, so that intervals
//! can be dropped from the front. The sketch of several intervals has the larger of their registers.
//!
//! Log without a sketch weighs its length: the last interval until it ends, and records that were not counted.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
};

use ecotone_sys::primitive::Mutex;

use super::{Wal, WalOptions};
use crate::Seq;

/// Registers of a sketch. The count is right to about five percent.
const REGISTERS: usize = 512;
/// Bias of the count for this many registers.
const ALPHA: f64 = 0.7198;
/// Records are counted in units of this many bytes, so that long and short ones may be mixed.
const UNIT: u64 = 32;
/// Sketches, 64 KiB in all. A few more than intervals in the longest log.
const SKETCHES: u64 = 128;
/// The fixed-point 1 of [`DistinctBytes::share`].
const ONE: u64 = 1 << 10;

#[derive(Debug)]
struct Sketch([AtomicU8; REGISTERS]);

impl Sketch {
    fn new() -> Self {
        Sketch([const { AtomicU8::new(0) }; REGISTERS])
    }

    fn add(&self, hash: u64) {
        let register = &self.0[hash as usize % REGISTERS];
        let rank = ((hash / REGISTERS as u64) | (1 << 54)).trailing_zeros() as u8 + 1;
        if register.load(Ordering::Relaxed) < rank {
            register.fetch_max(rank, Ordering::Relaxed);
        }
    }

    fn clear(&self) {
        self.0.iter().for_each(|register| register.store(0, Ordering::Relaxed));
    }
}

/// Number of distinct hashes that were added to the sketches.
fn count<'a>(sketches: impl Iterator<Item = &'a Sketch>) -> u64 {
    let mut largest = [0_u8; REGISTERS];
    for sketch in sketches {
        largest
            .iter_mut()
            .zip(&sketch.0)
            .for_each(|(largest, register)| *largest = register.load(Ordering::Relaxed).max(*largest));
    }
    let (m, empty) = (REGISTERS as f64, largest.iter().filter(|rank| **rank == 0).count());
    let raw = ALPHA * m * m / largest.iter().map(|rank| 0.5_f64.powi(i32::from(*rank))).sum::<f64>();
    // A small number is estimated better from the empty registers.
    let counted = if raw < 2.5 * m && empty > 0 { m * (m / empty as f64).ln() } else { raw };
    counted as u64
}

/// The distinct bytes of a log.
#[derive(Debug)]
pub(super) struct DistinctBytes {
    sketches: Box<[Sketch]>,
    /// The sketch of the last interval.
    current: AtomicUsize,
    /// Intervals of the log that have sketches: the start of each, and its sketch.
    intervals: Mutex<VecDeque<(Seq, usize)>>,
    /// The end of the last interval.
    next: AtomicU64,
    /// The log's length less its weight, at the last count.
    discount: AtomicU64,
    interval_bytes: u64,
    /// The least share of its length that a log weighs, so that its length has a limit too.
    share: u64,
}

impl DistinctBytes {
    pub(super) fn new(options: WalOptions) -> Self {
        let WalOptions { limit_bytes, longest_bytes, .. } = options;
        let part = u128::from(limit_bytes) * u128::from(ONE) / u128::from(longest_bytes);
        DistinctBytes {
            sketches: (0..SKETCHES).map(|_| Sketch::new()).collect(),
            current: AtomicUsize::new(0),
            intervals: Mutex::default(),
            next: AtomicU64::new(0),
            discount: AtomicU64::new(0),
            interval_bytes: longest_bytes / (SKETCHES - 8),
            share: u64::try_from(part).unwrap_or(ONE).min(ONE),
        }
    }

    /// The most that a log of this length weighs.
    pub(super) fn of(&self, length: u64) -> u64 {
        length.saturating_sub(self.discount.load(Ordering::SeqCst)).max(length / ONE * self.share)
    }

    fn add(&self, hash: u64, bytes: u64) {
        let sketch = &self.sketches[self.current.load(Ordering::Relaxed)];
        (0..bytes.div_ceil(UNIT))
            .for_each(|unit| sketch.add(mix(hash.wrapping_add(unit.wrapping_mul(0x9e37_79b9_7f4a_7c15)))));
    }

    /// Ends the last interval and begins another if it is long enough.
    fn advance(&self, tail: Seq, kept_from: Seq) {
        let Some(mut intervals) = self.intervals.try_lock().filter(|_| tail >= self.next.load(Ordering::SeqCst)) else {
            return;
        };
        if intervals.len() == self.sketches.len() {
            intervals.pop_front();
        }
        self.recount(&mut intervals, tail, kept_from);
        let sketch = intervals.back().map_or(0, |(_, last)| (last + 1) % self.sketches.len());
        self.sketches[sketch].clear();
        self.current.store(sketch, Ordering::Relaxed);
        intervals.push_back((tail, sketch));
        self.next.store(tail + self.interval_bytes, Ordering::SeqCst);
    }

    fn recount(&self, intervals: &mut VecDeque<(Seq, usize)>, tail: Seq, kept_from: Seq) {
        while intervals.get(1).is_some_and(|(from, _)| *from <= kept_from) {
            intervals.pop_front();
        }
        let from = intervals.front().map_or(tail, |(from, _)| *from).max(kept_from);
        let different = count(intervals.iter().map(|(_, sketch)| &self.sketches[*sketch])) * UNIT;
        self.discount.store(tail.saturating_sub(from).saturating_sub(different), Ordering::SeqCst);
    }
}

/// Mixes the bits of a hash.
fn mix(hash: u64) -> u64 {
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

impl Wal {
    /// Counts a record of `bytes` bytes at or before `at` whose key has this hash. Calls come in about the order of the
    /// log, for appended and for replayed records.
    pub fn count_distinct(&self, at: Seq, hash: u64, bytes: usize) {
        self.weight.add(hash, bytes as u64);
        if at >= self.weight.next.load(Ordering::Relaxed) {
            self.weight.advance(at, self.kept_from.load(Ordering::SeqCst));
        }
    }

    /// The log's present weight, for [`WalOptions::limit_bytes`]: about the bytes of distinct records, and never more
    /// than its length.
    pub fn weight(&self) -> u64 {
        self.weight.of(self.used())
    }

    /// Counts anew for a log that begins at `kept_from`.
    pub(super) fn recount_distinct(&self, kept_from: Seq) {
        let mut intervals = self.weight.intervals.lock();
        self.weight.recount(&mut intervals, self.tail(), kept_from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: WalOptions =
        WalOptions { first_bytes: 64 << 10, segment_bytes: 64 << 10, limit_bytes: 1 << 20, longest_bytes: 4 << 20 };

    fn near(found: u64, expected: u64) -> bool {
        found.abs_diff(expected) <= expected / 6
    }

    #[test]
    fn sketches_count_what_is_different() {
        for different in [10_u64, 500, 1_000, 30_000, 500_000] {
            let sketches = [Sketch::new(), Sketch::new()];
            (0..different * 2).for_each(|i| {
                sketches[(i / 3 % 2) as usize].add(mix((i % different).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            });
            let counted = count(sketches.iter());
            assert!(near(counted, different), "{counted} of {different}");
        }
    }

    /// Appends 200-byte records with these hashes. Returns the weight.
    fn write(weight: &DistinctBytes, tail: &mut Seq, kept_from: Seq, hashes: impl Iterator<Item = u64>) -> u64 {
        for hash in hashes {
            weight.add(mix(hash), 200);
            *tail += 200;
            weight.advance(*tail, kept_from);
        }
        weight.of(*tail - kept_from)
    }

    #[test]
    fn what_is_written_again_weighs_nothing_and_what_goes_from_the_front_is_counted_anew() {
        let (weight, mut tail) = (DistinctBytes::new(OPTIONS), 0);
        let once = write(&weight, &mut tail, 0, 0..2_000);
        assert!(near(once, 400_000), "{once}");
        let again = write(&weight, &mut tail, 0, (0..4_000).map(|i| i % 2_000));
        assert!(near(again, 420_000), "{again}");
        let more = write(&weight, &mut tail, 0, 2_000..4_000);
        assert!(near(more, 820_000), "{more}");
        weight.recount(&mut weight.intervals.lock(), tail, 1_200_000);
        let rest = weight.of(tail - 1_200_000);
        assert!(near(rest, 420_000) && rest <= tail, "{rest}");
    }

    #[test]
    fn length_is_limited_too_and_what_nobody_weighed_weighs_its_length() {
        let (weight, mut tail) = (DistinctBytes::new(OPTIONS), 100_000);
        assert_eq!(weight.of(100_000), 100_000);
        let one = write(&weight, &mut tail, 0, std::iter::repeat_n(7, 2_000));
        assert!((100_000..200_000).contains(&one), "{one}");
        let long = write(&weight, &mut tail, 0, std::iter::repeat_n(7, 20_000));
        assert!(near(long, OPTIONS.limit_bytes + OPTIONS.limit_bytes / 9), "{long} of {tail}");
        let plain = DistinctBytes::new(WalOptions { longest_bytes: OPTIONS.limit_bytes, ..OPTIONS });
        let (mut tail, kept_from) = (0, 0);
        assert_eq!(write(&plain, &mut tail, kept_from, std::iter::repeat_n(7, 5_000)) / 1024, tail / 1024);
    }
}
