//! The substrate of all Ecotone engines: storage, pages, log, manifest, memory. It knows no engine.
//!
//! Start at [`storage`] (the one seam through which every byte goes to disk), then [`page`], [`wal`] and [`manifest`].

#[macro_use]
pub mod bug;
pub mod clock;
pub mod coalesced_job;
pub mod codec;
pub mod disk;
pub mod double_write;
pub mod environment;
pub mod error;
pub mod failures;
pub mod ghost_list;
pub mod health;
pub mod limits;
pub mod lock_rank;
pub mod manifest;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod page;
pub mod record_header;
pub mod retry;
pub mod scheduler;
pub mod search;
pub mod storage;
pub mod table;
pub mod throttle;
pub mod wal;

pub use error::{Error, Result};

/// A sequence number: the logical byte position of a record in the write-ahead log (commit-and-recovery.md, "Terms").
pub type Seq = u64;
