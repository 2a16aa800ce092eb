//! Reservations of memory for appends: frames ahead of the log's end, and overflow buckets (hash-protocol.md, invariant
//! 10).
//!
//! An operation works under a pin, so it does not wait. If it lacks space it says which ([`NeedsSpace`]), and its
//! caller drops the pin and has [`Reservations`] make the space: from the memory budget, from a cache, or by the
//! eviction of the oldest frames of the hot log.

use std::{fmt, sync::Arc, time::Duration};

use ecotone_engine::contract::Operation;
use ecotone_substrate::{
    Error, Result, limits,
    memory::{Component, Memory},
    metrics::Counter,
};
use ecotone_sys::{
    chunk::{Block, Size},
    epoch,
    primitive::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        thread, unless_loom,
    },
};

use super::{
    chains::Chains,
    log::{Address, FRAME, HotLog, PAGE, PAGE_HEADER, Record},
    space::{BLOCK, NeedsSpace},
};

/// Bytes of the largest record. A model of loom has records that fill a page.
const LARGEST: u64 = unless_loom(Record::bytes(Record::capacity_for(limits::MAX_RECORD)), PAGE - PAGE_HEADER);
/// When frames are evicted for space, one in `EVICTED_PART` leaves memory, but at most `EVICTED_MOST`: a thread that
/// waits for one waits until all of them are written.
const EVICTED_PART: u64 = 8;
const EVICTED_MOST: u64 = 16;
/// Attempts to get a block that is about to leave memory, and the time between two of them. Pins last microseconds; a
/// compaction holds frames for tenths of a second.
const LOOKS: u32 = 50_000;
pub(super) const LOOK_AGAIN: Duration = Duration::from_micros(100);
/// Attempts to get a block for a read.
const LOOKS_FOR_A_BLOCK: u32 = 5_000;
/// Attempts after which more frames are evicted.
const LOOKS_BETWEEN_SPILLS: u32 = 100;
/// Bytes that admission keeps free beyond the reservations: a page that a flush closes; and a frame for an operation
/// that needs a second record, since it races with others of its chain, and for the end of a page whose records have
/// given back their reservations.
const MARGIN: u64 = FRAME + PAGE;
/// A record of at least `LARGE` bytes also reserves the page end that it may not fit into. A smaller one reserves one
/// part in `SMALL_PART` of itself in addition.
const LARGE: u64 = 512;
const SMALL_PART: u64 = 4;
const _: () = assert!((limits::PAGE as u64 - PAGE_HEADER - LARGE) / SMALL_PART > LARGE + PAGE_HEADER);

/// The components that may lack memory, as errors name them.
const HOT_LOG: &str = "hot log";
const INDEX: &str = "index of the hot log";

/// Keeps the pages of the hot log that have left memory.
pub(super) trait EvictionTarget: fmt::Debug + Send + Sync {
    /// Writes the read-only pages below page boundary `until` to a place where they can be read after they have left
    /// memory.
    fn write_out(&self, log: &HotLog, until: Address) -> Result<()>;
}

/// Source of memory blocks, and the reservations of admitted operations.
#[derive(Debug)]
pub(super) struct Reservations {
    pub(super) memory: Arc<Memory>,
    outlet: Arc<dyn EvictionTarget>,
    /// Held by the thread that makes space, so that the others find it made.
    making: Mutex<()>,
    /// Frames that no thread reads any more.
    spare: Arc<Mutex<Vec<Block>>>,
    /// Whether memory was taken since the last call of [`has_grown`](Self::has_grown).
    grown: AtomicBool,
    /// Bytes of hot log reserved for operations that are admitted and not applied, and the number of these operations.
    pub(super) reserved_bytes: AtomicU64,
    pub(super) promised_operations: AtomicU64,
    /// Times that frames of the hot log had to be written to free memory, since compaction was behind.
    pub(super) forced_evictions: Counter,
}

impl Reservations {
    /// Reservations from this memory budget; `outlet` keeps pages that leave memory.
    pub(super) fn new(memory: &Arc<Memory>, outlet: Arc<dyn EvictionTarget>) -> Reservations {
        let [reserved_bytes, promised_operations] = std::array::from_fn(|_| AtomicU64::new(0));
        let (memory, making, spare, grown) = (memory.clone(), Mutex::new(()), Arc::default(), AtomicBool::new(false));
        let forced_evictions = Counter::default();
        Reservations { memory, outlet, making, spare, grown, reserved_bytes, promised_operations, forced_evictions }
    }

    /// Records that memory or index entries were taken.
    pub(super) fn has_taken(&self) {
        self.grown.store(true, Ordering::Relaxed);
    }

    /// Whether memory was taken since the last call that returned true.
    #[inline]
    pub(super) fn has_grown(&self) -> bool {
        self.grown.load(Ordering::Relaxed) && self.grown.swap(false, Ordering::Relaxed)
    }

