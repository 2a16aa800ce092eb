//! A keyspace of either kind, ordered or hashed, for commands that need no order of keys.

use ecotone::{Batch, Database, HashKeyspace, Keyspace, KeyspaceInfo, KeyspaceStats, RangeShape, Result, SampledStats};

use crate::failure::Failure;

/// The database's name for the hash engine.
pub(crate) const HASH: &str = "hash";

/// A record as iterators return it.
type Record = (Vec<u8>, Vec<u8>);

/// Records in one batch when sorted records are loaded into a hashed keyspace.
const TOGETHER: usize = 64;

/// An open keyspace.
#[derive(Debug)]
pub(crate) enum OpenKeyspace {
    Ordered(Keyspace),
    Hashed(HashKeyspace),
}

impl OpenKeyspace {
    /// Opens an existing keyspace.
    pub(crate) fn open(database: &Database, KeyspaceInfo { name, engine, .. }: &KeyspaceInfo) -> Result<OpenKeyspace> {
        match *engine {
            HASH => Ok(OpenKeyspace::Hashed(database.open_hash_keyspace(name)?)),
            _ => Ok(OpenKeyspace::Ordered(database.open_keyspace(name)?)),
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        match self {
            OpenKeyspace::Ordered(keyspace) => keyspace.name(),
            OpenKeyspace::Hashed(keyspace) => keyspace.name(),
        }
    }

    /// The counters of the keyspace.
    pub(crate) fn stats(&self) -> KeyspaceStats {
        match self {
            OpenKeyspace::Ordered(keyspace) => keyspace.stats(),
            OpenKeyspace::Hashed(keyspace) => keyspace.stats(),
        }
    }

    /// Sampled statistics of the index; `None` if the engine does not support sampling.
    pub(crate) fn survey(&self) -> Result<Option<SampledStats>> {
        match self {
            OpenKeyspace::Ordered(keyspace) => keyspace.survey(),
            OpenKeyspace::Hashed(_) => Ok(None),
        }
    }

    /// Compacts the keyspace. Returns false if the engine has no compaction.
    pub(crate) fn compact(&self, progress: impl FnMut(u64, u64)) -> Result<bool> {
        match self {
            OpenKeyspace::Ordered(keyspace) => keyspace.compact(progress),
            OpenKeyspace::Hashed(_) => Ok(false),
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            OpenKeyspace::Ordered(keyspace) => keyspace.get(key),
            OpenKeyspace::Hashed(keyspace) => keyspace.get(key),
        }
    }

    /// The values of keys, in their order.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        match self {
            OpenKeyspace::Ordered(keyspace) => keyspace.multi_get(keys),
            OpenKeyspace::Hashed(keyspace) => keyspace.multi_get(keys),
        }
    }

    /// The ranges that the engine keeps in a form of their own.
    pub(crate) fn shapes(&self) -> Vec<RangeShape> {
        match self {
            OpenKeyspace::Ordered(keyspace) => keyspace.shapes(),
            OpenKeyspace::Hashed(_) => Vec::new(),
        }
    }

    /// Stores a record.
    pub(crate) fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            OpenKeyspace::Ordered(keyspace) => keyspace.insert(key, value),
            OpenKeyspace::Hashed(keyspace) => keyspace.insert(key, value),
        }
    }

    /// Adds an insert to the batch.
    pub(crate) fn insert_by(&self, batch: &mut Batch, key: Vec<u8>, value: Vec<u8>) {
        match self {
            OpenKeyspace::Ordered(keyspace) => batch.insert(keyspace, key, value),
            OpenKeyspace::Hashed(keyspace) => batch.insert(keyspace, key, value),
        }
    }

    /// Stores records in the order of their keys into an empty keyspace.
    pub(crate) fn load_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        database: &Database,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let keyspace = match self {
            OpenKeyspace::Ordered(keyspace) => return keyspace.bulk_load(records),
            OpenKeyspace::Hashed(keyspace) => keyspace,
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
            OpenKeyspace::Ordered(keyspace) => keyspace.remove(key),
            OpenKeyspace::Hashed(keyspace) => keyspace.remove(key),
        }
    }

    /// Stores a value. Returns the previous value.
    pub(crate) fn replace(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        self.update(key, Some(value))
    }

    /// Deletes a key. Returns its value.
    pub(crate) fn take(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.update(key, None)
    }

    fn update(&self, key: &[u8], value: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let update = |_: Option<&[u8]>| value.map(<[u8]>::to_vec);
        match self {
            OpenKeyspace::Ordered(keyspace) => keyspace.fetch_update(key, update),
            OpenKeyspace::Hashed(keyspace) => keyspace.fetch_update(key, update),
        }
    }

    /// All records, in key order if the keyspace is ordered.
    pub(crate) fn records(&self) -> Box<dyn Iterator<Item = Result<Record>>> {
        match self {
            OpenKeyspace::Ordered(keyspace) => Box::new(keyspace.iter()),
            OpenKeyspace::Hashed(keyspace) => Box::new(keyspace.iter()),
        }
    }

    /// The keyspace, for the operation `what`, which needs ordered keys; `instead` names the alternative for other
    /// engines.
    pub(crate) fn ordered(&self, what: &str, instead: &str) -> std::result::Result<&Keyspace, Failure> {
        match self {
            OpenKeyspace::Ordered(keyspace) => Ok(keyspace),
            OpenKeyspace::Hashed(keyspace) => {
                let name = keyspace.name();
                Err(Failure::Usage(format!(
                    "the keyspace {name:?} finds its keys by a hash and keeps no order of them, which {what} needs; \
                    {instead}"
                )))
            }
        }
    }
}
