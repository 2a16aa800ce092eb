//! Room for what operations append: frames ahead of the log's end, and overflow buckets (decision 10, invariant 10).

use std::{fmt, sync::Arc, time::Duration};

use ecotone_substrate::{
    Error, Result, limits,
    memory::{Component, Memory},
};
use ecotone_sys::{
    chunk::{Block, Size},
    epoch,
    primitive::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        thread,
    },
};

use super::{
    Hash,
    log::{Address, FRAME, HotLog, PAGE, PAGE_HEADER, Record},
};
use crate::engine::Operation;

/// What an operation needs before it can go on. It gives its pin back before it asks for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// Room in the hot log.
    Frame,
    /// An overflow bucket of the index.
    Bucket,
}

/// What an operation under one pin comes to.
pub(super) type Attempt<T> = std::result::Result<T, Lack>;

/// Bytes of the largest record. A model of loom has records that fill a page.
const LARGEST: u64 =
    if cfg!(feature = "loom") { PAGE - PAGE_HEADER } else { Record::bytes(Record::capacity_for(limits::MAX_RECORD)) };
/// A frame, and a block of the index. A model of loom has few words, whatever the block.
pub(super) const BLOCK: Size = if cfg!(any(feature = "loom", feature = "shuttle")) { Size::Frame } else { Size::Slab };
/// Frames in memory of which one leaves at a time to make room, and those that leave at most: who waits for one waits
/// for all of them to be written.
const SPILLED_PART: u64 = 8;
const SPILLED_MOST: u64 = 16;
/// Looks for a block that is on its way out of memory, and the time between two. Pins last microseconds, a compaction
/// that holds frames tenths of a second.
const LOOKS: u32 = 50_000;
pub(super) const LOOK_AGAIN: Duration = Duration::from_micros(100);
/// Looks of who wants to read.
const LOOKS_FOR_A_BLOCK: u32 = 5_000;
/// Looks after which more frames are to leave.
const LOOKS_BETWEEN_SPILLS: u32 = 100;
/// What admission leaves free ahead of what it has promised: a page that a flush closes, and a frame for who meets
/// others of its chain and needs a second place, and for the end of a page whose records have given back what they
/// paid.
const MARGIN: u64 = FRAME + PAGE;
/// Bytes of a record from which on it pays for what it does not fit into, and the part of itself that a smaller one
/// pays.
const LARGE: u64 = 512;
const SMALL_PART: u64 = 4;
const _: () = assert!((limits::PAGE as u64 - PAGE_HEADER - LARGE) / SMALL_PART > LARGE + PAGE_HEADER);

/// What memory was wanting for.
const HOT_LOG: &str = "hot log";
const INDEX: &str = "index of the hot log";

/// What keeps the pages of the hot log when memory does not.
pub(super) trait Outlet: fmt::Debug + Send + Sync {
    /// Brings what lies below page boundary `until`, and does not change any more, to where it can be read when it has
    /// left memory.
    fn write_out(&self, log: &HotLog, until: Address) -> Result<()>;
}

/// Where blocks come from.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) memory: Arc<Memory>,
    outlet: Arc<dyn Outlet>,
    /// Held by who makes room, so that the others find it made.
    making: Mutex<()>,
    /// Frames that nobody looks at any more.
    spare: Arc<Mutex<Vec<Block>>>,
    /// Whether memory was taken since the background was asked last.
    grown: AtomicBool,
    /// Operations that are admitted and not applied, and bytes of the hot log that they take.
    pub(super) promised_bytes: AtomicU64,
    pub(super) promised_operations: AtomicU64,
}

impl Room {
    /// With this memory, and what keeps pages that have left it.
    pub(super) fn new(memory: &Arc<Memory>, outlet: Arc<dyn Outlet>) -> Room {
        let [promised_bytes, promised_operations] = std::array::from_fn(|_| AtomicU64::new(0));
        let (making, spare, grown) = (Mutex::new(()), Arc::default(), AtomicBool::new(false));
        Room { memory: memory.clone(), outlet, making, spare, grown, promised_bytes, promised_operations }
    }

    /// Memory was taken, or entries of the index.
    pub(super) fn has_taken(&self) {
        self.grown.store(true, Ordering::Relaxed);
    }

    /// Whether memory was taken since the last call that said so.
    #[inline]
    pub(super) fn has_grown(&self) -> bool {
        self.grown.load(Ordering::Relaxed) && self.grown.swap(false, Ordering::Relaxed)
    }

