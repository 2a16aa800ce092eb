//! Pages below the tables: converting ranges to them and back.

pub(crate) mod pending_frees;
pub(crate) mod range_copy;
pub(crate) mod range_size;
pub(crate) mod reactivate;
pub mod tier;
pub(crate) mod to_pages;
pub(crate) mod to_tables;
