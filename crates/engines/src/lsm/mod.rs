//! The lsm engine: tables of sorted records in levels, found by small indexes (decisions 11 and 12,
//! `docs/format/lsm.md`).

mod absorb;
pub(crate) mod base;
pub mod blob;
mod bulk;
mod check;
mod clearing;
mod clock;
mod compact;
mod count;
mod counters;
mod divert;
mod family;
mod flush;
mod handle;
mod heat;
mod idle;
mod install;
pub(crate) mod keyspace;
mod layer;
mod ledger;
mod lift;
mod litter;
mod loads;
mod lookup;
mod memtable;
mod merged;
mod moves;
mod multi_get;
mod open;
mod options;
mod output;
mod part;
mod pool;
mod pressure;
pub(crate) mod records;
pub mod repair;
mod room;
mod scan;
mod shortage;
mod stored;
pub mod structure;
mod switch;
pub mod table;
mod table_cache;
#[cfg(test)]
mod tests;
mod toll;
mod uncover;
mod version;
mod view;
mod witness;
mod worked;

pub(crate) use self::{
    compact::descent::{Merged, Plan},
    count::behind,
};
pub use self::{family::LsmFamily, options::LsmOptions, version::Split};
