//! Eviction of copies: a frame at a time they are taken out of their chains, and those that were used come to the end
//! of the main queue (decision 10, invariant 26).

use std::sync::atomic::Ordering;

use ecotone_substrate::{history::History, memory::gather};
use ecotone_sys::{
    chunk::Block,
    epoch::{self, Pin},
    primitive::thread,
};

use super::{
    super::{Hash, index::Found, key::Key, log::Link, room::BLOCK},
    COMPONENT, CachedRecord, HISTORY_PART, ReadCache,
    place::{Part, Place},
    queue::Queue,
};

/// Frames that are kept free, so that eviction finds room for what it keeps, and others for what they read meanwhile.
const RESERVE: u64 = 2;
/// Frames that one call evicts at most.
const MOST_AT_ONCE: usize = 4;
/// Links of copies are swept as often as the hot log has grown by two to the power of this many bytes.
const ROUND_BITS: u32 = 40;
/// The small queue has this part of the frames.
const SMALL_PART: u64 = 10;

/// What is known to who evicts alone.
#[derive(Debug, Default)]
pub(super) struct Evictor {
    small: Ends,
    main: Ends,
    /// In which TiB the hot log ended when links were swept.
    swept: u64,
    scratch: Scratch,
}

/// Key and value of a copy that is evicted.
#[derive(Debug, Default)]
struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Numbers of frames of a queue.
#[derive(Debug, Default)]
struct Ends {
    /// The first that is still in the ring.
    first: u64,
    /// The first of whose copies some may be in chains.
    linked: u64,
}