    /// Blocks for `bytes` bytes. The keyspace cannot do without the first.
    pub(super) fn lease_all(&self, bytes: usize) -> Result<Vec<Block>> {
        let first = self.first_block();
        let others = (1..bytes.div_ceil(BLOCK.bytes())).map(|_| self.lease());
        [first].into_iter().chain(others).collect()
    }

    /// A block for a single read of a file. If compaction holds the last memory, this waits until it comes back.
    pub(super) fn frame(&self) -> Result<Block> {
        for _ in 0..LOOKS_FOR_A_BLOCK {
            if let Some(block) = self.free_frame() {
                return Ok(block);
            }
            thread::sleep(LOOK_AGAIN);
        }
        self.memory.lease_essential(Component::Frames, Size::Frame)
    }

    /// A block for a single read, if there is one without waiting.
    pub(super) fn free_frame(&self) -> Option<Block> {
        self.memory.lease_essential(Component::Frames, Size::Frame).ok()
    }

    /// A block for one of many reads in flight, if windows may have one more.
    pub(super) fn window(&self) -> Option<Block> {
        self.memory.lease_essential(Component::Windows, Size::Frame).ok()
    }

    /// The first block of a hot log, which it cannot do without.
    pub(super) fn first_frame(&self) -> Result<Block> {
        self.memory.lease_essential(Component::HotLog, BLOCK)
    }

    /// The first block of an index. Waits for memory that others hold for a while.
    fn first_block(&self) -> Result<Block> {
        for _ in 0..LOOKS_FOR_A_BLOCK {
            if let Ok(block) = self.memory.lease_lasting(Component::HashIndex, BLOCK) {
                return Ok(block);
            }
            thread::sleep(LOOK_AGAIN);
        }
        Err(self.refused(INDEX))
    }

    /// A block for the index, if the budget has a free one.
    pub(super) fn lease(&self) -> Result<Block> {
        self.memory.lease(Component::HashIndex, BLOCK).ok_or_else(|| self.refused(INDEX))
    }

    /// The error that there is no memory for a component of the keyspace.
    fn refused(&self, what: &'static str) -> Error {
        Error::Memory { what, budget: self.memory.budget() as u64 }
    }

    /// Makes the space that an operation lacked, unless another thread has done so meanwhile.
    pub(super) fn satisfy(&self, chains: &Chains, lack: NeedsSpace) -> Result<()> {
        epoch::assert_unpinned();
        let _making = self.making.lock();
        self.has_taken();
        match lack {
            NeedsSpace::Frame => self.make_frames(chains, 2 * LARGEST + PAGE_HEADER),
            NeedsSpace::Bucket => self.make_buckets(chains, 1),
        }
    }

    /// Reserves frames for `bytes` bytes ahead of the log's end.
    fn make_frames(&self, chains: &Chains, bytes: u64) -> Result<()> {
        // If the ring is full, the oldest frame is evicted for the next one.
        let covered = self.cover(chains, bytes, || self.next_frame(chains).map(Some), || self.evict_oldest(chains))?;
        if covered { Ok(()) } else { Err(self.refused(HOT_LOG)) }
    }

    /// Reserves one page more ahead of the log's end, if there is a block for that at once. Returns whether it is
    /// reserved.
    pub(super) fn try_to_make_frames(&self, chains: &Chains) -> bool {
        epoch::assert_unpinned();
        let Some(_making) = self.making.try_lock() else { return false };
        matches!(self.cover(chains, 2 * PAGE, || Ok(self.frame_at_once(chains)), || Ok(false)), Ok(true))
    }

