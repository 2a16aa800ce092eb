//! The engines of Ecotone behind one contract, [`engine::Engine`].

pub mod adaptive;
mod bulk;
mod deferred_results;
pub mod engine;
mod files;
pub mod hash;
pub mod idle;
mod job_lock;
pub mod lsm;
pub mod merge;
mod page_cache;
mod read_ahead;
pub mod record_cache;
mod remaining_range;
pub mod repair;
#[cfg(test)]
mod tests;
pub mod tree;
mod write_delay;
