//! The table cache of a database (L6): indexes and filters of tables have memory while they are of use, and are loaded
//! again when they are needed again (decision 11, "Caches"; decision 12, invariants 19 and 23).

use std::{
    cell::Cell,
    sync::{Arc, Weak, atomic::Ordering},
};

use ecotone_substrate::{
    Error, Result,
    limits::PAGE,
    memory::{Component, Held, Memory, Share, gather},
    storage::Block,
};
use ecotone_sys::{
    chunk::Size,
    epoch::Domain,
    primitive::{Mutex, Once, RwLock, atomic::AtomicBool, thread},
};

use crate::page_cache::PageCache;

use super::{
    clock::{Clock, Victim},
    part::Resident,
};

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// A filter. Without it a key is looked for in a block in vain, so that it is had if there is memory. The first to
    /// go: it has many times the bytes of an index for each read that it saves.
    Filter,
    /// An index, or a partition of one. Nothing is found without it.
    Index,
}

const COMPONENTS: &[Component] = &[Component::Filter, Component::TableIndex];

impl Sort {
    /// What its memory is leased under.
    fn component(self) -> Component {
        COMPONENTS[self as usize]
    }

    /// Those that go so that this one has room, the first ones first.
    fn inferior(self) -> &'static [Sort] {
        match self {
            Sort::Filter => &[Sort::Filter],
            Sort::Index => &[Sort::Filter, Sort::Index],
        }
    }
}

/// The parts of all tables that are in memory.
#[derive(Debug)]
pub(super) struct TableCache {
    memory: Arc<Memory>,
    domain: Arc<Domain>,
    /// Bytes of parts that it has at most, but for one a reader.
    capacity: usize,
    /// Its claim on the budget, once there was something to load.
    share: Once<Share>,
    /// By sort.
    clocks: [Mutex<Clock>; 2],
    /// Blocks that scans read.
    blocks: Arc<PageCache>,
    /// Held shared by who loads, and alone by who found no memory while others were loading too.
    loads: RwLock<()>,
    this: Weak<TableCache>,
}

impl TableCache {
    /// An empty one, which never has more than so many bytes.
    pub(super) fn new(memory: &Arc<Memory>, domain: &Arc<Domain>, capacity: usize) -> Arc<TableCache> {
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
    pub(super) fn blocks(&self) -> &Arc<PageCache> {
        &self.blocks
    }

    /// In this parts are looked at.
    #[inline]
    pub(super) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Loads a part that has so many bytes when it is loaded by `read`, which gets its frames from what it is given.
    ///
    /// # Errors
    /// Those of `read`. [`Error::Memory`] for a filter if memory is short, and for an index only if the budget has not
    /// its bytes even without all other parts.
    pub(super) fn load<T>(
        &self,
        sort: Sort,
        bytes: usize,
        read: impl Fn(&dyn Fn() -> Result<Block>) -> Result<T>,
    ) -> Result<T> {
        self.share().count(bytes.div_ceil(PAGE) as u64);
        self.make_room(sort, bytes)?;
        let read = || {
            // The last frame is cut when it was read.
            let left = Cell::new(bytes);
            read(&|| self.lease(sort, left.replace(left.get().saturating_sub(PAGE)).min(PAGE)))
        };
        {
            let _beside_others = self.loads.read();
            match read() {
                Err(Error::Memory { .. }) if sort == Sort::Index => {}
                ended => return ended,
            }
        }
        // What others have loaded half cannot be evicted. Now there are no such others.
        let _alone = self.loads.write();
        read()
    }

    /// Loads indexes together by `read`, which gets the frames of one that has so many bytes from what it is given, and
    /// does without it where there are none to spare. What is loaded half is never more than may be.
    pub(super) fn load_together<T>(&self, read: impl FnOnce(&dyn Fn(usize) -> Option<Vec<Block>>) -> T) -> T {
        let _beside_others = self.loads.read();
        read(&|bytes| {
            let pages = bytes.div_ceil(PAGE);
            if !self.has_room(Sort::Index, bytes) {
                return None;
            }
            let frames = (0..pages).map(|_| self.lease_to_spare(Sort::Index)).collect::<Option<Vec<_>>>()?;
            self.share().count(pages as u64);
            Some(frames)
        })
    }

    /// A part is there that was loaded.
    pub(super) fn enter(&self, sort: Sort, part: Weak<dyn Resident>, bytes: usize) {
        self.clocks[sort as usize].lock().enter(part, bytes);
    }

    fn share(&self) -> &Share {
        self.share.get_or_init(|| {
            let this = self.this.clone();
            let shrink = move |bytes| this.upgrade().map_or(0, |cache| cache.evict(bytes, Sort::Index.inferior()));
            self.memory.join(Held::Components(COMPONENTS), Box::new(shrink))
        })
    }

    /// Sees to it that there are so many bytes less than may be.
    fn make_room(&self, sort: Sort, bytes: usize) -> Result<()> {
        // One index must be, however large it is.
        if self.has_room(sort, bytes) || sort == Sort::Index { Ok(()) } else { Err(self.refusal(sort)) }
    }

    /// Whether there are so many bytes less than may be, now that others have made room.
    fn has_room(&self, sort: Sort, bytes: usize) -> bool {
        let has_room = || self.memory.used(COMPONENTS) + bytes <= self.capacity;
        while !has_room() && self.evict(1, sort.inferior()) > 0 {}
        has_room()
    }

    /// A frame that is free, or that another cache has above its part, or in place of parts of this one with as many
    /// bytes as will be used of it. What it has more it lends from what is kept for what must go on.
    fn lease(&self, sort: Sort, used: usize) -> Result<Block> {
        if let Some(block) = self.lease_from_others(sort) {
            return Ok(block);
        }
        if self.evict(used, sort.inferior()) == 0 && sort == Sort::Filter {
            return Err(self.refusal(sort));
        }
        self.memory.lease_essential(sort.component(), Size::Frame)
    }

    /// The same, but for memory that is kept for what must go on.
    fn lease_to_spare(&self, sort: Sort) -> Option<Block> {
        let evicted = || self.evict(Size::Frame.bytes(), sort.inferior()) > 0;
        self.lease_from_others(sort).or_else(|| evicted().then(|| self.memory.lease(sort.component(), Size::Frame))?)
    }

    /// A frame that is free, or that another cache has above its part.
    fn lease_from_others(&self, sort: Sort) -> Option<Block> {
        let lease = || self.memory.lease(sort.component(), Size::Frame);
        lease().or_else(|| self.share().reclaim(Size::Frame.bytes()).then(lease)?)
    }

    fn refusal(&self, sort: Sort) -> Error {
        Error::Memory { what: sort.component().name(), budget: self.memory.budget() as u64 }
    }

    /// Evicts parts until so many bytes are free, or there are no more of these sorts. The bytes that came free. It
    /// waits for pins alone.
    fn evict(&self, bytes: usize, sorts: &[Sort]) -> usize {
        gather(bytes, 1, || sorts.iter().map(|sort| self.evict_one(*sort)).find(|freed| *freed > 0).unwrap_or(0))
    }

    fn evict_one(&self, sort: Sort) -> usize {
        let Some(Victim { part, bytes, spared }) = self.clocks[sort as usize].lock().take() else { return 0 };
        // Each that was used has saved its load, once at least.
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
