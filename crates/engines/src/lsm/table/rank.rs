//! Where a key lies among sorted keys of which each leaves out what it shares with the one before.

use std::cmp::Ordering;

/// How many bytes two keys share at their beginnings.
pub(in crate::lsm) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Compares entries with a key, one after the other, without putting them together.
#[derive(Debug)]
pub(super) struct Rank<'k> {
    key: &'k [u8],
    /// How many bytes the last entry, which is below the key, shares with it.
    matched: usize,
}

impl<'k> Rank<'k> {
    /// Before the first entry, which leaves nothing out.
    pub(super) fn new(key: &'k [u8]) -> Rank<'k> {
        Rank { key, matched: 0 }
    }

    /// How the next entry compares with the key. All before must have been below it, so that nobody asks again after
    /// another answer.
    pub(super) fn step(&mut self, shared: usize, rest: &[u8]) -> Ordering {
        match shared.cmp(&self.matched) {
            // It differs from the key where the one before did.
            Ordering::Greater => Ordering::Less,
            // It has a greater byte where the one before had the key's.
            Ordering::Less => Ordering::Greater,
            Ordering::Equal => {
                let wanted = self.key.get(self.matched..).unwrap_or_default();
                let order = rest.cmp(wanted);
                if order == Ordering::Less {
                    self.matched += common(rest, wanted);
                }
                order
            }
        }
    }
}
