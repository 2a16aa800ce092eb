//! The contents of records, which allow every byte that is read back to be checked.
//!
//! A value begins with eight bytes, little-endian: the version in the lower 48 bits and a check of key and version in
//! the upper 16. As much of its key as fits follows, then filler derived from key and version.

use std::fmt;

use super::permutation::mix;

/// Bytes of the version with its check, the smallest value.
pub(crate) const VERSION_BYTES: usize = 8;
/// Bits of a version.
pub(crate) const VERSION_BITS: u32 = 48;
/// Weight of the version in the filler's seed, so that it and the key do not cancel out.
const VERSION_WEIGHT: u64 = 0xd6e8_feb8_6659_fd93;

/// The error in a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The value is missing.
    Missing,
    /// A scan returned it at the wrong position.
    Order,
    /// Its length differs.
    Length { found: usize, written: usize },
    /// A byte differs from what was written with this version.
    Byte { at: usize, version: u64 },
    /// The version is older than one that was acknowledged before the read began.
    Old { version: u64, acknowledged: u64 },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Missing => write!(f, "it has no value"),
            Wrong::Order => {
                write!(f, "a scan gave it out of order, or instead of the record that it should begin with")
            }
            Wrong::Length { found, written } => write!(f, "its value has {found} bytes, and {written} were written"),
            Wrong::Byte { at, version } => {
                write!(f, "byte {at} of its value is not what was written with version {version:#x}")
            }
            Wrong::Old { version, acknowledged } => {
                write!(f, "its version {version:#x} is older than {acknowledged:#x}, which was acknowledged")
            }
        }
    }
}

/// A number that identifies a key; distinct for all keys of eight bytes.
pub(crate) fn identity(key: &[u8]) -> u64 {
    let (words, rest) = key.as_chunks::<8>();
    let whole = words.iter().fold(0, |state, word| mix(state ^ u64::from_le_bytes(*word)));
    match rest {
        [] => whole,
        _ => {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            mix(mix(whole ^ u64::from_le_bytes(word)).wrapping_add(rest.len() as u64))
        }
    }
}

/// The filler's words.
#[derive(Debug, Clone, Copy)]
struct Filler {
    state: u64,
}

impl Filler {
    fn new(identity: u64, version: u64) -> Self {
        Filler { state: identity ^ version.wrapping_mul(VERSION_WEIGHT) }
    }

    /// The first eight bytes of the value.
    fn head(&self, version: u64) -> [u8; 8] {
        ((mix(self.state) << VERSION_BITS) | version).to_le_bytes()
    }

    /// The word with this number, counted from 0. Words are independent, so that the processor computes several at
    /// once.
    fn word(self, number: usize) -> [u8; 8] {
        mix(self.state.wrapping_add(number as u64).wrapping_add(1)).to_le_bytes()
    }
}

/// Writes the value of `key`, which has this [`identity`], at `version` to `buffer`: `size` bytes, at least
/// [`VERSION_BYTES`].
pub(crate) fn fill(buffer: &mut Vec<u8>, key: &[u8], identity: u64, version: u64, size: usize) {
    let filler = Filler::new(identity, version);
    buffer.resize(size, 0);
    let (head, body) = buffer.split_first_chunk_mut().expect("values have at least eight bytes");
    *head = filler.head(version);
    let (copy, filled) = body.split_at_mut(key.len().min(body.len()));
    copy.copy_from_slice(&key[..copy.len()]);
    let (words, rest) = filled.as_chunks_mut();
    words.iter_mut().enumerate().for_each(|(number, word)| *word = filler.word(number));
    rest.copy_from_slice(&filler.word(words.len())[..rest.len()]);
}

/// Checks every byte of a value that was read for `key`, which has this [`identity`], and that its version is at least
/// `acknowledged`.
pub(crate) fn check(
    value: Option<&[u8]>,
    key: &[u8],
    identity: u64,
    size: usize,
    acknowledged: u64,
) -> Result<(), Wrong> {
    let value = value.ok_or(Wrong::Missing)?;
    let (true, Some((head, body))) = (value.len() == size, value.split_first_chunk()) else {
        return Err(Wrong::Length { found: value.len(), written: size });
    };
    let version = u64::from_le_bytes(*head) & ((1 << VERSION_BITS) - 1);
    let filler = Filler::new(identity, version);
    if *head != filler.head(version) {
        return Err(Wrong::Byte { at: 0, version });
    }
    let copied = key.len().min(body.len());
    let (copy, filled) = body.split_at(copied);
    if let Some(at) = difference(copy, &key[..copied]) {
        return Err(Wrong::Byte { at: VERSION_BYTES + at, version });
    }
    for (number, part) in filled.chunks(8).enumerate() {
        if let Some(at) = difference(part, &filler.word(number)[..part.len()]) {
            return Err(Wrong::Byte { at: VERSION_BYTES + copied + number * 8 + at, version });
        }
    }
    if version < acknowledged { Err(Wrong::Old { version, acknowledged }) } else { Ok(()) }
}

fn difference(found: &[u8], written: &[u8]) -> Option<usize> {
    if found == written { None } else { found.iter().zip(written).position(|(a, b)| a != b) }
}

#[cfg(test)]
mod tests {
    use super::{check as check_identified, fill as fill_identified, *};

    fn fill(buffer: &mut Vec<u8>, key: &[u8], version: u64, size: usize) {
        fill_identified(buffer, key, identity(key), version, size);
    }

    fn check(value: Option<&[u8]>, key: &[u8], size: usize, acknowledged: u64) -> Result<(), Wrong> {
        check_identified(value, key, identity(key), size, acknowledged)
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for (key, size) in
            [(&b"k"[..], 56), (b"a longer key, longer than the value", 24), (b"12345678", 8), (b"12345678", 61)]
        {
            let mut value = Vec::new();
            fill(&mut value, key, 77, size);
            assert_eq!((value.len(), check(Some(&value), key, size, 77)), (size, Ok(())));
            for bit in 0..size * 8 {
                value[bit / 8] ^= 1 << (bit % 8);
                assert!(check(Some(&value), key, size, 0).is_err(), "bit {bit} of {size} bytes");
                value[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn old_missing_foreign_and_short_values_are_noticed() {
        let mut value = Vec::new();
        fill(&mut value, b"key", 5, 40);
        assert_eq!(check(Some(&value), b"key", 40, 6), Err(Wrong::Old { version: 5, acknowledged: 6 }));
        assert_eq!(check(None, b"key", 40, 0), Err(Wrong::Missing));
        assert_eq!(check(Some(&value[..39]), b"key", 40, 0), Err(Wrong::Length { found: 39, written: 40 }));
        assert_eq!(check(Some(&value), b"kez", 40, 0), Err(Wrong::Byte { at: 0, version: 5 }));
    }

    #[test]
    fn identities_differ() {
        let keys: Vec<Vec<u8>> = (0..5000u32)
            .flat_map(|n| [n.to_le_bytes().to_vec(), vec![0; n as usize % 700], vec![1; n as usize % 700]])
            .collect();
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        let identities: std::collections::BTreeSet<_> = distinct.iter().map(|key| identity(key)).collect();
        assert_eq!(identities.len(), distinct.len());
    }
}
