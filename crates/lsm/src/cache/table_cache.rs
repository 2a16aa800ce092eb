//! The table cache of a database (L6): indexes and filters of tables are in memory while they are of use, are evicted
//! by a clock, and are loaded again on demand (lsm.md, "Caches"; lsm-protocol.md, invariants 19 and 23).

use std::{
    cell::Cell,
    sync::{Arc, Weak, atomic::Ordering},
};

use ecotone_engine::page_cache::PageCache;
use ecotone_substrate::{
    Error, Result,
    limits::PAGE,
    memory::{CacheComponents, Component, Memory, Share, gather},
    storage::Block,
};
use ecotone_sys::{
    chunk::Size,
    epoch::Domain,
    primitive::{Mutex, Once, RwLock, atomic::AtomicBool, thread},
};

use crate::cache::{
    eviction_clock::{EvictionClock, Victim},
    lazy_slot::Evictable,
};

/// The kind of a cache entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheEntryKind {
    /// A filter. Without one there are false-positive reads of blocks, so it is loaded if there is memory. Evicted
    /// first: a filter has many times the bytes of an index for each read that it saves.
    Filter,
    /// An index, or a partition of one. No key is found without it.
    Index,
}

const COMPONENTS: &[Component] = &[Component::Filter, Component::TableIndex];

impl CacheEntryKind {
    /// The component that its memory is leased under.
    fn component(self) -> Component {
        COMPONENTS[self as usize]
    }

    /// The kinds that are evicted to make room for this one, in order.
    fn inferior(self) -> &'static [CacheEntryKind] {
        match self {
            CacheEntryKind::Filter => &[CacheEntryKind::Filter],
            CacheEntryKind::Index => &[CacheEntryKind::Filter, CacheEntryKind::Index],
        }
    }
}

/// The indexes and filters of all tables that are in memory.
#[derive(Debug)]
pub(crate) struct TableCache {
    memory: Arc<Memory>,
    domain: Arc<Domain>,
    /// Most bytes of entries, but for one entry a reader.
    capacity: usize,
    /// The share of the budget, once anything was loaded.
    share: Once<Share>,
    /// By kind.
    clocks: [Mutex<EvictionClock>; 2],
    /// Blocks that scans read.
    blocks: Arc<PageCache>,
    /// Held shared by a thread that loads, and exclusively by one that found no memory while others were loading too.
    loads: RwLock<()>,
    this: Weak<TableCache>,
}

impl TableCache {
    /// An empty cache of at most `capacity` bytes.
    pub(crate) fn new(memory: &Arc<Memory>, domain: &Arc<Domain>, capacity: usize) -> Arc<TableCache> {
        Arc::new_cyclic(|this| TableCache {
            memory: memory.clone(),
            blocks: PageCache::of_blocks(memory.clone()),
            domain: domain.clone(),
            capacity,
            share: Once::new(),
            clocks: Default::default(),
            loads: RwLock::default(),
            this: this.clone(),
        })
    }

    /// Blocks that scans read.
    pub(crate) fn blocks(&self) -> &Arc<PageCache> {
        &self.blocks
    }

    /// The epoch domain in which entries are read.
    #[inline]
    pub(crate) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Loads an entry of so many bytes by `read`, which gets a function that leases its frames.
    ///
    /// # Errors
    /// Those of `read`. [`Error::Memory`] for a filter if memory is short, and for an index only if the budget cannot
    /// hold it even without all other entries.
    pub(crate) fn load<T>(
        &self,
        sort: CacheEntryKind,
        bytes: usize,
        read: impl Fn(&dyn Fn() -> Result<Block>) -> Result<T>,
    ) -> Result<T> {
        self.share().count(bytes.div_ceil(PAGE) as u64);
        self.make_room(sort, bytes)?;
        let read = || {
            // The last frame is cut to size after the read.
            let left = Cell::new(bytes);
            read(&|| self.lease(sort, left.replace(left.get().saturating_sub(PAGE)).min(PAGE)))
        };
        {
            let _beside_others = self.loads.read();
            match read() {
                Err(Error::Memory { .. }) if sort == CacheEntryKind::Index => {}
                ended => return ended,
            }
        }
        // Half-loaded entries of other threads cannot be evicted. Now there are none.
        let _alone = self.loads.write();
        read()
    }

