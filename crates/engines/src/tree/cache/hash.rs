//! The hash of a key, and which part of it serves what.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;

/// Hash of a key within its keyspace: bits 0..32 pick the bucket, 32..40 are the tag and 32..48 the long one, 40..54
/// the stripe, 56..64 the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHash(pub(super) u64);

impl KeyHash {
    /// Which of `shards` (a power of two up to 256) holds the key.
    pub(super) fn shard(self, shards: usize) -> usize {
        (self.0 >> 56) as usize & (shards - 1)
    }

    /// Bits that a link carries, so that a search passes most foreign records without comparing keys.
    pub(super) fn tag(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// More bits of the kind, for keys of which nothing else is kept.
    pub(super) fn long_tag(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Bits for the table of the shard.
    pub(super) fn bucket(self) -> u32 {
        self.0 as u32
    }

    /// Which of `stripes` (a power of two up to 2^14) counts the writes of the key.
    pub(super) fn stripe(self, stripes: usize) -> usize {
        (self.0 >> 40) as usize & (stripes - 1)
    }
}

/// Makes hashes, under the seed of one cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyHasher {
    seed: u64,
}

impl KeyHasher {
    pub(super) fn new(seed: u64) -> Self {
        KeyHasher { seed }
    }

    #[inline]
    pub(super) fn hash(self, keyspace: u16, key: &[u8]) -> KeyHash {
        let mut hasher = FixedState::with_seed(self.seed ^ (u64::from(keyspace) << 20)).build_hasher();
        hasher.write(key);
        KeyHash(hasher.finish())
    }
}
