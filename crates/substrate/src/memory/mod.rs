//! The one memory budget of a database, and its division among components.
//!
//! Caches may not use a part of the budget, the *reserve*, so that work that must go on (reading a page, writing out)
//! finds memory. Memory held from the system never exceeds the budget, since nothing else of relevant size is allocated
//! anywhere else.

mod share;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ecotone_sys::{
    chunk::{Arena, Block, CHUNK_BYTES, Size},
    epoch,
};
use parking_lot::Mutex;

use self::share::Member;
pub use self::share::{Share, gather};
use crate::{Error, Result};

/// The users of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Component {
    /// Records of a tree, clean or dirty.
    RecordCache,
    /// The hash table of the record cache.
    CacheTable,
    /// The dirty records in key order.
    DirtyIndex,
    /// Pages that scans of a tree read, and their hash table.
    PageCache,
    /// Blocks of tables that scans read, and their hash table.
    BlockCache,
    /// Indexes of pages.
    PageIndex,
    /// Indexes of the blocks of tables.
    TableIndex,
    /// Filters of tables.
    Filter,
    /// Blocks in use by I/O.
    Frames,
    /// Read-ahead of iterators and of reads of many keys. They may hold it while they wait for their callers.
    Windows,
    /// The write-ahead log.
    Log,
    /// The double-write area.
    DoubleWrite,
    /// Memtables.
    Memtable,
    /// Predictions of where inserts will come.
    Forecast,
    /// Frames of hot logs.
    HotLog,
    /// Read-cache entries: copies of records that are on disk.
    ReadCache,
    /// Buckets of the indexes over hot logs.
    HashIndex,
    /// Fences of runs and maps of delta runs.
    ColdIndex,
    /// Everything else.
    Other,
}

impl Component {
    /// All components, in the order of [`Memory::usage`].
    pub const ALL: [Component; 19] = [
        Component::RecordCache,
        Component::CacheTable,
        Component::DirtyIndex,
        Component::PageCache,
        Component::BlockCache,
        Component::PageIndex,
        Component::TableIndex,
        Component::Filter,
        Component::Frames,
        Component::Windows,
        Component::Log,
        Component::DoubleWrite,
        Component::Memtable,
        Component::Forecast,
        Component::HotLog,
        Component::ReadCache,
        Component::HashIndex,
        Component::ColdIndex,
        Component::Other,
    ];

    /// The component's name in statistics and errors.
    pub const fn name(self) -> &'static str {
        match self {
            Component::RecordCache => "record cache",
            Component::CacheTable => "cache table",
            Component::DirtyIndex => "dirty index",
            Component::PageCache => "page cache",
            Component::BlockCache => "block cache",
            Component::PageIndex => "page index",
            Component::TableIndex => "table index",
            Component::Filter => "filters",
            Component::Frames => "frames",
            Component::Windows => "read windows",
            Component::Log => "log",
            Component::DoubleWrite => "double-write",
            Component::Memtable => "memtable",
            Component::Forecast => "forecast",
            Component::HotLog => "hot log",
            Component::ReadCache => "read cache",
            Component::HashIndex => "hash index",
            Component::ColdIndex => "cold index",
            Component::Other => "other",
        }
    }
}

/// Windows have at most one of this many parts of the budget.
const WINDOWS: usize = 4;

/// The largest reserve. The work at one moment grows with workers and callers, not with the budget.
const MOST_RESERVE: usize = 4 * CHUNK_BYTES;

/// Each share has at least one of this many parts of the caches' memory.
const MIN_SHARE_DIVISOR: usize = 16;
/// Bytes of budget per remembered request of demand: some requests for each page that the budget could hold.
const HORIZON: usize = 512;

/// Gives memory back: gets the number of wanted bytes, returns the number of freed bytes.
pub type Shrinker = dyn Fn(usize) -> usize + Send + Sync;

