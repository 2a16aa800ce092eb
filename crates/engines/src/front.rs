//! A cache of records in front of all that an engine has on disk: newest values of some keys, but for those in
//! memtables (decision 15, invariant 9).

use std::{fmt, sync::Arc};

use ecotone_substrate::Result;

use crate::engine::{Shared, Stats};

/// The moment at which something was not in the cache, as its keeper tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(pub(crate) [u64; 2]);

/// What a cache says of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It has the value.
    Found,
    /// Ask elsewhere, and offer what you find with this.
    Missing(Ticket),
}

/// What one keyspace has of it. It says nothing of keys that are not there.
pub trait Front: fmt::Debug + Send + Sync {
    /// Looks for a key, whose value is appended to `value`.
    fn look(&self, key: &[u8], value: &mut Vec<u8>) -> Look;
    /// Offers what was found after a miss. It is refused if the key was refreshed since.
    fn admit(&self, key: &[u8], value: &[u8], ticket: Ticket);
    /// What is flushed next of a key, so that it has nothing older when that leaves its memtable, and takes nothing
    /// older in afterwards.
    fn refresh(&self, key: &[u8], value: Option<&[u8]>);
    /// All that it has of the keyspace is gone or replaced: it goes, and nobody who has looked before can offer
    /// anything.
    fn forget(&self);
    /// Numbers of the cache, which may be for several keyspaces.
    fn stats(&self) -> Stats;
}

/// Who keeps it, for keyspaces of a database.
pub trait Fronts: fmt::Debug + Send + Sync {
    /// A part of it for one more keyspace.
    ///
    /// # Errors
    /// If too many were given.
    fn front(&self, shared: &Shared) -> Result<Arc<dyn Front>>;
}
