//! Read frequency of tables. Where the options name no kind of index, it is chosen by this (lsm.md, "Tables").

use std::sync::atomic::{AtomicU64, Ordering};

use crate::version::{TableMeta, Version};

/// A table that counts its reads.
pub(crate) trait CountsReads: TableMeta {
    /// Reads of its blocks for keys.
    fn reads(&self) -> &TableReads;
}

/// Reads of all tables of a keyspace since it was opened.
#[derive(Debug, Default)]
pub(crate) struct ReadFrequency {
    /// Reads of dropped tables.
    gone: AtomicU64,
    /// Reads of all tables, when a job asked last.
    all: AtomicU64,
}

/// Reads of one table.
#[derive(Debug)]
pub(crate) struct TableReads {
    count: AtomicU64,
    /// Reads of all tables when this one was created or opened.
    since: u64,
}

impl TableReads {
    /// No reads yet.
    pub(crate) fn new(read_frequency: &ReadFrequency) -> TableReads {
        TableReads { count: AtomicU64::new(0), since: read_frequency.all.load(Ordering::Relaxed) }
    }

    /// Counts a read of a block for a key.
    #[inline]
    pub(crate) fn increment(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl ReadFrequency {
    /// Keeps the reads of a table that is about to be dropped.
    pub(crate) fn forget(&self, table: &impl CountsReads) {
        self.gone.fetch_add(table.reads().get(), Ordering::Relaxed);
    }

    /// Reads of all tables, dropped ones and those of this version.
    pub(crate) fn reads(&self, version: &Version<impl CountsReads>) -> u64 {
        self.gone.load(Ordering::Relaxed) + version.tables().map(|table| table.reads().get()).sum::<u64>()
    }

    /// How often a byte of these tables is read, relative to the mean of the version. The fewer reads there were since
    /// the tables were created, the nearer to 1: a table without reads may be new.
    pub(crate) fn of<'t, T: CountsReads + 't>(&self, tables: impl Iterator<Item = &'t T>, version: &Version<T>) -> f64 {
        let bytes: u64 = version.tables().map(|table| table.bytes()).sum();
        let all = self.reads(version);
        self.all.store(all, Ordering::Relaxed);
        let (mut seen, mut expected) = (0.0, 0.0);
        for table in tables {
            let since = all.saturating_sub(table.reads().since) as f64;
            seen += table.reads().get() as f64;
            expected += since * table.bytes() as f64 / bytes.max(1) as f64;
        }
        (seen + 1.0) / (expected + 1.0)
    }
}
