//! The hot log in memory (H1): records that are allocated at the end, changed in place while they are young, and frozen
//! when they are older (decision 10, "The record" and "Allocation, closing, shifting, evicting").

mod address;
mod bounds;
mod flush;
mod frames;
mod page;
mod record;
mod segments;
mod sequences;
mod tail;
#[cfg(test)]
pub(in crate::hash) mod tests;

use std::{iter, sync::Arc};

use ecotone_substrate::{Error, Result, environment::Environment, memory::Component};
use ecotone_sys::{
    chunk::{Block, Size},
    epoch::{Domain, Pin},
    words::WORD,
};

pub(in crate::hash) use self::record::IN_ITS_LINES;
pub use self::{
    address::{Address, Link},
    page::{Page, Place, Stored},
    segments::Segment,
};
pub(crate) use self::{
    address::{FRAME, MAX_LOG, PAGE, PAGE_HEADER},
    record::Record,
    segments::SEGMENT_BYTES,
};
use self::{bounds::Bounds, flush::Turns, frames::Frames, segments::Segments, tail::Tail};
pub use ecotone_substrate::state::Kind;
pub(crate) use ecotone_substrate::state::State;

/// The log of one keyspace.
#[derive(Debug)]
pub(crate) struct HotLog {
    domain: Arc<Domain>,
    bounds: Arc<Bounds>,
    tail: Tail,
    frames: Frames,
    segments: Segments,
    turns: Turns,
}

impl HotLog {
    /// A log that begins and ends at page boundary `at`, with room for so many frames in memory.
    pub(crate) fn new(domain: &Arc<Domain>, at: Address, frames: usize) -> HotLog {
        Self::of(domain, Bounds::new(at, at, at), at, Segments::default(), frames)
    }

    /// A log of an earlier life, which has these segments: of it what lies from `begin` up to `durable` is valid, both
    /// page boundaries. What memory has of it comes by [`resume`](Self::resume).
    pub(crate) fn reopen(
        domain: &Arc<Domain>,
        (begin, durable): (Address, Address),
        segments: Vec<Arc<Segment>>,
        frames: usize,
    ) -> HotLog {
        // The frame in which it goes on has the pages before that too.
        let head = begin.max(Address::of_frame(durable.frame()));
        Self::of(domain, Bounds::new(begin, head, durable), durable, Segments::new(segments), frames)
    }

    fn of(domain: &Arc<Domain>, bounds: Arc<Bounds>, end: Address, segments: Segments, frames: usize) -> HotLog {
        let frames = Frames::new(domain, frames);
        HotLog { domain: domain.clone(), bounds, tail: Tail::new(end), frames, segments, turns: Turns::new() }
    }

    /// Its positions but TAIL.
    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// TAIL: what has been given out lies below.
    pub(crate) fn tail(&self) -> Address {
        self.tail.get()
    }

    /// Bytes between BEGIN and TAIL.
    pub(crate) fn bytes(&self) -> u64 {
        let begin = self.bounds.begin().get();
        self.tail().get().saturating_sub(begin)
    }

    /// The block becomes frame `number`, up to whose end the log may grow from now on. One thread at a time lets frames
    /// in, in order. The block itself if the frame that is in the way has not left.
    pub(crate) fn enter(&self, number: u64, block: Block) -> std::result::Result<(), Block> {
        self.frames.enter(number, block, |_| ())?;
        self.tail.cover(Address::new((number + 1) * FRAME));
        Ok(())
    }

    /// Lets the block in as the next frame, as [`enter`](Self::enter) does.
    pub(crate) fn grow(&self, block: Block) -> std::result::Result<(), Block> {
        self.enter(self.next_frame(), block)
    }

    /// The number of the frame that enters next.
    pub(crate) fn next_frame(&self) -> u64 {
        self.tail.covered().frame()
    }

    /// Lets the block in as the first frame of a log of an earlier life, with what its pages have that are there.
    ///
    /// # Errors
    /// If one of these is damaged or cannot be read.
    pub(crate) fn resume(&self, environment: &Environment, block: Block) -> Result<()> {
        let mut pages = Vec::new();
        let mut at = self.bounds.head();
        while at < self.tail() {
            let segment = self.segment(at)?;
            let mut page = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
            segment.file().read(&mut page, segment.offset(at))?;
            segment.parse(at, &page)?;
            pages.push((at, page));
            at = at.plus(PAGE);
        }
        let number = self.tail().frame();
        let entered = self.frames.enter(number, block, |words| {
            // What a page begins with is for its file alone.
            let records = |address: Address| address.word() + PAGE_HEADER as usize / WORD;
            pages.iter().for_each(|(at, page)| words.copy_in(records(*at), &page[PAGE_HEADER as usize..]));
        });
        entered.expect("it is the first frame");
        self.tail.cover(Address::of_frame(number + 1));
        Ok(())
    }

