//! What the tests of other crates see and do in a keyspace; never in a product build.

use std::{any::Any, sync::Arc};

use ecotone_substrate::{Result, limits::MAX_KEY};

use crate::{keyspace::LsmKeyspace, store::Lsm, version::TableMeta};

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
        self.files().structure()
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
