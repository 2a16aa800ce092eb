//! Making segments ahead of the writers, so that these do not wait for zeros and syncs (decision 16, "The log beside an
//! lsm keyspace").

use ecotone_sys::primitive::atomic::{AtomicU64, Ordering};

use super::{Wal, append::Appending};
use crate::{scheduler::Priority, single::Single};

/// What the background does for it.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    job: Single,
    /// Where the room ended when a segment could not be made. It is not tried again until that has moved: by a writer,
    /// who is told why he cannot make one, or because an old segment has become spare.
    failed_at: AtomicU64,
}

impl Wal {
    /// Whether writers have less than half a segment left, and another may be made for them.
    pub(super) fn is_low(&self, appending: &Appending) -> bool {
        let end = appending.tail + appending.reserved + appending.held_back / 2;
        end + appending.held_back > appending.room_end
            && self.ahead.failed_at.load(Ordering::Relaxed) != appending.room_end
    }

    /// Has the background make a segment.
    pub(super) fn call_for_segment(&self) {
        if self.ahead.job.call() {
            self.schedule_segment();
        }
    }

    fn schedule_segment(&self) {
        let wal = self.this.clone();
        self.scheduler.spawn(Priority::Flush, "make a log segment", move || {
            let Some(wal) = wal.upgrade() else { return };
            wal.ahead.job.begin();
            wal.make_segment_if_low();
            if wal.ahead.job.end() {
                wal.schedule_segment();
            }
        });
    }

    fn make_segment_if_low(&self) {
        // A writer who is at it makes what is needed.
        let Some(_turn) = self.growing.try_lock() else { return };
        let low_at = {
            let appending = self.append.lock();
            self.is_low(&appending).then_some(appending.room_end)
        };
        let Some(room_end) = low_at else { return };
        if self.add_segment(0).is_err() {
            // Nobody was promised it. What is wrong with the disk, but for its being full, has stopped all writing.
            self.ahead.failed_at.store(room_end, Ordering::Relaxed);
        }
    }
}
