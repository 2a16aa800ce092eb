//! Fixed bijections: of all 64-bit numbers, and of the numbers below any size.

/// 2⁶⁴ divided by the golden ratio, odd: steps by it visit all 64-bit numbers, far apart.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Odd multipliers with well spread bits (the finaliser of SplitMix64).
const MULTIPLIERS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// A bijection of the 64-bit numbers without visible order.
pub(crate) const fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(STEP);
    x = (x ^ (x >> 30)).wrapping_mul(MULTIPLIERS[0]);
    x = (x ^ (x >> 27)).wrapping_mul(MULTIPLIERS[1]);
    x ^ (x >> 31)
}

/// A bijection of `0..size` without visible order.
///
/// The mixing works on the smallest power of two that holds `size`; numbers that fall outside are mixed again until
/// they fall inside (cycle walking), which takes less than two rounds on average.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    size: u64,
    mask: u64,
    shift: u32,
    seed: u64,
}

impl Permutation {
    /// The bijection of `0..size` with this seed; `size` is at least 1.
    pub(crate) fn new(size: u64, seed: u64) -> Self {
        assert!(size > 0, "a permutation of nothing");
        Self::with_bits(u64::BITS - (size - 1).leading_zeros(), size, seed)
    }

    /// The bijection of all numbers of `bits` bits, 1..=63, with this seed.
    pub(crate) fn of_bits(bits: u32, seed: u64) -> Self {
        assert!((1..64).contains(&bits), "1 to 63 bits");
        Self::with_bits(bits, 1 << bits, seed)
    }

    fn with_bits(bits: u32, size: u64, seed: u64) -> Self {
        let mask = u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0);
        Permutation { size, mask, shift: bits.div_ceil(2).max(1), seed: mix(seed) }
    }

    /// The size of the permuted range.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The image of `number`, which is below the size.
    pub(crate) fn apply(&self, number: u64) -> u64 {
        debug_assert!(number < self.size);
        let mut x = number;
        loop {
            x = self.round(x);
            if x < self.size {
                return x;
            }
        }
    }

    /// Applies bijections of the masked bits: adds a constant, multiplies by an odd one, xors the upper half down.
    fn round(&self, number: u64) -> u64 {
        let mut x = number.wrapping_add(self.seed) & self.mask;
        x = (x ^ (x >> self.shift)).wrapping_mul(MULTIPLIERS[0]) & self.mask;
        x = (x ^ (x >> self.shift)).wrapping_mul(MULTIPLIERS[1]) & self.mask;
        x = (x ^ (x >> self.shift)).wrapping_mul(STEP) & self.mask;
        x ^ (x >> self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_bijection(permutation: &Permutation) -> bool {
        let mut seen = vec![false; usize::try_from(permutation.size()).unwrap()];
        (0..permutation.size())
            .all(|n| !std::mem::replace(&mut seen[usize::try_from(permutation.apply(n)).unwrap()], true))
    }

    #[test]
    fn every_size_is_permuted() {
        for size in (1..200).chain([255, 256, 257, 1000, 65_535, 65_537, 100_003]) {
            for seed in 0..3 {
                assert!(is_bijection(&Permutation::new(size, seed)), "size {size}, seed {seed}");
            }
        }
        assert!((1..=16).all(|bits| is_bijection(&Permutation::of_bits(bits, 7))));
    }

    #[test]
    fn neighbours_are_spread() {
        let size = 1 << 20;
        let permutation = Permutation::new(size, 1);
        let near =
            (1..10_000).filter(|&n| permutation.apply(n).abs_diff(permutation.apply(n - 1)) < size / 100).count();
        // Two uniform numbers are that near in 2% of all cases.
        assert!((100..320).contains(&near), "{near} of 10000 neighbours stay near");
    }
}
