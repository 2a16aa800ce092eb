//! A hash range: all hashes with the same upper bits.

use std::ops::RangeInclusive;

/// Maximum number of common upper bits in a partition.
const MOST_BITS: u8 = 8;

/// The hashes with given upper bits. Each partition has such a range, and together they have all hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashRange {
    bits: u8,
    number: u8,
}

impl HashRange {
    /// All hashes.
    pub const ALL: HashRange = HashRange { bits: 0, number: 0 };

    /// The hashes whose upper `bits` bits are `number`, if there is such a range.
    pub fn new(bits: u8, number: u8) -> Option<HashRange> {
        (bits <= MOST_BITS && u32::from(number) < 1 << bits).then_some(HashRange { bits, number })
    }

    /// Number of common upper bits.
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// The common upper bits.
    pub fn number(self) -> u8 {
        self.number
    }

    /// Whether the range has the hash.
    #[inline]
    pub fn has(self, hash: u64) -> bool {
        hash.checked_shr(64 - u32::from(self.bits)).unwrap_or(0) == u64::from(self.number)
    }

    /// The hashes of the range.
    pub fn hashes(self) -> RangeInclusive<u64> {
        self.first()..=self.last()
    }

    /// The two halves of the range; `None` if they would be too small.
    pub fn halves(self) -> Option<[HashRange; 2]> {
        let half = |upper| HashRange { bits: self.bits + 1, number: self.number << 1 | upper };
        (self.bits < MOST_BITS).then(|| [half(0), half(1)])
    }

    /// The first hash.
    pub(super) fn first(self) -> u64 {
        u64::from(self.number).checked_shl(64 - u32::from(self.bits)).unwrap_or(0)
    }

    /// The last hash.
    pub(super) fn last(self) -> u64 {
        self.first() | u64::MAX.checked_shr(u32::from(self.bits)).unwrap_or(0)
    }

    /// Which of `count` equal parts of the range has `hash`, which lies in the range.
    #[inline]
    pub(super) fn part(self, hash: u64, count: u64) -> u64 {
        ((u128::from(hash << self.bits) * u128::from(count)) >> 64) as u64
    }
}
