//! Numbers for people and tools.

use std::sync::Arc;

use ecotone_engines::engine::Made;
use ecotone_substrate::storage::{FileKind, Storage};

use crate::{Counters, database::Inner, space::Space};

/// A look at a whole database.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The memory budget in bytes.
    pub memory_budget: u64,
    /// Bytes of it that are held from the operating system now.
    pub memory_held: u64,
    /// Who uses how much of it.
    pub memory: Vec<MemoryUse>,
    /// Device requests since the database was opened.
    pub io: Counters,
    /// Those of them that went to each kind of file, by the kind's name; kinds without any are left out.
    pub io_by_file: Vec<(&'static str, Counters)>,
    /// The write-ahead log.
    pub log: LogStats,
    /// Background jobs that wait or run.
    pub background_jobs: u64,
    /// How often background work was put off, since memory or space was wanting, and what was put off last, and why.
    pub postponed: u64,
    /// What was put off last, and why.
    pub postponed_last: Option<String>,
    /// Every keyspace, by name.
    pub keyspaces: Vec<KeyspaceStats>,
    /// Why writing has stopped, if it has.
    pub failure: Option<String>,
}

/// One component's part of the memory budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryUse {
    /// Its name, such as `record cache`.
    pub component: &'static str,
    /// Bytes leased to it.
    pub bytes: u64,
}

/// The write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LogStats {
    /// Logical bytes ever written to it.
    pub tail: u64,
    /// Of these, how many survive the process.
    pub written: u64,
    /// Of these, how many survive a power failure.
    pub synced: u64,
    /// Bytes that an opening would replay now.
    pub used_bytes: u64,
    /// About the bytes of different records in it, which is what an opening keeps of it in memory.
    pub weight_bytes: u64,
    /// The limit of `weight_bytes`; at half of it the oldest writes are flushed.
    pub limit_bytes: u64,
    /// Writes that waited since the limit was reached.
    pub waits: u64,
    /// Delays of writers before that, a little for each write and several at a time.
    pub delays: u64,
    /// The sum of these delays, in microseconds.
    pub delay_total_us: u64,
}

/// One keyspace.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// Its name.
    pub name: String,
    /// Its engine's name.
    pub engine: &'static str,
    /// The engine's own counters, by name.
    pub counters: Vec<(&'static str, u64)>,
}

pub(crate) fn collect(inner: &Inner) -> Stats {
    let component = |(component, bytes)| MemoryUse { component, bytes: bytes as u64 };
    let spaces: Vec<Arc<Space>> = inner.spaces.read().values().cloned().collect();
    let log = inner.wal.stats();
    let postponed = inner.health.postponed();
    let counted = |wanted: &str| log.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, value)| *value);
    Stats {
        memory_budget: inner.memory.budget() as u64,
        memory_held: inner.memory.held() as u64,
        memory: inner.memory.usage().into_iter().map(component).collect(),
        io: inner.storage.counters(),
        io_by_file: io_by_file(&*inner.storage),
        log: LogStats {
            tail: inner.wal.tail(),
            written: inner.wal.written(),
            synced: inner.wal.synced(),
            used_bytes: inner.wal.used(),
            weight_bytes: inner.wal.weight(),
            limit_bytes: inner.wal.options().limit_bytes,
            waits: counted("waits"),
            delays: counted("delays"),
            delay_total_us: counted("delay_total_us"),
        },
        background_jobs: inner.scheduler.debt() as u64,
        postponed: postponed.times,
        postponed_last: postponed.last.map(|(what, error)| format!("{what}: {error}")),
        keyspaces: spaces.iter().map(|space| keyspace(space)).collect(),
        failure: inner.health.cause().map(|cause| cause.to_string()),
    }
}

fn io_by_file(storage: &dyn Storage) -> Vec<(&'static str, Counters)> {
    let named = FileKind::ALL.iter().map(|kind| (kind.name(), storage.counters_of(*kind)));
    named.filter(|(_, counters)| *counters != Counters::default()).collect()
}

pub(crate) fn keyspace(space: &Space) -> KeyspaceStats {
    let mut counters = space.engine().stats();
    if !counters.is_empty() && matches!(space.made, Made::Ordered(_)) {
        counters.extend(space.gaps.stats());
    }
    KeyspaceStats { name: space.name.clone(), engine: space.kind, counters }
}
