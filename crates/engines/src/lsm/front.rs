//! A cache in front of all tables, if somebody keeps one: newest values of some keys, but for those in memtables (decision 15, invariant 9).

use std::{fmt, ops::Range};

use super::records::Lsm;

/// The moment at which something was not in the cache, as its keeper tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) [u64; 2]);

/// What a cache says of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// It has the value.
    Found,
    /// Ask elsewhere, and offer what you find with this.
    Missing(Ticket),
}

/// Keeps it. It says nothing of keys that are not there.
pub(crate) trait Front: fmt::Debug + Send + Sync {
    /// Looks for a key, whose value is appended to `value`.
    fn look(&self, key: &[u8], value: &mut Vec<u8>) -> Look;
    /// Offers what was found after a miss. It is refused if the key was refreshed since.
    fn admit(&self, key: &[u8], value: &[u8], ticket: Ticket);
    /// What is flushed next of a key, so that it has nothing older when that leaves its memtable, and takes nothing older in afterwards.
    fn refresh(&self, key: &[u8], value: Option<&[u8]>);
}

/// What the cache says of many keys.
#[derive(Debug, Default)]
pub(super) struct Looks {
    values: Vec<u8>,
    /// For each key; a value is in this place.
    looks: Vec<(Look, Range<usize>)>,
}

impl Looks {
    /// The value of a key, by its number.
    pub(super) fn value(&self, number: usize) -> Option<&[u8]> {
        let (look, place) = self.looks.get(number)?;
        (*look == Look::Found).then(|| &self.values[place.clone()])
    }

    /// What it takes to offer a value.
    pub(super) fn ticket(&self, number: usize) -> Option<Ticket> {
        match self.looks.get(number)?.0 {
            Look::Found => None,
            Look::Missing(ticket) => Some(ticket),
        }
    }
}

impl Lsm {
    /// The cache.
    pub(super) fn front(&self) -> Option<&dyn Front> {
        self.base.as_deref().map(|base| base.front())
    }

    /// Looks for many keys there.
    pub(super) fn look_in_front(&self, keys: &[&[u8]]) -> Looks {
        let Some(front) = self.front() else { return Looks::default() };
        let mut values = Vec::new();
        let look = |key: &&[u8]| {
            let start = values.len();
            (front.look(key, &mut values), start..values.len())
        };
        let looks = keys.iter().map(look).collect();
        Looks { values, looks }
    }
}
