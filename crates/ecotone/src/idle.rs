//! Background work while nothing is written. It flushes the writes that only the log has, and tombstones that keep much
//! dead data in files. So disk space is freed and the next open has little to replay (lsm.md, "Idle keyspaces").

use std::sync::Arc;

use ecotone_engine::idle::IdleDetector;
use ecotone_substrate::{
    Seq,
    coalesced_job::CoalescedJob,
    scheduler::{Priority, Tick},
};
use ecotone_sys::primitive::atomic::{AtomicBool, Ordering};

use crate::{Result, checkpoint::Checkpoint, database::Inner, keyspace_state::KeyspaceState};

/// Bytes of log that are not worth a flush.
const LITTLE: u64 = 4 << 20;

/// The state of idle work since the last write.
#[derive(Debug, Default)]
pub(crate) struct IdleWork {
    /// The log's end at the last tick, and the tombstones that were due then.
    idle: IdleDetector<(Seq, u64)>,
    job: CoalescedJob,
    is_done: AtomicBool,
}

/// Has the scheduler check for writes as long as the database is open.
pub(crate) fn watch_writes(inner: &Arc<Inner>) {
    let weak = Arc::downgrade(inner);
    inner.scheduler.add_tick(move || weak.upgrade().map_or(Tick::Over, |inner| inner.tick()));
}

impl Inner {
    fn tick(self: &Arc<Self>) -> Tick {
        if self.health.check().is_err() {
            return Tick::Over;
        }
        if !self.wal.has_begun() {
            return Tick::Idle;
        }
        self.idle_work.idle.tick((self.wal.tail(), self.garbage()));
        let is_idle = self.idle_work.idle.is_idle();
        if !self.idle_work.is_done.swap(is_idle, Ordering::Relaxed) && is_idle && self.idle_work.job.request() {
            self.schedule_clearing();
        }
        if is_idle { Tick::Idle } else { Tick::InUse }
    }

    fn garbage(&self) -> u64 {
        self.spaces.read().values().map(|space| space.engine().reclaimable_deletes()).sum()
    }

    fn schedule_clearing(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.scheduler.spawn(Priority::Checkpoint, "clear the log", move || {
            let Some(inner) = weak.upgrade() else { return };
            inner.idle_work.job.begin();
            if let Err(error) = inner.clear_log() {
                // A later tick may try again.
                inner.idle_work.idle.reset();
                drop(inner.health.postpone("clearing the log", error));
            }
            if inner.idle_work.job.end() {
                inner.schedule_clearing();
            }
            inner.scheduler.notify();
        });
    }

    fn clear_log(&self) -> Result<()> {
        if self.wal.used() > LITTLE || self.garbage() > 0 {
            let keeps = |space: &Arc<KeyspaceState>| space.logged || space.engine().reclaimable_deletes() > 0;
            let spaces: Vec<_> = self.keyspaces_in_use().into_iter().filter(keeps).collect();
            spaces.iter().for_each(|space| space.engine().begin_flush(Seq::MAX));
            for space in spaces {
                if !self.idle_work.idle.is_idle() {
                    // Writes have resumed.
                    return Ok(());
                }
                space.engine().flush(Seq::MAX)?;
            }
            self.checkpoint(Checkpoint::InUse)?;
        }
        self.wal.shrink();
        Ok(())
    }
}
