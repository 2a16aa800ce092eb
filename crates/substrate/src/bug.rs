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
#[allow(missing_docs, reason = "the names say what each does wrong")]
pub enum Bug {
    None,
    SkipDirSync,
    RetryFailedSync,
    LengthBeforeChecksum,
    AcknowledgeBeforeSync,
    ReuseSequence,
    IgnoreIncarnation,
    SkipWriteAhead,
    SkipDoubleWrite,
    FreeSpaceEarly,
    RecycleLogEarly,
    WatermarkTooHigh,
    DropTombstone,
    SkipBatchTail,
    SkipRecoverySync,
    SkipRepairSync,
    StaleAdmission,
    StalePage,
    KeepPage,
    CleanAfterRewrite,
    IgnoreInFlight,
    SkipTableSync,
    DurableBeforeSync,
    ElideTombstone,
    SupersedeUnsynced,
    PunchNeighbour,
    SkipSeal,
    BeginBeforeRun,
    RunBelowSuperseded,
    MoveBelowSuperseded,
    KeepPlace,
    CallUnderPin,
    PaceForNobody,
    NameSuccessorEarly,
    UnclaimedPages,
    StaleGap,
    UnwatchedGap,
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
