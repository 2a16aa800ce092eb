//! What every Ecotone engine stands on; it knows no engine.
//!
//! Start at [`storage`] (the one seam through which every byte goes to disk), then [`page`], [`wal`] and [`manifest`].

#[macro_use]
pub mod bug;
pub mod clock;
pub mod codec;
pub mod disk;
pub mod double_write;
pub mod environment;
pub mod error;
pub mod failures;
pub mod health;
pub mod held;
pub mod history;
pub mod limits;
pub mod manifest;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod pace;
pub mod page;
pub mod retry;
pub mod scheduler;
pub mod search;
pub mod single;
pub mod state;
pub mod storage;
pub mod table;
pub mod wal;

pub use error::{Error, Result};

/// A sequence number: the logical byte position of a record in the write-ahead log
/// (`docs/decisions/0001-contracts.md`).
pub type Seq = u64;
