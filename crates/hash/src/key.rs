//! A key with its hash.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A key with its hash. Files store records in hash order, so the hash function never changes (`docs/format/hash.md`,
/// "Terms").
#[derive(Debug, Clone, Copy)]
pub(super) struct Key<'k> {
    pub(super) bytes: &'k [u8],
    pub(super) hash: u64,
}

impl<'k> Key<'k> {
    /// A placeholder.
    pub(super) const NONE: Key<'static> = Key { bytes: &[], hash: 0 };

    /// Hashes the key with the seed of its database.
    #[inline]
    pub(super) fn new(bytes: &'k [u8], seed: u64) -> Key<'k> {
        Key { bytes, hash: xxh3_64_with_seed(bytes, seed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_the_same_in_every_version() {
        let hashes = [(&b"a"[..], 0), (b"a", 7), (b"a longer key, of more than 16 bytes", 7)]
            .map(|(key, seed)| Key::new(key, seed).hash);
        assert_eq!(hashes, [0xe6c6_32b6_1e96_4e1f, 0x9ed5888bc5a2a094, 0x3f8ff163dfed047f]);
    }
}
