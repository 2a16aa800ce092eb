//! The read cache (H6): copies of records that are not in memory, on top of the chains of the index (decision 10, "Read
//! cache").
//!
//! It is S3-FIFO in two logs: a copy comes to the small queue, or to the main one if its key was missed lately; at the
//! end of a queue it goes to the end of the main one if it was used, else out.

mod copy;
mod evict;
mod place;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use ecotone_substrate::{
    history::History,
    memory::{Component, Memory},
};
use ecotone_sys::{
    chunk::Block,
    epoch::{Domain, Pin, Slot},
    primitive::Mutex,
};

pub(super) use self::copy::CachedRecord;
use self::{
    evict::Evictor,
    place::{Part, Place},
    queue::Queue,
};
use super::{key::Key, log::Link};

/// What its memory is leased under.
const COMPONENT: Component = Component::ReadCache;
/// Bytes of copies for each byte of history: about one remembered miss for two copies of a hundred bytes.
const HISTORY_PART: usize = 128;

/// The copies of one keyspace.
#[derive(Debug)]
pub(super) struct ReadCache {
    memory: Arc<Memory>,
    /// Whether there may be any.
    is_on: bool,
    small: Queue,
    main: Queue,
    history: Slot<History>,
    /// Frames that nobody looks at.
    spare: Arc<Mutex<Vec<Block>>>,
    /// Frames that are leased. Changed by who evicts.
    leased: AtomicU64,
    /// Blocks of history, changed by who evicts, and how many misses it has remembered.
    remembering: AtomicUsize,
    remembered: AtomicU64,
    evictor: Mutex<Evictor>,
}

/// What a search along the copies of a chain comes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Met<'p> {
    /// A copy of the key's record, if there is one.
    pub(super) copy: Option<CachedRecord<'p>>,
    /// Where the chain goes on with hot records.
    pub(super) hot: Link,
}

impl ReadCache {
    /// An empty cache that never has more than so many frames of memory, which it takes as copies come. With none there
    /// will be no copies.
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
        }
    }

    /// Looks for a copy of the key's record from `link` on, which was read under the pin.
    #[inline]
    pub(super) fn search<'p>(&'p self, key: &[u8], link: Link, pin: &'p Pin<'_>) -> Met<'p> {
        let mut next = link;
        while let Some(place) = Place::of(next) {
            let copy = self.copy(place, pin);
            next = copy.link();
            if copy.has_key(key) {
                copy.mark_use();
                return Met { copy: Some(copy), hot: self.below(next, pin) };
            }
        }
        Met { copy: None, hot: next }
    }

    /// Asks for the copy that a link names.
    #[inline]
    pub(super) fn prefetch(&self, link: Link, pin: &Pin<'_>) {
        Place::of(link).into_iter().for_each(|place| self.copy(place, pin).prefetch());
    }

    /// The link from `link` on that names no copy: the first hot record of the chain, if it has any.
    #[inline]
    pub(super) fn below(&self, link: Link, pin: &Pin<'_>) -> Link {
        let mut next = link;
        while let Some(place) = Place::of(next) {
            next = self.copy(place, pin).link();
        }
        next
    }

    /// Whether copies are kept at all.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Makes a copy of the record of a key that was missed, above what `below` names. Nobody knows it yet. `None` if
    /// there is no room.
    pub(super) fn add(&self, key: &Key<'_>, value: &[u8], below: Link, pin: &Pin<'_>) -> Option<Link> {
        // With less history more copies begin in the small queue.
        let known =
            self.history.load(pin).is_some_and(|history| history.note((key.hash >> u32::BITS) as u32, key.hash as u16));
        if known {
            self.remembered.fetch_add(1, Ordering::Relaxed);
        }
        self.append(if known { Part::Main } else { Part::Small }, key.bytes, value, below, 0, pin)
    }

    /// Frames that have copies, or will.
    pub(super) fn frames(&self) -> u64 {
        self.leased.load(Ordering::Relaxed)
    }

    /// How many misses the history remembers, and how many of the misses since the last call it had remembered.
    pub(super) fn take_remembered(&self) -> (u64, u64) {
        let remembers = self.remembering.load(Ordering::Relaxed) * History::BLOCK.bytes() / size_of::<u16>();
        (remembers as u64, self.remembered.swap(0, Ordering::Relaxed))
    }

    /// Whether copies that come soon find no room.
    pub(super) fn lacks_room(&self) -> bool {
        self.small.lacks_frame() || self.main.lacks_frame()
    }

    /// Appends a copy to a queue. `None` if there is no room.
    fn append(&self, part: Part, key: &[u8], value: &[u8], below: Link, uses: u64, pin: &Pin<'_>) -> Option<Link> {
        let word = self.queue(part).allocate(CachedRecord::words(key.len(), value.len()))?;
        let place = Place::new(part, word);
        self.copy(place, pin).fill(key, value, below, uses);
        Some(place.link())
    }

    fn copy<'p>(&'p self, place: Place, pin: &'p Pin<'_>) -> CachedRecord<'p> {
        self.queue(place.part).get(place.word, pin)
    }

    fn queue(&self, part: Part) -> &Queue {
        match part {
            Part::Small => &self.small,
            Part::Main => &self.main,
        }
    }
}
