//! The epoch domain: when shared data that readers may still use can be changed or freed (hash-protocol.md, "Epochs").
//!
//! A thread that reads shared words holds a [`Pin`] meanwhile. Data that was made unreachable before a
//! [`bump`](Domain::bump) is unreachable for all threads when the action of that bump runs: the action waits until
//! every pin is gone that was held at the call.

mod slot;
#[cfg(test)]
mod tests;

use std::{
    cell::Cell,
    collections::VecDeque,
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicUsize as Counter, Ordering},
    },
};

use crate::primitive::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, fence},
    thread, thread_local, unless_checked, unless_loom,
};
pub use slot::Slot;

/// Pins that can be held at a time; more wait for one another. With loom so few that all orders can be tried.
const PLACES: usize = unless_loom(128, 3);
/// The value of a free place. It is above every epoch.
const EMPTY: u64 = u64::MAX;

/// An action that runs once, when its grace period is over.
type Action = Box<dyn FnOnce() + Send>;

/// The epoch that a pin has read, on cache lines of its own.
#[repr(align(128))]
struct Place(AtomicU64);

/// All pins of a database, and the actions that wait for pins to go.
pub struct Domain {
    places: Box<[Place]>,
    epoch: AtomicU64,
    /// The waiting actions, each with the epoch that it ended, ascending.
    waiting: Mutex<VecDeque<(u64, Action)>>,
    /// The number of waiting actions, for threads that only ask whether there are any.
    count: AtomicUsize,
}

impl Domain {
    /// A domain without pins.
    pub fn new() -> Arc<Domain> {
        let places = (0..PLACES).map(|_| Place(AtomicU64::new(EMPTY))).collect();
        Arc::new(Domain {
            places,
            epoch: AtomicU64::new(0),
            waiting: Mutex::new(VecDeque::new()),
            count: AtomicUsize::new(0),
        })
    }

    /// Pins the present epoch. A thread may hold several pins. While it holds one it must not wait, do I/O, lease, or
    /// call back.
    #[inline]
    pub fn pin(&self) -> Pin<'_> {
        let mut turn = favourite();
        loop {
            let place = &self.places[turn % PLACES].0;
            let epoch = self.epoch.load(Ordering::Relaxed);
            if place.compare_exchange(EMPTY, epoch, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                fence_after_exchange();
                held(|pins| pins + 1);
                return Pin { place, domain: self, of_this_thread: PhantomData };
            }
            turn += 1;
            if turn.is_multiple_of(PLACES) {
                thread::yield_now();
            }
        }
    }

    /// Runs `action` once, as soon as every pin is gone that is held now. The action runs in this call, or in a later
    /// drop of a pin, bump or [`drain`](Self::drain), on any thread. It must neither pin, wait, lease, do I/O, nor take
    /// a lock that is held across any of these.
    pub fn bump(&self, action: impl FnOnce() + Send + 'static) {
        let mut waiting = self.waiting.lock();
        // The caller's removal comes before the new epoch and before the look at the places.
        fence(Ordering::SeqCst);
        let ended = self.epoch.fetch_add(1, Ordering::Relaxed);
        waiting.push_back((ended, Box::new(action)));
        self.run_ripe(waiting);
    }

    /// Runs the actions whose pins are gone. A thread that waits for an action calls this repeatedly: both the bumper
    /// and the last pin may miss an action that becomes ripe at the very moment when the bumper looks at the places.
    ///
    /// # Panics
    /// In builds with debug assertions, if this thread holds a pin.
    pub fn drain(&self) {
        assert_unpinned();
        self.run_ripe(self.waiting.lock());
    }

    /// Takes out the ripe actions, and runs them after the lock is released.
    fn run_ripe(&self, mut waiting: MutexGuard<'_, VecDeque<(u64, Action)>>) {
        // The end of a pin releases, and this load acquires: the writes of pinned threads come before the actions.
        let oldest = self.places.iter().map(|place| place.0.load(Ordering::Acquire)).min().unwrap_or(EMPTY);
        let ripe = waiting.partition_point(|(ended, _)| *ended < oldest);
        let ripe: Vec<Action> = waiting.drain(..ripe).map(|(_, action)| action).collect();
        self.count.store(waiting.len(), Ordering::Relaxed);
        drop(waiting);
        ripe.into_iter().for_each(|action| action());
    }

    /// Some of the waiting actions may have become ripe. If the lock is taken, its holder looks for them.
    #[cold]
    fn look(&self) {
        if let Some(waiting) = self.waiting.try_lock() {
            self.run_ripe(waiting);
        }
    }
}

impl Drop for Domain {
    /// Nobody can hold a pin, so every action is ripe.
    fn drop(&mut self) {
        let left: Vec<_> = self.waiting.lock().drain(..).collect();
        left.into_iter().for_each(|(_, action)| action());
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain").field("epoch", &self.epoch).field("waiting", &self.count).finish_non_exhaustive()
    }
}

/// A pinned moment: everything reachable at any time since then stays as it is until this is dropped.
#[must_use = "a moment is pinned until this is dropped"]
pub struct Pin<'d> {
    place: &'d AtomicU64,
    domain: &'d Domain,
    /// Neither `Send` nor `Sync`, so that a thread knows which pins it holds.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        held(|pins| pins - 1);
        self.place.store(EMPTY, Ordering::Release);
        if self.domain.count.load(Ordering::Relaxed) > 0 {
            self.domain.look();
        }
    }
}

impl fmt::Debug for Pin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pin").field(self.place).finish()
    }
}

/// Checks that this thread holds no pin, of any domain.
///
/// # Panics
/// In builds with debug assertions, if it does.
pub fn assert_unpinned() {
    held(|pins| {
        assert_eq!(pins, 0, "this thread holds a pin");
        pins
    });
}

/// Changes the number of pins that this thread holds, in builds that count them. Under loom one thread runs all.
#[inline]
fn held(change: impl FnOnce(usize) -> usize) {
    thread_local! {
        static PINS: Cell<usize> = const { Cell::new(0) };
    }
    if unless_loom(cfg!(debug_assertions), false) {
        PINS.with(|pins| pins.set(change(pins.get())));
    }
}

/// The place at which this thread begins its search for a free one.
#[inline]
fn favourite() -> usize {
    static NEXT: Counter = Counter::new(0);
    std::thread_local! {
        static MINE: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % PLACES);
    }
    MINE.get()
}

/// A sequentially consistent fence behind a compare-and-swap of that order. On x86-64 the swap is one already, for the
/// processor.
#[inline]
fn fence_after_exchange() {
    if unless_checked(cfg!(target_arch = "x86_64"), false) {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