/// The memory of a cache.
pub enum CacheComponents {
    /// All memory leased under these components, which belong to this cache alone.
    Components(&'static [Component]),
    /// The result of this function. It takes no lock that is held while a thread leases or asks for a [fair
    /// part](Share::fair_part).
    Counted(Box<dyn Fn() -> usize + Send + Sync>),
}

impl CacheComponents {
    fn bytes(&self, memory: &Memory) -> usize {
        match self {
            CacheComponents::Components(components) => memory.used(components),
            CacheComponents::Counted(count) => count(),
        }
    }
}

impl fmt::Debug for CacheComponents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheComponents::Components(components) => components.fmt(f),
            CacheComponents::Counted(_) => f.write_str("Counted"),
        }
    }
}

/// The budget of one database.
///
/// Essential memory comes first; the rest belongs to the caches, each a [`Share`]. A free block goes to the first cache
/// that asks, and a share below its fair part may take memory back from shares above theirs. Fair parts follow from the
/// disk requests that each could save ([`Share::count`]; decision 8). If misses fall with the logarithm of the memory,
/// as under Zipf, this division saves the most.
///
/// Windows are held while callers run their own code, so all windows together have a fixed maximum: they never take the
/// memory that writes and background work need (`docs/design/waiting.md`, rule 4).
///
/// # Rules
/// 1. `lease_essential`, `lease_lasting`, `lease_in_turn` and [`Share::reclaim`] call shrinkers on the caller's thread,
///    so they must not be called while holding a lock that any shrinker takes.
/// 2. A shrinker does no I/O, waits for nothing but pins (`ecotone_sys::epoch`), and calls none of these.
/// 3. A shrinker holds its cache by a `Weak`, and answers 0 once the cache is gone.
/// 4. No thread leases while holding a pin, since a shrinker may wait for it.
pub struct Memory {
    budget: usize,
    reserve: usize,
    arena: Arc<Arena>,
    members: Mutex<Vec<Arc<Member>>>,
    /// The recent peak of essential memory. Memory that comes and goes, such as a compaction's, is not worth taking
    /// from caches each time.
    peak: AtomicUsize,
}

impl Memory {
    /// A budget in bytes. A remainder below a whole MiB stays unused.
    pub fn new(budget: usize) -> Arc<Memory> {
        let reserve = (budget / 32).clamp(CHUNK_BYTES, MOST_RESERVE);
        Arc::new(Memory {
            budget,
            reserve,
            arena: Arena::new(budget),
            members: Mutex::default(),
            peak: AtomicUsize::new(0),
        })
    }

    /// The budget in bytes.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Bytes held from the system, in whole chunks; never above the budget.
    pub fn held(&self) -> usize {
        self.arena.held_bytes()
    }

    /// Leases for a cache, which can do without. `None` if less than the reserve would stay free. The reserve is a 32nd
    /// of the budget, at least 1 MiB, at most 4.
    pub fn lease(&self, component: Component, size: Size) -> Option<Block> {
        epoch::assert_unpinned();
        self.take(component, size, self.reserve)
    }

    /// A block, if `keep` bytes stay free.
    fn take(&self, component: Component, size: Size, keep: usize) -> Option<Block> {
        if component != Component::Windows {
            return self.arena.lease_keeping(size, component as u8, keep);
        }
        if self.windows_left() < size.bytes() {
            return None;
        }
        let block = self.arena.lease_keeping(size, component as u8, keep)?;
        // Other threads may have checked at the same moment.
        (self.used(&[component]) <= self.budget / WINDOWS).then_some(block)
    }

    /// Bytes that windows may still have.
    pub fn windows_left(&self) -> usize {
        (self.budget / WINDOWS).saturating_sub(self.used(&[Component::Windows]))
    }

    /// Leases for work that must go on, from the reserve too. If nothing is free it asks the shares in the order in
    /// which they joined, each as long as it gives something, until one has made space: freed memory may be scattered,
    /// and a block must not be. If none has, it fails with [`Error::Memory`]. See the rules above.
    pub fn lease_essential(&self, component: Component, size: Size) -> Result<Block> {
        self.lease_from_caches(component, size, 0)
    }

    /// A block for lasting use that cannot be done without. Caches give memory back for it if needed, and the reserve
    /// stays.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is none.
    pub fn lease_lasting(&self, component: Component, size: Size) -> Result<Block> {
        self.lease_from_caches(component, size, self.reserve)
    }

