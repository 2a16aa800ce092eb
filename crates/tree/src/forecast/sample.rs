//! A uniform sample of the keys seen so far (Vitter's reservoir), as digests.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{
    cells::Cells,
    digest::{DigestPosition, Digester, LONGEST},
};

/// A reservoir: each key offered is in it with the same probability.
#[derive(Debug)]
pub(super) struct Sample {
    cells: Cells,
    /// `None` before the first key.
    digester: Option<Digester>,
    count: usize,
    /// Keys offered.
    seen: u64,
    random: Random,
}

impl Sample {
    pub(super) fn new(cells: Cells, seed: u64) -> Sample {
        Sample { cells, digester: None, count: 0, seen: 0, random: Random(seed) }
    }

    /// Number of keys in the sample.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The digester of its digests.
    pub(super) fn digester(&self) -> Digester {
        self.digester.clone().unwrap_or(Digester { prefix: Vec::new(), size: self.cells.size() })
    }

    /// Offers a key.
    pub(super) fn offer(&mut self, key: &[u8]) {
        let size = self.cells.size();
        let digester = self.digester.get_or_insert_with(|| Digester { prefix: key.to_vec(), size });
        let lost = digester.admit(key);
        self.seen += 1;
        let at = if self.count < self.cells.len() { self.count as u64 } else { self.random.below(self.seen) };
        let place = digester.place(key);
        if !lost.is_empty() {
            self.lengthen(&lost);
        }
        if at < self.cells.len() as u64 {
            let DigestPosition::At(digest) = place else { unreachable!("the prefix was just made to fit") };
            self.cells.get_mut(at as usize).copy_from_slice(&digest[..size]);
            self.count = self.count.max(at as usize + 1);
        }
    }

    /// Prepends bytes that were part of the prefix to each digest.
    fn lengthen(&mut self, front: &[u8]) {
        let bytes = front.len().min(self.cells.size());
        for at in 0..self.count {
            let digest = self.cells.get_mut(at);
            digest.copy_within(..digest.len() - bytes, bytes);
            digest[..bytes].copy_from_slice(&front[..bytes]);
        }
    }

    /// Passes the last digest of each of `parts` equal parts, except the last part, to `visit`, in ascending order. The
    /// sample must have at least `parts` keys.
    pub(super) fn quantiles(&mut self, parts: usize, mut visit: impl FnMut(&[u8])) {
        let (count, run) = (self.count, self.cells.sort_runs(self.count));
        let cells = &self.cells;
        let mut heads: BinaryHeap<_> = (0..count).step_by(run).map(|at| Reverse((cells.get(at), at))).collect();
        let mut part = 1;
        for taken in 1..=count {
            let Some(mut head) = heads.peek_mut() else { return };
            let Reverse((digest, at)) = *head;
            if part < parts && taken == count * part / parts {
                visit(digest);
                part += 1;
            }
            if (at + 1) % run == 0 || at + 1 == count {
                std::collections::binary_heap::PeekMut::pop(head);
            } else {
                *head = Reverse((cells.get(at + 1), at + 1));
            }
        }
    }

    /// Drops all keys, and doubles the length of digests; does nothing if they have the longest size.
    pub(super) fn lengthen_digests(&mut self) {
        if self.cells.size() < LONGEST {
            self.cells.divide(self.cells.size() * 2);
            (self.digester, self.count, self.seen) = (None, 0, 0);
        }
    }
}

/// Pseudo-random numbers from a seed (SplitMix64).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use ecotone_substrate::memory::Memory;

    use super::*;

    fn sample(room: usize) -> Sample {
        Sample::new(Cells::lease(&Memory::new(16 << 20), room, 8).unwrap(), 7)
    }

    fn quantiles(sample: &mut Sample, parts: usize) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        sample.quantiles(parts, |digest| found.push(digest.to_vec()));
        found
    }

    #[test]
    fn all_keys_are_in_it_while_there_is_room() {
        let mut sample = sample(5120);
        let keys: Vec<u64> = (0..5000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        keys.iter().for_each(|key| sample.offer(&key.to_be_bytes()));
        let mut sorted: Vec<[u8; 8]> = keys.iter().map(|key| key.to_be_bytes()).collect();
        sorted.sort_unstable();
        assert_eq!(sample.count(), 5000);
        assert_eq!(quantiles(&mut sample, 5000), sorted[..4999]);
        assert_eq!(quantiles(&mut sample, 4), [sorted[1249], sorted[2499], sorted[3749]]);
        assert_eq!(quantiles(&mut sample, 1), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn every_key_has_the_same_chance() {
        let mut sample = sample(1024);
        (0..100_000u64).for_each(|key| sample.offer(&key.to_be_bytes()));
        assert_eq!(sample.count(), 1024);
        let digester = sample.digester();
        for (part, digest) in (1..10).zip(quantiles(&mut sample, 10)) {
            let key = digester.least_key(&digest);
            let mut padded = [0; 8];
            padded[..key.len()].copy_from_slice(&key);
            let (key, expected) = (u64::from_be_bytes(padded), part * 10_000);
            assert!(key.abs_diff(expected) < 6_000, "part {part} ends at {key}");
        }
    }

    #[test]
    fn digests_are_right_though_the_prefix_shrinks() {
        let mut sample = sample(512);
        let keys = ["usr/bin/one", "usr/bin/two", "usr/bin/t", "usr/lib", "usr", "etc/passwd", ""];
        for count in 1..=keys.len() {
            sample.offer(keys[count - 1].as_bytes());
            let digester = sample.digester();
            let digest = |key: &&str| match digester.place(key.as_bytes()) {
                DigestPosition::At(digest) => digest[..8].to_vec(),
                other => panic!("{key:?} is {other:?}"),
            };
            let mut expected: Vec<Vec<u8>> = keys[..count].iter().map(digest).collect();
            expected.sort_unstable();
            assert_eq!(quantiles(&mut sample, count), expected[..count - 1]);
        }
    }
}