    /// Loads several indexes together by `read`. It gets a function that leases the frames of an index of so many
    /// bytes, or gives `None` where none are to spare. Half-loaded indexes never exceed the capacity.
    pub(crate) fn load_together<T>(&self, read: impl FnOnce(&dyn Fn(usize) -> Option<Vec<Block>>) -> T) -> T {
        let _beside_others = self.loads.read();
        read(&|bytes| {
            let pages = bytes.div_ceil(PAGE);
            if !self.has_room(CacheEntryKind::Index, bytes) {
                return None;
            }
            let frames = (0..pages).map(|_| self.lease_to_spare(CacheEntryKind::Index)).collect::<Option<Vec<_>>>()?;
            self.share().count(pages as u64);
            Some(frames)
        })
    }

    /// Enters a loaded entry into the clock.
    pub(crate) fn enter(&self, sort: CacheEntryKind, part: Weak<dyn Evictable>, bytes: usize) {
        self.clocks[sort as usize].lock().enter(part, bytes);
    }

    fn share(&self) -> &Share {
        self.share.get_or_init(|| {
            let this = self.this.clone();
            let shrink =
                move |bytes| this.upgrade().map_or(0, |cache| cache.evict(bytes, CacheEntryKind::Index.inferior()));
            self.memory.join(CacheComponents::Components(COMPONENTS), Box::new(shrink))
        })
    }

    /// Evicts entries until so many bytes fit.
    fn make_room(&self, sort: CacheEntryKind, bytes: usize) -> Result<()> {
        // One index must fit, however large it is.
        if self.has_room(sort, bytes) || sort == CacheEntryKind::Index { Ok(()) } else { Err(self.refusal(sort)) }
    }

    /// Evicts entries of lower or equal rank while so many bytes do not fit. Whether they fit now.
    fn has_room(&self, sort: CacheEntryKind, bytes: usize) -> bool {
        let has_room = || self.memory.used(COMPONENTS) + bytes <= self.capacity;
        while !has_room() && self.evict(1, sort.inferior()) > 0 {}
        has_room()
    }

    /// A frame: a free one, one of another cache above its part, or one for evicted entries with as many bytes as will
    /// be used of it. What is missing is lent from the essential reserve.
    fn lease(&self, sort: CacheEntryKind, used: usize) -> Result<Block> {
        if let Some(block) = self.lease_from_others(sort) {
            return Ok(block);
        }
        if self.evict(used, sort.inferior()) == 0 && sort == CacheEntryKind::Filter {
            return Err(self.refusal(sort));
        }
        self.memory.lease_essential(sort.component(), Size::Frame)
    }

    /// The same without the essential reserve.
    fn lease_to_spare(&self, sort: CacheEntryKind) -> Option<Block> {
        let evicted = || self.evict(Size::Frame.bytes(), sort.inferior()) > 0;
        self.lease_from_others(sort).or_else(|| evicted().then(|| self.memory.lease(sort.component(), Size::Frame))?)
    }

    /// A frame that is free, or that another cache has above its part.
    fn lease_from_others(&self, sort: CacheEntryKind) -> Option<Block> {
        let lease = || self.memory.lease(sort.component(), Size::Frame);
        lease().or_else(|| self.share().reclaim(Size::Frame.bytes()).then(lease)?)
    }

    fn refusal(&self, sort: CacheEntryKind) -> Error {
        Error::Memory { what: sort.component().name(), budget: self.memory.budget() as u64 }
    }

    /// Evicts entries until so many bytes are free, or no entries of these kinds are left. Returns the freed bytes.
    /// Waits for pins alone.
    fn evict(&self, bytes: usize, sorts: &[CacheEntryKind]) -> usize {
        gather(bytes, 1, || sorts.iter().map(|sort| self.evict_one(*sort)).find(|freed| *freed > 0).unwrap_or(0))
    }

    fn evict_one(&self, sort: CacheEntryKind) -> usize {
        let Some(Victim { part, bytes, spared }) = self.clocks[sort as usize].lock().take() else { return 0 };
        // Each spared entry has saved its load, once at least.
        self.share.get().into_iter().for_each(|share| share.count((spared / PAGE) as u64));
        let gone = Arc::new(AtomicBool::new(false));
        let is_gone = gone.clone();
        part.evict(Box::new(move || is_gone.store(true, Ordering::Release)));
        while !gone.load(Ordering::Acquire) {
            self.domain.drain();
            thread::yield_now();
        }
        bytes
    }
}
