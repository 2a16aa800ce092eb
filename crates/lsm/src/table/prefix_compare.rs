//! Comparison of a key with sorted, prefix-compressed keys, of which each leaves out the bytes shared with the one
//! before.

use std::cmp::Ordering;

/// How many bytes two keys share at their beginnings.
pub(crate) fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Compares successive entries with a key, without decoding their whole keys.
#[derive(Debug)]
pub(super) struct PrefixComparer<'k> {
    key: &'k [u8],
    /// Bytes that the last entry shares with the key. The last entry is below the key.
    matched: usize,
}

impl<'k> PrefixComparer<'k> {
    /// A comparer before the first entry, which has its whole key.
    pub(super) fn new(key: &'k [u8]) -> PrefixComparer<'k> {
        PrefixComparer { key, matched: 0 }
    }

    /// Compares the next entry with the key. All entries before must have been below the key: callers stop at any other
    /// answer.
    pub(super) fn step(&mut self, shared: usize, rest: &[u8]) -> Ordering {
        match shared.cmp(&self.matched) {
            // The entry differs from the key at the same byte as the one before.
            Ordering::Greater => Ordering::Less,
            // The entry has a greater byte where the one before matched the key.
            Ordering::Less => Ordering::Greater,
            Ordering::Equal => {
                let wanted = self.key.get(self.matched..).unwrap_or_default();
                let order = rest.cmp(wanted);
                if order == Ordering::Less {
                    self.matched += common_prefix_len(rest, wanted);
                }
                order
            }
        }
    }
}
