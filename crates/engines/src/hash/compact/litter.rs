//! What a keyspace keeps for nothing, as its tombstones tell: what nobody uses is rid of that (decision 9, "Compaction, budgets, back-pressure").

use super::{Compactor, shortage::TOMBSTONE};

/// Bytes of runs and of the hot log that may be kept for nothing, beside a part of what lives.
const LITTLE: u64 = 8 << 20;
/// Tombstones that are too few to do anything about them.
const FEW: u64 = 1024;

impl Compactor<'_> {
    /// Whether nobody uses the keyspace, and two fifths of its bytes, without a little, are hidden, about, by tombstones: more than that leaves files with twice of what
    /// lives.
    pub(super) fn is_littered(&self) -> bool {
        if !self.is_idle {
            return false;
        }
        let runs = self.hash.cold.runs();
        let (bytes, records) = (runs.base_bytes(), runs.base_records());
        let tombstones = runs.delta_tombstones() + self.deletes();
        let hidden = bytes as f64 * tombstones.min(records) as f64 / records.max(1) as f64;
        let all = bytes + runs.delta_bytes() + self.hot_bytes();
        hidden > all.saturating_sub(LITTLE) as f64 * 0.4 && tombstones > FEW
    }

    /// Tombstones that the hot log has, about: of a key that was written again the last counts alone, and nobody knows of the others.
    fn deletes(&self) -> u64 {
        self.hash.deletes().min(self.hot_bytes() / TOMBSTONE)
    }

    /// The same, if the hot log has some of the tombstones.
    pub(super) fn log_is_littered(&self) -> bool {
        self.is_idle && self.deletes() > FEW && self.is_littered()
    }
}
