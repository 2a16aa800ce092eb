//! Key heads: the four bytes behind an expected prefix, as a number. Two heads mostly tell which of two keys is greater
//! (lsm-protocol.md, invariant 6).

/// The prefix that keys are expected to have. A head is taken from the bytes behind it.
#[derive(Debug, Default)]
pub(super) struct Heads {
    prefix: Box<[u8]>,
}

impl Heads {
    /// Heads behind this prefix.
    pub(super) fn behind(prefix: &[u8]) -> Heads {
        Heads { prefix: prefix.into() }
    }

    /// The head of a key, which is never above that of a greater key. A key without the prefix has 0 if it is below the
    /// prefix, and the largest head if it is above.
    #[inline]
    pub(super) fn of(&self, key: &[u8]) -> u32 {
        match key.strip_prefix(&*self.prefix) {
            Some(rest) => first_four(rest),
            None if *key < *self.prefix => 0,
            None => u32::MAX,
        }
    }
}

#[inline]
fn first_four(bytes: &[u8]) -> u32 {
    let mut head = [0; 4];
    let known = bytes.len().min(4);
    head[..known].copy_from_slice(&bytes[..known]);
    u32::from_be_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_do_not_fall_from_key_to_key() {
        let mut keys: Vec<Vec<u8>> = vec![vec![], vec![0], vec![255; 9]];
        for prefix in [&b"a"[..], b"user", b"user/", b"user/7", b"user0", b"usf"] {
            for rest in [&b""[..], b"\0", b"\0\0\0\0\0", b"1", b"1234", b"12345", b"\xff\xff\xff\xff\xff"] {
                keys.push([prefix, rest].concat());
            }
        }
        keys.sort();
        for prefix in [&b""[..], b"user/", b"usf", b"\0", b"zz"] {
            let heads = Heads::behind(prefix);
            assert!(keys.is_sorted_by_key(|key| heads.of(key)), "{prefix:?}");
        }
        assert_eq!(Heads::behind(b"user/").of(b"user/1234567"), 0x31323334);
        assert_eq!((Heads::behind(b"b").of(b"a"), Heads::behind(b"b").of(b"c")), (0, u32::MAX));
    }
}
