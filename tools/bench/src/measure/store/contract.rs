//! The contract of a store: the few calls that the workloads need, and the types in them.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;

use crate::{error::Result, row::Durability};

/// The error if the workload `adapt` runs on other stores.
pub(super) const NEVER_ADAPTS: &str = "this store does not adapt: the workload adapt is of the store adaptive alone";

/// The options for opening a store.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    /// A directory of its own.
    pub(crate) directory: &'a Path,
    /// The memory budget in bytes.
    pub(crate) memory: usize,
    pub(crate) durability: Durability,
    /// The engine's options by name, and [`TABLE_CACHE`].
    pub(crate) settings: &'a [(String, String)],
}

/// A setting of the database rather than the keyspace: the maximum bytes of all indexes and filters of tables. Stored
/// data does not depend on it.
pub(crate) const TABLE_CACHE: &str = "table_cache";

impl Options<'_> {
    /// The setting of an option of the database.
    pub(super) fn of_database(&self, wanted: &str) -> Option<&str> {
        self.settings.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    /// Settings of the keyspace.
    pub(super) fn of_keyspace(&self) -> impl Iterator<Item = &(String, String)> {
        self.settings.iter().filter(|(name, _)| name != TABLE_CACHE)
    }
}

/// A number that an engine reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Number {
    /// A counter; only its increase matters.
    Count(u64),
    /// A gauge.
    Level(u64),
}

impl Number {
    /// The plain number.
    pub(crate) fn value(self) -> u64 {
        match self {
            Number::Count(value) | Number::Level(value) => value,
        }
    }
}

/// Statistics of a store since its open.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stats {
    /// Requests to the device.
    pub(crate) device_reads: u64,
    pub(crate) device_writes: u64,
    /// Bytes of these requests.
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    /// Memory that the index uses now.
    pub(crate) index_bytes: u64,
    /// The engine's own counters.
    pub(crate) engine: BTreeMap<String, Number>,
}

impl Stats {
    /// The statistics since `before`; gauges keep their current value.
    pub(crate) fn since(&self, before: &Stats) -> Stats {
        let engine = self.engine.iter().map(|(name, number)| {
            let number = match (number, before.engine.get(name)) {
                (Number::Count(now), Some(Number::Count(then))) => Number::Count(now.saturating_sub(*then)),
                _ => *number,
            };
            (name.clone(), number)
        });
        Stats {
            device_reads: self.device_reads - before.device_reads,
            device_writes: self.device_writes - before.device_writes,
            read_bytes: self.read_bytes - before.read_bytes,
            write_bytes: self.write_bytes - before.write_bytes,
            index_bytes: self.index_bytes,
            engine: engine.collect(),
        }
    }
}

/// The error if a queue runs on stores that do not support it.
const NO_QUEUE: &str = "this store has no call that removes a record if it is the one that was read: the workloads \
    queue and drain are of others";

/// The first or the last record in key order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    First,
    Last,
}

/// Receives the value that was read, or `None` if there is none.
pub(crate) type Visit<'a> = dyn FnMut(Option<&[u8]>) + 'a;
/// Receives the index of the key among those requested, and its value.
pub(crate) type VisitMany<'a> = dyn FnMut(usize, Option<&[u8]>) + 'a;
/// Receives the key and the value of a record.
pub(crate) type VisitRecord<'a> = dyn FnMut(&[u8], &[u8]) + 'a;
/// Computes a new value from the old one; may be called several times.
pub(crate) type Change<'a> = dyn FnMut(Option<&[u8]>) -> Vec<u8> + 'a;
/// A key and its value, to be written.
pub(crate) type Record<'a> = (&'a [u8], &'a [u8]);

/// An open store; many threads use it at once.
pub(crate) trait Store: Send + Sync {
    /// Whether reads return written values. False only for the null store, whose answers are not checked.
    fn remembers(&self) -> bool {
        true
    }
    /// Reads one value.
    fn get(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<()>;
    /// Reads many values; a store without such a call reads them one by one.
    fn multi_get(&self, keys: &[&[u8]], visit: &mut VisitMany<'_>) -> Result<()> {
        keys.iter().enumerate().try_for_each(|(number, key)| self.get(key, &mut |value| visit(number, value)))
    }
    /// Writes a record.
    fn insert(&self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Writes records as one batch.
    fn insert_batch(&self, records: &[Record<'_>]) -> Result<()>;
    /// Reads at most `length` records in key order from `start` on.
    fn scan(&self, start: &[u8], length: usize, visit: &mut VisitRecord<'_>) -> Result<()>;
    /// Reads a value and writes the result of `change`, atomically.
    fn update(&self, key: &[u8], change: &mut Change<'_>) -> Result<()>;
    /// Reads the record at an end, if there is one.
    fn end(&self, end: End, visit: &mut VisitRecord<'_>) -> Result<()> {
        if end == End::First { self.scan(&[], 1, visit) } else { Err(NO_QUEUE.into()) }
    }
    /// Removes a record if it has this value, and returns whether it did.
    fn take(&self, _key: &[u8], _value: &[u8]) -> Result<bool> {
        Err(NO_QUEUE.into())
    }
    /// Begins to adapt all keys to scans in the background.
    fn adapt(&self) -> Result<()> {
        Err(NEVER_ADAPTS.into())
    }
    /// Whether it is still adapting.
    fn is_adapting(&self) -> bool {
        false
    }
    /// Flushes everything to the data files and waits until background work is done.
    fn wait_until_quiet(&self) -> Result<()>;
    /// Statistics since the open.
    fn stats(&self) -> Stats;
    /// Closes the store without losing data.
    fn close(self: Box<Self>) -> Result<()>;
}
