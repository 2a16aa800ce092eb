//! fjall. `docs/rivals.md` says why it is configured like this.

use ::fjall::{
    Database, Keyspace, KeyspaceCreateOptions, PersistMode,
    config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry},
};

use super::{
    contract::{Change, Number, Options, Record, Stats, Store, Visit, VisitRecord},
    group::Group,
    quiet,
    stripes::Stripes,
};
use crate::{error::Result, row::Durability};

/// Share of the budget for its block cache, in percent. Its guide recommends 20 to 25, since it also reads through the
/// page cache.
const CACHE_PERCENT: usize = 25;
/// A memtable gets at most this fraction of the budget, since several exist during flushes.
const MEMTABLE_PART: usize = 16;
/// The sizes of a memtable, in bytes; its guide says at most 64 MiB.
const MEMTABLE: (usize, usize) = (1 << 20, 64 << 20);
/// Bits of the Bloom filters for each record.
const BLOOM_BITS: f32 = 10.0;
/// Concurrent flushes and compactions, on two cores.
const WORKERS: usize = 2;

/// An open database with one keyspace.
pub(super) struct Fjall {
    database: Database,
    keyspace: Keyspace,
    stripes: Stripes,
    /// Shares the syncs, if writes wait for one.
    syncs: Option<Group<()>>,
}

pub(super) fn open(options: &Options<'_>) -> Result<Box<dyn Store>> {
    let manual = options.durability == Durability::None;
    let cache = (options.memory / 100 * CACHE_PERCENT) as u64;
    let memtable = (options.memory / MEMTABLE_PART).clamp(MEMTABLE.0, MEMTABLE.1) as u64;
    let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(BLOOM_BITS));
    let database = Database::builder(options.directory)
        .cache_size(cache)
        .worker_threads(WORKERS)
        .manual_journal_persist(manual)
        .open()?;
    let keyspace = database.keyspace("bench", || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(memtable)
            .manual_journal_persist(manual)
            .filter_policy(FilterPolicy::all(bloom))
    })?;
    let syncs = (options.durability == Durability::Sync).then(Group::new);
    Ok(Box::new(Fjall { database, keyspace, stripes: Stripes::new(), syncs }))
}

impl Fjall {
    /// Waits for the disk, if a write must.
    fn persist(&self) -> Result<()> {
        let Some(syncs) = &self.syncs else { return Ok(()) };
        let sync = |all: &[()]| {
            self.database.persist(PersistMode::SyncData)?;
            Ok(vec![true; all.len()])
        };
        syncs.submit((), sync).map(drop)
    }
}

impl Store for Fjall {
    fn get(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        visit(self.keyspace.get(key)?.as_deref());
        Ok(())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let lock = self.stripes.lock(key);
        self.keyspace.insert(key, value)?;
        drop(lock);
        self.persist()
    }

    fn insert_batch(&self, records: &[Record<'_>]) -> Result<()> {
        let mut batch = self.database.batch();
        records.iter().for_each(|(key, value)| batch.insert(&self.keyspace, *key, *value));
        let locks = self.stripes.lock_all(records.iter().map(|(key, _)| *key));
        batch.commit()?;
        drop(locks);
        self.persist()
    }

    fn scan(&self, start: &[u8], length: usize, visit: &mut VisitRecord<'_>) -> Result<()> {
        for record in self.keyspace.range(start..).take(length) {
            let (key, value) = record.into_inner()?;
            visit(&key, &value);
        }
        Ok(())
    }

    fn update(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        let lock = self.stripes.lock(key);
        let new = change(self.keyspace.get(key)?.as_deref());
        self.keyspace.insert(key, new)?;
        drop(lock);
        self.persist()
    }

    fn wait_until_quiet(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        quiet::wait(|| {
            let running = self.database.outstanding_flushes() + self.database.active_compactions();
            (running as u64, self.database.compactions_completed() as u64)
        })?;
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }

    fn stats(&self) -> Stats {
        let numbers = [
            ("cache_bytes", Number::Level(self.database.cache_size())),
            ("write_buffer_bytes", Number::Level(self.database.write_buffer_size())),
            ("compactions", Number::Count(self.database.compactions_completed() as u64)),
        ];
        Stats { engine: numbers.map(|(name, number)| (name.to_owned(), number)).into(), ..Stats::default() }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}
