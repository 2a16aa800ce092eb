//! The read cache (H6): copies of records that are not in memory, at the head of the index's chains (hash-protocol.md,
//! "Read cache").
//!
//! It is S3-FIFO in two logs. A new entry goes to the small queue, or to the main one if its key was missed lately. At
//! the end of a queue an entry that was used goes to the end of the main one; others are evicted.

mod address;
mod entry;
mod evict;
mod evictor;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use ecotone_substrate::{
    ghost_list::GhostList,
    memory::{Component, Memory},
    metrics::Counter,
};
use ecotone_sys::{
    chunk::Block,
    epoch::{Domain, Pin, Slot},
    primitive::Mutex,
};

pub(super) use self::entry::CachedRecord;
use self::{
    address::{CacheQueue, CachedEntryAddress},
    evictor::Evictor,
    queue::Queue,
};
use super::{key::Key, log::Link};

/// The component of the memory budget.
const COMPONENT: Component = Component::ReadCache;
/// Bytes of entries for each byte of the ghost list: about one remembered miss for two entries of a hundred bytes.
const HISTORY_PART: usize = 128;

/// The read cache of one keyspace.
#[derive(Debug)]
pub(super) struct ReadCache {
    memory: Arc<Memory>,
    /// Whether entries are kept at all.
    is_on: bool,
    small: Queue,
    main: Queue,
    history: Slot<GhostList>,
    /// Frames that no thread can see.
    spare: Arc<Mutex<Vec<Block>>>,
    /// Number of leased frames. Changed by the evicting thread alone.
    leased: AtomicU64,
    /// Blocks of the ghost list, changed by the evicting thread alone.
    remembering: AtomicUsize,
    remembered: AtomicU64,
    evictor: Mutex<Evictor>,
    /// Frames that were evicted.
    pub(super) evictions: Counter,
}

/// Result of a search along the read-cache entries of a chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheSearch<'p> {
    /// An entry of the key, if there is one.
    pub(super) copy: Option<CachedRecord<'p>>,
    /// The link to the first hot record of the chain.
    pub(super) hot: Link,
}

impl ReadCache {
    /// An empty cache of at most `most` frames of memory, which it leases as entries come. With `most` 0 there are no
    /// entries.
    pub(super) fn new(domain: &Arc<Domain>, memory: &Arc<Memory>, most: usize) -> ReadCache {
        let [small, main] = [(); 2].map(|()| Queue::new(domain, most));
        let (memory, history, spare) = (memory.clone(), Slot::new(domain, None), Arc::default());
        let ([leased, remembered], remembering) = ([0; 2].map(AtomicU64::new), AtomicUsize::new(0));
        ReadCache {
            memory,
            is_on: most > 0,
            small,
            main,
            history,
            spare,
            leased,
            remembering,
            remembered,
            evictor: Mutex::default(),
            evictions: Counter::default(),
        }
    }

    /// Looks for an entry of the key from `link` on, which was read under the pin.
    #[inline]
    pub(super) fn search<'p>(&'p self, key: &[u8], link: Link, pin: &'p Pin<'_>) -> CacheSearch<'p> {
        let mut next = link;
        while let Some(place) = CachedEntryAddress::of(next) {
            let copy = self.copy(place, pin);
            next = copy.link();
            if copy.has_key(key) {
                copy.mark_use();
                return CacheSearch { copy: Some(copy), hot: self.below(next, pin) };
            }
        }
        CacheSearch { copy: None, hot: next }
    }

    /// Prefetches the entry that a link names.
    #[inline]
    pub(super) fn prefetch(&self, link: Link, pin: &Pin<'_>) {
        CachedEntryAddress::of(link).into_iter().for_each(|place| self.copy(place, pin).prefetch());
    }

    /// The first link from `link` on that does not name an entry: the first hot record of the chain, if it has any.
    #[inline]
    pub(super) fn below(&self, link: Link, pin: &Pin<'_>) -> Link {
        let mut next = link;
        while let Some(place) = CachedEntryAddress::of(next) {
            next = self.copy(place, pin).link();
        }
        next
    }

    /// Whether entries are kept at all.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Makes an entry for the record of a key that was missed, with `below` as the next record of the chain. No other
    /// thread knows the entry yet. `None` if there is no space.
    pub(super) fn add(&self, key: &Key<'_>, value: &[u8], below: Link, pin: &Pin<'_>) -> Option<Link> {
        // With a smaller ghost list more entries begin in the small queue.
        let known =
            self.history.load(pin).is_some_and(|history| history.note((key.hash >> u32::BITS) as u32, key.hash as u16));
        if known {
            self.remembered.fetch_add(1, Ordering::Relaxed);
        }
        self.append(if known { CacheQueue::Main } else { CacheQueue::Small }, key.bytes, value, below, 0, pin)
    }

    /// Frames that have entries, or will have.
    pub(super) fn frames(&self) -> u64 {
        self.leased.load(Ordering::Relaxed)
    }

    /// Number of misses that the ghost list remembers, and how many of the misses since the last call it had
    /// remembered.
    pub(super) fn take_remembered(&self) -> (u64, u64) {
        let remembers = self.remembering.load(Ordering::Relaxed) * GhostList::BLOCK.bytes() / size_of::<u16>();
        (remembers as u64, self.remembered.swap(0, Ordering::Relaxed))
    }

    /// Whether new entries will find no space.
    pub(super) fn lacks_room(&self) -> bool {
        self.small.lacks_frame() || self.main.lacks_frame()
    }

    /// Appends an entry to a queue. `None` if there is no space.
    fn append(
        &self,
        part: CacheQueue,
        key: &[u8],
        value: &[u8],
        below: Link,
        uses: u64,
        pin: &Pin<'_>,
    ) -> Option<Link> {
        let word = self.queue(part).allocate(CachedRecord::words(key.len(), value.len()))?;
        let place = CachedEntryAddress::new(part, word);
        self.copy(place, pin).fill(key, value, below, uses);
        Some(place.link())
    }

    fn copy<'p>(&'p self, place: CachedEntryAddress, pin: &'p Pin<'_>) -> CachedRecord<'p> {
        self.queue(place.part).get(place.word, pin)
    }

    fn queue(&self, part: CacheQueue) -> &Queue {
        match part {
            CacheQueue::Small => &self.small,
            CacheQueue::Main => &self.main,
        }
    }
}
