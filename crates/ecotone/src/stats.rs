//! Statistics of a database and its keyspaces.

use std::sync::Arc;

use ecotone_engine::contract::AnyEngine;
use ecotone_substrate::storage::{FileKind, Storage};

use crate::{
    Counters,
    core::{DatabaseState, KeyspaceState},
};

/// The statistics of a whole database, as [`Database::stats`](crate::Database::stats) returns them.
///
/// Counters count since the database was opened. Other threads go on meanwhile, so the fields may be of slightly
/// different times.
///
/// # Examples
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
/// let stats = database.stats();
/// for part in &stats.memory {
///     println!("{}: {} bytes", part.component, part.bytes);
/// }
/// println!("{} bytes read from the disk, {} written", stats.io.read_bytes, stats.io.write_bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The memory budget in bytes.
    pub memory_budget: u64,
    /// Bytes of the budget that are allocated from the operating system now.
    pub memory_held: u64,
    /// The use of memory by component.
    pub memory: Vec<MemoryUse>,
    /// Device requests since the database was opened.
    pub io: Counters,
    /// Device requests by kind of file. Kinds without any request are left out.
    pub io_by_file: Vec<(&'static str, Counters)>,
    /// The write-ahead log.
    pub log: LogStats,
    /// Background jobs that wait or run.
    pub background_jobs: u64,
    /// How often background work was postponed, since memory or disk space was short.
    pub postponed: u64,
    /// The job that was postponed last, and why.
    pub postponed_last: Option<String>,
    /// All keyspaces, by name.
    pub keyspaces: Vec<KeyspaceStats>,
    /// Why writing has stopped; `None` while the database works.
    pub failure: Option<String>,
}

/// One component's use of the memory budget.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// The component's name, such as `record cache`.
    pub component: &'static str,
    /// Bytes leased to the component.
    pub bytes: u64,
}

/// Statistics of the write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LogStats {
    /// Logical bytes ever appended.
    pub tail: u64,
    /// Logical bytes that survive the death of the process.
    pub written: u64,
    /// Logical bytes that survive a power failure.
    pub synced: u64,
    /// Bytes that an open would replay now.
    pub used_bytes: u64,
    /// Estimated bytes of distinct records in the log. An open keeps so much of the log in memory.
    pub distinct_bytes: u64,
    /// The limit of `distinct_bytes`. At half of it the oldest writes are flushed.
    pub limit_bytes: u64,
    /// Writes that waited because the limit was reached.
    pub waits: u64,
    /// Delays of writers before the limit was reached. Each write owes a little, and several are paid at a time.
    pub delays: u64,
    /// The sum of these delays, in microseconds.
    pub delay_total_us: u64,
}

/// The statistics of one keyspace, as [`Keyspace::stats`](crate::Keyspace::stats) and
/// [`HashKeyspace::stats`](crate::HashKeyspace::stats) return them.
///
/// The counters depend on the engine. The names are stable; new ones are added. `docs/guide.md` describes the important
/// ones.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// The keyspace's name.
    pub name: String,
    /// The engine's name.
    pub engine: &'static str,
    /// The engine's own counters, by name. Empty before the first use of the keyspace.
    pub counters: Vec<(&'static str, u64)>,
}

/// Delays of the writers of a keyspace while background work was behind, since the database was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WriterDelays {
    /// The number of delayed writes.
    pub count: u64,
    /// The sum of the delays, in microseconds.
    pub total_us: u64,
    /// The median delay, in microseconds.
    pub p50_us: u64,
    /// The delay that one write in a hundred exceeds, in microseconds.
    pub p99_us: u64,
    /// The longest delay, in microseconds.
    pub max_us: u64,
}

impl KeyspaceStats {
    pub(crate) fn of(space: &KeyspaceState, counters: Vec<(&'static str, u64)>) -> KeyspaceStats {
        KeyspaceStats { name: space.name.clone(), engine: space.kind, counters }
    }

    /// Returns a counter by its name, or `None` if there is none of this name.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// use ecotone::{Engine, KeyspaceOptions};
    /// let towns = database.keyspace("towns", KeyspaceOptions::default().engine(Engine::Tree))?;
    /// towns.insert("Zwolle", "52.51 6.09")?;
    /// assert!(towns.stats().counter("cache_hits").is_some());
    /// assert_eq!(towns.stats().counter("speed"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Returns the delays of writers. All engines count them.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = ecotone::Database::builder(directory.path().join("db")).open()?;
    /// # let towns = database.keyspace("towns", ecotone::KeyspaceOptions::default())?;
    /// let delays = towns.stats().writer_delays();
    /// println!("{} writes waited, the longest {} µs", delays.count, delays.max_us);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn writer_delays(&self) -> WriterDelays {
        let counter = |name| self.counter(name).unwrap_or(0);
        WriterDelays {
            count: counter("writer_delays"),
            total_us: counter("writer_delay_total_us"),
            p50_us: counter("writer_delay_p50_us"),
            p99_us: counter("writer_delay_p99_us"),
            max_us: counter("writer_delay_max_us"),
        }
    }
}

pub(crate) fn collect(state: &DatabaseState) -> Stats {
    let component = |(component, bytes)| MemoryUse { component, bytes: bytes as u64 };
    let spaces: Vec<Arc<KeyspaceState>> = state.spaces.read().values().cloned().collect();
    let log = state.wal.stats();
    let postponed = state.health.postponed();
    let counted = |wanted: &str| log.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, value)| *value);
    Stats {
        memory_budget: state.memory.budget() as u64,
        memory_held: state.memory.held() as u64,
        memory: state.memory.usage().into_iter().map(component).collect(),
        io: state.storage.counters(),
        io_by_file: io_by_file(&*state.storage),
        log: LogStats {
            tail: state.wal.tail(),
            written: state.wal.written(),
            synced: state.wal.synced(),
            used_bytes: state.wal.used(),
            distinct_bytes: state.wal.weight(),
            limit_bytes: state.wal.options().limit_bytes,
            waits: counted("waits"),
            delays: counted("delays"),
            delay_total_us: counted("delay_total_us"),
        },
        background_jobs: state.scheduler.debt() as u64,
        postponed: postponed.times,
        postponed_last: postponed.last.map(|(what, error)| format!("{what}: {error}")),
        keyspaces: spaces.iter().map(|space| keyspace(space)).collect(),
        failure: state.health.cause().map(|cause| cause.to_string()),
    }
}

fn io_by_file(storage: &dyn Storage) -> Vec<(&'static str, Counters)> {
    let named = FileKind::ALL.iter().map(|kind| (kind.name(), storage.counters_of(*kind)));
    named.filter(|(_, counters)| *counters != Counters::default()).collect()
}

pub(crate) fn keyspace(space: &KeyspaceState) -> KeyspaceStats {
    let mut counters = space.engine().stats();
    if !counters.is_empty() && matches!(space.made, AnyEngine::Ordered(_)) {
        counters.extend(space.gaps.stats());
    }
    KeyspaceStats::of(space, counters)
}
