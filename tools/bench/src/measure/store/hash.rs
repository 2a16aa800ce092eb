//! Ecotone with the hash engine.

use ecotone::{HashKeyspace, HashKeyspaceOptions};

use super::{
    contract::{Change, Options, Record, Stats, Store, Visit, VisitMany, VisitRecord},
    database::{EcotoneStore, NAME, visit_value},
};
use crate::{error::Result, row::Durability};

/// Memory components that form its index.
const INDEX: [&str; 2] = ["hash index", "cold index"];

/// The engine's counters that only rise; all other numbers are gauges.
const COUNTERS: [&str; 8] = [
    "index_doublings",
    "read_cache_evictions",
    "compactions",
    "base_merges",
    "delta_merges",
    "records_moved_to_tail",
    "forced_evictions",
    "work_postponed",
];

/// An open database with one keyspace.
#[derive(Debug)]
pub(super) struct Hash {
    database: EcotoneStore,
    keyspace: HashKeyspace,
}

impl Hash {
    pub(super) fn open(options: &Options<'_>) -> Result<Self> {
        let database = EcotoneStore::open(options)?;
        let plain = HashKeyspaceOptions::default();
        let logged = if options.durability == Durability::None { plain.unlogged() } else { plain };
        let chosen = options.of_keyspace().fold(logged, |chosen, (name, value)| chosen.set(name, value));
        let keyspace = database.database.hash_keyspace(NAME, chosen)?.durability(database.durability);
        Ok(Hash { database, keyspace })
    }
}

impl Store for Hash {
    fn get(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        visit_value(visit, |value| self.keyspace.get_into(key, value))
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut VisitMany<'_>) -> Result<()> {
        Ok(self.keyspace.multi_get_with(keys, visit)?)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keyspace.insert(key, value)?)
    }

    fn insert_batch(&self, records: &[Record<'_>]) -> Result<()> {
        let mut batch = self.database.database.batch().durability(self.database.durability);
        records.iter().for_each(|(key, value)| batch.insert(&self.keyspace, *key, *value));
        Ok(batch.commit()?)
    }

    fn scan(&self, _: &[u8], _: usize, _: &mut VisitRecord<'_>) -> Result<()> {
        Err("the hash engine keeps its records in no order of keys, so it has no scans".into())
    }

    fn update(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        self.keyspace.fetch_update(key, |value| Some(change(value)))?;
        Ok(())
    }

    fn wait_until_quiet(&self) -> Result<()> {
        self.database.settle(|| self.keyspace.stats().counters.iter().map(|(_, value)| value).sum())
    }

    fn stats(&self) -> Stats {
        let memory = self.database.database.stats().memory;
        let index = memory.iter().filter(|part| INDEX.contains(&part.component)).map(|part| part.bytes).sum();
        let counters = self.keyspace.stats().counters;
        let levels: Vec<_> = counters.iter().map(|(name, _)| *name).filter(|name| !COUNTERS.contains(name)).collect();
        self.database.stats(counters, &levels, index)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.database.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_rises_is_told_by_the_engine_under_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let database = ecotone::Database::builder(directory.path().join("db")).open().unwrap();
        let keyspace = database.hash_keyspace(NAME, HashKeyspaceOptions::default()).unwrap();
        keyspace.insert("Zwolle", "52.51,6.09").unwrap();
        let told = keyspace.stats().counters;
        assert!(COUNTERS.iter().all(|counter| told.iter().any(|(name, _)| name == counter)), "{told:?}");
    }
}
