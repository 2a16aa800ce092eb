//! The records of a hash range, first as collected, then by hash and key.

use ecotone_engine::contract::RecordRef;

/// Position of a record in the bytes, and its sort key.
#[derive(Debug, Clone, Copy)]
struct Entry {
    hash: u64,
    /// Of two records of a key the one with the greater age is visible.
    age: u64,
    at: usize,
    key_len: usize,
    /// `None` for a tombstone.
    value_len: Option<usize>,
}

/// Records with their keys and values.
#[derive(Debug, Default)]
pub(super) struct Records {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Records {
    /// Removes all records.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    /// Frees the memory.
    pub(super) fn give_back(&mut self) {
        *self = Records::default();
    }

    /// Number of records.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a record; no value is a tombstone. The newer record of a key has the greater `age`.
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

    /// Keeps the newest record of each key, unless that is a tombstone.
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
