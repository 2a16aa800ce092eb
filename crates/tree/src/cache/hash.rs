//! The hash of a key, and the purpose of its bits.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;

/// Hash of a key within its keyspace: bits 0..32 pick the bucket, 32..40 are the tag and 32..48 the long tag, 40..54
/// the stripe, 56..64 the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHash(pub(super) u64);

impl KeyHash {
    /// The shard of the key, of `shards` (a power of two up to 256).
    pub(super) fn shard(self, shards: usize) -> usize {
        (self.0 >> 56) as usize & (shards - 1)
    }

    /// Bits stored in a link, so that a search skips most other records without comparing keys.
    pub(super) fn tag(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// A longer tag, for remembered keys of which nothing else is stored.
    pub(super) fn long_tag(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Bits that pick the bucket.
    pub(super) fn bucket(self) -> u32 {
        self.0 as u32
    }

    /// The write counter of the key, of `stripes` (a power of two up to 2^14).
    pub(super) fn stripe(self, stripes: usize) -> usize {
        (self.0 >> 40) as usize & (stripes - 1)
    }
}

/// Computes hashes, under the seed of one cache.
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
