//! What is in memory of tables: indexes, filters and blocks.

pub(in crate::lsm) mod eviction_clock;
pub(in crate::lsm) mod lazy_slot;
pub(in crate::lsm) mod read_frequency;
pub(in crate::lsm) mod table_cache;
pub(in crate::lsm) mod table_reader;