    /// As many blocks as have so many bytes, of which the keyspace cannot do without the first.
    pub(super) fn lease_all(&self, bytes: usize) -> Result<Vec<Block>> {
        let first = self.first_block();
        let others = (1..bytes.div_ceil(BLOCK.bytes())).map(|_| self.lease());
        [first].into_iter().chain(others).collect()
    }

    /// A block for what is read at one place of a file. Where compaction has just taken what is left, that comes back.
    pub(super) fn frame(&self) -> Result<Block> {
        for _ in 0..LOOKS_FOR_A_BLOCK {
            if let Some(block) = self.free_frame() {
                return Ok(block);
            }
            thread::sleep(LOOK_AGAIN);
        }
        self.memory.lease_essential(Component::Frames, Size::Frame)
    }

    /// The same, if there is one without waiting.
    pub(super) fn free_frame(&self) -> Option<Block> {
        self.memory.lease_essential(Component::Frames, Size::Frame).ok()
    }

    /// A block for a read of many that may be in flight, if windows may have one more.
    pub(super) fn window(&self) -> Option<Block> {
        self.memory.lease_essential(Component::Windows, Size::Frame).ok()
    }

    /// The first block of a hot log, which it cannot do without.
    pub(super) fn first_frame(&self) -> Result<Block> {
        self.memory.lease_essential(Component::HotLog, BLOCK)
    }

    /// The first block of an index. What others hold for a while is waited for.
    fn first_block(&self) -> Result<Block> {
        for _ in 0..LOOKS_FOR_A_BLOCK {
            if let Ok(block) = self.memory.lease_lasting(Component::HashIndex, BLOCK) {
                return Ok(block);
            }
            thread::sleep(LOOK_AGAIN);
        }
        Err(self.refused(INDEX))
    }

    /// A block for the index, if the budget has one that is free.
    pub(super) fn lease(&self) -> Result<Block> {
        self.memory.lease(Component::HashIndex, BLOCK).ok_or_else(|| self.refused(INDEX))
    }

    /// There is no memory for this part of a keyspace.
    fn refused(&self, what: &'static str) -> Error {
        Error::Memory { what, budget: self.memory.budget() as u64 }
    }
}

impl Hash {
    /// Makes room of the kind that an operation lacked, unless another has done so meanwhile.
    pub(super) fn make_room(&self, lack: Lack) -> Result<()> {
        epoch::assert_unpinned();
        let _making = self.room.making.lock();
        self.room.has_taken();
        match lack {
            Lack::Frame => self.make_frames(2 * LARGEST + PAGE_HEADER),
            Lack::Bucket => self.make_buckets(1),
        }
    }

    /// Has so many bytes covered ahead of the log's end.
    fn make_frames(&self, bytes: u64) -> Result<()> {
        // Where the ring is full, the oldest frame makes room for the next one.
        let covered = self.cover(bytes, || self.next_frame().map(Some), || self.spill_oldest())?;
        if covered { Ok(()) } else { Err(self.room.refused(HOT_LOG)) }
    }

    /// Has a page more covered ahead of the log's end, if there is a block for that at once. Whether it is.
    pub(super) fn try_to_make_frames(&self) -> bool {
        epoch::assert_unpinned();
        let Some(_making) = self.room.making.try_lock() else { return false };
        matches!(self.cover(2 * PAGE, || Ok(self.frame_at_once()), || Ok(false)), Ok(true))
    }

