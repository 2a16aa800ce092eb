//! Reading: keys one by one, many keys at once, and ranges.

pub(in crate::lsm) mod get;
pub(in crate::lsm) mod index_loads;
pub(in crate::lsm) mod iterator;
pub(in crate::lsm) mod level_iterator;
pub(in crate::lsm) mod merging_iterator;
pub(in crate::lsm) mod multi_get;
pub(in crate::lsm) mod run_iterator;
