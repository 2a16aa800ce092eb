//! Idle work: while a keyspace is not used, L0 is compacted into the levels, so that later reads have fewer runs to
//! search; and tombstones are compacted, so that deleted space comes back (lsm.md, "Idle keyspaces").

use std::sync::Arc;

use ecotone_engine::{contract::Stats, idle::MIN_GARBAGE_BYTES};
use ecotone_substrate::{Seq, scheduler::Tick};

use crate::{cache::table_reader::TableReader, store::Lsm, version::Version};

/// Use counters of the keyspace and of its record cache.
pub(super) type Use = ((u64, u64), Stats);

impl Lsm {
    /// Has the scheduler call `tick` as long as the keyspace exists.
    pub(super) fn watch_use(self: &Arc<Self>) {
        let lsm = Arc::downgrade(self);
        self.files.environment().scheduler.add_tick(move || lsm.upgrade().map_or(Tick::Over, |lsm| lsm.tick()));
    }

    /// Called about once a second: detects whether the keyspace is idle, and schedules idle work.
    fn tick(self: &Arc<Self>) -> Tick {
        if self.check_live().is_err() || self.files.environment().health.check().is_err() {
            return Tick::Over;
        }
        self.idle
            .tick((self.activity(), self.record_cache().map_or_else(Stats::new, |record_cache| record_cache.stats())));
        let is_idle = self.is_idle();
        if is_idle {
            self.flush_deletes();
            self.schedule_compaction_if_due();
        }
        self.page_tier().into_iter().for_each(|page_tier| page_tier.on_tick(is_idle));
        if is_idle { Tick::Idle } else { Tick::InUse }
    }

    /// Schedules a flush if the deletes in memtables hide many records of tables.
    fn flush_deletes(self: &Arc<Self>) {
        let deletes = self.deletes_in_memory();
        if deletes > 0 && self.version().is_littered(deletes, self.little()) && self.begin_flush(Seq::MAX).is_err() {
            self.idle.reset();
        }
    }

    /// Garbage bytes that tables may always keep.
    fn little(&self) -> u64 {
        MIN_GARBAGE_BYTES.min(self.tuning.l0_target)
    }

    /// Deletes in memtables.
    fn deletes_in_memory(&self) -> u64 {
        let pin = self.current.pin();
        self.current.load(&pin).memtables.iter().map(|memtable_ref| memtable_ref.memtable.deletes()).sum()
    }

    /// Whether L0, or tables with tombstones, should be compacted, as the keyspace is idle.
    pub(super) fn is_due_when_idle(&self, version: &Version<TableReader>) -> bool {
        self.is_idle() && (version.l0_runs().count() > 1 || version.is_littered(0, self.little()))
    }

    /// Whether the keyspace was not used for long.
    pub fn is_idle(&self) -> bool {
        self.idle.is_idle()
    }

    /// Idle work has failed: it is tried again after another idle wait.
    pub fn idle_later(&self) {
        self.idle.reset();
    }
}
