//! A uniform sample of the keys seen so far (Vitter's reservoir), as digests.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{
    cells::Cells,
    digest::{Digester, LONGEST, Place},
};

/// Of all keys that were offered, each is in it with the same chance.
#[derive(Debug)]
pub(super) struct Sample {
    cells: Cells,
    /// None before the first key.
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

    /// Keys in it.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Keys that it has room for.
    pub(super) fn room(&self) -> usize {
        self.cells.len()
    }

    /// Bytes of a digest.
    pub(super) fn digest_bytes(&self) -> usize {
        self.cells.size()
    }

    /// How its digests were made of keys; `None` before the first key.
    pub(super) fn digester(&self) -> Option<&Digester> {
        self.digester.as_ref()
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
            let Place::At(digest) = place else { unreachable!("the prefix was just made to fit") };
            self.cells.get_mut(at as usize).copy_from_slice(&digest[..size]);
            self.count = self.count.max(at as usize + 1);
        }
    }

    /// Puts bytes that were part of the prefix in front of each digest.
    fn lengthen(&mut self, front: &[u8]) {
        let bytes = front.len().min(self.cells.size());
        for at in 0..self.count {
            let digest = self.cells.get_mut(at);
            digest.copy_within(..digest.len() - bytes, bytes);
            digest[..bytes].copy_from_slice(&front[..bytes]);
        }
    }

    /// Gives the last digest of each of `parts` equal parts but the last to `visit`, in ascending order. There must be as many keys.
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

    /// Forgets all keys, and takes digests twice as long from now on if that is possible.
    pub(super) fn restart_longer(&mut self) {
        self.cells.divide((self.cells.size() * 2).min(LONGEST));
        (self.digester, self.count, self.seen) = (None, 0, 0);
    }
}

/// Numbers that look random and follow from a seed (SplitMix64).
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
