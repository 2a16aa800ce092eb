//! The LSM engine: a log-structured merge tree. Writes go into memtables; flushes write these as sorted tables into
//! runs of L0; compactions merge the runs into levels. Small indexes find the blocks of a table. Optionally a page
//! tier, which another engine keeps, holds the oldest records of some ranges below the tables (decisions 11 and 12,
//! `docs/format/lsm.md`).

pub mod blob;
mod bulk;
mod check;
mod checked_reads;
mod compaction;
mod convert_to_pages;
mod convert_to_tables;
mod counters;
mod cpu_time;
mod disk_shortage;
mod eviction_clock;
mod family;
mod flush;
mod flush_to_pages;
mod get;
mod idle;
mod index_loads;
pub(crate) mod keyspace;
mod lazy_slot;
mod level_iterator;
pub mod manifest;
mod memtable;
mod memtable_pool;
mod merging_iterator;
mod multi_get;
mod options;
pub(crate) mod page_tier;
mod pending_frees;
mod raise_floors;
mod range_copy;
mod range_size;
mod reactivate;
mod read_budget;
mod read_checker;
mod read_frequency;
pub mod repair;
mod rotate;
mod run_builder;
mod run_iterator;
mod scan;
mod slab_reserve;
pub(crate) mod store;
mod super_version;
pub mod table;
mod table_cache;
mod table_reader;
#[cfg(test)]
mod tests;
mod tombstones;
mod version;
mod version_set;
mod write_stall;

pub(crate) use self::{
    compaction::range_compaction::{RangeCompactionEstimate, RangeCompactionStep},
    range_size::key_after,
};
pub use self::{family::LsmFamily, options::LsmOptions, version::Split};
