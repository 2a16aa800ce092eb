//! Self-checking values: every byte follows from the key and a version.

/// Bytes of a value.
pub(crate) const VALUE: usize = 92;

/// The value of `key` at `version`.
pub(crate) fn value(key: u64, version: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(VALUE + 8);
    bytes.extend_from_slice(&version.to_le_bytes());
    let mut word = key.rotate_left(32) ^ u64::from(version);
    while bytes.len() < VALUE {
        word = mix(word);
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(VALUE);
    bytes
}

/// The version of a value, if every byte of it belongs to `key`.
pub(crate) fn version(key: u64, bytes: &[u8]) -> Option<u32> {
    let version = u32::from_le_bytes(*bytes.first_chunk()?);
    (value(key, version) == bytes).then_some(version)
}

/// The finaliser of SplitMix64: a bijection that spreads every bit.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_noticed() {
        let good = value(7, 3);
        assert_eq!(good.len(), VALUE);
        assert_eq!(version(7, &good), Some(3));
        assert_eq!(version(8, &good), None);
        assert_eq!(version(7, &good[..VALUE - 1]), None);
        assert_eq!(version(7, &[]), None);
        for at in 0..VALUE {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(version(7, &bad), None, "byte {at}");
        }
    }
}