/// What names a copy.
enum Above<'p> {
    Entry(Found<'p>),
    Copy(CachedRecord<'p>),
}

impl Evictor {
    fn ends(&mut self, part: Part) -> &mut Ends {
        match part {
            Part::Small => &mut self.small,
            Part::Main => &mut self.main,
        }
    }
}

impl ReadCache {
    /// Takes the frames out that nobody looks at any more.
    pub(super) fn collect(&self, evictor: &mut Evictor) {
        for part in Part::BOTH {
            let (queue, ends) = (self.queue(part), evictor.ends(part));
            queue.settle();
            // Once, since it may rise meanwhile, on whatever thread.
            let unseen = queue.unseen();
            for number in ends.first..unseen {
                let spare = self.spare.clone();
                queue.leave(number, move |block| spare.lock().push(block));
            }
            ends.first = unseen;
        }
    }

    /// Lets frames in where copies will come.
    fn let_in(&self) {
        for part in Part::BOTH {
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

    /// Whether fewer frames than wanted are free, or will be after a grace.
    fn is_short(&self, evictor: &mut Evictor) -> bool {
        let used = Part::BOTH.map(|part| self.queue(part).next_number() - evictor.ends(part).linked);
        used[0] + used[1] + RESERVE > self.frames()
    }

    /// Leases a frame, if the budget has one that is free.
    fn lease(&self) -> bool {
        let Some(block) = self.memory.lease(COMPONENT, BLOCK) else { return false };
        self.spare.lock().push(block);
        self.leased.fetch_add(1, Ordering::Relaxed);
        self.remember_more();
        true
    }

    /// Has more history if there are many more frames than when it got what it has.
    fn remember_more(&self) {
        let want = (self.frames() as usize * BLOCK.bytes()).div_ceil(HISTORY_PART * History::BLOCK.bytes());
        if want * 2 < self.remembering.load(Ordering::Relaxed) * 3 {
            return;
        }
        let blocks: Option<Vec<_>> = (0..want).map(|_| self.memory.lease(COMPONENT, History::BLOCK)).collect();
        let Some(blocks) = blocks else { return };
        let mut history = Box::new(History::default());
        blocks.into_iter().for_each(|block| history.add(block));
        self.history.swap(Some(history), drop);
        self.remembering.store(want, Ordering::Relaxed);
    }

    /// Whether frames will be given back to the budget, or let in again, when those are gone who may look at them.
    pub(super) fn is_leaving(&self, evictor: &mut Evictor) -> bool {
        let (mut in_rings, mut unlinked) = (0, 0);
        for part in Part::BOTH {
            let ends = evictor.ends(part);
            in_rings += self.queue(part).next_number() - ends.first;
            unlinked += ends.linked - ends.first;
        }
        unlinked > 0 || in_rings + (self.spare.lock().len() as u64) < self.frames()
    }

    /// Gives a frame back to the budget that nobody looks at. Its bytes, or 0 if there is none.
    fn give_back(&self) -> usize {
        let Some(block) = self.take_spare() else { return 0 };
        self.leased.fetch_sub(1, Ordering::Relaxed);
        block.len()
    }

    /// The queue whose oldest frame is the next to go.
    fn victim(&self, evictor: &mut Evictor) -> Option<Part> {
        let small = self.small.last() - evictor.small.linked;
        let order = if small * SMALL_PART > self.frames() { Part::BOTH } else { [Part::Main, Part::Small] };
        order.into_iter().find(|part| evictor.ends(*part).linked < self.queue(*part).settled())
    }

    /// Replaces the link to a copy in what names it. Whether it still named it.
    fn replace(&self, hash: &Hash, above: &Above<'_>, from: Link, to: Link) -> bool {
        match above {
            Above::Copy(copy) => copy.relink(from, to),
            Above::Entry(found) => {
                // What is not below CLEARABLE may be what somebody goes by who is pinned (decision 10, invariant 24).
                if !to.is_copy() && to.head(hash.log.bounds().clearable()).is_none() {
                    return hash.table.free(*found);
                }
                found.place.exchange(found.entry, found.entry.with_link(to)).is_ok()
            }
        }
    }
}

impl Hash {
    /// Has room made for copies that come soon, unless another thread does it just then. Nothing is lost but copies if
    /// there is none.
    pub(in crate::hash) fn make_room_for_copies(&self) {
        epoch::assert_unpinned();
        let Some(mut evictor) = self.copies.evictor.try_lock() else { return };
        self.divide();
        let mut wants = false;
        for _ in 0..MOST_AT_ONCE {
            self.domain.drain();
            self.copies.collect(&mut evictor);
            let (have, part) = (self.copies.frames(), self.part.copies());
            if have <= part {
                self.copies.let_in();
            }
            let changed = if have > part {
                self.copies.give_back() > 0 || self.evict_frame(&mut evictor)
            } else if !self.copies.is_short(&mut evictor) {
                false
            } else if have < part && self.copies.lease() {
                true
            } else {
                wants = have < part;
                self.evict_frame(&mut evictor)
            };
            if !changed {
                break;
            }
        }
        self.copies.let_in();
        drop(evictor);
        if wants {
            // What another cache gives back is there for the next frame.
            self.take_from_others();
        }
    }

    /// Gives so many bytes of copies back to the budget, if there are as many. It waits for pins alone. The bytes that
    /// it gave.
    pub(in crate::hash) fn give_back_copies(&self, bytes: usize) -> usize {
        let mut evictor = self.copies.evictor.lock();
        gather(bytes, 1, || {
            loop {
                self.domain.drain();
                self.copies.collect(&mut evictor);
                let given = self.copies.give_back();
                if given > 0 {
                    return given;
                }
                if self.copies.is_leaving(&mut evictor) {
                    thread::yield_now();
                } else if !self.evict_frame(&mut evictor) {
                    return 0;
                }
            }
        })
    }

    /// Evicts the copies of a frame. Whether there was one.
    pub(super) fn evict_frame(&self, evictor: &mut Evictor) -> bool {
        let Some(part) = self.copies.victim(evictor) else { return false };
        let number = evictor.ends(part).linked;
        let mut word = Queue::first_word(number);
        while let Some(behind) = self.evict(part, number, word, &mut evictor.scratch) {
            word = behind;
        }
        evictor.ends(part).linked = number + 1;
        self.copies.queue(part).give_up(number + 1);
        self.counts.evictions.increment();
        true
    }

    /// Takes the copy at a word out of its chain. The word behind it, if there is a copy.
    fn evict(&self, part: Part, number: u64, word: u64, scratch: &mut Scratch) -> Option<u64> {
        let pin = self.domain.pin();
        let (copy, behind) = self.copies.queue(part).next(word, number, &pin)?;
        copy.read_key(&mut scratch.key);
        let (key, from) = (self.key(&scratch.key), Place::new(part, word).link());
        let mut to = None;
        while let Some(above) = self.above(&key, from, &pin) {
            let to = *to.get_or_insert_with(|| self.successor(part, &key, copy, &mut scratch.value, &pin));
            if self.copies.replace(self, &above, from, to) {
                break;
            }
        }
        Some(behind)
    }

    /// What names a copy of the key, as long as it is in the chain.
    fn above<'p>(&'p self, key: &Key<'_>, link: Link, pin: &'p Pin<'_>) -> Option<Above<'p>> {
        let found = self.table.find(key.hash, pin)?;
        let (mut above, mut next) = (Above::Entry(found), found.entry.link());
        while next != link {
            let copy = self.copies.copy(Place::of(next)?, pin);
            (above, next) = (Above::Copy(copy), copy.link());
        }
        Some(above)
    }

    /// What comes in place of a copy: another copy at the end of the main queue, if it was used and there is room, else
    /// what is below it.
    fn successor(&self, part: Part, key: &Key<'_>, copy: CachedRecord<'_>, value: &mut Vec<u8>, pin: &Pin<'_>) -> Link {
        let uses = copy.uses();
        if uses == 0 {
            return copy.link();
        }
        copy.read(value);
        // Uses in the small queue have brought it to the main one; there each is good for a round.
        let left = if part == Part::Main { uses - 1 } else { 0 };
        let again = self.copies.append(Part::Main, key.bytes, value, copy.link(), left, pin);
        again.unwrap_or(copy.link())
    }

    /// Lets the links of copies name nothing where they are stale, so that none is left when short addresses come round
    /// (decision 10, invariant 16). To be called after every truncation; it does so once in a TiB of the hot log.
    pub(in crate::hash) fn sweep_copies(&self) {
        let mut evictor = self.copies.evictor.lock();
        let round = self.log.tail().get() >> ROUND_BITS;
        if evictor.swept == round {
            return;
        }
        evictor.swept = round;
        for part in Part::BOTH {
            let queue = self.copies.queue(part);
            for number in evictor.ends(part).linked..queue.next_number() {
                let mut word = Queue::first_word(number);
                while let Some(behind) = self.sweep_copy(queue, number, word) {
                    word = behind;
                }
            }
        }
    }

    /// Sweeps the copy at a word. The word behind it, if there is a copy.
    fn sweep_copy(&self, queue: &Queue, number: u64, word: u64) -> Option<u64> {
        let pin = self.domain.pin();
        let (copy, behind) = queue.next(word, number, &pin)?;
        let link = copy.link();
        if !link.is_copy() && link.head(self.log.bounds().clearable()).is_none() {
            copy.relink(link, Link::NONE);
        }
        Some(behind)
    }
}
