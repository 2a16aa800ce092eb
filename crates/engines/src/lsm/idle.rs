//! What is done while nobody uses a keyspace: level 0 goes into the levels, so that whoever comes next has fewer runs
//! to look through, and what was deleted ends, so that its space comes back (decision 16, "When nobody does anything").

use std::sync::Arc;

use ecotone_substrate::{Seq, scheduler::Tick};

use super::{handle::Handle, records::Lsm, version::Version};
use crate::{engine::Stats, idle::LITTLE};

/// What is used of it, and of the cache in front of it.
pub(super) type Use = ((u64, u64), Stats);

impl Lsm {
    /// Has the scheduler look whether anybody uses it as long as it is there.
    pub(super) fn watch_use(self: &Arc<Self>) {
        let lsm = Arc::downgrade(self);
        self.files.environment().scheduler.add_tick(move || lsm.upgrade().map_or(Tick::Over, |lsm| lsm.tick()));
    }

    /// Some time has passed.
    fn tick(self: &Arc<Self>) -> Tick {
        if self.check_live().is_err() || self.files.environment().health.check().is_err() {
            return Tick::Over;
        }
        self.idle.tick((self.use_so_far(), self.front().map_or_else(Stats::new, |front| front.stats())));
        let is_idle = self.is_idle();
        if is_idle {
            self.flush_deletes();
            self.call_compaction();
        }
        self.base().into_iter().for_each(|base| base.look(is_idle));
        if is_idle { Tick::Idle } else { Tick::InUse }
    }

    /// Has the background flush what hides much that tables have.
    fn flush_deletes(self: &Arc<Self>) {
        let deletes = self.deletes_in_memory();
        if deletes > 0 && self.version().is_littered(deletes, self.little()) && self.begin_flush(Seq::MAX).is_err() {
            self.idle.begin_anew();
        }
    }

    /// Bytes that tables may keep for nothing.
    fn little(&self) -> u64 {
        LITTLE.min(self.sizes.level_0)
    }

    /// Deletes that memtables have.
    fn deletes_in_memory(&self) -> u64 {
        let pin = self.present.pin();
        self.present.load(&pin).memtables.iter().map(|member| member.memtable.deletes()).sum()
    }

    /// Whether level 0, or what was deleted, is to be compacted since nobody is in the way.
    pub(super) fn is_due_when_idle(&self, version: &Version<Handle>) -> bool {
        self.is_idle() && (version.level_0().count() > 1 || version.is_littered(0, self.little()))
    }

    /// Whether nobody has used it for long.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle.is_idle()
    }

    /// What was done since nobody uses it has failed, and may be tried again later.
    pub(crate) fn idle_later(&self) {
        self.idle.begin_anew();
    }
}
