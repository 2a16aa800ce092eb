//! Options of a hashed keyspace.

use ecotone_hash::Compaction;

use super::{
    keyspace::CreateOptions,
    settings::{Settings, switch},
};

/// The name of the hash engine in files and tools.
pub(crate) const HASH: &str = "hash";

/// Creation options of a hashed keyspace. They are fixed at its creation. Values out of range are errors when the
/// keyspace is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashOptions {
    pub(crate) creation: CreateOptions,
}

impl Default for HashOptions {
    /// A logged keyspace with the engine's default options.
    fn default() -> Self {
        HashOptions::engine_named(HASH)
    }
}

impl HashOptions {
    /// Sets the most bytes that the files of the keyspace may have together, 16 MiB to 2⁶⁰. Default none. The log of
    /// the database does not count. Near the limit, old versions are removed sooner, at the price of more writes, and
    /// writers are throttled. If live data reaches the limit, writes that add data fail with
    /// [`Error::DiskBudget`](crate::Error::DiskBudget) until enough is deleted. Choose 1.5 times the size of keys and
    /// values, and no less than 1.3 times plus 5 MiB.
    pub fn disk(self, bytes: u64) -> Self {
        self.with("disk", bytes)
    }

    /// Sets the bytes of the latest writes that stay on disk in write order, beyond memory, before they are sorted, 0
    /// to 2⁴⁰. Default 0. More saves rewrites of records that change again and again. It costs memory for the index (a
    /// tenth of it) and time at opening.
    pub fn hot_disk(self, bytes: u64) -> Self {
        self.with("hot_disk", bytes)
    }

    /// Sets how compaction finds live records. Default [`Compaction::Lookup`]. [`Compaction::Scan`] reads everything
    /// written since, as FASTER does. It takes more time and memory, and exists for comparison.
    pub fn compaction(self, compaction: Compaction) -> Self {
        self.with("compaction", compaction.name())
    }

    /// Sets whether copies of records read from disk are kept in memory. Default true. False leaves the memory to
    /// writes.
    pub fn read_cache(self, is_on: bool) -> Self {
        self.with("read_cache", switch(is_on))
    }

    /// Keeps the operations of this keyspace out of the log, as
    /// [`KeyspaceOptions::unlogged`](crate::KeyspaceOptions::unlogged) does. Its writes then take no locks of the
    /// database, and those of a batch are made one by one.
    pub fn unlogged(mut self) -> Self {
        self.creation.logged = false;
        self
    }

    /// Sets an option by its name, for tools that read options from a command line. The names are those of the methods
    /// above; switches are `on` and `off`. Unknown names and bad values are errors when the keyspace is created.
    pub fn set(self, option: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(option, value.into())
    }

    fn with(mut self, option: impl Into<String>, value: impl ToString) -> Self {
        self.creation.settings = self.creation.settings.with(option, value);
        self
    }

    #[doc(hidden)]
    pub fn engine_named(name: &str) -> Self {
        HashOptions { creation: CreateOptions::new(name, Settings::default()) }
    }
}
