//! Digests: keys as short byte strings of one size, in key order.

use ecotone_substrate::{model, page::prefix_len};

/// Bytes of the longest digest.
pub(super) const LONGEST: usize = 64;

/// The first bytes of a key after a prefix, zero-padded.
pub(super) type Digest = [u8; LONGEST];

/// The position of a key relative to the keys with some prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestPosition {
    /// Below all keys with the prefix.
    Below,
    /// Among them.
    At(Digest),
    /// Above all keys with the prefix.
    Above,
}

/// Computes digests of `size` bytes for the keys that share a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digester {
    pub(super) prefix: Vec<u8>,
    pub(super) size: usize,
}

impl Digester {
    /// The position of a key. It never descends for ascending keys. Keys that agree in the bytes of a digest share one.
    #[inline]
    pub(super) fn place(&self, key: &[u8]) -> DigestPosition {
        match key.strip_prefix(self.prefix.as_slice()) {
            Some(rest) => {
                let mut digest = [0; LONGEST];
                let bytes = rest.len().min(self.size);
                digest[..bytes].copy_from_slice(&rest[..bytes]);
                DigestPosition::At(digest)
            }
            None if key < self.prefix.as_slice() => DigestPosition::Below,
            None => DigestPosition::Above,
        }
    }

    /// The least key with this digest.
    pub(super) fn least_key(&self, digest: &[u8]) -> Vec<u8> {
        let significant = digest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        [&self.prefix, &digest[..significant]].concat()
    }

    /// Shortens the prefix to what it shares with `key`, and returns the removed bytes, with which each digest then
    /// begins.
    pub(super) fn admit(&mut self, key: &[u8]) -> Vec<u8> {
        let shared = prefix_len(&self.prefix, Some(key));
        self.prefix.split_off(shared)
    }
}

/// The relative position of `at` between `low` and `high`, from 0 to 1, computed from the first eight bytes from where
/// the two differ; 0 if they are equal (trap 13).
pub(super) fn way(low: &[u8], at: &[u8], high: &[u8]) -> f64 {
    let common = prefix_len(low, Some(high));
    let number = |bytes: &[u8]| model::digest(bytes, common);
    let (low, at, high) = (number(low), number(at), number(high));
    if high <= low {
        return 0.0;
    }
    at.saturating_sub(low).min(high - low) as f64 / (high - low) as f64
}

/// The least digest above this one, in its first `size` bytes; `None` above the last.
pub(super) fn next(digest: &[u8], size: usize) -> Option<Digest> {
    let mut next = [0; LONGEST];
    next[..size].copy_from_slice(&digest[..size]);
    for byte in next[..size].iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return Some(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digester(prefix: &str) -> Digester {
        Digester { prefix: prefix.into(), size: 8 }
    }

    #[test]
    fn places_keep_the_order_of_keys() {
        let digester = digester("usr/");
        let keys =
            ["etc/passwd", "usr", "usr/", "usr/a", "usr/b", "usr/bin/aaaaaaaa", "usr/bin/zzzzzzzz", "usr0", "var"];
        let rank = |key: &str| match digester.place(key.as_bytes()) {
            DigestPosition::Below => (0, [0; LONGEST]),
            DigestPosition::At(digest) => (1, digest),
            DigestPosition::Above => (2, [0; LONGEST]),
        };
        assert!(keys.is_sorted_by_key(|key| rank(key)));
        assert_eq!([rank("usr").0, rank("usr/").0, rank("usr0").0], [0, 1, 2]);
    }

    #[test]
    fn a_prefix_shrinks_to_what_is_shared() {
        let mut digester = digester("usr/bin");
        assert_eq!(digester.admit(b"usr/bin/ls"), b"");
        assert_eq!(digester.admit(b"usr/lib"), b"bin");
        assert_eq!(digester.prefix, b"usr/");
        assert_eq!(digester.admit(b""), b"usr/");
    }

    #[test]
    fn the_least_key_of_a_digest_has_it() {
        let digester = digester("usr/");
        for key in ["usr/", "usr/a", "usr/lib/x86_64"] {
            let DigestPosition::At(digest) = digester.place(key.as_bytes()) else { panic!("{key} has the prefix") };
            let least = digester.least_key(&digest[..8]);
            assert!(least.as_slice() <= key.as_bytes());
            assert_eq!(digester.place(&least), DigestPosition::At(digest));
        }
    }

    #[test]
    fn trap_13_there_is_no_way_between_equal_digests() {
        assert_eq!(way(b"same....", b"same....", b"same...."), 0.0);
        assert_eq!(way(b"aaaaaaaa", b"aaaaaaaa", b"aaaaaaab"), 0.0);
        let wide = |last: u8| [[7; 8], [last; 8]].concat();
        assert_eq!([0, 51, 255].map(|at| way(&wide(0), &wide(at), &wide(255))), [0.0, 0.2, 1.0]);
    }

    #[test]
    fn the_next_digest_carries() {
        assert_eq!(next(&[0, 0, 0, 0, 0, 0, 1, 255], 8).unwrap()[..8], [0, 0, 0, 0, 0, 0, 2, 0]);
        assert_eq!(next(&[255; 8], 8), None);
    }
}
