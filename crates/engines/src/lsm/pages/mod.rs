//! Pages below the tables: converting ranges to them and back.

pub(in crate::lsm) mod pending_frees;
pub(in crate::lsm) mod range_copy;
pub(crate) mod range_size;
pub(in crate::lsm) mod reactivate;
pub(crate) mod tier;
pub(in crate::lsm) mod to_pages;
pub(in crate::lsm) mod to_tables;
