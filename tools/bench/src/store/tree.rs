//! Ecotone with the tree engine.

use std::cell::RefCell;

use ecotone::{Database, Engine, Keyspace, KeyspaceOptions};

use super::{Change, Durability, Number, Options, Record, Stats, Store, Visit, VisitMany, VisitRecord, quiet};
use crate::error::Result;

/// Name of the one keyspace.
const NAME: &str = "bench";
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

thread_local! {
    /// The buffer that a thread reads into.
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An open database with one keyspace.
#[derive(Debug)]
pub(super) struct Tree {
    database: Database,
    keyspace: Keyspace,
    durability: ecotone::Durability,
}

impl Tree {
    pub(super) fn open(options: &Options<'_>) -> Result<Self> {
        let durability = match options.durability {
            Durability::Sync => ecotone::Durability::Sync,
            Durability::None | Durability::Buffered => ecotone::Durability::Buffered,
        };
        let database = Database::builder(options.directory).memory_budget(options.memory).open()?;
        let plain = KeyspaceOptions::default().engine(Engine::Tree);
        let logged = if options.durability == Durability::None { plain.unlogged() } else { plain };
        let chosen = options.settings.iter().fold(logged, |chosen, (name, value)| chosen.set(name, value));
        let keyspace = database.keyspace(NAME, chosen)?.durability(durability);
        Ok(Tree { database, keyspace, durability })
    }

    /// What moves while the background works.
    fn activity(&self) -> (u64, u64) {
        let overflow = find(&self.keyspace.stats().counters, OVERFLOW);
        (self.database.stats().background_jobs, overflow)
    }
}

fn find(counters: &[(&'static str, u64)], wanted: &str) -> u64 {
    counters.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, value)| *value)
}

fn classify(name: &str, value: u64) -> Number {
    if LEVELS.contains(&name) { Number::Level(value) } else { Number::Count(value) }
}

impl Store for Tree {
    fn get(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        VALUE.with_borrow_mut(|value| {
            let found = self.keyspace.get_into(key, value)?;
            visit(found.then_some(value));
            Ok(())
        })
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut VisitMany<'_>) -> Result<()> {
        let values = self.keyspace.multi_get(keys)?;
        values.iter().enumerate().for_each(|(number, value)| visit(number, value.as_deref()));
        Ok(())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keyspace.insert(key, value)?)
    }

    fn insert_batch(&self, records: &[Record<'_>]) -> Result<()> {
        let mut batch = self.database.batch().durability(self.durability);
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
        self.database.flush()?;
        quiet::wait(|| self.activity())?;
        Ok(self.database.flush()?)
    }

    fn stats(&self) -> Stats {
        let all = self.database.stats();
        let mut counters = self.keyspace.stats().counters;
        let log = &all.log;
        counters.extend([("log_waits", log.waits), ("log_delays", log.delays), ("log_delay_total_us", log.delay_total_us)]);
        Stats {
            device_reads: all.io.reads,
            device_writes: all.io.writes,
            read_bytes: all.io.read_bytes,
            write_bytes: all.io.write_bytes,
            index_bytes: find(&counters, INDEX),
            engine: counters.into_iter().map(|(name, value)| (name.to_owned(), classify(name, value))).collect(),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.database.close()?)
    }
}
