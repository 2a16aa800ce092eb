//! Ecotone with an ordered engine.

use ecotone::{ConversionReason, Engine, Hint, Keyspace, KeyspaceOptions, RangeShape, Swap};

use super::{
    contract::{Change, End, NEVER_ADAPTS, Options, Record, Stats, Store, Visit, VisitMany, VisitRecord},
    database::{EcotoneStore, NAME, visit_value},
};
use crate::{error::Result, row::Durability};

/// Names of the engine counters that rise while pages are reorganised or tables compacted in the background.
const MOVING: [&str; 2] = ["overflow_pages", "compactions"];
/// Name of the engine gauge for the memory of its index.
const INDEX: &str = "index_bytes";
/// The engine's numbers that are gauges; all others are counters that only rise.
const LEVELS: [&str; 26] = [
    INDEX,
    "writer_delay_p50_us",
    "writer_delay_p99_us",
    "writer_delay_max_us",
    // Of the tree.
    "segments",
    "overflow_pages",
    "file_bytes",
    "used_bytes",
    "dirty_bytes",
    "cache_records",
    "cache_bytes",
    "cache_dirty_records",
    "page_cache_pages",
    "page_cache_bytes",
    // Of lsm.
    "memtables",
    "memtable_bytes",
    "runs",
    "levels",
    "tables",
    "table_bytes",
    "table_records",
    "table_tombstones",
    "filter_bytes",
    "block_cache_pages",
    "block_cache_bytes",
    // Of adaptive.
    "paged_ranges",
];

/// An open database with one keyspace.
#[derive(Debug)]
pub(super) struct Ordered {
    database: EcotoneStore,
    keyspace: Keyspace,
    adapts: bool,
}

impl Ordered {
    pub(super) fn open(engine: Engine, options: &Options<'_>) -> Result<Self> {
        let database = EcotoneStore::open(options)?;
        let plain = KeyspaceOptions::default().engine(engine);
        let logged = if options.durability == Durability::None { plain.unlogged() } else { plain };
        let chosen = options.of_keyspace().fold(logged, |chosen, (name, value)| chosen.set(name, value));
        let keyspace = database.database.keyspace(NAME, chosen)?.durability(database.durability);
        Ok(Ordered { database, keyspace, adapts: engine == Engine::Adaptive })
    }
}

impl Store for Ordered {
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

    fn end(&self, end: End, visit: &mut VisitRecord<'_>) -> Result<()> {
        let found =
            if end == End::First { self.keyspace.first_key_value()? } else { self.keyspace.last_key_value()? };
        found.into_iter().for_each(|(key, value)| visit(&key, &value));
        Ok(())
    }

    fn take(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.keyspace.compare_and_swap(key, Some(value), None)? == Swap::Done)
    }

    fn adapt(&self) -> Result<()> {
        if !self.adapts {
            return Err(NEVER_ADAPTS.into());
        }
        Ok(self.keyspace.hint::<&[u8]>(.., Hint::ReadMostly)?)
    }

    fn is_adapting(&self) -> bool {
        let is_hinted = |range: &RangeShape| range.shape.is_queued() && range.reason == Some(ConversionReason::Hint);
        self.keyspace.shapes().iter().any(is_hinted)
    }

    fn wait_until_quiet(&self) -> Result<()> {
        self.database.settle(|| {
            let stats = self.keyspace.stats();
            MOVING.iter().filter_map(|name| stats.counter(name)).sum()
        })
    }

    fn stats(&self) -> Stats {
        let stats = self.keyspace.stats();
        let index = stats.counter(INDEX).unwrap_or(0);
        self.database.stats(stats.counters, &LEVELS, index)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.database.close()
    }
}
