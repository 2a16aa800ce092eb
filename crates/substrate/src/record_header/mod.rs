//! The header word of a record in memory: lengths, kind, seal and version. It is also the record's lock
//! (hash-protocol.md, invariant 5).
//!
//! Hot logs write it to files without seal and version (`docs/format/hash.md`, "Record").

mod lock;

pub use lock::{Locked, RecordHeaderWord};

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderKind {
    /// No record: it was given up, or is still being written.
    Invalid,
    /// The key has the value.
    Value,
    /// The key is deleted.
    Tombstone,
}

/// Lengths, kind, seal and version, which one store changes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader(u64);

const KEY_LEN: u64 = (1 << 10) - 1;
const VALUE_LEN_SHIFT: u32 = 10;
const VALUE_LEN: u64 = ((1 << 11) - 1) << VALUE_LEN_SHIFT;
const KIND_SHIFT: u32 = 21;
const KIND: u64 = 7 << KIND_SHIFT;
const SEALED: u64 = 1 << 24;
/// The lowest version bit. The version takes the highest bits of the word, so it wraps around without touching others.
const LOCKED: u64 = 1 << 25;

impl RecordHeader {
    /// From the word.
    #[inline]
    pub const fn from_word(word: u64) -> RecordHeader {
        RecordHeader(word)
    }

    /// The word.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// A live record of version 0, not sealed; without a value a tombstone.
    #[inline]
    pub fn live(key_len: usize, value_len: Option<usize>) -> RecordHeader {
        RecordHeader(key_len as u64 - 1).with_value(value_len)
    }

    /// The same header with a value of another length, or none.
    #[inline]
    pub fn with_value(self, value_len: Option<usize>) -> RecordHeader {
        let kind = if value_len.is_some() { HeaderKind::Value } else { HeaderKind::Tombstone };
        let lengths = self.0 & !VALUE_LEN | (value_len.unwrap_or(0) as u64) << VALUE_LEN_SHIFT;
        RecordHeader(lengths).with_kind(kind)
    }

    /// The same header with another kind.
    #[inline]
    pub fn with_kind(self, kind: HeaderKind) -> RecordHeader {
        RecordHeader(self.0 & !KIND | (kind as u64) << KIND_SHIFT)
    }

    /// The same header, sealed.
    #[inline]
    pub fn as_sealed(self) -> RecordHeader {
        RecordHeader(self.0 | SEALED)
    }

    /// The next version: locked if it was not, and the other way round.
    #[inline]
    pub fn next(self) -> RecordHeader {
        RecordHeader(self.0.wrapping_add(LOCKED))
    }

    /// The form in files: without version and seal. `None` for a reserved kind.
    #[inline]
    pub fn stored(self) -> RecordHeader {
        RecordHeader(self.0 & (KEY_LEN | VALUE_LEN)).with_kind(self.kind())
    }

    /// Bytes of the key.
    #[inline]
    pub fn key_len(self) -> usize {
        (self.0 & KEY_LEN) as usize + 1
    }

    /// Bytes of the value.
    #[inline]
    pub fn value_len(self) -> usize {
        ((self.0 & VALUE_LEN) >> VALUE_LEN_SHIFT) as usize
    }

    /// Reserved kinds are never written in memory.
    #[inline]
    pub fn kind(self) -> HeaderKind {
        match (self.0 & KIND) >> KIND_SHIFT {
            1 => HeaderKind::Value,
            2 => HeaderKind::Tombstone,
            _ => HeaderKind::Invalid,
        }
    }

    /// Whether the key has a value.
    #[inline]
    pub fn has_value(self) -> bool {
        self.kind() == HeaderKind::Value
    }

    /// Whether the record is final; the key's next one is appended.
    #[inline]
    pub fn sealed(self) -> bool {
        self.0 & SEALED != 0
    }

    /// Whether the record was changed or sealed since it was new.
    #[inline]
    pub fn was_changed(self) -> bool {
        self.0 >= LOCKED << 1
    }

    /// Whether a thread holds the lock.
    #[inline]
    pub fn locked(self) -> bool {
        self.0 & LOCKED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        for (key_len, value_len) in [(1, None), (1, Some(0)), (1024, Some(876)), (1, Some(1899)), (1024, None)] {
            let state = RecordHeader::live(key_len, value_len);
            let kind = if value_len.is_some() { HeaderKind::Value } else { HeaderKind::Tombstone };
            for state in [state, state.as_sealed(), state.next(), state.as_sealed().next()] {
                assert_eq!((state.key_len(), state.value_len(), state.kind()), (key_len, value_len.unwrap_or(0), kind));
                let other = state.with_value(Some(5));
                assert_eq!((other.key_len(), other.value_len(), other.kind()), (key_len, 5, HeaderKind::Value));
                assert_eq!((other.sealed(), other.locked()), (state.sealed(), state.locked()));
                assert_eq!(state.with_kind(HeaderKind::Invalid).kind(), HeaderKind::Invalid);
            }
            assert!(!state.sealed() && state.as_sealed().sealed() && !state.locked() && state.next().locked());
        }
    }

    #[test]
    fn a_full_version_begins_anew_and_nothing_else_changes() {
        let state = RecordHeader::live(8, Some(100)).as_sealed();
        let last = RecordHeader::from_word(state.word() | u64::MAX << 25);
        assert!(last.locked());
        assert_eq!(last.next(), state);
    }
}
