//! The conditions under which a child measures: the limit of its memory, and when it counts as hung.

use std::time::Duration;

use super::options::{Ceiling, RoundsOptions};
use crate::{measure::options::RunOptions, row::StoreKind};

/// Memory of the harness. For a store that relies on the page cache, the cgroup's limit is the budget plus this.
const HARNESS: u64 = 16 << 20;
/// Memory that a process may use above twice the budget, for a store with its own cache. Such a store bypasses the page
/// cache, so memory above the budget saves it no reads. Its row reports the memory used; the limit only stops a store
/// that would take everything.
const MARGIN: u64 = 64 << 20;

/// The conditions of a child.
pub(super) struct Terms<'a> {
    /// Prefix of the names of the phases.
    pub(super) title: &'a str,
    /// Limit of its memory cgroup in bytes.
    pub(super) memory: Option<u64>,
    /// Whether failing to set the limit is an error.
    pub(super) must_limit: bool,
    /// The longest time without a completed operation.
    pub(super) hang: Duration,
}

impl<'a> Terms<'a> {
    /// The conditions of a row with these options.
    pub(super) fn new(options: &RoundsOptions, row: &RunOptions, title: &'a str) -> Self {
        Terms {
            title,
            memory: memory_limit(options, row.store),
            must_limit: options.cgroup_memory.is_some(),
            hang: Duration::from_secs_f64(options.hang_seconds + between_calls(row)),
        }
    }
}

/// Seconds between calls, if the row has a rate.
fn between_calls(row: &RunOptions) -> f64 {
    row.rate.map_or(0.0, |rate| f64::from(row.batch) / rate)
}

fn memory_limit(options: &RoundsOptions, store: StoreKind) -> Option<u64> {
    match options.cgroup_memory {
        Some(Ceiling::None) => None,
        Some(Ceiling::Bytes(bytes)) => Some(bytes),
        None if store.uses_page_cache() => Some(options.row.memory.saturating_add(HARNESS)),
        None => Some(options.row.memory.saturating_mul(2).saturating_add(MARGIN)),
    }
}
