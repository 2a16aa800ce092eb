//! The records of a stretch, as they were collected and then by hash and key.

use crate::engine::RecordRef;

/// Where a record is among the bytes, and what decides whether it is given.
#[derive(Debug, Clone, Copy)]
struct Entry {
    hash: u64,
    /// Of two records of a key the one that is later counts.
    age: u64,
    at: usize,
    key_len: usize,
    /// `None` if it says that the key has no value.
    value_len: Option<usize>,
}

/// Records with their keys and values.
#[derive(Debug, Default)]
pub(super) struct Records {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Records {
    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    /// Has no memory any more.
    pub(super) fn give_back(&mut self) {
        *self = Records::default();
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// One more; no value is a tombstone. The later one of a key has the greater `age`.
    pub(super) fn push(&mut self, hash: u64, age: u64, key: &[u8], value: Option<&[u8]>) {
        self.entries.push(Entry {
            hash,
            age,
            at: self.bytes.len(),
            key_len: key.len(),
            value_len: value.map(<[u8]>::len),
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    /// Leaves the latest record of each key that has a value by it.
    pub(super) fn keep_newest(&mut self) {
        let bytes = &self.bytes;
        let key = |entry: &Entry| &bytes[entry.at..][..entry.key_len];
        self.entries.sort_unstable_by(|a, b| (a.hash, key(a), b.age).cmp(&(b.hash, key(b), a.age)));
        self.entries.dedup_by(|later, first| key(later) == key(first));
        self.entries.retain(|entry| entry.value_len.is_some());
    }

    /// The record at a position.
    pub(super) fn get(&self, position: usize) -> RecordRef<'_> {
        let entry = &self.entries[position];
        let (key, rest) = self.bytes[entry.at..].split_at(entry.key_len);
        (key, &rest[..entry.value_len.unwrap_or(0)])
    }
}
