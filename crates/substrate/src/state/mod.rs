//! The word of a record in memory that says what it is: lengths, kind, seal and version; and the lock that it is
//! (decision 10, invariant 5).
//!
//! Hot logs write it to files without seal and version (`docs/format/hash.md`, "Record").

mod lock;

pub use lock::{Locked, StateWord};

/// What a record says of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: it was allocated in vain, or is still being written.
    Invalid,
    /// It has the value.
    Value,
    /// The key has none.
    Tombstone,
}

/// Lengths, kind, seal and version, which change by one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State(u64);

const KEY_LEN: u64 = (1 << 10) - 1;
const VALUE_LEN_SHIFT: u32 = 10;
const VALUE_LEN: u64 = ((1 << 11) - 1) << VALUE_LEN_SHIFT;
const KIND_SHIFT: u32 = 21;
const KIND: u64 = 7 << KIND_SHIFT;
const SEALED: u64 = 1 << 24;
/// The least of the version's bits. They are the highest of the word, so a version that is full begins anew without
/// touching others.
const LOCKED: u64 = 1 << 25;

impl State {
    /// From the word.
    #[inline]
    pub const fn from_word(word: u64) -> State {
        State(word)
    }

    /// The word.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// A live record of version 0, not sealed; without a value a tombstone.
    #[inline]
    pub fn live(key_len: usize, value_len: Option<usize>) -> State {
        State(key_len as u64 - 1).with_value(value_len)
    }

    /// With a value of another length, or none.
    #[inline]
    pub fn with_value(self, value_len: Option<usize>) -> State {
        let kind = if value_len.is_some() { Kind::Value } else { Kind::Tombstone };
        let lengths = self.0 & !VALUE_LEN | (value_len.unwrap_or(0) as u64) << VALUE_LEN_SHIFT;
        State(lengths).with_kind(kind)
    }

    /// Of another kind.
    #[inline]
    pub fn with_kind(self, kind: Kind) -> State {
        State(self.0 & !KIND | (kind as u64) << KIND_SHIFT)
    }

    /// Sealed.
    #[inline]
    pub fn as_sealed(self) -> State {
        State(self.0 | SEALED)
    }

    /// One version further: locked if it was not, and the other way round.
    #[inline]
    pub fn next(self) -> State {
        State(self.0.wrapping_add(LOCKED))
    }

    /// As a file has it: without version and seal, and of no kind that is reserved.
    #[inline]
    pub fn stored(self) -> State {
        State(self.0 & (KEY_LEN | VALUE_LEN)).with_kind(self.kind())
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

    /// Kinds that are reserved say nothing in memory, where nobody writes them.
    #[inline]
    pub fn kind(self) -> Kind {
        match (self.0 & KIND) >> KIND_SHIFT {
            1 => Kind::Value,
            2 => Kind::Tombstone,
            _ => Kind::Invalid,
        }
    }

    /// Whether the key has a value.
    #[inline]
    pub fn has_value(self) -> bool {
        self.kind() == Kind::Value
    }

    /// Nobody will change the record again; the key's next one is appended.
    #[inline]
    pub fn sealed(self) -> bool {
        self.0 & SEALED != 0
    }

    /// It was changed, or sealed, since it was new.
    #[inline]
    pub fn was_changed(self) -> bool {
        self.0 >= LOCKED << 1
    }

    /// Somebody changes the record.
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
            let state = State::live(key_len, value_len);
            let kind = if value_len.is_some() { Kind::Value } else { Kind::Tombstone };
            for state in [state, state.as_sealed(), state.next(), state.as_sealed().next()] {
                assert_eq!((state.key_len(), state.value_len(), state.kind()), (key_len, value_len.unwrap_or(0), kind));
                let other = state.with_value(Some(5));
                assert_eq!((other.key_len(), other.value_len(), other.kind()), (key_len, 5, Kind::Value));
                assert_eq!((other.sealed(), other.locked()), (state.sealed(), state.locked()));
                assert_eq!(state.with_kind(Kind::Invalid).kind(), Kind::Invalid);
            }
            assert!(!state.sealed() && state.as_sealed().sealed() && !state.locked() && state.next().locked());
        }
    }

    #[test]
    fn a_full_version_begins_anew_and_nothing_else_changes() {
        let state = State::live(8, Some(100)).as_sealed();
        let last = State::from_word(state.word() | u64::MAX << 25);
        assert!(last.locked());
        assert_eq!(last.next(), state);
    }
}
