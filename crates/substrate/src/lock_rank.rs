//! Lock ranks: the locks and reservations of a thread that other threads may wait for, and the order in which they are
//! taken (`docs/design/waiting.md`, "Lock order").
//!
//! A build with debug assertions checks the rules at each acquisition and at each wait for space, whether or not
//! another thread waits just then. So any test that reaches a possible deadlock finds it. A build without debug
//! assertions has none of this.

use std::{cell::Cell, marker::PhantomData};

use ecotone_sys::primitive::{thread_local, unless_loom};

/// The ranks, from the outside in. Each is taken while no later one is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LockRank {
    /// The lock of the scan that reads without memory of its own.
    ClosedScan,
    /// The lock of a flush of the whole database.
    DatabaseFlush,
    /// The manifest, for the whole of a checkpoint, a creation or a drop.
    Manifest,
    /// A place inside the gate for batches.
    BatchGate,
    /// A reservation for writes that are not applied yet.
    Admission,
    /// The job lock for compacting an lsm keyspace.
    CompactionLock,
    /// The job lock for flushing an lsm keyspace, or for sweeping a tree.
    FlushLock,
    /// The job lock for making the delta map of a partition of a hash keyspace.
    MapLock,
    /// Claims on pages of a tree.
    Claims,
    /// A log reservation that is not used yet.
    LogReservation,
    /// Locked stripes.
    Stripes,
}

const KINDS: usize = LockRank::Stripes as usize + 1;

/// The thing that a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Space for a write in an engine, or in the log below its limit. Flushes, write-out, compaction and checkpoints
    /// free it.
    Room,
    /// Batches that were admitted earlier.
    Batches,
    /// Memory that other threads hold for a transfer. The waiting thread holds nothing and begins again.
    Memory,
    /// A closure of the caller, which may call the database and take any time.
    Caller,
}

impl Wait {
    /// The last rank that may be held during the wait; no later one may.
    fn innermost(self) -> Option<LockRank> {
        match self {
            Wait::Room => Some(LockRank::Admission),
            Wait::Batches | Wait::Memory | Wait::Caller => None,
        }
    }

    /// Earlier ranks that may still not be held during the wait.
    fn forbids(self, kind: LockRank) -> bool {
        // A wait for space waits for flushes and checkpoints; a scan writes nothing.
        self == Wait::Room && matches!(kind, LockRank::ClosedScan | LockRank::DatabaseFlush | LockRank::Manifest)
    }
}

thread_local! {
    static HELD: Cell<[u16; KINDS]> = const { Cell::new([0; KINDS]) };
}

/// A held lock or reservation, until this is dropped.
#[derive(Debug)]
#[must_use = "it is held until this is dropped"]
pub struct HeldRank {
    kind: LockRank,
    /// Not `Send`: each thread tracks its own ranks.
    of_this_thread: PhantomData<*const ()>,
}

const fn is_checked() -> bool {
    unless_loom(cfg!(debug_assertions), false)
}

fn all(change: impl FnOnce(&mut [u16; KINDS])) {
    HELD.with(|held| {
        let mut all = held.get();
        change(&mut all);
        held.set(all);
    });
}

/// Records that this thread takes a rank.
///
/// # Panics
/// In builds with debug assertions, if the thread holds a later rank.
#[inline]
pub fn hold(kind: LockRank) -> HeldRank {
    if is_checked() {
        all(|held| {
            let further_in = (kind as usize + 1..KINDS).find(|inner| held[*inner] > 0);
            assert!(further_in.is_none(), "takes {kind:?} while it holds {held:?} (docs/design/waiting.md)");
            held[kind as usize] += 1;
        });
    }
    HeldRank { kind, of_this_thread: PhantomData }
}

impl Drop for HeldRank {
    #[inline]
    fn drop(&mut self) {
        if is_checked() {
            all(|held| held[self.kind as usize] -= 1);
        }
    }
}

/// Checks that this thread may wait.
///
/// # Panics
/// In builds with debug assertions, if the thread holds a rank that the end of the wait may need.
#[inline]
pub fn about_to_wait(wait: Wait) {
    if is_checked() {
        const ALL: [LockRank; KINDS] = [
            LockRank::ClosedScan,
            LockRank::DatabaseFlush,
            LockRank::Manifest,
            LockRank::BatchGate,
            LockRank::Admission,
            LockRank::CompactionLock,
            LockRank::FlushLock,
            LockRank::MapLock,
            LockRank::Claims,
            LockRank::LogReservation,
            LockRank::Stripes,
        ];
        HELD.with(|held| {
            let wrong = |kind: &LockRank| {
                held.get()[*kind as usize] > 0
                    && (wait.innermost().is_none_or(|last| *kind > last) || wait.forbids(*kind))
            };
            let wrong = ALL.into_iter().find(wrong);
            assert!(wrong.is_none(), "waits ({wait:?}) while it holds {wrong:?} (docs/design/waiting.md)");
        });
    }
}

/// Runs another thread's work on this thread: a job of a manual scheduler. The ranks that the thread holds are ignored
/// meanwhile.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    if !is_checked() {
        return work();
    }
    struct Back([u16; KINDS]);
    impl Drop for Back {
        fn drop(&mut self) {
            HELD.with(|held| held.set(self.0));
        }
    }
    let _back = Back(HELD.with(|held| held.replace([0; KINDS])));
    work()
}

#[cfg(all(test, debug_assertions, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn is_refused(act: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(act)).is_err()
    }

    #[test]
    fn things_are_taken_from_the_outside_in() {
        let outer = hold(LockRank::Admission);
        let inner = hold(LockRank::Stripes);
        assert!(is_refused(|| drop(hold(LockRank::BatchGate))) && is_refused(|| drop(hold(LockRank::Admission))));
        drop(inner);
        assert!(!is_refused(|| drop(hold(LockRank::Admission))), "another of the same");
        drop(outer);
        assert!(!is_refused(|| drop(hold(LockRank::DatabaseFlush))));
    }

    #[test]
    fn who_waits_holds_nothing_that_ends_the_wait() {
        let admission = hold(LockRank::Admission);
        about_to_wait(Wait::Room);
        assert!([Wait::Batches, Wait::Memory, Wait::Caller].into_iter().all(|wait| is_refused(|| about_to_wait(wait))));
        let log_room = hold(LockRank::LogReservation);
        assert!(is_refused(|| about_to_wait(Wait::Room)));
        aside(|| about_to_wait(Wait::Caller));
        assert!(is_refused(|| about_to_wait(Wait::Room)));
        drop((admission, log_room));
        let flush = hold(LockRank::DatabaseFlush);
        assert!(is_refused(|| about_to_wait(Wait::Room)), "who flushes makes the room");
        drop(flush);
        about_to_wait(Wait::Caller);
    }
}
