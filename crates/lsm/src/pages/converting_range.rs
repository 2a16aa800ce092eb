//! The range that a conversion to tables reads: flushes keep their records out of its pages (adaptive-protocol.md,
//! invariant 5).

use ecotone_engine::job_lock::JobLock;
use ecotone_sys::primitive::Mutex;

use crate::pages::pending_frees::KeySpan;

/// The range that is being converted to tables. The conversion reads its pages, so no flush may write to them
/// (invariant 5).
#[derive(Debug, Default)]
pub(crate) struct ConvertingRange(Mutex<Option<KeySpan>>);

impl ConvertingRange {
    /// Marks a range that is about to be converted, when no flush is under way. The caller holds the compaction lock.
    pub(crate) fn begin(&self, flush_lock: &JobLock, span: &KeySpan) {
        let _guard = flush_lock.lock();
        *self.0.lock() = Some(span.clone());
    }

    /// The converting range, and a version that is loaded afterwards. If a conversion has ended before, its range is
    /// not paged in that version.
    pub(crate) fn before<V>(&self, version: impl FnOnce() -> V) -> (Option<KeySpan>, V) {
        let converting = self.0.lock().clone();
        (converting, version())
    }

    /// Clears the mark. A thread that sees no mark then sees the version after the conversion.
    pub(crate) fn end(&self) {
        *self.0.lock() = None;
    }
}
