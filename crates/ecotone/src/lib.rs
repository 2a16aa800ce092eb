//! **Ecotone**: an embedded, persistent key-value store for data several times larger than memory on NVMe disks.
//!
//! Use it in a program that keeps more records than fit into memory, reads some of them much more often than others,
//! and needs a hard limit on the store's memory. There is no server: the library works inside of the program, on Linux.
//!
//! A [`Database`] is a directory with one write-ahead log and one memory budget. It holds *keyspaces*: maps from byte
//! strings to byte strings. A [`Keyspace`] is ordered, with the calls of a `BTreeMap`. A [`HashKeyspace`] has no order,
//! with the calls of a `HashMap`. All handles are cheap to clone, and any thread may use them.
//!
//! # Quick start
//! ```
//! use ecotone::{Database, HashOptions, KeyspaceOptions, Merge};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("db");
//! // Opens the database, or creates it.
//! let database = Database::builder(&path).memory_budget(64 << 20).open()?;
//!
//! // An ordered keyspace: points and ranges.
//! let towns = database.keyspace("towns", KeyspaceOptions::default())?;
//! towns.insert("Zwolle", "52.51 6.09")?;
//! towns.insert("Almelo", "52.36 6.66")?;
//! assert_eq!(towns.get("Zwolle")?.as_deref(), Some(&b"52.51 6.09"[..]));
//! for record in towns.range("A".."M") {
//!     let (name, place) = record?;
//!     println!("{} is at {}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&place));
//! }
//!
//! // A hashed keyspace: counters.
//! let visits = database.hash_keyspace("visits", HashOptions::default())?;
//! visits.merge("Zwolle", Merge::Add(1))?;
//!
//! // Several writes that are recovered whole or not at all.
//! let mut batch = database.batch();
//! batch.remove(&towns, "Almelo");
//! batch.insert(&towns, "Utrecht", "52.09 5.12");
//! batch.commit()?;
//!
//! // Dropping the last handle closes the database too, but here an error is seen.
//! database.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Longer programs are in `crates/ecotone/examples`.
//!
//! # Which engine when
//!
//! Each keyspace has an engine, which is chosen when it is created.
//!
//! | use | engine | how it works |
//! |---|---|---|
//! | not known yet, or changing | [`Engine::Adaptive`], the default | tables, and pages for scans (after AHA-tree) |
//! | point reads and updates | [`Engine::Tree`] | pages behind a record cache (after TreeLine) |
//! | many writes, few reads | [`Engine::Lsm`] | tables in levels, learned indexes (after SpongeKV) |
//! | counters, no ranges | [`HashKeyspace`] | a hybrid log under a latch-free index (after F2) |
//!
//! [`TreeOptions`], [`LsmOptions`], [`AdaptiveOptions`] and [`HashOptions`] have the options of the engines. The
//! defaults suit most uses.
//!
//! # Durability
//!
//! The default is [`Durability::Buffered`]: a write that has returned survives the death of the process, but not a
//! power failure. With [`Durability::Sync`] it survives both. The writes that survive are always a prefix of all writes
//! to logged keyspaces. Choose for the database ([`Builder::durability`]), a handle ([`Keyspace::durability`]) or a
//! batch ([`Batch::durability`]); [`Database::sync`] makes all earlier writes survive a power failure.
//!
//! A keyspace can also be *unlogged* ([`KeyspaceOptions::unlogged`]): after a crash it holds at least what the last
//! [`Database::flush`] wrote.
//!
//! # What concurrent readers see
//!
//! A read sees a write from the moment it is applied, which may be before it is durable. A [`Batch`] is recovered whole
//! or not at all, but becomes visible key by key. Iterators are consistent per key, see [`Iter`]. There are no
//! snapshots and no transactions; [`Keyspace::fetch_update`], [`Keyspace::compare_and_swap`] and [`Keyspace::merge`]
//! change one key atomically.
//!
//! # Memory
//!
//! Caches, indexes, log buffers and I/O buffers of all keyspaces together never exceed the memory budget
//! ([`Builder::memory_budget`]): 256 MiB by default, at least 16 MiB. Outside of it are the program, its stacks, the
//! results that it holds, and at most 12 MiB. Give at least two percent of the data. [`Database::stats`] shows what
//! uses the budget.
//!
//! # Errors
//!
//! [`Error`] has a variant for each thing that a caller can do. Damaged bytes never become a wrong answer: checksums
//! find them, and they are [`Error::Corruption`] with file and position.
//!
//! | error | what to do |
//! |---|---|
//! | [`Limit`](Error::Limit), [`Invalid`](Error::Invalid) | mend the call |
//! | [`NoSpace`](Error::NoSpace), [`DiskBudget`](Error::DiskBudget) | free space; writes resume, and reads go on |
//! | [`Memory`](Error::Memory) | try again, or open with a larger budget |
//! | [`Poisoned`](Error::Poisoned) | a write or sync failed: reopen the database; reads go on |
//! | [`Corruption`](Error::Corruption) | restore a backup, or use [`Repair`]; [`Database::verify`] lists all damage |
//! | [`Closed`](Error::Closed), [`Forked`](Error::Forked) | open the database again in this process |
//! | [`Locked`](Error::Locked) | close it in the other process |
//! | all others | mend what the message names |
//!
//! # Limits
//!
//! A key has 1 to 1024 bytes, key and value together at most 1900, and an encoded batch at most 1 MiB ([`limits`]). A
//! database has at most 65,536 keyspaces, and one process at a time has it open. The disk format is not stable before
//! version 1.0.

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
///
/// Each value has a `name`, which `Display` writes and `FromStr` reads.
pub mod options {
    pub use ecotone_adaptive::Insert;
    pub use ecotone_hash::Compaction;
    pub use ecotone_lsm::{Compression, IndexKind, Split};
    pub use ecotone_tree::{ForecastKind, Model, PageFill};
}

/// The limits of keys, records, batches and databases. Sizes are in bytes.
///
/// A call beyond a limit returns [`Error::Limit`].
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
