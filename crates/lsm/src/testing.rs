//! What the tests of other crates see and do in a keyspace; never in a product build.

use std::{any::Any, sync::Arc};

use ecotone_substrate::{Result, limits::MAX_KEY};
use ecotone_sys::primitive::unless_shuttle;

use crate::{
    LsmFamily, checker::ReadChecker, family::MakeReadObserver, keyspace::LsmKeyspace, store::Lsm, tuning::Tuning,
    version::TableMeta,
};

impl Tuning {
    /// Memtables of one slab, tables of few blocks, and subcompactions of few tables, if there are enough of them.
    pub(crate) const TINY: Tuning = Tuning {
        memtable: 48 << 10,
        table: 16 << 10,
        // In a schedule of shuttle, threads do a few flushes of a few records. A table has 16 KiB at least.
        l0_target: unless_shuttle(72 << 10, 4 << 10),
        size_tiered_bytes: 64 << 10,
        part: 32 << 10,
        conversion_part: unless_shuttle(16 << 10, 1),
        helpers: 2,
        helpers_part: 4,
        late: 0.0,
        slices: true,
    };
}

impl LsmFamily {
    /// An LSM engine that flushes often, into small tables, and checks its reads (adaptive-protocol.md, "The read
    /// checker").
    pub fn tiny() -> LsmFamily {
        LsmFamily::checked(Tuning::TINY)
    }

    /// The same with tables of so many bytes.
    pub fn tiny_with_tables(table: u64) -> LsmFamily {
        LsmFamily::checked(Tuning { table, part: 2 * table, ..Tuning::TINY })
    }

    /// The same without the read checker, so that reads can be counted.
    pub fn unchecked(mut self) -> LsmFamily {
        self.read_observers = None;
        self
    }

    fn checked(tuning: Tuning) -> LsmFamily {
        let mut family = LsmFamily::default();
        // Test suites with several threads write no value twice.
        let read_checker: MakeReadObserver = |is_empty, is_threaded| Arc::new(ReadChecker::new(is_empty, !is_threaded));
        (family.tuning, family.read_observers) = (Some(tuning), Some(read_checker));
        family
    }
}

impl LsmKeyspace {
    /// Empties the block cache, so that the next scans read from disk.
    pub fn forget_blocks(&self) {
        self.lsm().files.loader().cache().blocks().shrink(usize::MAX);
    }

    /// The first and last keys of all tables, and the bounds of all paged ranges.
    pub fn bounds(&self) -> Vec<Vec<u8>> {
        let version = self.lsm().version();
        let of_tables = version.tables().flat_map(|reader| [reader.first(), reader.last()]);
        of_tables.chain(version.paged_ranges().bounds()).map(<[u8]>::to_vec).collect()
    }

    /// Holds the structure mutex until the guard is dropped.
    pub fn hold_structure(&self) -> impl Sized + '_ {
        self.files().lock_structure()
    }
}

impl Lsm {
    /// Runs one due compaction. False if nothing is due.
    pub fn run_compaction(self: &Arc<Self>) -> Result<bool> {
        self.compact_next()
    }

    /// Reads of blocks, including those of dropped tables.
    pub fn reads(&self) -> u64 {
        self.files.loader().read_frequency.reads(&self.version())
    }

    /// The current version, to be compared with a later one by its address.
    pub fn current_version(&self) -> Arc<dyn Any + Send + Sync> {
        self.version()
    }

    /// Whether a table of the newest run has keys on both sides of a key.
    pub fn is_in_newest_table(&self, key: &[u8]) -> bool {
        let version = self.version();
        let (_, run) = version.runs().next().expect("something was flushed");
        let (before, behind) = (run.within((&[], key)).last(), run.within((key, &[0xff; MAX_KEY])).first());
        before.zip(behind).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    }
}
