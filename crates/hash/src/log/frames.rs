//! The frames of the hot log in memory: a ring in which every address has one place (hash-protocol.md, invariants 10
//! and 13).

use std::sync::Arc;

use ecotone_substrate::Seq;
use ecotone_sys::{
    chunk::Block,
    epoch::{Domain, Pin, Slot},
    primitive::atomic::{AtomicU64, Ordering},
    words::Words,
};

use super::address::{Address, FRAME, PAGE};

/// Pages of a frame.
const PAGES: usize = (FRAME / PAGE) as usize;
/// A page without a noted sequence.
const NONE: Seq = Seq::MAX;

/// Some pages of the log in memory.
#[derive(Debug)]
pub(super) struct Frame {
    number: u64,
    words: Words,
    /// The smallest sequence of each page.
    firsts: [AtomicU64; PAGES],
}

impl Frame {
    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    /// Notes the sequence of a record of this frame.
    pub(super) fn note(&self, record: Address, seq: Seq) {
        self.first_of(record).fetch_min(seq, Ordering::AcqRel);
    }

    /// The smallest sequence of a page of this frame.
    pub(super) fn first(&self, page: Address) -> Option<Seq> {
        Some(self.first_of(page).load(Ordering::Acquire)).filter(|first| *first != NONE)
    }

    fn first_of(&self, address: Address) -> &AtomicU64 {
        &self.firsts[(address.get() % FRAME / PAGE) as usize]
    }
}

/// The ring. One thread at a time adds and removes frames; any thread reads.
#[derive(Debug)]
pub(super) struct Frames {
    domain: Arc<Domain>,
    ring: Box<[Slot<Frame>]>,
}

impl Frames {
    /// An empty ring of at least `count` places: a power of two, so that a mask finds the place.
    pub(super) fn new(domain: &Arc<Domain>, count: usize) -> Frames {
        let ring = (0..count.next_power_of_two()).map(|_| Slot::new(domain, None)).collect();
        Frames { domain: domain.clone(), ring }
    }

    /// Adds the block as frame `number`, filled with zero and then by `fill`. Returns the block if another frame has
    /// the place.
    pub(super) fn enter(&self, number: u64, block: Block, fill: impl FnOnce(&Words)) -> Result<(), Block> {
        let place = self.place(number);
        if place.load(&self.domain.pin()).is_some() {
            return Err(block);
        }
        let words = Words::new(block);
        fill(&words);
        let firsts = std::array::from_fn(|_| AtomicU64::new(NONE));
        assert_eq!(words.len(), Address::words_of_a_frame(), "a block of the size of a frame");
        place.swap(Some(Box::new(Frame { number, words, firsts })), |_| {
            unreachable!("one thread at a time lets frames in")
        });
        Ok(())
    }

    /// The frame of an address, unless it has left the ring or has not entered it.
    #[inline]
    pub(super) fn get<'p>(&'p self, address: Address, pin: &'p Pin<'_>) -> Option<&'p Frame> {
        self.place(address.frame()).load(pin).filter(|frame| frame.number == address.frame())
    }

    /// Removes frame `number`. `then` gets its block when no thread can see it any more.
    pub(super) fn leave(&self, number: u64, then: impl FnOnce(Block) + Send + 'static) {
        let place = self.place(number);
        if place.load(&self.domain.pin()).is_some_and(|frame| frame.number == number) {
            place.swap(None, |frame| then(frame.words.into_block()));
        }
    }

    fn place(&self, number: u64) -> &Slot<Frame> {
        &self.ring[number as usize & (self.ring.len() - 1)]
    }
}
