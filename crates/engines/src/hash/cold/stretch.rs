//! A stretch of the hashes: those with the same upper bits.

use std::ops::RangeInclusive;

/// Most bits that the hashes of a partition have in common.
const MOST_BITS: u8 = 8;

/// The hashes whose upper bits are a number. Partitions have such a stretch each, and together have all hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    bits: u8,
    number: u8,
}

impl Stretch {
    /// All hashes.
    pub const ALL: Stretch = Stretch { bits: 0, number: 0 };

    /// The hashes whose upper `bits` bits are `number`, if there is such a stretch.
    pub fn new(bits: u8, number: u8) -> Option<Stretch> {
        (bits <= MOST_BITS && u32::from(number) < 1 << bits).then_some(Stretch { bits, number })
    }

    /// How many bits its hashes have in common.
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// These bits.
    pub fn number(self) -> u8 {
        self.number
    }

    /// Whether it has the hash.
    #[inline]
    pub fn has(self, hash: u64) -> bool {
        hash.checked_shr(64 - u32::from(self.bits)).unwrap_or(0) == u64::from(self.number)
    }

    /// Its hashes.
    pub fn hashes(self) -> RangeInclusive<u64> {
        self.first()..=self.last()
    }

    /// The two that have its hashes between them; `None` if they would be too small.
    pub fn halves(self) -> Option<[Stretch; 2]> {
        let half = |upper| Stretch { bits: self.bits + 1, number: self.number << 1 | upper };
        (self.bits < MOST_BITS).then(|| [half(0), half(1)])
    }

    /// Its first hash.
    pub(super) fn first(self) -> u64 {
        u64::from(self.number).checked_shl(64 - u32::from(self.bits)).unwrap_or(0)
    }

    /// Its last hash.
    pub(super) fn last(self) -> u64 {
        self.first() | u64::MAX.checked_shr(u32::from(self.bits)).unwrap_or(0)
    }

    /// Which of `count` equal parts of the stretch has the hash, which the stretch has.
    #[inline]
    pub(super) fn part(self, hash: u64, count: u64) -> u64 {
        ((u128::from(hash << self.bits) * u128::from(count)) >> 64) as u64
    }
}
