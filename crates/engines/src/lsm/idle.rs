//! What is done while nobody uses a keyspace: level 0 goes into the levels, so that whoever comes next has fewer runs to look through (decision 16, "When nobody does
//! anything").

use std::sync::Arc;

use ecotone_substrate::scheduler::Tick;
use ecotone_sys::primitive::Mutex;

use super::{handle::Handle, records::Lsm, version::Version};
use crate::engine::Stats;

/// Ticks of the scheduler without any use after which a keyspace is idle, about seconds: who comes back after a pause finds no job under way.
const TICKS: u32 = 10;

/// How long a keyspace has not been used.
#[derive(Debug, Default)]
pub(super) struct Idle(Mutex<Since>);

#[derive(Debug, Default)]
struct Since {
    /// What was used of it at the last tick, and of the cache in front of it.
    used: ((u64, u64), Stats),
    ticks: u32,
}

impl Idle {
    /// Somebody uses it in a way that nothing else tells, or what was done since nobody does has failed, and may be tried again later.
    pub(super) fn begin_anew(&self) {
        self.0.lock().ticks = 0;
    }

    /// Whether nobody has used it for long.
    fn is_idle(&self) -> bool {
        self.0.lock().ticks == TICKS
    }

    fn tick(&self, used: ((u64, u64), Stats)) {
        let mut since = self.0.lock();
        since.ticks = if since.used == used { (since.ticks + 1).min(TICKS) } else { 0 };
        since.used = used;
    }
}

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
            self.call_compaction();
        }
        self.base().into_iter().for_each(|base| base.look(is_idle));
        if is_idle { Tick::Idle } else { Tick::InUse }
    }

    /// Whether level 0 is to be compacted since nobody is in the way.
    pub(super) fn is_due_when_idle(&self, version: &Version<Handle>) -> bool {
        version.level_0().count() > 1 && self.is_idle()
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
