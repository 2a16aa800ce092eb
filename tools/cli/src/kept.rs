//! A keyspace of either kind, for commands that need no order of keys.

use ecotone::{Batch, Database, HashKeyspace, Keyspace, KeyspaceInfo, KeyspaceStats, RangeShape, Result, Survey};

use crate::failure::Failure;

/// What a database calls the engine of hashed keyspaces.
pub(crate) const HASH: &str = "hash";

/// A record as iterators give it.
type Record = (Vec<u8>, Vec<u8>);

/// Records in one batch of those that are loaded into a keyspace without an order.
const TOGETHER: usize = 64;

/// An open keyspace.
#[derive(Debug)]
pub(crate) enum Kept {
    Ordered(Keyspace),
    Hashed(HashKeyspace),
}

impl Kept {
    /// Opens a keyspace that is there.
    pub(crate) fn open(database: &Database, KeyspaceInfo { name, engine, .. }: &KeyspaceInfo) -> Result<Kept> {
        match *engine {
            HASH => Ok(Kept::Hashed(database.open_hash_keyspace(name)?)),
            _ => Ok(Kept::Ordered(database.open_keyspace(name)?)),
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Kept::Ordered(keyspace) => keyspace.name(),
            Kept::Hashed(keyspace) => keyspace.name(),
        }
    }

    /// Its own numbers.
    pub(crate) fn stats(&self) -> KeyspaceStats {
        match self {
            Kept::Ordered(keyspace) => keyspace.stats(),
            Kept::Hashed(keyspace) => keyspace.stats(),
        }
    }

    /// What its index tells, if it has one of pages.
    pub(crate) fn survey(&self) -> Result<Option<Survey>> {
        match self {
            Kept::Ordered(keyspace) => keyspace.survey(),
            Kept::Hashed(_) => Ok(None),
        }
    }

    /// Merges what can be merged. False if its engine has nothing of the sort.
    pub(crate) fn compact(&self, progress: impl FnMut(u64, u64)) -> Result<bool> {
        match self {
            Kept::Ordered(keyspace) => keyspace.compact(progress),
            Kept::Hashed(_) => Ok(false),
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Kept::Ordered(keyspace) => keyspace.get(key),
            Kept::Hashed(keyspace) => keyspace.get(key),
        }
    }

    /// The values of keys, in their order.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        match self {
            Kept::Ordered(keyspace) => keyspace.multi_get(keys),
            Kept::Hashed(keyspace) => keyspace.multi_get(keys),
        }
    }

    /// Ranges that are kept in a way of their own.
    pub(crate) fn shapes(&self) -> Vec<RangeShape> {
        match self {
            Kept::Ordered(keyspace) => keyspace.shapes(),
            Kept::Hashed(_) => Vec::new(),
        }
    }

    /// Stores a record.
    pub(crate) fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Kept::Ordered(keyspace) => keyspace.insert(key, value),
            Kept::Hashed(keyspace) => keyspace.insert(key, value),
        }
    }

    /// Stores a record when the batch is committed.
    pub(crate) fn insert_by(&self, batch: &mut Batch, key: Vec<u8>, value: Vec<u8>) {
        match self {
            Kept::Ordered(keyspace) => batch.insert(keyspace, key, value),
            Kept::Hashed(keyspace) => batch.insert(keyspace, key, value),
        }
    }

    /// Stores records that come in the order of their keys, into an empty keyspace.
    pub(crate) fn load_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        database: &Database,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let keyspace = match self {
            Kept::Ordered(keyspace) => return keyspace.bulk_load(records),
            Kept::Hashed(keyspace) => keyspace,
        };
        let (mut records, mut stored) = (records.into_iter().peekable(), 0);
        while records.peek().is_some() {
            let mut batch = database.batch();
            records
                .by_ref()
                .take(TOGETHER)
                .for_each(|(key, value)| batch.insert(keyspace, key.as_ref(), value.as_ref()));
            stored += batch.len() as u64;
            batch.commit()?;
        }
        Ok(stored)
    }

    /// Deletes a key.
    pub(crate) fn remove(&self, key: &[u8]) -> Result<()> {
        match self {
            Kept::Ordered(keyspace) => keyspace.remove(key),
            Kept::Hashed(keyspace) => keyspace.remove(key),
        }
    }

    /// Stores a value. The one that was there before.
    pub(crate) fn replace(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        self.update(key, Some(value))
    }

    /// Deletes a key. The value that it had.
    pub(crate) fn take(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.update(key, None)
    }

    fn update(&self, key: &[u8], value: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let update = |_: Option<&[u8]>| value.map(<[u8]>::to_vec);
        match self {
            Kept::Ordered(keyspace) => keyspace.fetch_update(key, update),
            Kept::Hashed(keyspace) => keyspace.fetch_update(key, update),
        }
    }

    /// All records, in the order of their keys if they have one.
    pub(crate) fn records(&self) -> Box<dyn Iterator<Item = Result<Record>>> {
        match self {
            Kept::Ordered(keyspace) => Box::new(keyspace.iter()),
            Kept::Hashed(keyspace) => Box::new(keyspace.iter()),
        }
    }

    /// The keyspace, for `what`, which needs an order of keys; `instead` says what does not.
    pub(crate) fn ordered(&self, what: &str, instead: &str) -> std::result::Result<&Keyspace, Failure> {
        match self {
            Kept::Ordered(keyspace) => Ok(keyspace),
            Kept::Hashed(keyspace) => {
                let name = keyspace.name();
                Err(Failure::Usage(format!(
                    "the keyspace {name:?} finds its keys by a hash and keeps no order of them, which {what} needs; \
                    {instead}"
                )))
            }
        }
    }
}
