//! The memory share of a keyspace, and how the hot log and the read cache divide it (hash.md, "Memory tuner").

use std::{
    cell::Cell,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use ecotone_substrate::memory::{CacheComponents, Share};
use ecotone_sys::chunk::Block;

use super::{Hash, Sizes, log::FRAME, memory_tuner::MemoryTuner, reservations::BLOCK};

/// Minimum limit of the hot log, in frames.
const LEAST: u64 = 8;
/// At each decision of the memory tuner, the peak of the hot log moves towards its current size by one part in this
/// many.
const FORGETS: u64 = 8;
/// Uses that a thread reports together. The number is prime, so that it does not align with a period of the program.
const TELL: usize = 251;

/// The current limits of a keyspace, in frames.
#[derive(Debug)]
pub(super) struct MemoryShare {
    /// Its share of the memory budget, once it has joined.
    share: OnceLock<Share>,
    hot: AtomicU64,
    copies: AtomicU64,
    /// Recent maximum of the frames of hot log in memory.
    peak: AtomicU64,
    /// Upper limit of the read cache, whatever the share.
    most_copies: u64,
}

impl MemoryShare {
    /// The limits in `sizes`, until the keyspace joins.
    pub(super) fn of(sizes: Sizes) -> MemoryShare {
        let [hot, copies, peak] = [sizes.frames as u64, sizes.copies as u64, 0].map(AtomicU64::new);
        MemoryShare { share: OnceLock::new(), hot, copies, peak, most_copies: sizes.copies as u64 }
    }

    /// The limit of the hot log.
    pub(super) fn hot(&self) -> u64 {
        self.hot.load(Ordering::Relaxed)
    }

    /// The limit of the read cache.
    pub(super) fn copies(&self) -> u64 {
        self.copies.load(Ordering::Relaxed)
    }

    /// The recent maximum of frames of hot log, after recording the current number.
    fn in_use(&self, now: u64) -> u64 {
        self.peak.fetch_max(now, Ordering::Relaxed).max(now)
    }

    /// Lowers the peak towards the current number of frames.
    fn age(&self, now: u64) {
        let peak = self.peak.load(Ordering::Relaxed);
        self.peak.store(peak - peak.saturating_sub(now).div_ceil(FORGETS), Ordering::Relaxed);
    }
}

impl Hash {
    /// Counts reads and writes. The memory is divided among caches by these counts (decision 8), and then between hot
    /// log and read cache. A thread reports a batch of uses at once.
    #[inline]
    pub(super) fn count_uses(&self, more: usize) {
        self.touch();
        thread_local! {
            static USES: Cell<usize> = const { Cell::new(0) };
        }
        let uses = USES.get() + more;
        USES.set(if uses < TELL { uses } else { 0 });
        if uses >= TELL {
            self.report_uses(uses as u64);
        }
    }

    #[cold]
    fn report_uses(&self, uses: u64) {
        self.memory_share.share.get().into_iter().for_each(|share| share.count(uses));
        if self.memory_tuner.count_uses(uses, || self.read_cache.take_remembered()) {
            self.memory_share.age(self.frames_in_memory());
        }
    }

    /// Joins the caches that share the memory budget.
    pub(super) fn join(self: &Arc<Self>) {
        let (counted, shrunk) = (Arc::downgrade(self), Arc::downgrade(self));
        let held = CacheComponents::Counted(Box::new(move || counted.upgrade().map_or(0, |hash| hash.held())));
        let shrink = Box::new(move |bytes| shrunk.upgrade().map_or(0, |hash| hash.shrink_read_cache(bytes)));
        let share = self.reservations.memory.join(held, shrink);
        share.count(1);
        self.memory_share.share.set(share).expect("it joins once");
        self.rebalance();
    }

    /// Bytes of hot log and read cache in memory.
    fn held(&self) -> usize {
        (self.frames_in_memory() + self.read_cache.frames()) as usize * BLOCK.bytes()
    }

    /// Frames of the hot log that are in memory.
    pub(super) fn frames_in_memory(&self) -> u64 {
        let next = self.log.next_frame();
        next - self.log.bounds().head().frame().min(next)
    }

    /// Recomputes the limits. The read cache may use memory that the hot log does not use of its limit, until the hot
    /// log needs it.
    pub(super) fn rebalance(&self) {
        let Some(share) = self.memory_share.share.get() else { return };
        let frames = share.fair_part() as u64 / FRAME;
        let hot =
            if self.read_cache.is_on() { self.memory_tuner.hot(frames).max(LEAST) } else { MemoryTuner::most(frames) };
        self.memory_share.hot.store(hot, Ordering::Relaxed);
        let in_use = self.memory_share.in_use(self.frames_in_memory()).max(LEAST);
        self.memory_share
            .copies
            .store(frames.saturating_sub(hot.min(in_use)).min(self.memory_share.most_copies), Ordering::Relaxed);
    }

    /// A block from `lease` for the hot log or the index. If there is none, a cache gives one back first.
    pub(super) fn lease_or_take(&self, lease: impl Fn() -> Option<Block>) -> Option<Block> {
        lease().or_else(|| self.take_from_caches().then(lease)?)
    }

    /// Takes a block from a cache: from the read cache if it exceeds its limit, else from another cache above its
    /// share, else from the read cache anyway. Returns whether a block came back.
    fn take_from_caches(&self) -> bool {
        self.rebalance();
        let have_more = self.read_cache.frames() > self.memory_share.copies();
        have_more && self.shrink_read_cache(BLOCK.bytes()) > 0
            || self.take_from_others()
            || self.shrink_read_cache(BLOCK.bytes()) > 0
    }

    /// Takes a block from another cache that is above its share, if this keyspace is below its own. Returns whether a
    /// block came back.
    pub(super) fn take_from_others(&self) -> bool {
        self.memory_share.share.get().is_some_and(|share| share.reclaim(BLOCK.bytes()))
    }
}
