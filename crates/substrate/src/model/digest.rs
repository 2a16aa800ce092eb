//! Keys as numbers.

/// Bytes of a key that its digest takes in.
pub const DIGEST: usize = 8;

/// The eight bytes of a key behind its first `skip`, as a big-endian number; bytes that the key does not have are zero.
/// Of keys that agree in their first `skip` bytes, a greater one never has a smaller digest.
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

/// The smallest key with this prefix and at least this digest behind it: among keys with the prefix, those at or above
/// the fence are exactly those whose digest is at or above `digest`.
pub fn fence(prefix: &[u8], digest: u64) -> Vec<u8> {
    let significant = DIGEST - digest.trailing_zeros() as usize / 8;
    [prefix, &digest.to_be_bytes()[..significant]].concat()
}
