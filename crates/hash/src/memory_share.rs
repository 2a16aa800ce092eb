//! The memory share of a keyspace, and how the hot log and the read cache divide it (hash.md, "Memory tuner").

use std::{
    cell::Cell,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use ecotone_substrate::memory::{Memory, Share};

use super::{
    log::{FRAME, HotLog},
    memory_tuner::MemoryTuner,
    read_cache::ReadCache,
    sizes::Sizes,
    space::BLOCK,
};

/// Minimum limit of the hot log, in frames.
const LEAST_HOT_FRAMES: u64 = 8;
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
    /// Decides the hot log's part.
    pub(super) tuner: MemoryTuner,
}

impl MemoryShare {
    /// The limits in `sizes`, until the keyspace joins.
    pub(super) fn new(memory: &Memory, sizes: Sizes) -> MemoryShare {
        let [hot, copies, peak] = [sizes.frames as u64, sizes.copies as u64, 0].map(AtomicU64::new);
        let (most_copies, tuner) = (sizes.copies as u64, MemoryTuner::new(memory, sizes.frames));
        MemoryShare { share: OnceLock::new(), hot, copies, peak, most_copies, tuner }
    }

    /// The limit of the hot log.
    pub(super) fn hot(&self) -> u64 {
        self.hot.load(Ordering::Relaxed)
    }

    /// The limit of the read cache.
    pub(super) fn copies(&self) -> u64 {
        self.copies.load(Ordering::Relaxed)
    }

    /// Counts reads and writes. The memory is divided among caches by these counts (decision 8), and then between hot
    /// log and read cache. A thread reports a batch of uses at once.
    #[inline]
    pub(super) fn count_uses(&self, more: usize, log: &HotLog, read_cache: &ReadCache) {
        thread_local! {
            static USES: Cell<usize> = const { Cell::new(0) };
        }
        let uses = USES.get() + more;
        USES.set(if uses < TELL { uses } else { 0 });
        if uses >= TELL {
            self.report_uses(uses as u64, log, read_cache);
        }
    }

    #[cold]
    fn report_uses(&self, uses: u64, log: &HotLog, read_cache: &ReadCache) {
        self.share.get().into_iter().for_each(|share| share.count(uses));
        if self.tuner.count_uses(uses, || read_cache.take_remembered()) {
            self.age(log.frames_in_memory());
        }
    }

    /// Joins the caches that share the memory budget, with this share.
    pub(super) fn join(&self, share: Share, log: &HotLog) {
        share.count(1);
        self.share.set(share).expect("it joins once");
        self.rebalance(log);
    }

    /// Recomputes the limits. The read cache may use memory that the hot log does not use of its limit, until the hot
    /// log needs it.
    pub(super) fn rebalance(&self, log: &HotLog) {
        let Some(share) = self.share.get() else { return };
        let frames = share.fair_part() as u64 / FRAME;
        let hot =
            if self.most_copies > 0 { self.tuner.hot(frames).max(LEAST_HOT_FRAMES) } else { MemoryTuner::most(frames) };
        self.hot.store(hot, Ordering::Relaxed);
        let in_use = self.in_use(log.frames_in_memory()).max(LEAST_HOT_FRAMES);
        self.copies.store(frames.saturating_sub(hot.min(in_use)).min(self.most_copies), Ordering::Relaxed);
    }

    /// Takes a block from another cache that is above its share, if this keyspace is below its own. Returns whether a
    /// block came back.
    pub(super) fn take_from_others(&self) -> bool {
        self.share.get().is_some_and(|share| share.reclaim(BLOCK.bytes()))
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
