//! Known bugs that a test build can switch on, so that the suites prove themselves (`docs/reliability.md`).
//!
//! Without the feature `bugs` the macro is the constant `false` and leaves nothing in the product.

/// `bug!(SkipDirSync)` is true if that bug is switched on.
#[macro_export]
macro_rules! bug {
    ($name:ident) => {
        $crate::bug::on($crate::bug::Bug::$name)
    };
}

/// The bugs, one per class of data loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// No bug.
    None,
    /// Names of files are not made durable.
    SkipDirSync,
    /// A failed sync of the log is repeated.
    RetryFailedSync,
    /// A log record with a wrong checksum is used.
    LengthBeforeChecksum,
    /// A `Sync` write is acknowledged before the sync.
    AcknowledgeBeforeSync,
    /// The log continues at the replay position.
    ReuseSequence,
    /// Checksums of log records do not depend on the session.
    IgnoreIncarnation,
    /// Pages go to disk before the log of their records is synced.
    SkipWriteAhead,
    /// Pages are written in place without the double-write area.
    SkipDoubleWrite,
    /// Space is reused before the record that frees it is synced.
    FreeSpaceEarly,
    /// A log segment that replay needs is reused.
    RecycleLogEarly,
    /// A checkpoint claims effects that are not in the files.
    WatermarkTooHigh,
    /// A delete is lost when it is written out.
    DropTombstone,
    /// Only the first operation of a batch is replayed.
    SkipBatchTail,
    /// Recovery builds on a log that it did not sync.
    SkipRecoverySync,
    /// Opening does not sync the pages that it repairs from the double-write area.
    SkipRepairSync,
    /// An old version of a record enters the cache after a newer one was evicted.
    StaleAdmission,
    /// A page enters the page cache although it was written since it was read.
    StalePage,
    /// A page stays in the page cache although it was written.
    KeepPage,
    /// A record that is written again during its write-out counts as clean.
    CleanAfterRewrite,
    /// A checkpoint passes an operation that is appended and not yet applied.
    IgnoreInFlight,
    /// A table or run is named before its bytes are synced.
    SkipTableSync,
    /// DURABLE of a hot log follows the writes, not the syncs.
    DurableBeforeSync,
    /// A delete of a record that is not in memory writes nothing.
    ElideTombstone,
    /// Compaction drops a record before the superseding one is durable.
    SupersedeUnsynced,
    /// A merge punches blocks that another partition needs.
    PunchNeighbour,
    /// An append does not seal the record that it supersedes.
    SkipSeal,
    /// BEGIN passes compacted records before their run is published.
    BeginBeforeRun,
    /// A paged range hides a flushed run.
    RunBelowSuperseded,
    /// A paged range hides records that a compaction moved.
    MoveBelowSuperseded,
    /// A batch keeps its place in the gate, so other batches wait forever.
    KeepPlace,
    /// A caller's closure runs under a pin.
    CallUnderPin,
    /// Writers are delayed while no compaction runs.
    PaceForNobody,
    /// A log segment is named before it is synced.
    NameSuccessorEarly,
    /// New pages of a reorganisation are written out before it ends.
    UnclaimedPages,
    /// A new record does not cut its gap.
    StaleGap,
    /// A scan learns a gap that an insert is about to fill.
    UnwatchedGap,
    /// A version that is overwritten during its write-out is not reported.
    SilentInFlight,
    /// A version that was appended again is reported for both records.
    ReportedTailCopy,
    /// A compaction that leaves out versions reports none.
    SilentMerge,
    /// Records that a conversion writes to pages are reported as left out.
    ReportedCopy,
}

#[cfg(feature = "bugs")]
static ACTIVE: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Switches one bug on, for the whole process ([`Bug::None`] switches off).
#[cfg(feature = "bugs")]
pub fn switch(bug: Bug) {
    ACTIVE.store(bug as u8, std::sync::atomic::Ordering::SeqCst);
}

/// Whether `bug` is switched on.
#[cfg(feature = "bugs")]
pub fn on(bug: Bug) -> bool {
    ACTIVE.load(std::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Whether `bug` is switched on: never without the feature.
#[cfg(not(feature = "bugs"))]
#[inline(always)]
pub const fn on(_: Bug) -> bool {
    false
}
