//! The sizes of the parts of a keyspace: what follows from options and memory budget, or what a test gives.

use std::thread;

use crate::options::LsmOptions;

/// Sizes of the parts of a keyspace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tuning {
    /// Bytes of records with which a memtable is full.
    pub(crate) memtable: usize,
    /// Bytes of blocks of a full table.
    pub(crate) table: u64,
    /// Bytes of L0 from which on it is compacted.
    pub(crate) l0_target: u64,
    /// Most bytes of small runs of L0 that are merged within L0: those of a memtable, so that large runs are not
    /// written twice unless scans pay for it.
    pub(crate) size_tiered_bytes: u64,
    /// Least bytes of tables of a subcompaction.
    pub(crate) part: u64,
    /// The same for a part of a conversion, which ends with no table of its own.
    pub(crate) conversion_part: u64,
    /// Most threads that help with a compaction, and the part of the budget below which their memory stays.
    pub(crate) helpers: usize,
    pub(crate) helpers_part: usize,
    /// The debt ratio from which on they help.
    pub(crate) late: f64,
    /// For tests: whether compactions are done in slices now and then, however much space there is.
    pub(crate) slices: bool,
}

/// Least tables of a subcompaction, by bytes: it ends with a table that is half full on average.
const PART_TABLES: u64 = 4;
/// Most threads that help with a compaction, and processors that are left to other work.
const MOST_HELPERS: usize = 3;
const OTHERS: usize = 1;
/// All helpers together have this part of the budget.
pub(crate) const HELPERS_PART: usize = 32;
/// L0 has this part of the budget.
const LEVEL_0_PART: u64 = 2;

impl Tuning {
    /// The sizes that follow from options and memory budget.
    pub(crate) fn of(options: &LsmOptions, budget: usize) -> Tuning {
        Tuning {
            memtable: options.memtable_bytes(budget) as usize,
            table: options.table_bytes(budget),
            l0_target: budget as u64 / LEVEL_0_PART,
            size_tiered_bytes: options.memtable_bytes(budget),
            part: PART_TABLES * options.table_bytes(budget),
            conversion_part: options.table_bytes(budget),
            helpers: MOST_HELPERS
                .min(thread::available_parallelism().map_or(0, |processors| processors.get() - OTHERS)),
            helpers_part: HELPERS_PART,
            late: 1.0,
            slices: false,
        }
    }
}
