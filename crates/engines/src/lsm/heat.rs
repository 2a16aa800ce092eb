//! How much tables are read, by which the kind of their index is chosen where nobody has (decision 11, "Index").

use std::sync::atomic::{AtomicU64, Ordering};

use super::{
    handle::Handle,
    version::{Ranged, Version},
};

/// Reads of all tables of a keyspace, from its opening on.
#[derive(Debug, Default)]
pub(super) struct Heat {
    /// Of tables that are gone.
    gone: AtomicU64,
    /// Of all, when a job asked last.
    all: AtomicU64,
}

/// Reads of one table.
#[derive(Debug)]
pub(super) struct Reads {
    count: AtomicU64,
    /// Those that all tables had had when this one was made, or opened.
    since: u64,
}

impl Reads {
    /// None yet.
    pub(super) fn new(heat: &Heat) -> Reads {
        Reads { count: AtomicU64::new(0), since: heat.all.load(Ordering::Relaxed) }
    }

    /// A block is read for a key.
    #[inline]
    pub(super) fn increment(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Heat {
    /// A table of the keyspace is about to go.
    pub(super) fn forget(&self, table: &Handle) {
        self.gone.fetch_add(table.reads.get(), Ordering::Relaxed);
    }

    /// Reads of all tables, those of this version among them.
    pub(super) fn reads(&self, version: &Version<Handle>) -> u64 {
        self.gone.load(Ordering::Relaxed) + version.tables().map(|table| table.reads.get()).sum::<u64>()
    }

    /// How often a byte of these tables of a version is read, by how often one of the version is in the mean. The less
    /// there was to be read since they were made, the nearer to 1: a table that nobody has read may be new.
    pub(super) fn of<'t>(&self, tables: impl Iterator<Item = &'t Handle>, version: &Version<Handle>) -> f64 {
        let bytes: u64 = version.tables().map(|table| table.bytes()).sum();
        let all = self.reads(version);
        self.all.store(all, Ordering::Relaxed);
        let (mut seen, mut expected) = (0.0, 0.0);
        for table in tables {
            let since = all.saturating_sub(table.reads.since) as f64;
            seen += table.reads.get() as f64;
            expected += since * table.bytes() as f64 / bytes.max(1) as f64;
        }
        (seen + 1.0) / (expected + 1.0)
    }
}
