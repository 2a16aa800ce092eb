//! What the threads do: which operations, on which records, in which order.

pub(crate) mod distribution;
pub(crate) mod generator;
pub(crate) mod inserts;
pub(crate) mod mix;
pub(crate) mod trace;
