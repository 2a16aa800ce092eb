//! What is done while nobody writes: what the log keeps, and deletes for which files keep much, go into the files, so that their space comes back and an opening has
//! little to do (decision 16, "When nobody does anything").

use std::sync::Arc;

use ecotone_substrate::{
    Seq,
    scheduler::{Priority, Tick},
    single::Single,
};
use ecotone_sys::primitive::Mutex;

use crate::{Result, checkpoint::Checkpoint, database::Inner};

/// Ticks of the scheduler without a write after which that is done, about seconds.
const TICKS: u32 = 10;
/// Bytes of log that are left as they are.
const LITTLE: u64 = 4 << 20;

/// How long nobody has written.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    since: Mutex<Since>,
    job: Single,
}

#[derive(Debug, Default)]
struct Since {
    /// Where the log ended at the last tick, and the deletes that were to go then.
    written: (Seq, u64),
    ticks: u32,
}

impl Idle {
    /// Some time has passed, and so much is written now. How many times in a row that was so.
    fn tick(&self, written: (Seq, u64)) -> u32 {
        let mut since = self.since.lock();
        since.ticks = if since.written == written { since.ticks.saturating_add(1) } else { 0 };
        since.written = written;
        since.ticks
    }

    /// It is to be done again, if nobody writes for as long once more.
    fn begin_anew(&self) {
        self.since.lock().ticks = 0;
    }
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
        let ticks = self.idle.tick((self.wal.tail(), self.litter()));
        if ticks == TICKS {
            self.clear_log();
        }
        if ticks < TICKS { Tick::InUse } else { Tick::Idle }
    }

    fn litter(&self) -> u64 {
        self.spaces.read().values().map(|space| space.engine().litter()).sum()
    }

    fn clear_log(self: &Arc<Self>) {
        if self.idle.job.call() {
            self.schedule_clearing();
        }
    }

    fn schedule_clearing(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.scheduler.spawn(Priority::Idle, "clear the log", move || {
            let Some(inner) = weak.upgrade() else { return };
            inner.idle.job.begin();
            if let Err(error) = inner.clear_log_now() {
                inner.idle.begin_anew();
                drop(inner.health.postpone("clearing the log", error));
            }
            if inner.idle.job.end() {
                inner.schedule_clearing();
            }
            inner.scheduler.notify();
        });
    }

    fn clear_log_now(&self) -> Result<()> {
        if self.wal.used() > LITTLE || self.litter() > 0 {
            self.flush_spaces()?;
            self.checkpoint(Checkpoint::InUse)?;
        }
        self.wal.shrink();
        Ok(())
    }
}
