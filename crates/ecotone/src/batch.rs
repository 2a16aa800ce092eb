//! Several writes as one.

use std::sync::Arc;

use ecotone_engines::engine::Operation;

use crate::{Database, Durability, Error, HashKeyspace, Keyspace, Result, commit::Target, space::Space};

/// A keyspace of any kind, as a batch takes it.
pub trait AnyKeyspace: sealed::HasSpace {}

impl AnyKeyspace for Keyspace {}
impl AnyKeyspace for HashKeyspace {}

mod sealed {
    use std::sync::Arc;

    use crate::{HashKeyspace, Keyspace, space::Space};

    /// A keyspace, as nobody else can name it.
    pub struct Named<'a>(pub(crate) &'a Arc<Space>);

    pub trait HasSpace {
        #[doc(hidden)]
        fn named(&self) -> Named<'_>;
    }

    impl HasSpace for Keyspace {
        fn named(&self) -> Named<'_> {
            Named(&self.handle.space)
        }
    }

    impl HasSpace for HashKeyspace {
        fn named(&self) -> Named<'_> {
            Named(&self.handle.space)
        }
    }
}

/// Writes over any keyspaces of one database that are recovered whole or not at all. Nothing happens before
/// [`commit`](Self::commit); of several writes to one key the last counts. The encoded batch has at most
/// [`limits::MAX_BATCH`](crate::limits::MAX_BATCH) bytes.
#[derive(Debug)]
#[must_use = "a batch does nothing until it is committed"]
pub struct Batch {
    database: Database,
    /// That of the database, unless it was told.
    durability: Option<Durability>,
    writes: Vec<Write>,
}

#[derive(Debug)]
struct Write {
    space: Arc<Space>,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Write {
    fn target(&self) -> Target<'_> {
        Target { space: &self.space, operation: Operation { key: &self.key, value: self.value.as_deref() } }
    }
}

impl Batch {
    pub(crate) fn new(database: Database) -> Self {
        Batch { durability: None, database, writes: Vec::new() }
    }

    /// How durable the batch is when `commit` returns. A batch of unlogged keyspaces can only be
    /// [`Durability::Buffered`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Adds the storing of `value` under `key`.
    pub fn insert(&mut self, keyspace: &impl AnyKeyspace, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.push(keyspace.named().0, key.into(), Some(value.into()));
    }

    /// Adds the deletion of `key`.
    pub fn remove(&mut self, keyspace: &impl AnyKeyspace, key: impl Into<Vec<u8>>) {
        self.push(keyspace.named().0, key.into(), None);
    }

    /// The number of writes in it.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Writes everything.
    ///
    /// # Errors
    /// As [`Keyspace::insert`]; also a batch that is too large, that mixes logged and unlogged keyspaces, or that names
    /// a keyspace of another database. Then nothing of it is written; of an unlogged hashed keyspace the first writes
    /// may be, since they are made one by one.
    pub fn commit(self) -> Result<()> {
        self.database.inner.check_open()?;
        let spaces = self.database.inner.spaces.read();
        let ours = |write: &Write| spaces.get(&write.space.name).is_some_and(|space| Arc::ptr_eq(space, &write.space));
        if let Some(stranger) = self.writes.iter().find(|write| !ours(write)) {
            let name = &stranger.space.name;
            return Err(Error::Invalid(format!(
                "the batch names the keyspace {name:?}, which was dropped or belongs to another database"
            )));
        }
        drop(spaces);
        let targets: Vec<Target<'_>> = self.writes.iter().map(Write::target).collect();
        self.database.inner.write_batch(&targets, self.durability)
    }

    fn push(&mut self, space: &Arc<Space>, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.writes.push(Write { space: space.clone(), key, value });
    }
}
