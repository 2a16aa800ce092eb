//! Garbage in an idle keyspace: estimates from tombstones how much of it is superseded, and compacts if that is much
//! (hash.md, "Back-pressure and space").

use ecotone_engine::idle::{self, MIN_GARBAGE_BYTES, MIN_TOMBSTONES};

use super::{Compactor, shortage::TOMBSTONE};

impl Compactor<'_> {
    /// Whether the keyspace is idle, and tombstones hide an estimated large part of it.
    pub(super) fn is_littered(&self) -> bool {
        self.is_idle && {
            let (runs, hot) = (self.hash.cold.runs(), self.hot_bytes());
            let bytes = runs.base_bytes() + runs.delta_bytes() + hot;
            let (in_log, in_deltas) = (self.deletes(), runs.delta_tombstones());
            let values = runs.base_records() + runs.delta_records().saturating_sub(in_deltas);
            let values = values + self.hash.chains.index.entries().saturating_sub(in_log);
            let tombstones = in_log + in_deltas;
            let hidden = bytes as f64 * tombstones.min(values) as f64 / values.max(1) as f64;
            tombstones > MIN_TOMBSTONES
                && idle::has_excess_garbage(bytes, hidden as u64, MIN_GARBAGE_BYTES.min(self.hot()))
        }
    }

    /// Whether the keyspace is littered, and the hot log has some of the tombstones.
    pub(super) fn log_is_littered(&self) -> bool {
        self.is_idle && self.deletes() > MIN_TOMBSTONES && self.is_littered()
    }

    /// Estimated number of tombstones in the hot log.
    fn deletes(&self) -> u64 {
        self.hash.deletes.since(self.hash.chains.log.bounds().begin().get()).min(self.hot_bytes() / TOMBSTONE)
    }
}
