//! The stores by name, with their properties that a runner needs before it opens one, and what their writes promise.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The stores by name. Those of others are named as the feature that builds them in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StoreKind {
    /// Ecotone with the tree engine.
    Tree,
    /// Ecotone with the hash engine.
    Hash,
    /// Ecotone with the lsm engine.
    Lsm,
    /// Ecotone with the adaptive engine.
    Adaptive,
    /// RocksDB, a log-structured merge tree.
    Rocksdb,
    /// LMDB, a memory-mapped B+ tree.
    Lmdb,
    /// redb, a copy-on-write B+ tree.
    Redb,
    /// fjall, a log-structured merge tree.
    Fjall,
    /// sled, a tree over a log-structured page store.
    Sled,
    /// bf-tree, a B+ tree with buffers of records.
    BfTree,
    /// A hash map in memory, of shards behind locks. What it holds lasts only if it is closed.
    Map,
    /// The cold tier of the F2 paper, loaded once and then only read, with no cache: a chunk of its index and a record
    /// for each read.
    F2Cold,
    /// Keeps nothing and does nothing: what a run costs then is the harness.
    Null,
}

impl StoreKind {
    /// Whether it reads through the kernel's page cache, so that only a memory cgroup of the budget's size enforces the
    /// budget.
    pub(crate) fn uses_page_cache(self) -> bool {
        matches!(self, StoreKind::Lmdb | StoreKind::Redb | StoreKind::Fjall | StoreKind::Sled | StoreKind::BfTree)
    }

    /// Whether loaded data survives a kill of its process in a later run.
    pub(crate) fn survives_kill(self) -> bool {
        self.has_log()
    }

    /// Whether it has a log, and so supports durabilities other than none.
    pub(crate) fn has_log(self) -> bool {
        !matches!(self, StoreKind::BfTree | StoreKind::Map | StoreKind::F2Cold)
    }

    /// Environment variables of its process, unless they are set already.
    pub(crate) fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // With one heap for every thread it keeps much more memory than its budget (docs/rivals.md).
            StoreKind::Rocksdb => &[("MALLOC_ARENA_MAX", "2")],
            _ => &[],
        }
    }

    /// Whether it is Ecotone, which has engine options.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, StoreKind::Tree | StoreKind::Hash | StoreKind::Lsm | StoreKind::Adaptive)
    }

    /// Whether its statistics count device requests. For the other stores only the kernel counts them, and their own
    /// counters are 0.
    pub(crate) fn counts_device_io(self) -> bool {
        self.is_ours() || self == StoreKind::Null
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no store is hidden");
        formatter.write_str(value.get_name())
    }
}

/// What a write promises when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// Nothing before the next flush: no log.
    None,
    /// It survives the death of the process.
    Buffered,
    /// It survives a power failure.
    Sync,
}
