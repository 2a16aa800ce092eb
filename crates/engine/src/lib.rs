//! The contract between Ecotone and its engines ([`contract`]), and what several engines share.

pub mod bulk;
pub mod contract;
pub mod deferred_results;
pub mod files;
pub mod idle;
pub mod job_lock;
pub mod merge;
pub mod options;
pub mod page_cache;
mod range_shape;
pub mod read_ahead;
pub mod record_cache;
pub mod remaining_range;
pub mod repair;
pub mod superseded;
pub mod write_delay;
