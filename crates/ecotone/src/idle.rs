//! What is done while nobody writes: what the log keeps, and deletes for which files keep much, go into the files, so
//! that their space comes back and an opening has little to do (decision 16, "When nobody does anything").

use std::sync::Arc;

use ecotone_engines::idle::Idle;
use ecotone_substrate::{
    Seq,
    scheduler::{Priority, Tick},
    single::Single,
};
use ecotone_sys::primitive::atomic::{AtomicBool, Ordering};

use crate::{Result, checkpoint::Checkpoint, database::Inner, space::Space};

/// Bytes of log that are left as they are.
const LITTLE: u64 = 4 << 20;

/// What is done, and whether it has been, since somebody has written.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Where the log ended at the last tick, and the deletes that were to go then.
    idle: Idle<(Seq, u64)>,
    job: Single,
    is_done: AtomicBool,
}

/// Has the scheduler look whether anybody writes as long as the database is open.
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
        self.rest.idle.tick((self.wal.tail(), self.litter()));
        let is_idle = self.rest.idle.is_idle();
        if !self.rest.is_done.swap(is_idle, Ordering::Relaxed) && is_idle && self.rest.job.call() {
            self.schedule_clearing();
        }
        if is_idle { Tick::Idle } else { Tick::InUse }
    }

    fn litter(&self) -> u64 {
        self.spaces.read().values().map(|space| space.engine().litter()).sum()
    }

    fn schedule_clearing(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.scheduler.spawn(Priority::Checkpoint, "clear the log", move || {
            let Some(inner) = weak.upgrade() else { return };
            inner.rest.job.begin();
            if let Err(error) = inner.clear_log() {
                // It may be tried again later.
                inner.rest.idle.begin_anew();
                drop(inner.health.postpone("clearing the log", error));
            }
            if inner.rest.job.end() {
                inner.schedule_clearing();
            }
            inner.scheduler.notify();
        });
    }

    fn clear_log(&self) -> Result<()> {
        if self.wal.used() > LITTLE || self.litter() > 0 {
            let keeps = |space: &Arc<Space>| space.logged || space.engine().litter() > 0;
            let spaces: Vec<_> = self.all_spaces().into_iter().filter(keeps).collect();
            spaces.iter().for_each(|space| space.engine().begin_flush(Seq::MAX));
            for space in spaces {
                if !self.rest.idle.is_idle() {
                    // Somebody is back.
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