    /// Reserves frames for `bytes` bytes ahead of the log's end, with blocks from `next`, until that returns none. If
    /// the ring has no place for a frame, calls `make_way` first, if that can free one. Returns whether the bytes are
    /// reserved.
    fn cover(
        &self,
        chains: &Chains,
        bytes: u64,
        next: impl Fn() -> Result<Option<Block>>,
        make_way: impl Fn() -> Result<bool>,
    ) -> Result<bool> {
        while chains.log.ahead() < bytes {
            let Some(block) = next()? else { return Ok(false) };
            if let Err(block) = chains.log.grow(block) {
                self.spare.lock().push(block);
                if !make_way()? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// A block for the next frame, if the keyspace may have one more and there is one without waiting.
    fn frame_at_once(&self, chains: &Chains) -> Option<Block> {
        if chains.log.frames_in_memory() >= chains.memory_share.hot() {
            return None;
        }
        let spare = self.spare.lock().pop();
        spare.or_else(|| chains.lease_or_take(|| self.memory.lease(Component::HotLog, BLOCK)))
    }

    fn make_buckets(&self, chains: &Chains, count: u64) -> Result<()> {
        for _ in 0..LOOKS_FOR_A_BLOCK {
            if chains.index.overflow_left() >= count {
                return Ok(());
            }
            let block = self.block(chains, || true, || self.lease().ok())?;
            // An index at its limit of overflow buckets has to grow, unless another thread is growing it.
            if chains.index.add_overflow(block).is_err() && !self.grow_index(chains) {
                thread::sleep(LOOK_AGAIN);
            }
        }
        Err(self.refused(INDEX))
    }

    /// Doubles the index while it is crowded and there is memory, unless another thread does. Returns whether it grew.
    pub(super) fn grow_index(&self, chains: &Chains) -> bool {
        epoch::assert_unpinned();
        let mut grown = false;
        while chains.index.is_crowded() && chains.index.grow(|| chains.lease_or_take(|| self.lease().ok())) {
            grown = true;
        }
        grown
    }

    /// A block for the next frame.
    fn next_frame(&self, chains: &Chains) -> Result<Block> {
        chains.memory_share.rebalance(&chains.log);
        let none_can_leave = || chains.log.bounds().head().frame() >= chains.log.tail().frame();
        let lease = || match none_can_leave() {
            true => self.first_frame().ok(),
            false => self.memory.lease(Component::HotLog, BLOCK),
        };
        self.block(chains, || none_can_leave() || chains.log.frames_in_memory() < chains.memory_share.hot(), lease)
    }

    /// A block from `lease`, for which a cache gives one back if necessary, or the block of a frame that leaves memory.
    /// None is taken while `may` is false. Waits for frames that are about to leave memory, and for memory that others
    /// hold for a while.
    fn block(&self, chains: &Chains, may: impl Fn() -> bool, lease: impl Fn() -> Option<Block>) -> Result<Block> {
        for look in 0..LOOKS {
            chains.domain.drain();
            // A spare block that may not be used goes back to the budget.
            let spare = self.spare.lock().pop();
            if may()
                && let Some(block) = spare.or_else(|| chains.lease_or_take(&lease))
            {
                return Ok(block);
            }
            // A truncation may have freed the frames that were to leave.
            if look % LOOKS_BETWEEN_SPILLS > 0 || !self.evict_oldest(chains)? {
                thread::sleep(LOOK_AGAIN);
            }
        }
        Err(self.refused(HOT_LOG))
    }

    /// Evicts the oldest frames. False if only the frame at the end of the log is left.
    fn evict_oldest(&self, chains: &Chains) -> Result<bool> {
        let (oldest, last) = (chains.log.bounds().head().frame(), chains.log.tail().frame());
        if oldest >= last {
            return Ok(false);
        }
        self.forced_evictions.increment();
        let until = Address::of_frame(oldest + (last - oldest).div_ceil(EVICTED_PART).min(EVICTED_MOST));
        self.evict_below(&chains.log, until)?;
        Ok(true)
    }

    /// Evicts the frames wholly below page boundary `until`, which is not above TAIL, after their pages are frozen and
    /// written.
    pub(super) fn evict_below(&self, log: &HotLog, until: Address) -> Result<()> {
        log.freeze(until);
        self.outlet.write_out(log, until)?;
        let spare = self.spare.clone();
        log.evict(until, move |block| spare.lock().push(block));
        Ok(())
    }

    /// Reserves all that an operation of a logged keyspace needs, so that applying it neither waits nor fails. Returns
    /// the reserved bytes of hot log.
    pub(super) fn admit(&self, chains: &Chains, operation: Operation<'_>) -> Result<u64> {
        let credit = record_reservation(operation);
        // The reservation is added first: a thread that reads the log's end afterwards sees too large a sum rather than
        // too small a one.
        self.reserved_bytes.fetch_add(credit, Ordering::SeqCst);
        self.promised_operations.fetch_add(1, Ordering::SeqCst);
        self.fulfil_reservations(chains).inspect_err(|_| self.give_back(credit))?;
        Ok(credit)
    }

    /// Releases the reservation of an operation.
    pub(super) fn give_back(&self, credit: u64) {
        self.reserved_bytes.fetch_sub(credit, Ordering::SeqCst);
        self.promised_operations.fetch_sub(1, Ordering::SeqCst);
    }

    fn fulfil_reservations(&self, chains: &Chains) -> Result<()> {
        let bytes = || self.reserved_bytes.load(Ordering::SeqCst) + MARGIN;
        let operations = || self.promised_operations.load(Ordering::SeqCst);
        let has_buckets = |left: u64| operations() <= left || chains.index.most_overflow(operations()) <= left;
        if bytes() <= chains.log.ahead() && has_buckets(chains.index.overflow_left()) {
            return Ok(());
        }
        epoch::assert_unpinned();
        let _making = self.making.lock();
        self.has_taken();
        self.make_frames(chains, bytes())?;
        self.make_buckets(chains, chains.index.most_overflow(operations()))
    }
}

/// Bytes that an operation reserves, including its share of the unused ends of pages. A large record reserves a page
/// end that it does not fit into, which is smaller than itself. If a small record does not fit, less than [`LARGE`]
/// bytes of the page are unused, and its records have reserved more than that beyond themselves.
fn record_reservation(operation: Operation<'_>) -> u64 {
    let bytes = Record::bytes(Record::capacity_for(operation.key.len() + operation.value.map_or(0, <[u8]>::len)));
    bytes + if bytes < LARGE { bytes / SMALL_PART } else { bytes + PAGE_HEADER }
}
