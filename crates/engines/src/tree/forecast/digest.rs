//! Keys as short byte strings of one size, in the order of the keys.

use ecotone_substrate::{model, page::prefix_len};

/// Bytes of the longest digest.
pub(super) const LONGEST: usize = 64;

/// The first bytes of a key behind a prefix, zero-padded.
pub(super) type Digest = [u8; LONGEST];

/// Where a key lies as seen from the keys with some prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Below all of them.
    Below,
    /// Among them.
    At(Digest),
    /// Above all of them.
    Above,
}

/// Makes digests of `size` bytes of the keys that share a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digester {
    pub(super) prefix: Vec<u8>,
    pub(super) size: usize,
}

impl Digester {
    /// Keys in ascending order have places that do not descend. Keys that agree in all bytes that a digest has room for
    /// share one.
    #[inline]
    pub(super) fn place(&self, key: &[u8]) -> Place {
        match key.strip_prefix(self.prefix.as_slice()) {
            Some(rest) => {
                let mut digest = [0; LONGEST];
                let bytes = rest.len().min(self.size);
                digest[..bytes].copy_from_slice(&rest[..bytes]);
                Place::At(digest)
            }
            None if key < self.prefix.as_slice() => Place::Below,
            None => Place::Above,
        }
    }

    /// The least key that has a digest.
    pub(super) fn least_key(&self, digest: &[u8]) -> Vec<u8> {
        let significant = digest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        [&self.prefix, &digest[..significant]].concat()
    }

    /// Gives up what the prefix does not share with `key`, and returns the bytes that each digest then begins with.
    pub(super) fn admit(&mut self, key: &[u8]) -> Vec<u8> {
        let shared = prefix_len(&self.prefix, Some(key));
        self.prefix.split_off(shared)
    }
}

/// How far `at` is on the way from `low` to `high`, from 0 to 1. It goes by the first eight bytes from where the two
/// differ; between equal ones there is no way, and the answer is 0 (trap 13).
pub(super) fn way(low: &[u8], at: &[u8], high: &[u8]) -> f64 {
    let common = prefix_len(low, Some(high));
    let number = |bytes: &[u8]| model::digest(bytes, common);
    let (low, at, high) = (number(low), number(at), number(high));
    if high <= low {
        return 0.0;
    }
    at.saturating_sub(low).min(high - low) as f64 / (high - low) as f64
}

/// The least digest above one in its first `size` bytes; `None` above the last.
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
            Place::Below => (0, [0; LONGEST]),
            Place::At(digest) => (1, digest),
            Place::Above => (2, [0; LONGEST]),
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
            let Place::At(digest) = digester.place(key.as_bytes()) else { panic!("{key} has the prefix") };
            let least = digester.least_key(&digest[..8]);
            assert!(least.as_slice() <= key.as_bytes());
            assert_eq!(digester.place(&least), Place::At(digest));
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