    fn lease_from_caches(&self, component: Component, size: Size, keep: usize) -> Result<Block> {
        epoch::assert_unpinned();
        let refused = || Error::Memory { what: component.name(), budget: self.budget as u64 };
        // If windows have their maximum, memory of caches does not help them. Other threads may have taken it
        // meanwhile.
        let may_have = || component != Component::Windows || self.windows_left() >= size.bytes();
        if !may_have() {
            return Err(refused());
        }
        if let Some(block) = self.take(component, size, keep) {
            return Ok(block);
        }
        let members = self.members();
        let shrunk = members.iter().find_map(|member| {
            loop {
                if !may_have() {
                    break None;
                }
                let given = member.shrink(size.bytes());
                let block = self.take(component, size, keep);
                if block.is_some() || given == 0 {
                    break block;
                }
            }
        });
        self.peak.fetch_max(self.essential(&members), Ordering::Relaxed);
        shrunk.ok_or_else(refused)
    }

    /// Slabs for transfers: one is filled or read while the others are in flight. The first is leased like essential
    /// memory. The second may come from the reserve, since otherwise each transfer would be waited for by itself. More,
    /// up to `most`, are leased if they are free.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not even one.
    pub fn lease_in_turn(&self, component: Component, most: usize) -> Result<Vec<Block>> {
        let first = self.lease_essential(component, Size::Slab)?;
        let second = self.arena.lease(Size::Slab, component as u8);
        let more = (2..most).map_while(|_| self.lease(component, Size::Slab));
        Ok([first].into_iter().chain(second).chain(more).collect())
    }

    /// Adds a cache that holds `held`; `shrink` gives some of it back. See the rules above.
    pub fn join(self: &Arc<Self>, held: CacheComponents, shrink: Box<Shrinker>) -> Share {
        let member = Arc::new(Member::new(held, shrink));
        self.members.lock().push(member.clone());
        Share::new(self.clone(), member)
    }

    /// Bytes leased by each component, by name.
    pub fn usage(&self) -> Vec<(&'static str, usize)> {
        Component::ALL.iter().map(|c| (c.name(), self.used(&[*c]))).collect()
    }

    /// Bytes leased by these components.
    pub fn used(&self, components: &[Component]) -> usize {
        components.iter().map(|component| self.arena.tagged_bytes(*component as u8)).sum()
    }

    /// A copy of the list, so that members are called without the lock: the caller may hold the last reference to a
    /// cache, which then leaves.
    fn members(&self) -> Vec<Arc<Member>> {
        self.members.lock().clone()
    }

    /// The bytes of the caches' memory that a share can count on: a sixteenth, and of the rest its part in all demand.
    fn fair_part(&self, of: &Member) -> usize {
        let members = self.members();
        let essential = self.essential(&members).max(self.peak.load(Ordering::Relaxed));
        let left = self.budget.saturating_sub(self.reserve + essential);
        let demand: u64 = members.iter().map(|member| member.demand()).sum();
        let least = left / members.len().max(MIN_SHARE_DIVISOR);
        let rest = left.saturating_sub(least * members.len());
        match demand {
            0 => left / members.len().max(1),
            _ => least + (rest as u128 * u128::from(of.demand()) / u128::from(demand)) as usize,
        }
    }

    /// Bytes leased for anything but caches.
    fn essential(&self, members: &[Arc<Member>]) -> usize {
        let elastic: usize = members.iter().map(|member| member.held(self)).sum();
        self.used(&Component::ALL).saturating_sub(elastic)
    }

    /// Ages demand and peaks, so that old ones count less and less.
    fn age(&self) {
        let members = self.members();
        members.iter().for_each(|member| member.age());
        let (peak, now) = (self.peak.load(Ordering::Relaxed), self.essential(&members));
        self.peak.store(peak - peak.saturating_sub(now) / 8, Ordering::Relaxed);
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("budget", &self.budget).field("held", &self.held()).finish_non_exhaustive()
    }
}
