//! The hot log in memory (H1). Records are allocated at the end, changed in place while they are young, and frozen when
//! they are older (hash-protocol.md, "The record" and "Allocation, closing, shifting, evicting").

mod address;
mod bounds;
mod flush;
mod frames;
mod locks;
mod page;
mod record;
mod segments;
mod sequences;
mod tail;
#[cfg(test)]
pub(crate) mod tests;

use std::{iter, sync::Arc};

pub use ecotone_substrate::record_header::HeaderKind;
pub(crate) use ecotone_substrate::record_header::RecordHeader;
use ecotone_substrate::{Error, Result, environment::Environment, memory::Component};
use ecotone_sys::{
    chunk::{Block, Size},
    epoch::{Domain, Pin},
    words::WORD,
};

pub(crate) use self::record::IN_ITS_LINES;
pub use self::{
    address::{Address, Link},
    page::{Page, PageLocation, Stored},
    segments::{SEGMENT_BYTES, Segment},
};
pub(crate) use self::{
    address::{FRAME, MAX_LOG, PAGE, PAGE_HEADER},
    record::{Locked, Record},
};
use self::{bounds::Bounds, frames::Frames, locks::FlushLocks, segments::Segments, tail::Tail};

/// The log of one keyspace.
#[derive(Debug)]
pub(crate) struct HotLog {
    domain: Arc<Domain>,
    bounds: Arc<Bounds>,
    tail: Tail,
    frames: Frames,
    segments: Segments,
    locks: FlushLocks,
}

impl HotLog {
    /// A log that begins and ends at page boundary `at`, with `frames` places for frames in memory.
    pub(crate) fn new(domain: &Arc<Domain>, at: Address, frames: usize) -> HotLog {
        Self::of(domain, Bounds::new(at, at, at), at, Segments::default(), frames)
    }

    /// The log of an earlier session with these segments. Its records from `begin` up to `durable` are valid; both are
    /// page boundaries. [`resume`](Self::resume) loads the part that belongs in memory.
    pub(crate) fn reopen(
        domain: &Arc<Domain>,
        (begin, durable): (Address, Address),
        segments: Vec<Arc<Segment>>,
        frames: usize,
    ) -> HotLog {
        // The frame in which the log goes on also holds the pages before that position.
        let head = begin.max(Address::of_frame(durable.frame()));
        Self::of(domain, Bounds::new(begin, head, durable), durable, Segments::new(segments), frames)
    }

    fn of(domain: &Arc<Domain>, bounds: Arc<Bounds>, end: Address, segments: Segments, frames: usize) -> HotLog {
        let frames = Frames::new(domain, frames);
        HotLog { domain: domain.clone(), bounds, tail: Tail::new(end), frames, segments, locks: FlushLocks::new() }
    }

    /// The log's positions except TAIL.
    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// TAIL: all allocated space lies below.
    pub(crate) fn tail(&self) -> Address {
        self.tail.get()
    }

    /// Bytes between BEGIN and TAIL.
    pub(crate) fn bytes(&self) -> u64 {
        let begin = self.bounds.begin().get();
        self.tail().get().saturating_sub(begin)
    }

    /// Adds the block as frame `number`; the log may grow up to the end of that frame. One thread at a time adds
    /// frames, in order. Returns the block if the frame in its place has not left.
    pub(crate) fn enter(&self, number: u64, block: Block) -> std::result::Result<(), Block> {
        self.frames.enter(number, block, |_| ())?;
        self.tail.cover(Address::new((number + 1) * FRAME));
        Ok(())
    }

    /// Adds the block as the next frame, as [`enter`](Self::enter) does.
    pub(crate) fn grow(&self, block: Block) -> std::result::Result<(), Block> {
        self.enter(self.next_frame(), block)
    }

    /// The number of the frame that enters next.
    pub(crate) fn next_frame(&self) -> u64 {
        self.tail.covered().frame()
    }

    /// Frames that are in memory.
    pub(crate) fn frames_in_memory(&self) -> u64 {
        let next = self.next_frame();
        next - self.bounds.head().frame().min(next)
    }

