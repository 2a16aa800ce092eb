//! LMDB through heed. `docs/rivals.md` says why it is configured like this.

use std::{fs, ops::Bound};

use ecotone_sys::lmdb;
use heed::{Database, Env, RoTxn, RwTxn, types::Bytes};

use super::{
    contract::{Change, End, Number, Options, Record, Stats, Store, Visit, VisitMany, VisitRecord},
    group::Group,
    write::{self, Table, Write},
};
use crate::{error::Result, row::Durability};

/// The maximum size of a database; nothing is reserved for it.
const MAP_BYTES: usize = 256 << 30;
/// The maximum number of concurrent readers.
const READERS: u32 = 1024;

/// An open environment with its one unnamed database.
pub(super) struct Lmdb {
    environment: Env,
    database: Database<Bytes, Bytes>,
    group: Group<Write>,
}

/// A write transaction and the database that it writes.
struct Writing<'a> {
    transaction: RwTxn<'a>,
    database: Database<Bytes, Bytes>,
}

pub(super) fn open(options: &Options<'_>) -> Result<Box<dyn Store>> {
    fs::create_dir_all(options.directory)?;
    let sync = options.durability == Durability::Sync;
    let environment = lmdb::open(options.directory, lmdb::Options { map_size: MAP_BYTES, readers: READERS, sync })?;
    let mut transaction = environment.write_txn()?;
    let database = environment.create_database(&mut transaction, None)?;
    transaction.commit()?;
    Ok(Box::new(Lmdb { environment, database, group: Group::new() }))
}

impl Table for Writing<'_> {
    fn holds(&self, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        Ok(self.database.get(&self.transaction, key)? == value)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.database.put(&mut self.transaction, key, value)?)
    }

    fn remove(&mut self, key: &[u8]) -> Result<()> {
        self.database.delete(&mut self.transaction, key)?;
        Ok(())
    }
}

impl Lmdb {
    fn read(&self, transaction: &RoTxn<'_>, key: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        visit(self.database.get(transaction, key)?);
        Ok(())
    }

    fn commit(&self, writes: &[Write]) -> Result<Vec<bool>> {
        let mut writing = Writing { transaction: self.environment.write_txn()?, database: self.database };
        let done = writes.iter().map(|write| write.apply(&mut writing)).collect::<Result<_>>()?;
        writing.transaction.commit()?;
        Ok(done)
    }

    fn check(&self, key: &[u8]) -> Result<()> {
        let most = self.environment.max_key_size();
        if (1..=most).contains(&key.len()) {
            return Ok(());
        }
        Err(format!("lmdb takes keys of 1 to {most} bytes, and this one has {}", key.len()).into())
    }
}

impl Store for Lmdb {
    fn get(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        let transaction = self.environment.read_txn()?;
        self.read(&transaction, key, visit)
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut VisitMany<'_>) -> Result<()> {
        let transaction = self.environment.read_txn()?;
        keys.iter()
            .enumerate()
            .try_for_each(|(number, key)| self.read(&transaction, key, &mut |value| visit(number, value)))
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert_batch(&[(key, value)])
    }

    fn insert_batch(&self, records: &[Record<'_>]) -> Result<()> {
        records.iter().try_for_each(|(key, _)| self.check(key))?;
        self.group.submit(Write::put(records), |writes| self.commit(writes)).map(drop)
    }

    fn scan(&self, start: &[u8], length: usize, visit: &mut VisitRecord<'_>) -> Result<()> {
        let transaction = self.environment.read_txn()?;
        let range = (Bound::Included(start), Bound::Unbounded);
        for record in self.database.range(&transaction, &range)?.take(length) {
            let (key, value) = record?;
            visit(key, value);
        }
        Ok(())
    }

    fn update(&self, key: &[u8], change: &mut Change<'_>) -> Result<()> {
        self.check(key)?;
        let read = || {
            let transaction = self.environment.read_txn()?;
            Ok(self.database.get(&transaction, key)?.map(<[u8]>::to_vec))
        };
        write::update(&self.group, key, change, read, |writes| self.commit(writes))
    }

    fn end(&self, end: End, visit: &mut VisitRecord<'_>) -> Result<()> {
        let transaction = self.environment.read_txn()?;
        let found = match end {
            End::First => self.database.first(&transaction)?,
            End::Last => self.database.last(&transaction)?,
        };
        found.into_iter().for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    fn take(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.group.submit(Write::Take { key: key.to_vec(), value: value.to_vec() }, |writes| self.commit(writes))
    }

    fn wait_until_quiet(&self) -> Result<()> {
        Ok(self.environment.force_sync()?)
    }

    fn stats(&self) -> Stats {
        let file = self.environment.real_disk_size().unwrap_or(0);
        Stats { engine: [("file_bytes".to_owned(), Number::Level(file))].into(), ..Stats::default() }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.environment.force_sync()?;
        self.environment.prepare_for_closing().wait();
        Ok(())
    }
}
