//! Digests: parts of keys as numbers.

/// Bytes of a key in its digest.
pub const DIGEST: usize = 8;

/// The eight bytes of a key behind its first `skip`, as a big-endian number, zero-padded. Of two keys that agree in
/// their first `skip` bytes, the greater one never has the smaller digest.
#[inline]
pub fn digest(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(first) = rest.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; DIGEST];
    padded[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(padded)
}

/// The smallest key with this prefix and at least this digest. Among keys with the prefix, exactly those at or above
/// the fence have a digest at or above `digest`.
pub fn fence(prefix: &[u8], digest: u64) -> Vec<u8> {
    let significant = DIGEST - digest.trailing_zeros() as usize / 8;
    [prefix, &digest.to_be_bytes()[..significant]].concat()
}
