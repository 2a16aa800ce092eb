//! **Ecotone**: an embedded, persistent key-value store for data several times larger than memory on NVMe disks.
//!
//! A [`Database`] is a directory with one write-ahead log and one memory budget. It holds *keyspaces*. Each is created
//! with an engine that suits its use:
//!
//! - [`Keyspace`] is ordered and supports range scans. [`Engine::Adaptive`], the default, keeps records in tables and
//!   converts scanned ranges to pages and back (after AHA-tree). [`Engine::Tree`] is an update-in-place tree behind a
//!   record cache, for point reads and writes (after TreeLine, VLDB 2023). [`Engine::Lsm`] keeps tables in levels with
//!   learned indexes, for data that is written much and read rarely (after SpongeKV).
//! - [`HashKeyspace`] serves point reads and writes, counters and updates. It is a hybrid log under a latch-free index,
//!   with a read cache and a cold tier (after F2).
//!
//! ```
//! use ecotone::{Database, KeyspaceOptions};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("db");
//! let database = Database::builder(&path).memory_budget(64 << 20).open()?;
//! let towns = database.keyspace("towns", KeyspaceOptions::default())?;
//! towns.insert("Zwolle", "52.51,6.09")?;
//! assert_eq!(towns.get("Zwolle")?.as_deref(), Some(&b"52.51,6.09"[..]));
//! for record in towns.range("A".."Zz") {
//!     let (key, value) = record?;
//!     println!("{} is at {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
//! }
//! database.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Durability
//!
//! The default is [`Durability::Buffered`]: a write that has returned survives the death of the process, but not a
//! power failure. With [`Durability::Sync`] it survives both. The writes that survive are always a prefix of all
//! writes. Choose per write: [`Keyspace::durability`], [`Batch::durability`]. A keyspace can also be *unlogged*
//! ([`KeyspaceOptions::unlogged`]): after a crash it holds at least what the last [`Database::flush`] wrote.
//!
//! # What concurrent readers see
//!
//! A read sees a write from the moment it is applied, which may be before it is durable. A [`Batch`] is recovered whole
//! or not at all, but becomes visible key by key. Iterators are consistent per key, see [`Iter`].

mod batch;
mod builder;
mod config;
mod core;
mod database;
mod handle;
mod hash_iter;
mod hash_keyspace;
mod iter;
mod keyspace;
mod repair;
mod stats;
mod update;

pub use ecotone_adaptive::AdaptiveOptions;
pub use ecotone_engine::{
    contract::{Check, ConversionReason, Hint, RangeShape, SampledStats, SegmentCount, SegmentPlacement, Shape},
    merge::Merge,
};
pub use ecotone_hash::HashOptions;
pub use ecotone_lsm::LsmOptions;
pub use ecotone_substrate::{Error, Result, storage::Counters, wal::Durability};
pub use ecotone_tree::TreeOptions;

pub use batch::{AnyKeyspace, Batch};
pub use builder::Builder;
pub use config::{Engine, HashKeyspaceOptions, KeyspaceOptions};
pub use database::{Database, KeyspaceInfo};
pub use hash_iter::HashIter;
pub use hash_keyspace::HashKeyspace;
pub use iter::Iter;
pub use keyspace::Keyspace;
pub use repair::{KeyRange, Ranges, Repair, RepairProgress, RepairReport, RepairStep, RepairedKeyspace};
pub use stats::{KeyspaceStats, LogStats, MemoryUse, Stats, WriterDelays};
pub use update::Swap;

/// The values of options that are one of several, in [`TreeOptions`], [`LsmOptions`], [`AdaptiveOptions`] and
/// [`HashOptions`].
pub mod options {
    pub use ecotone_adaptive::Insert;
    pub use ecotone_hash::Compaction;
    pub use ecotone_lsm::{Compression, IndexKind, Split};
    pub use ecotone_tree::{ForecastKind, Model, PageFill};
}

/// The limits of keys, records, batches and databases.
pub mod limits {
    pub use ecotone_substrate::limits::{
        MAX_BATCH, MAX_KEY, MAX_KEYSPACES, MAX_NAME, MAX_RECORD, MIN_BUDGET, MIN_FILES, PAGE,
    };
}

/// Components that the tests of the codebase replace: storage, scheduler, engines. Not a public interface.
#[doc(hidden)]
pub mod internal {
    pub use ecotone_adaptive as adaptive;
    pub use ecotone_engine as engine;
    pub use ecotone_hash as hash;
    pub use ecotone_lsm as lsm;
    pub use ecotone_substrate as substrate;
    pub use ecotone_tree as tree;

    pub use crate::core::Components;
}

/// Compiles the README's program.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