    /// Adds the block as the first frame of a log of an earlier session, and reads into it those pages of the frame
    /// that exist.
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
            // The page header is for the file alone.
            let records = |address: Address| address.word() + PAGE_HEADER as usize / WORD;
            pages.iter().for_each(|(at, page)| words.copy_in(records(*at), &page[PAGE_HEADER as usize..]));
        });
        entered.expect("it is the first frame");
        self.tail.cover(Address::of_frame(number + 1));
        Ok(())
    }

    /// Bytes that frames have beyond the log's end.
    pub(crate) fn ahead(&self) -> u64 {
        let covered = self.tail.covered().get();
        covered - self.tail().get().min(covered)
    }

    /// Allocates and fills a record. `None` if there is no frame for it.
    pub(crate) fn allocate<'p>(
        &'p self,
        key: &[u8],
        value: Option<&[u8]>,
        pin: &'p Pin<'_>,
    ) -> Option<UnlinkedRecord<'p>> {
        let capacity = Record::capacity_for(key.len() + value.map_or(0, <[u8]>::len));
        let address = self.tail.allocate(Record::bytes(capacity))?;
        let record = self
            .record(address, pin)
            .expect("TAIL enters a frame when it is in the ring, and what is pinned above SAFE stays");
        record.fill(key, value);
        Some(UnlinkedRecord { address, record: Some(record) })
    }

    /// The record at an address, if it is in memory.
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

    /// Closes the last page. Returns the page boundary below which all allocated space lies.
    pub(crate) fn close_page(&self) -> Address {
        self.tail.close_page()
    }

    /// Makes records below page boundary `to` read-only. SAFE follows when all threads have unpinned that see an older
    /// value.
    pub(crate) fn raise_read_only(&self, to: Address) {
        assert!(to.in_page() == 0 && to <= self.tail());
        self.bounds.raise_read_only(to, &self.domain);
    }

    /// Evicts frames wholly below `until`, which is not above FLUSHED. `then` gets each block when no thread can see it
    /// any more.
    pub(crate) fn evict(&self, until: Address, then: impl Fn(Block) + Clone + Send + 'static) {
        let _guard = self.locks.evicting.lock();
        self.remove_frames(until, then);
    }

    fn remove_frames(&self, until: Address, then: impl Fn(Block) + Clone + Send + 'static) {
        let from = self.bounds.head().frame();
        self.bounds.raise_head(until);
        (from..until.frame()).for_each(|number| self.frames.leave(number, then.clone()));
    }

    /// Truncates the log at page boundary `until`, which is not above SAFE, whether the records below were written or
    /// not. Frames leave as in [`evict`](Self::evict). Returns the segments wholly below; the caller removes their
    /// files when the record that drops them is synced.
    pub(crate) fn truncate(&self, until: Address, then: impl Fn(Block) + Clone + Send + 'static) -> Vec<Arc<Segment>> {
        assert_eq!(until.in_page(), 0);
        self.bounds.raise_begin(until, &self.domain);
        let _guard = self.locks.evicting.lock();
        self.remove_frames(until, then);
        self.segments.truncate(until)
    }

    /// The segment that has an address below FLUSHED. A caller that does not hold BEGIN checks BEGIN again if there is
    /// none.
    ///
    /// # Errors
    /// If none has.
    pub(crate) fn segment(&self, address: Address) -> Result<Arc<Segment>> {
        self.segments
            .find(address)
            .ok_or_else(|| Error::corruption("the hot log", address.get(), "no segment has this address"))
    }
}

/// A record that no other thread knows yet. Dropping it gives it up: the record stays invalid.
#[derive(Debug)]
pub(crate) struct UnlinkedRecord<'p> {
    address: Address,
    /// `None` once it is live.
    record: Option<Record<'p>>,
}

impl UnlinkedRecord<'_> {
    /// Where it is.
    pub(crate) fn address(&self) -> Address {
        self.address
    }

    /// Sets the link to the record before it in its chain.
    pub(crate) fn set_link(&self, link: Link) {
        self.record.expect("it is not live").set_link(link);
    }

    /// Marks the record as known to other threads.
    pub(crate) fn made_known(mut self) {
        self.record = None;
    }
}

impl Drop for UnlinkedRecord<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.record {
            record.invalidate();
        }
    }
}
