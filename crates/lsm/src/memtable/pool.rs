//! The memory of all memtables of a database: one share of the memory budget. If it runs short, the largest keyspace is
//! flushed (lsm.md, "Memtable"; decision 8).

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use ecotone_substrate::{
    Error, Result,
    environment::Environment,
    memory::{CacheComponents, Component, Memory, Share},
    scheduler::Priority,
};
use ecotone_sys::{
    chunk::{Block, Size},
    primitive::{Mutex, Once},
};

/// Most of the budget that memtables may have, in eighths. It exceeds the log's limit, so replay finds memory for all
/// that the log holds (commit-and-recovery.md, "Log reclaim").
const EIGHTHS: usize = 3;
/// A memtable is full with one `PARTS`-th of the memory of all memtables, or one and a half: others wait for their
/// flush meanwhile.
const PARTS: usize = 3;
/// Quarters of the memory of all memtables from which on writers are slowed down.
const SLOW_FROM: usize = 3;
/// How often other caches are asked for a slab before a memtable is flushed.
const TRIES: usize = 8;
const COMPONENTS: &[Component] = &[Component::Memtable];

/// A keyspace whose memtables use a pool. So the pool knows no more of a keyspace than this.
pub(crate) trait MemtableOwner: Send + Sync {
    /// An error if the keyspace was dropped.
    fn check_live(&self) -> Result<()>;

    /// The environment of its files.
    fn environment(&self) -> &Environment;

    /// Bytes of its memtables.
    fn memtable_bytes(&self) -> usize;

    /// Flushes the oldest memtable, and waits until its memory is free. False if the memtables have none.
    fn free_memtable_memory(self: Arc<Self>) -> Result<bool>;

    /// The same in the background. Does nothing if another thread flushes.
    fn try_to_free_memtable_memory(self: Arc<Self>) -> Result<()>;
}

/// The memory that all memtables have, and may have.
pub(crate) struct MemtablePool {
    memory: Arc<Memory>,
    /// The share of the budget, once anything was written: a database that only reads gives nothing up for memtables.
    share: Once<Share>,
    /// Bytes that memtables may have now. Advice, which no order of threads depends on.
    part: AtomicUsize,
    keyspaces: Mutex<Vec<Weak<dyn MemtableOwner>>>,
    /// Whether a background flush for memory is scheduled and has not ended.
    relieving: AtomicBool,
    this: Weak<MemtablePool>,
}

impl MemtablePool {
    /// A pool that leases from `memory`.
    pub(crate) fn new(memory: &Arc<Memory>) -> Arc<MemtablePool> {
        let part = AtomicUsize::new(memory.budget() / 8 * EIGHTHS);
        Arc::new_cyclic(|this| MemtablePool {
            memory: memory.clone(),
            share: Once::new(),
            part,
            keyspaces: Mutex::default(),
            relieving: AtomicBool::new(false),
            this: this.clone(),
        })
    }

    /// Adds a keyspace, whose memtables use the pool.
    pub(crate) fn add(&self, owner: &Arc<impl MemtableOwner + 'static>) {
        let mut keyspaces = self.keyspaces.lock();
        keyspaces.retain(|keyspace| keyspace.strong_count() > 0);
        let owner: Weak<dyn MemtableOwner> = Arc::downgrade(owner) as _;
        keyspaces.push(owner);
    }

    /// A slab, if memtables may have another. Caches above their part make room for it.
    ///
    /// # Errors
    /// If they may not, or there is no memory. Then a flush is needed.
    pub(crate) fn lease(&self, size: Size) -> Result<Block> {
        let (share, slab) = (self.share.get_or_init(|| self.join()), size.bytes());
        let (most, used) = (self.memory.budget() / 8 * EIGHTHS, self.used());
        let lease = || self.memory.lease(Component::Memtable, size).filter(|_| used + slab <= most);
        let free = lease();
        let part = if free.is_some() { most } else { most.min(share.fair_part()) };
        self.part.store(part, Ordering::Relaxed);
        if self.is_short() {
            self.relieve();
        }
        // Another thread may lease the memory that a cache gave back first; it has to give way then.
        let tries = if used + slab <= most { TRIES } else { 0 };
        let reclaim = || (0..tries).map_while(|_| share.reclaim(slab).then(lease)).flatten().next();
        let leased = free.or_else(reclaim);
        leased.ok_or(Error::Memory { what: Component::Memtable.name(), budget: self.memory.budget() as u64 })
    }

