//! When may be changed or freed what others might still look at: the epoch domain (decision 10, "Epochs").
//!
//! Who looks at shared words holds a [`Pin`] meanwhile. What was made unreachable before a [`bump`](Domain::bump) is
//! unreachable for all when its action runs: the action waits until every pin is gone that was held at the call.

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
    thread, thread_local,
};

pub use slot::Slot;

/// Pins held at a time; more wait for one another. With loom so few that all orders can be tried.
const PLACES: usize = if cfg!(feature = "loom") { 3 } else { 128 };
/// In a place that nobody has. No epoch comes near it.
const EMPTY: u64 = u64::MAX;

/// What is done once, when a grace is over.
type Action = Box<dyn FnOnce() + Send>;

/// The epoch that a pin has read, on cache lines of its own.
#[repr(align(128))]
struct Place(AtomicU64);

/// All pins of a database, and the actions that wait for some to go.
pub struct Domain {
    places: Box<[Place]>,
    epoch: AtomicU64,
    /// With the epoch that each ended, ascending.
    waiting: Mutex<VecDeque<(u64, Action)>>,
    /// How many wait, for who only wants to know whether any does.
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

    /// Pins the present. A thread may hold several pins. While it holds one it must not wait, do I/O, lease, or call
    /// back.
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

    /// Runs `action` once, as soon as every pin is gone that is held now: in this call, or in the drop of a pin, a bump
    /// or a [`drain`](Self::drain) to come, on whatever thread. It must neither pin, wait, lease, do I/O, nor take a
    /// lock that is held across any of these.
    pub fn bump(&self, action: impl FnOnce() + Send + 'static) {
        let mut waiting = self.waiting.lock();
        // What the caller made unreachable comes before the new epoch and before the look at the places.
        fence(Ordering::SeqCst);
        let ended = self.epoch.fetch_add(1, Ordering::Relaxed);
        waiting.push_back((ended, Box::new(action)));
        self.run_ripe(waiting);
    }

    /// Runs the actions whose pins are gone. Who waits for an action calls this again and again: an action that becomes
    /// ripe at the very moment when its bumper looks at the places may be missed by both, the bumper and the last pin.
    ///
    /// # Panics
    /// In builds with debug assertions, if this thread holds a pin.
    pub fn drain(&self) {
        assert_unpinned();
        self.run_ripe(self.waiting.lock());
    }

    /// Takes out the ripe actions, and runs them when the lock is released.
    fn run_ripe(&self, mut waiting: MutexGuard<'_, VecDeque<(u64, Action)>>) {
        // The end of a pin releases, this acquires: what pinned threads wrote comes before the actions.
        let oldest = self.places.iter().map(|place| place.0.load(Ordering::Acquire)).min().unwrap_or(EMPTY);
        let ripe = waiting.partition_point(|(ended, _)| *ended < oldest);
        let ripe: Vec<Action> = waiting.drain(..ripe).map(|(_, action)| action).collect();
        self.count.store(waiting.len(), Ordering::Relaxed);
        drop(waiting);
        ripe.into_iter().for_each(|action| action());
    }

    /// Some of the waiting actions may have become ripe. Whoever has the lock looks himself.
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

/// A moment that is kept: what was reachable at any time since stays as it is until this is dropped.
#[must_use = "a moment is pinned until this is dropped"]
pub struct Pin<'d> {
    place: &'d AtomicU64,
    domain: &'d Domain,
    /// Neither `Send` nor `Sync`, so that a thread knows what it holds.
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

/// Changes the number of pins that this thread holds, where it is counted. Under loom one thread plays all.
#[inline]
fn held(change: impl FnOnce(usize) -> usize) {
    thread_local! {
        static PINS: Cell<usize> = const { Cell::new(0) };
    }
    if cfg!(all(debug_assertions, not(feature = "loom"))) {
        PINS.with(|pins| pins.set(change(pins.get())));
    }
}

/// Where this thread looks first for a place.
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
    if cfg!(all(target_arch = "x86_64", not(any(feature = "shuttle", feature = "loom")))) {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