    /// Has so many bytes covered ahead of the log's end by frames of the blocks that `next` gives, until it gives none;
    /// where there is no place for one in the ring, after `make_way`, if that can. Whether they are.
    fn cover(
        &self,
        bytes: u64,
        next: impl Fn() -> Result<Option<Block>>,
        make_way: impl Fn() -> Result<bool>,
    ) -> Result<bool> {
        while self.log.ahead() < bytes {
            let Some(block) = next()? else { return Ok(false) };
            if let Err(block) = self.log.grow(block) {
                self.room.spare.lock().push(block);
                if !make_way()? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// A block for the next frame, if the keyspace may have one more and there is one without waiting.
    fn frame_at_once(&self) -> Option<Block> {
        if self.frames_in_memory() >= self.part.hot() {
            return None;
        }
        let spare = self.room.spare.lock().pop();
        spare.or_else(|| self.lease_or_take(|| self.room.memory.lease(Component::HotLog, BLOCK)))
    }

    fn make_buckets(&self, count: u64) -> Result<()> {
        for _ in 0..LOOKS_FOR_A_BLOCK {
            if self.table.overflow_left() >= count {
                return Ok(());
            }
            let block = self.block(|| true, || self.room.lease().ok())?;
            // An index that may have no more overflow buckets has to grow, if no other thread has it grow just then.
            if self.table.add_overflow(block).is_err() && !self.grow_index() {
                thread::sleep(LOOK_AGAIN);
            }
        }
        Err(self.room.refused(INDEX))
    }

    /// A block for the next frame.
    fn next_frame(&self) -> Result<Block> {
        self.divide();
        let none_can_leave = || self.log.bounds().head().frame() >= self.log.tail().frame();
        let lease = || match none_can_leave() {
            true => self.room.first_frame().ok(),
            false => self.room.memory.lease(Component::HotLog, BLOCK),
        };
        self.block(|| none_can_leave() || self.frames_in_memory() < self.part.hot(), lease)
    }

    /// A block from `lease`, for which caches give one back if need be, or that of a frame that leaves memory. None is
    /// taken while none `may` be. What is on its way out of memory is waited for, and what others hold for a while.
    fn block(&self, may: impl Fn() -> bool, lease: impl Fn() -> Option<Block>) -> Result<Block> {
        for look in 0..LOOKS {
            self.domain.drain();
            // What may not be had goes back to the budget.
            let spare = self.room.spare.lock().pop();
            if may()
                && let Some(block) = spare.or_else(|| self.lease_or_take(&lease))
            {
                return Ok(block);
            }
            // A truncation may have let out the frames that were to leave.
            if look % LOOKS_BETWEEN_SPILLS > 0 || !self.spill_oldest()? {
                thread::sleep(LOOK_AGAIN);
            }
        }
        Err(self.room.refused(HOT_LOG))
    }

    /// Has the oldest of the frames in memory leave it. False if there is none but that in which the log ends.
    fn spill_oldest(&self) -> Result<bool> {
        let (oldest, last) = (self.log.bounds().head().frame(), self.log.tail().frame());
        if oldest >= last {
            return Ok(false);
        }
        self.counts.spills.increment();
        self.spill(Address::of_frame(oldest + (last - oldest).div_ceil(SPILLED_PART).min(SPILLED_MOST)))?;
        Ok(true)
    }

    /// Frames wholly below page boundary `until`, which is not above TAIL, leave memory, after what has to come before
    /// that.
    pub(super) fn spill(&self, until: Address) -> Result<()> {
        self.log.freeze(until);
        self.room.outlet.write_out(&self.log, until)?;
        let spare = self.room.spare.clone();
        self.log.evict(until, move |block| spare.lock().push(block));
        Ok(())
    }
}

/// What an operation takes, with its part of what stays empty at the ends of pages. What a large record does not fit
/// into is less than itself. Where a small one does not fit, the page is full but for less than [`LARGE`] bytes, and
/// what its records have paid beyond themselves is more than that.
fn credit(operation: Operation<'_>) -> u64 {
    let bytes = Record::bytes(Record::capacity_for(operation.key.len() + operation.value.map_or(0, <[u8]>::len)));
    bytes + if bytes < LARGE { bytes / SMALL_PART } else { bytes + PAGE_HEADER }
}

impl Hash {
    /// Takes whatever an operation of a logged keyspace needs, so that applying it neither waits nor fails. What it may
    /// take of the hot log.
    pub(super) fn admit(&self, operation: Operation<'_>) -> Result<u64> {
        let credit = credit(operation);
        // What is promised comes first, so that whoever looks at the log's end after that finds too much promised
        // rather than too little.
        self.room.promised_bytes.fetch_add(credit, Ordering::SeqCst);
        self.room.promised_operations.fetch_add(1, Ordering::SeqCst);
        self.keep_promises().inspect_err(|_| self.give_back(credit))?;
        Ok(credit)
    }

    /// Gives back what was taken for an operation.
    pub(super) fn give_back(&self, credit: u64) {
        self.room.promised_bytes.fetch_sub(credit, Ordering::SeqCst);
        self.room.promised_operations.fetch_sub(1, Ordering::SeqCst);
    }

    fn keep_promises(&self) -> Result<()> {
        let bytes = || self.room.promised_bytes.load(Ordering::SeqCst) + MARGIN;
        let operations = || self.room.promised_operations.load(Ordering::SeqCst);
        let has_buckets = |left: u64| operations() <= left || self.table.most_overflow(operations()) <= left;
        if bytes() <= self.log.ahead() && has_buckets(self.table.overflow_left()) {
            return Ok(());
        }
        epoch::assert_unpinned();
        let _making = self.room.making.lock();
        self.room.has_taken();
        self.make_frames(bytes())?;
        self.make_buckets(self.table.most_overflow(operations()))
    }
}
