//! Ecotone with the tree engine.

use ecotone::{Engine, Keyspace, KeyspaceOptions};

use super::{
    Change, Durability, Options, Record, Stats, Store, Visit, VisitMany, VisitRecord,
    house::{House, NAME, visit_value},
};
use crate::error::Result;

/// Name of the engine's counter that goes on moving while pages are reorganised in the background.
const OVERFLOW: &str = "overflow_pages";
/// Name of the engine's level for the memory of its index.
const INDEX: &str = "index_bytes";
/// The engine's numbers that are levels; all others are counters that only rise.
const LEVELS: [&str; 14] = [
    "segments",
    OVERFLOW,
    INDEX,
    "file_bytes",
    "used_bytes",
    "dirty_bytes",
    "writer_delay_p50_us",
    "writer_delay_p99_us",
    "writer_delay_max_us",
    "cache_records",
    "cache_bytes",
    "cache_dirty_records",
    "page_cache_pages",
    "page_cache_bytes",
];

/// An open database with one keyspace.
#[derive(Debug)]
pub(super) struct Tree {
    house: House,
    keyspace: Keyspace,
}

impl Tree {
    pub(super) fn open(options: &Options<'_>) -> Result<Self> {
        let house = House::open(options)?;
        let plain = KeyspaceOptions::default().engine(Engine::Tree);
        let logged = if options.durability == Durability::None { plain.unlogged() } else { plain };
        let chosen = options.settings.iter().fold(logged, |chosen, (name, value)| chosen.set(name, value));
        let keyspace = house.database.keyspace(NAME, chosen)?.durability(house.durability);
        Ok(Tree { house, keyspace })
    }
}

fn find(counters: &[(&'static str, u64)], wanted: &str) -> u64 {
    counters.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, value)| *value)
}

impl Store for Tree {
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
        let mut batch = self.house.database.batch().durability(self.house.durability);
        records.iter().for_each(|(key, value)| batch.insert(&self.keyspace, *key, *value));
        Ok(batch.commit()?)
    }

    fn scan(&self, start: &[u8], length: usize, visit: &mut VisitRecord<'_>) -> Result<()> {
        let mut records = self.keyspace.range(start..);
        for _ in 0..length {
            let Some((key, value)) = records.next_ref()? else { break };
            visit(key, value);
        }
        Ok(())
    }

    fn update(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        self.keyspace.fetch_update(key, |value| Some(change(value)))?;
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.house.settle(|| find(&self.keyspace.stats().counters, OVERFLOW))
    }

    fn stats(&self) -> Stats {
        let counters = self.keyspace.stats().counters;
        let index = find(&counters, INDEX);
        self.house.stats(counters, &LEVELS, index)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.house.close()
    }
}
