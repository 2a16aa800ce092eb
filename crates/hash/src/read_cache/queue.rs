//! One of the two queues of the read cache: a log of frames. Entries are appended at its end, and its oldest frame is
//! evicted (hash-protocol.md, invariant 26).

use std::sync::Arc;

use ecotone_sys::{
    chunk::Block,
    epoch::{Domain, Pin, Slot},
    primitive::atomic::{AtomicU64, Ordering},
    words::Words,
};

use super::{address::CachedEntryAddress, entry::CachedRecord};
use crate::log::Address;

/// Words of a frame.
const FRAME_WORDS: u64 = Address::words_of_a_frame() as u64;

/// A frame with its number, which is unique in the queue.
#[derive(Debug)]
struct Frame {
    number: u64,
    words: Words,
}

/// Frame numbers that rise as grace periods pass.
#[derive(Debug, Default)]
struct Marks {
    /// In frames below, every entry is complete. Some were given up.
    settled: AtomicU64,
    /// No thread can see frames below.
    unseen: AtomicU64,
}

/// A queue. Any thread appends and reads; one thread at a time adds and removes frames.
#[derive(Debug)]
pub(super) struct Queue {
    domain: Arc<Domain>,
    ring: Box<[Slot<Frame>]>,
    /// The word behind the last entry.
    end: AtomicU64,
    /// The word behind the last frame in the ring.
    covered: AtomicU64,
    /// The number up to which [`settled`](Self::settled) will rise.
    settling: AtomicU64,
    marks: Arc<Marks>,
}

impl Queue {
    /// An empty queue of at most `frames` frames.
    pub(super) fn new(domain: &Arc<Domain>, frames: usize) -> Queue {
        let ring = (0..frames.next_power_of_two()).map(|_| Slot::new(domain, None)).collect();
        let [end, covered, settling] = std::array::from_fn(|_| AtomicU64::new(0));
        Queue { domain: domain.clone(), ring, end, covered, settling, marks: Arc::default() }
    }

    /// Allocates `words` words in one frame. `None` if there is no frame for them.
    pub(super) fn allocate(&self, words: u64) -> Option<u64> {
        let mut end = self.end.load(Ordering::Acquire);
        loop {
            let left = FRAME_WORDS - end % FRAME_WORDS;
            let first = if words <= left { end } else { end + left };
            // A thread that reads an end above the entry must see its frame too: this load acquires it, the exchange
            // passes it on.
            if words > FRAME_WORDS || first + words > self.covered.load(Ordering::Acquire) {
                return None;
            }
            match self.end.compare_exchange(end, first + words, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(first),
                Err(now) => end = now,
            }
        }
    }