    /// Bytes that frames have ahead of the log's end.
    pub(crate) fn ahead(&self) -> u64 {
        let covered = self.tail.covered().get();
        covered - self.tail().get().min(covered)
    }

    /// Gives out the place of a record and fills it. `None` if no frame is there for it.
    pub(crate) fn allocate<'p>(&'p self, key: &[u8], value: Option<&[u8]>, pin: &'p Pin<'_>) -> Option<Raw<'p>> {
        let capacity = Record::capacity_for(key.len() + value.map_or(0, <[u8]>::len));
        let address = self.tail.allocate(Record::bytes(capacity))?;
        let record = self
            .record(address, pin)
            .expect("TAIL enters a frame when it is in the ring, and what is pinned above SAFE stays");
        record.fill(key, value);
        Some(Raw { address, record: Some(record) })
    }

    /// What is at an address, if that is in memory.
    #[inline]
    pub(crate) fn record<'p>(&'p self, address: Address, pin: &'p Pin<'_>) -> Option<Record<'p>> {
        let frame = self.frames.get(address, pin)?;
        Some(Record::new(frame.words(), address.word()))
    }

    /// The records of a page below SAFE in memory, invalid ones too.
    pub(crate) fn page<'p>(&'p self, page: Address, pin: &'p Pin<'_>) -> impl Iterator<Item = (Address, Record<'p>)> {
        assert!(page.in_page() == 0 && page < self.bounds.safe());
        let at = |address: Address| {
            let record = (address.in_page() > 0).then(|| self.record(address, pin)).flatten()?;
            (record.capacity() > 0).then_some((address, record))
        };
        let first = at(page.plus(PAGE_HEADER));
        iter::successors(first, move |(address, record)| at(address.plus(Record::bytes(record.capacity()))))
    }

    /// Ends the last page, so that all that has been given out lies below a page boundary: this one.
    pub(crate) fn close_page(&self) -> Address {
        self.tail.close_page()
    }

    /// What lies below page boundary `to` becomes read-only: SAFE follows when nobody who sees it otherwise is pinned.
    pub(crate) fn raise_read_only(&self, to: Address) {
        assert!(to.in_page() == 0 && to <= self.tail());
        self.bounds.raise_read_only(to, &self.domain);
    }

    /// Frames wholly below `until`, which is not above FLUSHED, leave memory. `then` gets each block when nobody looks
    /// at it any more.
    pub(crate) fn evict(&self, until: Address, then: impl Fn(Block) + Clone + Send + 'static) {
        let _turn = self.turns.evicting.lock();
        self.let_out(until, then);
    }

    fn let_out(&self, until: Address, then: impl Fn(Block) + Clone + Send + 'static) {
        let from = self.bounds.head().frame();
        self.bounds.raise_head(until);
        (from..until.frame()).for_each(|number| self.frames.leave(number, then.clone()));
    }

    /// What lies below page boundary `until`, which is not above SAFE, is not in the log any more, whether it was
    /// written or not. Its frames leave as [`evict`](Self::evict) says. The segments that lie wholly below, whose files
    /// are removed when what says so is synced.
    pub(crate) fn truncate(&self, until: Address, then: impl Fn(Block) + Clone + Send + 'static) -> Vec<Arc<Segment>> {
        assert_eq!(until.in_page(), 0);
        self.bounds.raise_begin(until, &self.domain);
        let _turn = self.turns.evicting.lock();
        self.let_out(until, then);
        self.segments.truncate(until)
    }

    /// The segment that has an address below FLUSHED. Whoever does not hold BEGIN looks at it again if there is none.
    ///
    /// # Errors
    /// If none has.
    pub(crate) fn segment(&self, address: Address) -> Result<Arc<Segment>> {
        self.segments
            .find(address)
            .ok_or_else(|| Error::corruption("the hot log", address.get(), "no segment has this address"))
    }
}

/// A record that nobody knows yet. Dropping it gives it up: it stays invalid.
#[derive(Debug)]
pub(crate) struct Raw<'p> {
    address: Address,
    /// `None` once it is live.
    record: Option<Record<'p>>,
}

impl Raw<'_> {
    /// Where it is.
    pub(crate) fn address(&self) -> Address {
        self.address
    }

    /// Sets what is before it in its chain.
    pub(crate) fn set_link(&self, link: Link) {
        self.record.expect("it is not live").set_link(link);
    }

    /// Others know it now.
    pub(crate) fn made_known(mut self) {
        self.record = None;
    }
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.record {
            record.invalidate();
        }
    }
}
