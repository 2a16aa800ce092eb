//! Input for learning an index: the keys on both sides of each boundary between two blocks, collected while the table
//! is written (L5).

use ecotone_substrate::model::{DIGEST, digest};

use crate::table::{index::Separators, prefix_compare::common_prefix_len};

/// The keys of one block as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The digest of its first key.
    pub(super) first: u64,
    /// The digest of its last key.
    pub(super) last: u64,
    /// The number of its records.
    pub(super) records: u32,
}

/// The blocks of a table that is being written.
#[derive(Debug, Default)]
pub(super) struct Boundaries {
    first: Vec<u8>,
    last: Vec<u8>,
    /// Bytes that all keys share.
    skip: usize,
    /// Each block with the bytes that all keys shared when it was added.
    blocks: Vec<(Bounds, usize)>,
    separators: Separators,
}

impl Boundaries {
    /// Adds the next block.
    pub(super) fn push(&mut self, first: &[u8], last: &[u8], records: u32) {
        if self.blocks.is_empty() {
            self.first = first.to_vec();
            self.skip = first.len();
        } else {
            let shared = common_prefix_len(&self.last, first);
            self.separators.push(&first[..shared + 1]);
        }
        self.skip = self.skip.min(common_prefix_len(&self.first, last));
        let bounds = Bounds { first: digest(first, self.skip), last: digest(last, self.skip), records };
        self.blocks.push((bounds, self.skip));
        self.last.clear();
        self.last.extend_from_slice(last);
    }

    /// The first key of all.
    pub(super) fn first_key(&self) -> &[u8] {
        &self.first
    }

    /// The last key of all.
    pub(super) fn last_key(&self) -> &[u8] {
        &self.last
    }

    /// The separators, one between each two adjacent blocks.
    pub(super) fn separators(&self) -> &Separators {
        &self.separators
    }

    /// The blocks, with digests of the bytes behind the prefix that all keys share.
    pub(super) fn bounds(&self) -> Vec<Bounds> {
        let rebased = |(bounds, skip): &(Bounds, usize)| Bounds {
            first: self.rebased(bounds.first, *skip),
            last: self.rebased(bounds.last, *skip),
            records: bounds.records,
        };
        self.blocks.iter().map(rebased).collect()
    }

    /// Rebases a digest to a shorter shared prefix. The bytes in between are the same in all keys that there were when
    /// the digest was made.
    fn rebased(&self, digest: u64, skip: usize) -> u64 {
        let between = &self.first[self.skip..skip];
        let known = between.len().min(DIGEST);
        let mut bytes = [0; DIGEST];
        bytes[..known].copy_from_slice(&between[..known]);
        bytes[known..].copy_from_slice(&digest.to_be_bytes()[..DIGEST - known]);
        u64::from_be_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_behind_what_all_keys_share() {
        let blocks: [[&[u8]; 2]; 4] = [
            [b"commonalpha1", b"commonalpha22"],
            [b"commonalpha3", b"commonalpha3\0"],
            [b"commonbeta", b"commonbeta"],
            [b"comn", b"con"],
        ];
        for count in 1..=blocks.len() {
            let mut boundaries = Boundaries::default();
            blocks[..count].iter().for_each(|[first, last]| boundaries.push(first, last, 2));
            let skip = common_prefix_len(blocks[0][0], blocks[count - 1][1]);
            let wanted = blocks[..count].iter().map(|[first, last]| Bounds {
                first: digest(first, skip),
                last: digest(last, skip),
                records: 2,
            });
            assert_eq!(boundaries.bounds(), wanted.collect::<Vec<_>>());
            assert_eq!(
                (boundaries.first_key(), boundaries.last_key(), boundaries.bounds().len()),
                (blocks[0][0], blocks[count - 1][1], count)
            );
        }
    }
}