    /// The entry at a word of this queue modulo [`CachedEntryAddress::WORDS`]. It was found under the pin, so its frame
    /// stays.
    #[inline]
    pub(super) fn get<'p>(&'p self, word: u64, pin: &'p Pin<'_>) -> CachedRecord<'p> {
        let number = word / FRAME_WORDS;
        let frame = self.ring[number as usize & (self.ring.len() - 1)].load(pin);
        let frame = frame.filter(|frame| frame.number % (CachedEntryAddress::WORDS / FRAME_WORDS) == number);
        CachedRecord::new(
            &frame.expect("a copy that is met under a pin stays as long").words,
            (word % FRAME_WORDS) as usize,
        )
    }

    /// The entry that begins at this word, if there is one, and the word behind it. The frame must be in the ring.
    pub(super) fn next<'p>(&'p self, word: u64, number: u64, pin: &'p Pin<'_>) -> Option<(CachedRecord<'p>, u64)> {
        let inside = word / FRAME_WORDS == number;
        let frame = self.slot(number).load(pin).filter(|_| inside).filter(|frame| frame.number == number)?;
        let copy = CachedRecord::at(&frame.words, (word % FRAME_WORDS) as usize)?;
        Some((copy, word + copy.len()))
    }

    /// The first word of a frame.
    pub(super) fn first_word(number: u64) -> u64 {
        number * FRAME_WORDS
    }

    /// Whether the queue has no frame beyond the one in which it ends.
    pub(super) fn lacks_frame(&self) -> bool {
        self.covered.load(Ordering::Acquire).saturating_sub(self.end.load(Ordering::Acquire)) < FRAME_WORDS
    }

    /// Number of the frame in which the queue ends.
    pub(super) fn last(&self) -> u64 {
        self.end.load(Ordering::Acquire) / FRAME_WORDS
    }

    /// Number of the next frame.
    pub(super) fn next_number(&self) -> u64 {
        self.covered.load(Ordering::Acquire) / FRAME_WORDS
    }

    /// Adds the block as the next frame. Its place in the ring is free, since there are never more frames than places.
    pub(super) fn enter(&self, block: Block) {
        let number = self.next_number();
        let frame = Frame { number, words: Words::new(block) };
        self.slot(number).swap(Some(Box::new(frame)), |_| unreachable!("there are more places than frames"));
        self.covered.store((number + 1) * FRAME_WORDS, Ordering::Release);
    }

    /// Raises [`settled`](Self::settled) to the current end when all threads have unpinned that may still fill an entry
    /// before that. A waiting caller calls this again and again, and at most one action is pending.
    pub(super) fn settle(&self) {
        let (last, marks) = (self.last(), self.marks.clone());
        if last > self.settling.swap(last, Ordering::Relaxed) {
            self.domain.bump(move || _ = marks.settled.fetch_max(last, Ordering::AcqRel));
        }
    }

    /// In frames below this one, every entry is complete.
    pub(super) fn settled(&self) -> u64 {
        self.marks.settled.load(Ordering::Acquire)
    }

    /// Says that no chain names an entry in the frames below this one any more. [`unseen`](Self::unseen) follows when
    /// all threads have unpinned that may have found one.
    pub(super) fn give_up(&self, below: u64) {
        let marks = self.marks.clone();
        self.domain.bump(move || _ = marks.unseen.fetch_max(below, Ordering::AcqRel));
    }

    /// No thread can see the frames below this one.
    pub(super) fn unseen(&self) -> u64 {
        self.marks.unseen.load(Ordering::Acquire)
    }

    /// Removes a frame that no thread can see. Its block goes to `then`.
    pub(super) fn leave(&self, number: u64, then: impl FnOnce(Block) + Send + 'static) {
        self.slot(number).swap(None, |frame| then(frame.words.into_block()));
    }

    fn slot(&self, number: u64) -> &Slot<Frame> {
        &self.ring[number as usize & (self.ring.len() - 1)]
    }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use super::*;
    use crate::log::{
        Link,
        tests::{arena, block},
    };

    #[test]
    fn copies_lie_back_to_back_and_in_one_frame_each() {
        let (domain, arena) = (Domain::new(), arena());
        let queue = Queue::new(&domain, 3);
        assert_eq!((queue.allocate(2), queue.lacks_frame()), (None, true));
        (0..3).for_each(|_| queue.enter(block(&arena)));
        let mut end = 0;
        for words in [2, 240, 15, 100].into_iter().cycle() {
            let Some(first) = queue.allocate(words) else { break };
            assert!(first == end || first.is_multiple_of(FRAME_WORDS) && first - end < words, "{first} {end}");
            assert_eq!(first / FRAME_WORDS, (first + words - 1) / FRAME_WORDS);
            end = first + words;
            assert_eq!(queue.lacks_frame(), end > 2 * FRAME_WORDS);
        }
        assert!(end + 240 > 3 * FRAME_WORDS && end <= 3 * FRAME_WORDS);
        assert_eq!(queue.allocate(FRAME_WORDS + 1), None);
    }

    #[test]
    fn who_waits_for_copies_to_be_whole_leaves_one_action() {
        let (domain, arena) = (Domain::new(), arena());
        let queue = Queue::new(&domain, 2);
        (0..2).for_each(|_| queue.enter(block(&arena)));
        while queue.last() == 0 {
            queue.allocate(200).unwrap();
        }
        let pin = domain.pin();
        (0..1000).for_each(|_| queue.settle());
        assert!(format!("{domain:?}").contains("waiting: 1,"), "{domain:?}");
        drop(pin);
        assert_eq!(queue.settled(), 1);
    }

    #[test]
    fn trap_05_a_copy_under_a_pin_stays_when_its_frame_is_given_up() {
        let (domain, arena) = (Domain::new(), arena());
        let queue = Queue::new(&domain, 2);
        (0..2).for_each(|_| queue.enter(block(&arena)));
        let pin = domain.pin();
        let word = queue.allocate(3).unwrap();
        queue.get(word, &pin).fill(b"key", b"value", Link::NONE, 0);
        while queue.last() == 0 {
            queue.allocate(200).unwrap();
        }
        queue.settle();
        queue.give_up(1);
        assert_eq!((queue.settled(), queue.unseen()), (0, 0));
        let (copy, behind) = queue.next(word, 0, &pin).unwrap();
        assert!(copy.has_key(b"key") && behind == 3 && queue.next(behind, 0, &pin).is_none());
        drop(pin);
        assert_eq!((queue.settled(), queue.unseen()), (1, 1));
        queue.leave(0, drop);
        queue.enter(block(&arena));
        assert_eq!(queue.next_number(), 3);
        assert!(queue.next(word, 0, &domain.pin()).is_none(), "another frame has its place");
    }
}
