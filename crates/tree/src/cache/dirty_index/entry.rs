//! An entry of a leaf: the address of a record, the window since which it is dirty, and a part of its key.

use super::super::handle::Address;

/// Bytes of an entry.
pub(super) const ENTRY: usize = size_of::<u64>();
/// Bytes of a key that an entry's head holds.
pub(super) const HEAD: usize = 3;

const WINDOW_SHIFT: u32 = 32;
const HEAD_SHIFT: u32 = 40;

/// An entry: a head above a window above an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(u64);

impl Entry {
    pub(super) fn new(head: u32, window: u8, address: Address) -> Entry {
        Entry(u64::from(head) << HEAD_SHIFT | u64::from(window) << WINDOW_SHIFT | u64::from(address.0))
    }

    pub(super) fn from_bytes(bytes: [u8; ENTRY]) -> Entry {
        Entry(u64::from_le_bytes(bytes))
    }

    pub(super) fn to_bytes(self) -> [u8; ENTRY] {
        self.0.to_le_bytes()
    }

    pub(super) fn head(self) -> u32 {
        (self.0 >> HEAD_SHIFT) as u32
    }

    /// The lowest bits of the window's number.
    pub(super) fn window(self) -> u8 {
        (self.0 >> WINDOW_SHIFT) as u8
    }

    pub(super) fn address(self) -> Address {
        Address(self.0 as u32)
    }
}

/// A key qualified by its keyspace; the keys of one keyspace are adjacent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cache) struct Key<'k> {
    pub(in crate::cache) keyspace: u16,
    pub(in crate::cache) bytes: &'k [u8],
}

impl Key<'_> {
    /// Bytes of the keyspace's number, which precede those of the key.
    const NUMBER: usize = size_of::<u16>();

    /// The byte at `place`, or zero after the end.
    fn byte(self, place: usize) -> u8 {
        match place.checked_sub(Key::NUMBER) {
            Some(place) => self.bytes.get(place).copied().unwrap_or_default(),
            None => self.keyspace.to_be_bytes()[place],
        }
    }

    /// The head: the bytes after the first `common`.
    pub(super) fn head(self, common: usize) -> u32 {
        (common..common + HEAD).fold(0, |head, place| head << 8 | u32::from(self.byte(place)))
    }

    /// The first bytes as a number; keys with different numbers are ordered by them.
    pub(super) fn beginning(self) -> u128 {
        let mut bytes = [0; size_of::<u64>()];
        let len = self.bytes.len().min(bytes.len());
        bytes[..len].copy_from_slice(&self.bytes[..len]);
        u128::from(self.keyspace) << u64::BITS | u128::from(u64::from_be_bytes(bytes))
    }

    /// Length of the common prefix.
    pub(super) fn common(self, other: Key<'_>) -> usize {
        if self.keyspace != other.keyspace {
            return usize::from(self.keyspace.to_be_bytes()[0] == other.keyspace.to_be_bytes()[0]);
        }
        Key::NUMBER + self.bytes.iter().zip(other.bytes).take_while(|(one, other)| one == other).count()
    }

    /// The shortest separator: above `below` and not above this key.
    pub(super) fn apart(self, below: Key<'_>) -> Fence {
        if self.keyspace != below.keyspace {
            return Fence { keyspace: self.keyspace, bytes: Box::default() };
        }
        let common = self.common(below) - Key::NUMBER;
        Fence { keyspace: self.keyspace, bytes: self.bytes[..common + 1].into() }
    }
}

/// The lower bound of a leaf.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fence {
    pub(super) keyspace: u16,
    pub(super) bytes: Box<[u8]>,
}

impl Fence {
    /// Below all keys.
    pub(super) fn first() -> Fence {
        Fence { keyspace: 0, bytes: Box::default() }
    }

    pub(super) fn key(&self) -> Key<'_> {
        Key { keyspace: self.keyspace, bytes: &self.bytes }
    }
}

impl Key<'_> {
    pub(super) fn to_owned(self) -> Fence {
        Fence { keyspace: self.keyspace, bytes: self.bytes.into() }
    }

    /// Its first bytes, keyspace number included, at most `most`.
    pub(super) fn prefix(self, most: usize) -> Vec<u8> {
        let bytes = &self.bytes[..self.bytes.len().min(most - Key::NUMBER)];
        [&self.keyspace.to_be_bytes(), bytes].concat()
    }

    /// Length of the common prefix with these bytes.
    pub(super) fn common_with_prefix(self, prefix: &[u8]) -> usize {
        (0..prefix.len())
            .take_while(|place| *place < Key::NUMBER + self.bytes.len() && self.byte(*place) == prefix[*place])
            .count()
    }

    /// Compares the fence with all keys that have this prefix: equal if the fence has it too.
    pub(super) fn order_with_prefix(self, prefix: &[u8]) -> std::cmp::Ordering {
        let (number, bytes) = prefix.split_at(prefix.len().min(Key::NUMBER));
        let of_number = self.keyspace.to_be_bytes()[..number.len()].cmp(number);
        of_number.then_with(|| self.bytes[..self.bytes.len().min(bytes.len())].cmp(bytes))
    }
}
