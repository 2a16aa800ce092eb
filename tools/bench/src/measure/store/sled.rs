//! sled. `docs/rivals.md` says why it is configured like this.

use std::{
    thread,
    time::{Duration, Instant},
};

use ::sled::{Batch, Config, Db, Mode};

use super::{
    contract::{Change, Options, Record, Stats, Store, Visit, VisitRecord},
    group::Group,
};
use crate::{error::Result, row::Durability};

/// Share of the budget for its cache, in percent. A cached byte was measured to take three bytes of memory, and the
/// page table needs more.
const CACHE_PERCENT: usize = 25;

/// Longest wait for the lock of a database.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// An open database with its one unnamed tree.
pub(super) struct Sled {
    database: Db,
    /// Shares the syncs, if writes wait for one.
    syncs: Option<Group<()>>,
}

pub(super) fn open(options: &Options<'_>) -> Result<Box<dyn Store>> {
    let configuration = Config::new()
        .path(options.directory)
        .mode(Mode::HighThroughput)
        .cache_capacity((options.memory / 100 * CACHE_PERCENT) as u64)
        .flush_every_ms(None);
    let database = open_when_free(&configuration)?;
    let syncs = (options.durability != Durability::None).then(Group::new);
    Ok(Box::new(Sled { database, syncs }))
}

/// Opens the database, and retries: threads of a database that was just closed hold its lock for a moment longer.
fn open_when_free(configuration: &Config) -> ::sled::Result<Db> {
    let begin = Instant::now();
    loop {
        match configuration.open() {
            Err(::sled::Error::Io(error))
                if error.to_string().contains("acquire lock") && begin.elapsed() < MAX_WAIT =>
            {
                thread::sleep(Duration::from_millis(20));
            }
            opened => return opened,
        }
    }
}

impl Sled {
    /// Waits for the disk, if a write must.
    fn persist(&self) -> Result<()> {
        let Some(syncs) = &self.syncs else { return Ok(()) };
        let sync = |all: &[()]| {
            self.database.flush()?;
            Ok(vec![true; all.len()])
        };
        syncs.submit((), sync).map(drop)
    }
}

impl Store for Sled {
    fn get(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        visit(self.database.get(key)?.as_deref());
        Ok(())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.database.insert(key, value)?;
        self.persist()
    }

    fn insert_batch(&self, records: &[Record<'_>]) -> Result<()> {
        let mut batch = Batch::default();
        records.iter().for_each(|(key, value)| batch.insert(*key, *value));
        self.database.apply_batch(batch)?;
        self.persist()
    }

    fn scan(&self, start: &[u8], length: usize, visit: &mut VisitRecord<'_>) -> Result<()> {
        for record in self.database.range(start..).take(length) {
            let (key, value) = record?;
            visit(&key, &value);
        }
        Ok(())
    }

    fn update(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        self.database.fetch_and_update(key, |old| Some(change(old)))?;
        self.persist()
    }

    fn wait_until_quiet(&self) -> Result<()> {
        self.database.flush()?;
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.wait_until_quiet()
    }
}
