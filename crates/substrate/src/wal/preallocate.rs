//! Makes segments ahead of the writers, so that writers do not wait for zeros and syncs (compaction-pace.md, "The
//! log").

use ecotone_sys::primitive::atomic::{AtomicU64, Ordering};

use super::{Wal, append::Appending};
use crate::{coalesced_job::CoalescedJob, scheduler::Priority};

/// State of the background job.
#[derive(Debug, Default)]
pub(super) struct SegmentPreallocation {
    job: CoalescedJob,
    /// End of the segments when a new one could not be made. The job tries again only after that end has moved: by a
    /// writer, which gets the error itself if it fails, or because an old segment has become spare.
    failed_at: AtomicU64,
}

impl Wal {
    /// Whether writers have less than half a segment left, and another one may be made.
    pub(super) fn is_low(&self, appending: &Appending) -> bool {
        let end = appending.tail + appending.reserved + appending.held_back / 2;
        end + appending.held_back > appending.room_end
            && self.ahead.failed_at.load(Ordering::Relaxed) != appending.room_end
    }

    /// Schedules the job that makes a segment.
    pub(super) fn call_for_segment(&self) {
        let wal = self.this.clone();
        self.ahead.job.request(&self.scheduler, Priority::Flush, "make a log segment", move || {
            wal.upgrade().into_iter().for_each(|wal| wal.make_segment_if_low());
        });
    }

    fn make_segment_if_low(&self) {
        // If a writer holds the lock, that writer makes the needed segment.
        let Some(_guard) = self.growing.try_lock() else { return };
        let low_at = {
            let appending = self.append.lock();
            self.is_low(&appending).then_some(appending.room_end)
        };
        let Some(room_end) = low_at else { return };
        if self.add_segment(0).is_err() {
            // No reservation needs the segment. Any error except a full disk has stopped all writing already.
            self.ahead.failed_at.store(room_end, Ordering::Relaxed);
        }
    }
}
