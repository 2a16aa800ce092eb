//! What a keyspace keeps for nothing, as its tombstones tell: what nobody uses is rid of that (decision 9, "Compaction,
//! budgets, back-pressure").

use super::{Compactor, shortage::TOMBSTONE};
use crate::idle::{self, FEW, LITTLE};

impl Compactor<'_> {
    /// Whether nobody uses the keyspace, and much of it is hidden, about, by tombstones.
    pub(super) fn is_littered(&self) -> bool {
        self.is_idle && {
            let (runs, hot) = (self.hash.cold.runs(), self.hot_bytes());
            let bytes = runs.base_bytes() + runs.delta_bytes() + hot;
            let (in_log, in_deltas) = (self.deletes(), runs.delta_tombstones());
            let values = runs.base_records() + runs.delta_records().saturating_sub(in_deltas);
            let values = values + self.hash.table.entries().saturating_sub(in_log);
            let tombstones = in_log + in_deltas;
            let hidden = bytes as f64 * tombstones.min(values) as f64 / values.max(1) as f64;
            tombstones > FEW && idle::is_littered(bytes, hidden as u64, LITTLE.min(self.hot()))
        }
    }

    /// The same, if the hot log has some of the tombstones.
    pub(super) fn log_is_littered(&self) -> bool {
        self.is_idle && self.deletes() > FEW && self.is_littered()
    }

    /// Tombstones that the hot log has, about.
    fn deletes(&self) -> u64 {
        self.hash.deletes.since(self.hash.log.bounds().begin().get()).min(self.hot_bytes() / TOMBSTONE)
    }
}
