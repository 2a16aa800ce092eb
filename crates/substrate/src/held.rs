//! What a thread holds that others may wait for, and the order in which it takes it (`docs/design/waiting.md`, "What is
//! held").
//!
//! A build with debug assertions checks, at each thing that is taken and at each wait for room, that the rules are
//! kept, whether or not anybody waits just then: what could wait for ever is found by any test that comes by. A build
//! without has none of this.

use std::{cell::Cell, marker::PhantomData};

use ecotone_sys::primitive::thread_local;

/// What is held, from the outside in. Each is taken while nothing further in is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// The turn of the scan that reads without memory of its own.
    ClosedScan,
    /// The turn of who flushes the whole database.
    DatabaseFlush,
    /// The manifest, for the whole of a checkpoint, a creation or a drop.
    Manifest,
    /// A place inside the gate of batches.
    BatchGate,
    /// Room for writes that are not applied yet.
    Admission,
    /// The turn to compact an lsm keyspace.
    CompactionTurn,
    /// The turn to flush an lsm keyspace, or to sweep a tree.
    FlushTurn,
    /// The turn to make the delta map of a partition of a hash keyspace.
    MapTurn,
    /// Claims on pages of a tree.
    Claims,
    /// Room in the log that is not used yet.
    LogRoom,
    /// Locked stripes.
    Stripes,
}

const KINDS: usize = Kind::Stripes as usize + 1;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Room for a write in an engine, or in the log below its limit: made by flushes, write-out, compaction and
    /// checkpoints.
    Room,
    /// Batches that were admitted before.
    Batches,
    /// Memory that others hold for a transfer, by who holds nothing and begins again.
    Memory,
    /// A closure of the caller's, which may call the database and take as long as it likes.
    Caller,
}

impl Wait {
    /// The last kind that may be held meanwhile, and none further in.
    fn innermost(self) -> Option<Kind> {
        match self {
            Wait::Room => Some(Kind::Admission),
            Wait::Batches | Wait::Memory | Wait::Caller => None,
        }
    }

    /// Kinds further out that may not be held all the same.
    fn forbids(self, kind: Kind) -> bool {
        // Who waits for room waits for flushes and checkpoints; a scan writes nothing.
        self == Wait::Room && matches!(kind, Kind::ClosedScan | Kind::DatabaseFlush | Kind::Manifest)
    }
}

thread_local! {
    static HELD: Cell<[u16; KINDS]> = const { Cell::new([0; KINDS]) };
}

/// Something that is held until this is dropped.
#[derive(Debug)]
#[must_use = "it is held until this is dropped"]
pub struct Held {
    kind: Kind,
    /// Not `Send`: a thread knows what it holds.
    of_this_thread: PhantomData<*const ()>,
}

const fn is_checked() -> bool {
    cfg!(all(debug_assertions, not(feature = "loom")))
}

fn all(change: impl FnOnce(&mut [u16; KINDS])) {
    HELD.with(|held| {
        let mut all = held.get();
        change(&mut all);
        held.set(all);
    });
}

/// This thread takes something.
///
/// # Panics
/// In builds with debug assertions, if it holds something further in.
#[inline]
pub fn hold(kind: Kind) -> Held {
    if is_checked() {
        all(|held| {
            let further_in = (kind as usize + 1..KINDS).find(|inner| held[*inner] > 0);
            assert!(further_in.is_none(), "takes {kind:?} while it holds {held:?} (docs/design/waiting.md)");
            held[kind as usize] += 1;
        });
    }
    Held { kind, of_this_thread: PhantomData }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if is_checked() {
            all(|held| held[self.kind as usize] -= 1);
        }
    }
}

/// This thread is about to wait.
///
/// # Panics
/// In builds with debug assertions, if it holds what may be needed for the wait to end.
#[inline]
pub fn about_to_wait(wait: Wait) {
    if is_checked() {
        const ALL: [Kind; KINDS] = [
            Kind::ClosedScan,
            Kind::DatabaseFlush,
            Kind::Manifest,
            Kind::BatchGate,
            Kind::Admission,
            Kind::CompactionTurn,
            Kind::FlushTurn,
            Kind::MapTurn,
            Kind::Claims,
            Kind::LogRoom,
            Kind::Stripes,
        ];
        HELD.with(|held| {
            let wrong = |kind: &Kind| {
                held.get()[*kind as usize] > 0
                    && (wait.innermost().is_none_or(|last| *kind > last) || wait.forbids(*kind))
            };
            let wrong = ALL.into_iter().find(wrong);
            assert!(wrong.is_none(), "waits ({wait:?}) while it holds {wrong:?} (docs/design/waiting.md)");
        });
    }
}

/// Does something on this thread that is another's: a job of a manual scheduler. What the thread holds counts for
/// nothing meanwhile.
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
        let outer = hold(Kind::Admission);
        let inner = hold(Kind::Stripes);
        assert!(is_refused(|| drop(hold(Kind::BatchGate))) && is_refused(|| drop(hold(Kind::Admission))));
        drop(inner);
        assert!(!is_refused(|| drop(hold(Kind::Admission))), "another of the same");
        drop(outer);
        assert!(!is_refused(|| drop(hold(Kind::DatabaseFlush))));
    }

    #[test]
    fn who_waits_holds_nothing_that_ends_the_wait() {
        let admission = hold(Kind::Admission);
        about_to_wait(Wait::Room);
        assert!([Wait::Batches, Wait::Memory, Wait::Caller].into_iter().all(|wait| is_refused(|| about_to_wait(wait))));
        let log_room = hold(Kind::LogRoom);
        assert!(is_refused(|| about_to_wait(Wait::Room)));
        aside(|| about_to_wait(Wait::Caller));
        assert!(is_refused(|| about_to_wait(Wait::Room)));
        drop((admission, log_room));
        let flush = hold(Kind::DatabaseFlush);
        assert!(is_refused(|| about_to_wait(Wait::Room)), "who flushes makes the room");
        drop(flush);
        about_to_wait(Wait::Caller);
    }
}
