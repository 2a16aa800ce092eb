//! Loads a store and measures rows of it, in this process: stores, keys, workloads, and the threads that run them.

mod context;
pub(crate) mod disk;
pub(crate) mod files;
pub(crate) mod keys;
mod limit;
pub(crate) mod message;
pub(crate) mod options;
mod permutation;
mod phase;
mod prepare;
pub(crate) mod process;
pub(crate) mod progress;
mod result;
pub(crate) mod rows;
mod run;
pub(crate) mod state;
pub(crate) mod store;
pub(crate) mod transfers;
mod value;
mod versions;
mod warmup;
mod workload;
mod zipf;