    /// A slab for a write that cannot wait for a flush, as the flush needs it.
    ///
    /// # Errors
    /// If there is no memory at all.
    pub(crate) fn lease_essential(&self, size: Size) -> Result<Block> {
        self.memory.lease_essential(Component::Memtable, size)
    }

    /// Bytes of records with which a memtable is full, at most `most`. Half a slab is allowed in any case.
    pub(crate) fn full(&self, most: usize) -> usize {
        most.min((self.part.load(Ordering::Relaxed) / PARTS).max(Size::Slab.bytes() / 2))
    }

    /// How near the pool is to refusing memory: from 0, up to three quarters of the memory of all memtables, to 1.
    #[inline]
    pub(crate) fn fullness(&self) -> f64 {
        let (used, part) = (self.used(), self.part.load(Ordering::Relaxed));
        let from = part / 4 * SLOW_FROM;
        if used <= from { 0.0 } else { ((used - from) as f64 / (part - from) as f64).min(1.0) }
    }

    /// Counts table blocks that were written for want of memory: with more memory there would have been fewer (decision
    /// 8).
    pub(crate) fn count(&self, blocks: u64) {
        self.share.get().into_iter().for_each(|share| share.count(blocks));
    }

    /// Flushes the keyspace whose memtables are largest. False if no memtable has any memory.
    ///
    /// # Errors
    /// If the flush fails.
    pub(crate) fn free_memtable_memory(&self) -> Result<bool> {
        let Some(lsm) = self.largest() else { return Ok(false) };
        match lsm.clone().free_memtable_memory() {
            // The keyspace was dropped meanwhile, and its memory with it.
            Err(Error::Closed { .. }) if lsm.check_live().is_err() => Ok(true),
            given => given,
        }
    }

    fn used(&self) -> usize {
        self.memory.used(COMPONENTS)
    }

    fn largest(&self) -> Option<Arc<dyn MemtableOwner>> {
        let keyspaces: Vec<_> = self.keyspaces.lock().iter().filter_map(Weak::upgrade).collect();
        let sizes = keyspaces.into_iter().filter(|lsm| lsm.check_live().is_ok()).map(|lsm| (lsm.memtable_bytes(), lsm));
        sizes.filter(|(bytes, _)| *bytes > 0).max_by_key(|(bytes, _)| *bytes).map(|(_, lsm)| lsm)
    }

    fn join(&self) -> Share {
        let this = self.this.clone();
        let shrink = move |_: usize| {
            this.upgrade().filter(|pool| pool.is_above_part()).into_iter().for_each(|pool| pool.relieve());
            // Flushed memory comes free later.
            0
        };
        let share = self.memory.join(CacheComponents::Components(COMPONENTS), Box::new(shrink));
        // The first share gets all the memory until others have demand.
        share.count(1);
        share
    }

    /// Whether a flush is needed before a writer is refused memory.
    fn is_short(&self) -> bool {
        self.used() > self.part.load(Ordering::Relaxed) / PARTS * (PARTS - 1)
    }

    fn is_above_part(&self) -> bool {
        self.share.get().is_some_and(|share| self.used() > share.fair_part())
    }

    /// Schedules a flush for memory, unless one is scheduled. Other flushes may make it needless.
    pub(crate) fn relieve(&self) {
        if self.relieving.swap(true, Ordering::AcqRel) {
            return;
        }
        let Some(largest) = self.largest() else {
            self.relieving.store(false, Ordering::Release);
            return;
        };
        let (this, lsm) = (self.this.clone(), Arc::downgrade(&largest));
        let environment = largest.environment();
        let health = environment.health.clone();
        environment.scheduler.spawn(Priority::Flush, "flush for memory", move || {
            let Some(pool) = this.upgrade() else { return };
            let lsm = lsm.upgrade().filter(|_| pool.is_short() || pool.is_above_part());
            let given = lsm.map_or(Ok(()), |lsm| lsm.try_to_free_memtable_memory());
            pool.relieving.store(false, Ordering::Release);
            // Without memory or space the flush is tried again when writers need it.
            given.unwrap_or_else(|error| drop(health.postpone("flushing memtables for memory", error)));
        });
    }
}

impl fmt::Debug for MemtablePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemtablePool").field("used", &self.used()).field("part", &self.part).finish_non_exhaustive()
    }
}
