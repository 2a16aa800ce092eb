//! The interface through which the suites drive a database. The library implements it in its own tests, since the test
//! kit must not depend on the library.

use std::{collections::BTreeMap, sync::Arc};

use ecotone_engine::{
    contract::{Hint, Range, Record},
    merge::Merge,
};
use ecotone_substrate::{Result, Seq};

use super::ReportRecorder;
use crate::{
    model::{Change, Level},
    sim::SimStorage,
};

/// Counters by name.
pub type Counters = BTreeMap<&'static str, u64>;

/// Makes a new value, or none, from the old value.
pub type Update<'a> = dyn FnMut(Option<&[u8]>) -> Option<Vec<u8>> + 'a;

/// What the keyspaces of an engine can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Their keys have an order: there are ranges, prefixes and bulk loads.
    Ordered,
    /// Their keys are found by a hash: a walk gives all records, in no order.
    Hashed,
}

/// An open database. Most suites drive it with one thread, some with several. A keyspace is identified by its number;
/// [`UNLOGGED`] is an unlogged one.
pub trait Store: Send + Sync {
    /// The keyspaces that exist.
    fn keyspaces(&self) -> Vec<u32>;
    /// Makes a keyspace.
    fn create(&self, keyspace: u32) -> Result<()>;
    /// Drops a keyspace.
    fn drop_keyspace(&self, keyspace: u32) -> Result<()>;
    /// Writes one change, or several as a batch.
    fn write(&self, changes: &[Change], level: Level) -> Result<()>;
    /// The value of a key.
    fn get(&self, keyspace: u32, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// The values of many keys.
    fn multi_get(&self, keyspace: u32, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>>;
    /// All records of a hashed keyspace, as they come.
    fn walk(&self, keyspace: u32) -> Result<Vec<Record>>;
    /// The records of a range of an ordered keyspace, from its end if `reverse`.
    fn scan(&self, keyspace: u32, range: Range, reverse: bool) -> Result<Vec<Record>>;
    /// The records of an ordered keyspace with a prefix.
    fn prefix(&self, keyspace: u32, prefix: &[u8]) -> Result<Vec<Record>>;
    /// Replaces a value by the result of `update`; gives the old value.
    fn update(&self, keyspace: u32, key: &[u8], update: &mut Update<'_>) -> Result<Option<Vec<u8>>>;
    /// Replaces a value if it is as expected; gives whether it was.
    fn swap(&self, keyspace: u32, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool>;
    /// Adds to a counter, or appends to a value.
    fn merge(&self, keyspace: u32, key: &[u8], merge: Merge<'_>) -> Result<()>;
    /// Bulk-loads records, ascending and above all existing keys, into an ordered keyspace.
    fn bulk_load(&self, keyspace: u32, records: Vec<Record>) -> Result<u64>;
    /// Hints how a range of an ordered keyspace will be used.
    fn hint(&self, keyspace: u32, range: Range, hint: Hint) -> Result<()>;
    /// Flushes everything to the data files and makes a checkpoint.
    fn flush(&self) -> Result<()>;
    /// Syncs the log.
    fn sync(&self) -> Result<()>;
    /// Runs one background job; false if none is pending.
    fn background(&self) -> bool;
    /// Takes memory for a moment, so that caches of clean records keep at most `spare` bytes.
    fn squeeze(&self, spare: usize);
    /// Makes caches of clean records give memory to another cache, with memory left for other work.
    fn evict(&self);
    /// Checks everything; gives each problem as a sentence.
    fn verify(&self) -> Result<Vec<String>>;
    /// Counters of the engines, summed over all keyspaces.
    fn counters(&self) -> Counters;
    /// The listener that hears of superseded versions; `None` if the engine reports nothing.
    fn recorder(&self) -> Option<Arc<ReportRecorder>>;
    /// The end of the log.
    fn log_end(&self) -> Seq;
    /// Does all work that removes superseded versions. False if some may be left.
    fn purge(&self) -> Result<bool>;
    /// Why writing has stopped, if it has.
    fn failure(&self) -> Option<String>;
    /// Closes the database without losing anything.
    fn close(self: Box<Self>) -> Result<()>;
}

/// The number of the keyspace that is made unlogged.
pub const UNLOGGED: u32 = 0;

/// Opens databases with one kind of engine.
pub trait Opener: Sync {
    /// The engine's name.
    fn name(&self) -> &'static str;
    /// What its keyspaces can do.
    fn kind(&self) -> Kind;
    /// Whether its keyspaces act on hints.
    fn takes_hints(&self) -> bool;
    /// Opens the database on `disk`, or creates it. Clock and identity come from `seed`.
    fn open(&self, disk: &SimStorage, seed: u64) -> Result<Box<dyn Store>>;
}

/// Adds counters to earlier ones.
pub fn add(to: &mut Counters, more: &Counters) {
    more.iter().for_each(|(name, count)| *to.entry(name).or_default() += count);
}
