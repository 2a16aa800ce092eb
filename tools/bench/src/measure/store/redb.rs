//! redb. `docs/rivals.md` says why it is configured like this.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
};

use ::redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition};

use super::{
    contract::{Change, End, Options, Record, Stats, Store, Visit, VisitMany, VisitRecord},
    group::Group,
    write::{self, Table, Write},
};
use crate::{error::Result, row::Durability};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");
/// Share of the budget for its cache, in percent; the rest is for transactions and for the page cache below it.
const CACHE_PERCENT: usize = 50;
/// Without durability, a transaction is still durable when the pages of the transactions before it may take this
/// fraction of the budget. Their pages stay in memory until then, and freed pages are reused only after it.
const PENDING_PART: usize = 8;
/// The approximate size of a transaction of several threads, in bytes: 16 pages.
const TRANSACTION: usize = 16 * 4096;

/// An open database with one table.
pub(super) struct Redb {
    database: Database,
    group: Group<Write>,
    /// Whether a commit waits for the disk.
    durable: bool,
    /// Otherwise one commit in this many does.
    durable_every: u64,
    commits: AtomicU64,
}

pub(super) fn open(options: &Options<'_>) -> Result<Box<dyn Store>> {
    fs::create_dir_all(options.directory)?;
    let cache = options.memory / 100 * CACHE_PERCENT;
    let database = Database::builder().set_cache_size(cache).create(options.directory.join("redb"))?;
    let redb = Redb {
        database,
        group: Group::new(),
        durable: options.durability != Durability::None,
        durable_every: (options.memory / PENDING_PART / TRANSACTION).max(1) as u64,
        commits: AtomicU64::new(0),
    };
    // Creates the table, so that readers find it.
    redb.commit(&[])?;
    Ok(Box::new(redb))
}

impl Table for ::redb::Table<'_, &'static [u8], &'static [u8]> {
    fn holds(&self, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        Ok(self.get(key)?.as_ref().map(|found| found.value()) == value)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(key, value)?;
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<()> {
        ::redb::Table::remove(self, key)?;
        Ok(())
    }
}

impl Redb {
    fn table(&self) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>> {
        Ok(self.database.begin_read()?.open_table(TABLE)?)
    }

    fn commit(&self, writes: &[Write]) -> Result<Vec<bool>> {
        let durable = self.durable || self.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.durable_every);
        self.commit_as(if durable { ::redb::Durability::Immediate } else { ::redb::Durability::None }, writes)
    }

    fn commit_as(&self, durability: ::redb::Durability, writes: &[Write]) -> Result<Vec<bool>> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(durability)?;
        let done = {
            let mut table = transaction.open_table(TABLE)?;
            writes.iter().map(|write| write.apply(&mut table)).collect::<Result<_>>()?
        };
        transaction.commit()?;
        Ok(done)
    }
}

impl Store for Redb {
    fn get(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        visit(self.table()?.get(key)?.as_ref().map(|found| found.value()));
        Ok(())
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut VisitMany<'_>) -> Result<()> {
        let table = self.table()?;
        for (number, key) in keys.iter().enumerate() {
            visit(number, table.get(*key)?.as_ref().map(|found| found.value()));
        }
        Ok(())
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert_batch(&[(key, value)])
    }

    fn insert_batch(&self, records: &[Record<'_>]) -> Result<()> {
        self.group.submit(Write::put(records), |writes| self.commit(writes)).map(drop)
    }

    fn scan(&self, start: &[u8], length: usize, visit: &mut VisitRecord<'_>) -> Result<()> {
        for record in self.table()?.range(start..)?.take(length) {
            let (key, value) = record?;
            visit(key.value(), value.value());
        }
        Ok(())
    }

    fn update(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        let read = || Ok(self.table()?.get(key)?.map(|found| found.value().to_vec()));
        write::update(&self.group, key, change, read, |writes| self.commit(writes))
    }

    fn end(&self, end: End, visit: &mut VisitRecord<'_>) -> Result<()> {
        let table = self.table()?;
        let found = if end == End::First { table.first()? } else { table.last()? };
        found.into_iter().for_each(|(key, value)| visit(key.value(), value.value()));
        Ok(())
    }

    fn take(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.group.submit(Write::Take { key: key.to_vec(), value: value.to_vec() }, |writes| self.commit(writes))
    }

    fn wait_until_quiet(&self) -> Result<()> {
        self.commit_as(::redb::Durability::Immediate, &[]).map(drop)
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.wait_until_quiet()
    }
}
