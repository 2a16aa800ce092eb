//! The part of the memory that a keyspace may have, and how the hot log and copies divide it (decision 9, "Hot log and
//! read cache share the memory").

use std::{
    cell::Cell,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use ecotone_substrate::memory::{Held, Share};
use ecotone_sys::chunk::Block;

use super::{Hash, Sizes, log::FRAME, room::BLOCK, split::Split};

/// Frames that the hot log may have, however little there is.
const LEAST: u64 = 8;
/// What the hot log had more than it has is forgotten by this part, as often as its part may change.
const FORGETS: u64 = 8;
/// Uses that are told together, by whoever comes to them. No period of a program goes with a prime number.
const TELL: usize = 251;

/// Frames that a keyspace may have now.
#[derive(Debug)]
pub(super) struct Part {
    /// Its claim on the budget, once it has joined.
    share: OnceLock<Share>,
    hot: AtomicU64,
    copies: AtomicU64,
    /// The most frames of the hot log that were in memory lately.
    peak: AtomicU64,
    /// Of copies, whatever it may have of the memory.
    most_copies: u64,
}

impl Part {
    /// As much as this, as long as it has not joined.
    pub(super) fn of(sizes: Sizes) -> Part {
        let [hot, copies, peak] = [sizes.frames as u64, sizes.copies as u64, 0].map(AtomicU64::new);
        Part { share: OnceLock::new(), hot, copies, peak, most_copies: sizes.copies as u64 }
    }

    /// Frames of the hot log.
    pub(super) fn hot(&self) -> u64 {
        self.hot.load(Ordering::Relaxed)
    }

    /// Frames of copies.
    pub(super) fn copies(&self) -> u64 {
        self.copies.load(Ordering::Relaxed)
    }

    /// Frames that the hot log has had in memory lately, now that it has so many.
    fn in_use(&self, now: u64) -> u64 {
        self.peak.fetch_max(now, Ordering::Relaxed).max(now)
    }

    /// What was in use long ago counts less and less.
    fn age(&self, now: u64) {
        let peak = self.peak.load(Ordering::Relaxed);
        self.peak.store(peak - peak.saturating_sub(now).div_ceil(FORGETS), Ordering::Relaxed);
    }
}

impl Hash {
    /// Counts reads and writes, by which caches divide the memory (decision 8), and hot log and copies after them. Some
    /// of many tell for all.
    #[inline]
    pub(super) fn count_uses(&self, more: usize) {
        self.touch();
        thread_local! {
            static USES: Cell<usize> = const { Cell::new(0) };
        }
        let uses = USES.get() + more;
        USES.set(if uses < TELL { uses } else { 0 });
        if uses >= TELL {
            self.tell(uses as u64);
        }
    }

    #[cold]
    fn tell(&self, uses: u64) {
        self.part.share.get().into_iter().for_each(|share| share.count(uses));
        if self.split.count_uses(uses, || self.copies.take_remembered()) {
            self.part.age(self.frames_in_memory());
        }
    }

    /// Joins those who divide the memory.
    pub(super) fn join(self: &Arc<Self>) {
        let (counted, shrunk) = (Arc::downgrade(self), Arc::downgrade(self));
        let held = Held::Counted(Box::new(move || counted.upgrade().map_or(0, |hash| hash.held())));
        let shrink = Box::new(move |bytes| shrunk.upgrade().map_or(0, |hash| hash.give_back_copies(bytes)));
        let share = self.room.memory.join(held, shrink);
        share.count(1);
        self.part.share.set(share).expect("it joins once");
        self.divide();
    }

    /// Bytes of hot log and copies in memory.
    fn held(&self) -> usize {
        (self.frames_in_memory() + self.copies.frames()) as usize * BLOCK.bytes()
    }

    /// Frames of the hot log that are in memory.
    pub(super) fn frames_in_memory(&self) -> u64 {
        let next = self.log.next_frame();
        next - self.log.bounds().head().frame().min(next)
    }

    /// Finds out what the keyspace may have. What the hot log does not use of its part is for copies, until it wants
    /// that.
    pub(super) fn divide(&self) {
        let Some(share) = self.part.share.get() else { return };
        let frames = share.fair_part() as u64 / FRAME;
        let hot = if self.copies.is_on() { self.split.hot(frames).max(LEAST) } else { Split::most(frames) };
        self.part.hot.store(hot, Ordering::Relaxed);
        let in_use = self.part.in_use(self.frames_in_memory()).max(LEAST);
        self.part.copies.store(frames.saturating_sub(hot.min(in_use)).min(self.part.most_copies), Ordering::Relaxed);
    }

    /// A block from `lease`, for the hot log or the index, for which caches give one back if need be.
    pub(super) fn lease_or_take(&self, lease: impl Fn() -> Option<Block>) -> Option<Block> {
        lease().or_else(|| self.take_from_caches().then(lease)?)
    }

    /// Has a block given back to the budget: of copies, if they have more than their part, else of another cache that
    /// is above its own, else of copies all the same. Whether one was.
    fn take_from_caches(&self) -> bool {
        self.divide();
        let have_more = self.copies.frames() > self.part.copies();
        have_more && self.give_back_copies(BLOCK.bytes()) > 0
            || self.take_from_others()
            || self.give_back_copies(BLOCK.bytes()) > 0
    }

    /// Has another cache that is above its part give back a block, if this keyspace is below its own. Whether one did.
    pub(super) fn take_from_others(&self) -> bool {
        self.part.share.get().is_some_and(|share| share.reclaim(BLOCK.bytes()))
    }
}
