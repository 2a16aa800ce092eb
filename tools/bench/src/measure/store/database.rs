//! The common part of Ecotone's stores: a database with one keyspace.

use std::cell::RefCell;

use ecotone::{Database, Result as Answer};

use super::{
    contract::{Number, Options, Stats, TABLE_CACHE, Visit},
    quiet,
};
use crate::{error::Result, row::Durability, size};

/// Name of the one keyspace.
pub(super) const NAME: &str = "bench";

/// An open database.
#[derive(Debug)]
pub(super) struct EcotoneStore {
    pub(super) database: Database,
    pub(super) durability: ecotone::Durability,
}

thread_local! {
    /// The thread's read buffer.
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads a value by `get`, which copies the value into a buffer and returns whether there is one.
pub(super) fn visit_value(visit: &mut Visit<'_>, get: impl FnOnce(&mut Vec<u8>) -> Answer<bool>) -> Result<()> {
    VALUE.with_borrow_mut(|value| {
        let found = get(value)?;
        visit(found.then_some(value));
        Ok(())
    })
}

impl EcotoneStore {
    pub(super) fn open(options: &Options<'_>) -> Result<Self> {
        let durability = match options.durability {
            Durability::Sync => ecotone::Durability::Sync,
            Durability::None | Durability::Buffered => ecotone::Durability::Buffered,
        };
        let builder = Database::builder(options.directory).memory_budget(options.memory);
        let builder = match options.of_database(TABLE_CACHE) {
            Some(bytes) => builder.table_cache(usize::try_from(size::parse(bytes)?)?),
            None => builder,
        };
        let database = builder.open()?;
        Ok(EcotoneStore { database, durability })
    }

    /// Flushes everything to the files and waits until background work is done. `moving` returns a number that changes
    /// while there is work.
    pub(super) fn settle(&self, moving: impl Fn() -> u64) -> Result<()> {
        self.database.flush()?;
        quiet::wait(|| (self.database.stats().background_jobs, moving()))?;
        Ok(self.database.flush()?)
    }

    /// Counters since the open, including those of the keyspace's engine; `levels` names the gauges among the latter.
    pub(super) fn stats(&self, mut engine: Vec<(&'static str, u64)>, levels: &[&str], index_bytes: u64) -> Stats {
        let all = self.database.stats();
        let log = &all.log;
        engine.extend([
            ("log_waits", log.waits),
            ("log_delays", log.delays),
            ("log_delay_total_us", log.delay_total_us),
        ]);
        let classify =
            |name: &str, value| if levels.contains(&name) { Number::Level(value) } else { Number::Count(value) };
        Stats {
            device_reads: all.io.reads,
            device_writes: all.io.writes,
            read_bytes: all.io.read_bytes,
            write_bytes: all.io.write_bytes,
            index_bytes,
            engine: engine.into_iter().map(|(name, value)| (name.to_owned(), classify(name, value))).collect(),
        }
    }

    pub(super) fn close(self) -> Result<()> {
        Ok(self.database.close()?)
    }
}
