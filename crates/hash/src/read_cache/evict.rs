//! Eviction of read-cache entries, a frame at a time. Each entry of the frame is taken out of its chain; an entry that
//! was used is appended to the main queue (hash-protocol.md, invariant 26).

use std::sync::atomic::Ordering;

use ecotone_substrate::{ghost_list::GhostList, memory::gather};
use ecotone_sys::{
    chunk::Block,
    epoch::{self, Pin},
    primitive::thread,
};

use super::{
    COMPONENT, CachedRecord, HISTORY_PART, ReadCache,
    address::{CacheQueue, CachedEntryAddress},
    evictor::{Evictor, Scratch},
    queue::Queue,
};
use crate::{chains::Chains, index::Found, key::Key, log::Link, space::BLOCK};

/// Frames that are kept free: eviction needs space for the entries that it keeps, and readers for new entries
/// meanwhile.
const RESERVE: u64 = 2;
/// The most frames that one call evicts.
const MOST_AT_ONCE: usize = 4;
/// Links of entries are swept each time the hot log has grown by two to the power of this many bytes.
const ROUND_BITS: u32 = 40;
/// The small queue has one frame of this many.
const SMALL_PART: u64 = 10;

/// The word that names an entry.
enum Referrer<'p> {
    Entry(Found<'p>),
    Copy(CachedRecord<'p>),
}

impl ReadCache {
    /// Removes the frames that no thread can see any more.
    pub(super) fn collect(&self, evictor: &mut Evictor) {
        for part in CacheQueue::BOTH {
            let (queue, ends) = (self.queue(part), evictor.ends(part));
            queue.settle();
            // Read once, since the value may rise meanwhile on any thread.
            let unseen = queue.unseen();
            for number in ends.first..unseen {
                let spare = self.spare.clone();
                queue.leave(number, move |block| spare.lock().push(block));
            }
            ends.first = unseen;
        }
    }

    /// Adds frames where entries will be appended.
    fn let_in(&self) {
        for part in CacheQueue::BOTH {
            while self.queue(part).lacks_frame()
                && let Some(block) = self.take_spare()
            {
                self.queue(part).enter(block);
            }
        }
    }

    fn take_spare(&self) -> Option<Block> {
        self.spare.lock().pop()
    }

    /// Whether fewer frames than wanted are free, or will be after a grace period.
    fn is_short(&self, evictor: &mut Evictor) -> bool {
        let used = CacheQueue::BOTH.map(|part| self.queue(part).next_number() - evictor.ends(part).linked);
        used[0] + used[1] + RESERVE > self.frames()
    }

    /// Leases a frame, if the budget has a free one.
    fn lease(&self) -> bool {
        let Some(block) = self.memory.lease(COMPONENT, BLOCK) else { return false };
        self.spare.lock().push(block);
        self.leased.fetch_add(1, Ordering::Relaxed);
        self.remember_more();
        true
    }

    /// Enlarges the ghost list if there are many more frames than when it was sized.
    fn remember_more(&self) {
        let want = (self.frames() as usize * BLOCK.bytes()).div_ceil(HISTORY_PART * GhostList::BLOCK.bytes());
        if want * 2 < self.remembering.load(Ordering::Relaxed) * 3 {
            return;
        }
        let blocks: Option<Vec<_>> = (0..want).map(|_| self.memory.lease(COMPONENT, GhostList::BLOCK)).collect();
        let Some(blocks) = blocks else { return };
        let mut history = Box::new(GhostList::default());
        blocks.into_iter().for_each(|block| history.add(block));
        self.history.swap(Some(history), drop);
        self.remembering.store(want, Ordering::Relaxed);
    }

    /// Whether frames will be given back to the budget, or reused, after the threads have unpinned that may see them.
    pub(super) fn is_leaving(&self, evictor: &mut Evictor) -> bool {
        let (mut in_rings, mut unlinked) = (0, 0);
        for part in CacheQueue::BOTH {
            let ends = evictor.ends(part);
            in_rings += self.queue(part).next_number() - ends.first;
            unlinked += ends.linked - ends.first;
        }
        unlinked > 0 || in_rings + (self.spare.lock().len() as u64) < self.frames()
    }

    /// Gives a frame that no thread can see back to the budget. Returns its bytes, or 0 if there is none.
    fn give_back(&self) -> usize {
        let Some(block) = self.take_spare() else { return 0 };
        self.leased.fetch_sub(1, Ordering::Relaxed);
        block.len()
    }

    /// The queue whose oldest frame is evicted next.
    fn victim(&self, evictor: &mut Evictor) -> Option<CacheQueue> {
        let small = self.small.last() - evictor.small.linked;
        let order =
            if small * SMALL_PART > self.frames() { CacheQueue::BOTH } else { [CacheQueue::Main, CacheQueue::Small] };
        order.into_iter().find(|part| evictor.ends(*part).linked < self.queue(*part).settled())
    }
}

impl Chains {
    /// Makes space for new entries, unless another thread does it already. Without space only cache entries are lost.
    pub(crate) fn evict_for_inserts(&self) {
        epoch::assert_unpinned();
        let Some(mut evictor) = self.read_cache.evictor.try_lock() else { return };
        self.memory_share.rebalance(&self.log);
        let mut wants = false;
        for _ in 0..MOST_AT_ONCE {
            self.domain.drain();
            self.read_cache.collect(&mut evictor);
            let (have, part) = (self.read_cache.frames(), self.memory_share.copies());
            if have <= part {
                self.read_cache.let_in();
            }
            let changed = if have > part {
                self.read_cache.give_back() > 0 || self.evict_frame(&mut evictor)
            } else if !self.read_cache.is_short(&mut evictor) {
                false
            } else if have < part && self.read_cache.lease() {
                true
            } else {
                wants = have < part;
                self.evict_frame(&mut evictor)
            };
            if !changed {
                break;
            }
        }
        self.read_cache.let_in();
        drop(evictor);
        if wants {
            // Memory that another cache gives back is free for the next frame.
            self.memory_share.take_from_others();
        }
    }

    /// Gives `bytes` bytes of entries back to the budget, if there are as many. Waits for pins alone. Returns the bytes
    /// given back.
    pub(crate) fn shrink_read_cache(&self, bytes: usize) -> usize {
        let mut evictor = self.read_cache.evictor.lock();
        gather(bytes, 1, || {
            loop {
                self.domain.drain();
                self.read_cache.collect(&mut evictor);
                let given = self.read_cache.give_back();
                if given > 0 {
                    return given;
                }
                if self.read_cache.is_leaving(&mut evictor) {
                    thread::yield_now();
                } else if !self.evict_frame(&mut evictor) {
                    return 0;
                }
            }
        })
    }

    /// Evicts the entries of a frame. Returns whether there was one.
    pub(super) fn evict_frame(&self, evictor: &mut Evictor) -> bool {
        let Some(part) = self.read_cache.victim(evictor) else { return false };
        let number = evictor.ends(part).linked;
        let mut word = Queue::first_word(number);
        while let Some(behind) = self.evict(part, number, word, &mut evictor.scratch) {
            word = behind;
        }
        evictor.ends(part).linked = number + 1;
        self.read_cache.queue(part).give_up(number + 1);
        self.read_cache.evictions.increment();
        true
    }

    /// Takes the entry at a word out of its chain. Returns the word behind the entry, if there is one.
    fn evict(&self, part: CacheQueue, number: u64, word: u64, scratch: &mut Scratch) -> Option<u64> {
        let pin = self.domain.pin();
        let (copy, behind) = self.read_cache.queue(part).next(word, number, &pin)?;
        copy.read_key(&mut scratch.key);
        let (key, from) = (self.key(&scratch.key), CachedEntryAddress::new(part, word).link());
        let mut to = None;
        while let Some(above) = self.above(&key, from, &pin) {
            let to = *to.get_or_insert_with(|| self.successor(part, &key, copy, &mut scratch.value, &pin));
            if self.replace(&above, from, to) {
                break;
            }
        }
        Some(behind)
    }

    /// Replaces the link to an entry in the word that names it. Returns whether the word still named it.
    fn replace(&self, above: &Referrer<'_>, from: Link, to: Link) -> bool {
        match above {
            Referrer::Copy(copy) => copy.relink(from, to),
            Referrer::Entry(found) => {
                // A link at or above CLEARABLE may be in use by a pinned thread (hash-protocol.md, invariant 24).
                if !to.is_cached() && to.address_from(self.log.bounds().clearable()).is_none() {
                    return self.index.free(*found);
                }
                found.place.exchange(found.entry, found.entry.with_link(to)).is_ok()
            }
        }
    }

    /// The word that names an entry of the key, as long as the entry is in the chain.
    fn above<'p>(&'p self, key: &Key<'_>, link: Link, pin: &'p Pin<'_>) -> Option<Referrer<'p>> {
        let found = self.index.find(key.hash, pin)?;
        let (mut above, mut next) = (Referrer::Entry(found), found.entry.link());
        while next != link {
            let copy = self.read_cache.copy(CachedEntryAddress::of(next)?, pin);
            (above, next) = (Referrer::Copy(copy), copy.link());
        }
        Some(above)
    }

    /// The link that replaces the link to an entry: to a new entry at the end of the main queue, if the entry was used
    /// and there is space, otherwise to the next record of the chain.
    fn successor(
        &self,
        part: CacheQueue,
        key: &Key<'_>,
        copy: CachedRecord<'_>,
        value: &mut Vec<u8>,
        pin: &Pin<'_>,
    ) -> Link {
        let uses = copy.uses();
        if uses == 0 {
            return copy.link();
        }
        copy.read(value);
        // Uses in the small queue promote the entry to the main one. In the main queue each use is good for one round.
        let left = if part == CacheQueue::Main { uses - 1 } else { 0 };
        let again = self.read_cache.append(CacheQueue::Main, key.bytes, value, copy.link(), left, pin);
        again.unwrap_or(copy.link())
    }

    /// Replaces stale links of entries by no link, so that none is left when short addresses wrap around
    /// (hash-protocol.md, invariant 16). The caller calls this after every truncation; it sweeps once per TiB of the
    /// hot log.
    pub(crate) fn clear_stale_links(&self) {
        let mut evictor = self.read_cache.evictor.lock();
        let round = self.log.tail().get() >> ROUND_BITS;
        if evictor.swept == round {
            return;
        }
        evictor.swept = round;
        for part in CacheQueue::BOTH {
            let queue = self.read_cache.queue(part);
            for number in evictor.ends(part).linked..queue.next_number() {
                let mut word = Queue::first_word(number);
                while let Some(behind) = self.sweep_copy(queue, number, word) {
                    word = behind;
                }
            }
        }
    }

    /// Sweeps the entry at a word. Returns the word behind the entry, if there is one.
    fn sweep_copy(&self, queue: &Queue, number: u64, word: u64) -> Option<u64> {
        let pin = self.domain.pin();
        let (copy, behind) = queue.next(word, number, &pin)?;
        let link = copy.link();
        if !link.is_cached() && link.address_from(self.log.bounds().clearable()).is_none() {
            copy.relink(link, Link::NONE);
        }
        Some(behind)
    }
}
