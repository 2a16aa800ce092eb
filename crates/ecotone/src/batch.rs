//! Batches: several writes that are recovered as one.

use std::sync::Arc;

use ecotone_engine::contract::Operation;

use crate::{
    Durability, Error, HashKeyspace, Keyspace, Result,
    core::{KeyspaceState, OpenDatabase, commit::TargetedOperation},
};

/// A keyspace of either kind, as an argument of [`Batch::insert`] and [`Batch::remove`].
pub trait AnyKeyspace: sealed::HasKeyspace {}

impl AnyKeyspace for Keyspace {}
impl AnyKeyspace for HashKeyspace {}

mod sealed {
    use std::sync::Arc;

    use crate::{Durability, HashKeyspace, Keyspace, core::KeyspaceState};

    /// A keyspace and the durability of its handle. The module is private, so other crates cannot implement
    /// [`AnyKeyspace`](super::AnyKeyspace).
    pub struct Named<'a>(pub(crate) &'a Arc<KeyspaceState>, pub(crate) Durability);

    pub trait HasKeyspace {
        #[doc(hidden)]
        fn named(&self) -> Named<'_>;
    }

    impl HasKeyspace for Keyspace {
        fn named(&self) -> Named<'_> {
            Named(&self.handle.space, self.handle.durability)
        }
    }

    impl HasKeyspace for HashKeyspace {
        fn named(&self) -> Named<'_> {
            Named(&self.handle.space, self.handle.durability)
        }
    }
}

/// Writes to any keyspaces of one database. A batch is recovered whole or not at all. Nothing is written before
/// [`commit`](Self::commit). If a key is written several times, the last write wins. The encoded batch has at most
/// [`limits::MAX_BATCH`](crate::limits::MAX_BATCH) bytes.
#[derive(Debug)]
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    database: OpenDatabase,
    /// `None`: the strongest durability of the handles.
    durability: Option<Durability>,
    /// The strongest durability of the handles; `None` without writes.
    of_handles: Option<Durability>,
    writes: Vec<Write>,
}

#[derive(Debug)]
struct Write {
    space: Arc<KeyspaceState>,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Write {
    fn target(&self) -> TargetedOperation<'_> {
        TargetedOperation { space: &self.space, operation: Operation { key: &self.key, value: self.value.as_deref() } }
    }
}

impl Batch {
    pub(crate) fn new(database: OpenDatabase) -> Self {
        Batch { database, durability: None, of_handles: None, writes: Vec::new() }
    }

    /// Sets how durable the batch is when `commit` returns. Default: the strongest durability of the keyspace handles
    /// that its writes name. A batch of unlogged keyspaces can only be [`Durability::Buffered`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Adds a write of `value` under `key`.
    pub fn insert(&mut self, keyspace: &impl AnyKeyspace, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.push(keyspace.named(), key.into(), Some(value.into()));
    }

    /// Adds a deletion of `key`.
    pub fn remove(&mut self, keyspace: &impl AnyKeyspace, key: impl Into<Vec<u8>>) {
        self.push(keyspace.named(), key.into(), None);
    }

    /// The number of writes in the batch.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether the batch has no writes.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Writes the batch.
    ///
    /// # Errors
    /// The errors of [`Keyspace::insert`]. Also fails if the batch is too large, mixes logged and unlogged keyspaces,
    /// or names a keyspace of another database. After an error nothing of the batch is written, with one exception: the
    /// writes to an unlogged hashed keyspace are made one by one, so the first ones may be there.
    pub fn commit(self) -> Result<()> {
        self.database.check_open()?;
        let spaces = self.database.spaces.read();
        let ours = |write: &Write| spaces.get(&write.space.name).is_some_and(|space| Arc::ptr_eq(space, &write.space));
        if let Some(stranger) = self.writes.iter().find(|write| !ours(write)) {
            let name = &stranger.space.name;
            return Err(Error::Invalid(format!(
                "the batch names the keyspace {name:?}, which was dropped or belongs to another database"
            )));
        }
        drop(spaces);
        let targets: Vec<TargetedOperation<'_>> = self.writes.iter().map(Write::target).collect();
        match self.durability.or(self.of_handles) {
            Some(durability) => self.database.write_batch(&targets, durability),
            // It has no writes.
            None => Ok(()),
        }
    }

    fn push(&mut self, keyspace: sealed::Named<'_>, key: Vec<u8>, value: Option<Vec<u8>>) {
        let sealed::Named(space, durability) = keyspace;
        self.of_handles = self.of_handles.max(Some(durability));
        self.writes.push(Write { space: space.clone(), key, value });
    }
}
