//! Reading: keys one by one, many keys at once, and ranges.

pub(crate) mod get;
pub(crate) mod index_loads;
pub(crate) mod iterator;
pub(crate) mod merging_iterator;
pub(crate) mod multi_get;
pub(crate) mod run_iterator;
pub(crate) mod sorted_run_iterator;
