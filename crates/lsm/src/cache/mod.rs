//! What is in memory of tables: indexes, filters and blocks.

pub(crate) mod eviction_clock;
pub(crate) mod lazy_slot;
pub(crate) mod read_frequency;
pub(crate) mod table_cache;
pub(crate) mod table_reader;
