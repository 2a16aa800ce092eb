//! A set of small numbers that finds its least member in a few steps.

/// A tree of bit words: a bit in an upper level says that the word below it is not zero. Three levels cover 256 Gi of
/// chunks.
#[derive(Debug)]
pub(super) struct Bits {
    levels: Vec<Vec<u64>>,
}

impl Bits {
    /// An empty set of numbers below `bound`.
    pub(super) fn new(bound: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = bound.max(1);
        while words > 1 || levels.is_empty() {
            words = words.div_ceil(64);
            levels.push(vec![0; words]);
        }
        Bits { levels }
    }

    /// Adds `member`; does nothing if it is there.
    pub(super) fn insert(&mut self, member: usize) {
        let mut at = member;
        for level in &mut self.levels {
            level[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
    }

    /// Removes `member`; does nothing if it is not there.
    pub(super) fn remove(&mut self, member: usize) {
        let mut at = member;
        for level in &mut self.levels {
            level[at / 64] &= !(1 << (at % 64));
            if level[at / 64] != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// The least member.
    pub(super) fn first(&self) -> Option<usize> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let word = level[at];
            if word == 0 {
                return None;
            }
            at = at * 64 + word.trailing_zeros() as usize;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    use super::*;

    #[test]
    fn equals_a_tree_set() {
        let mut random = SmallRng::seed_from_u64(1);
        for bound in [1, 2, 64, 65, 4096, 4097, 300_000] {
            let (mut bits, mut model) = (Bits::new(bound), BTreeSet::new());
            for _ in 0..2_000 {
                let member = random.random_range(0..bound);
                if random.random_bool(0.5) {
                    bits.insert(member);
                    model.insert(member);
                } else {
                    bits.remove(member);
                    model.remove(&member);
                }
                assert_eq!(bits.first(), model.first().copied(), "bound {bound}");
            }
        }
    }
}
