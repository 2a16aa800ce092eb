//! The hot log in memory (H1): records that are allocated at the end, changed in place while they are young, and frozen when they are older (decision 10, "The record"
//! and "Allocation, closing, shifting, evicting").

mod address;
mod bounds;
mod frames;
mod record;
mod state;
mod tail;
#[cfg(test)]
pub(in crate::hash) mod tests;

use std::{iter, sync::Arc};

use ecotone_sys::{
    chunk::Block,
    epoch::{Domain, Pin},
};

pub(crate) use self::{
    address::{Address, FRAME, Link, MAX_LOG, PAGE, PAGE_HEADER},
    record::Record,
    state::{Kind, State},
};
use self::{bounds::Bounds, frames::Frames, tail::Tail};

/// The log of one keyspace.
#[derive(Debug)]
pub(crate) struct HotLog {
    domain: Arc<Domain>,
    bounds: Arc<Bounds>,
    tail: Tail,
    frames: Frames,
}

impl HotLog {
    /// A log that begins and ends at page boundary `at`, with room for so many frames in memory, a power of two.
    pub(crate) fn new(domain: &Arc<Domain>, at: Address, frames: usize) -> HotLog {
        let frames = Frames::new(domain, frames);
        HotLog { domain: domain.clone(), bounds: Bounds::new(at), tail: Tail::new(at), frames }
    }

    /// Its positions but TAIL.
    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// TAIL: what has been given out lies below.
    pub(crate) fn tail(&self) -> Address {
        self.tail.get()
    }

    /// The block becomes frame `number`, up to whose end the log may grow from now on. One thread at a time lets frames in, in order.
    /// The block itself if the frame that is in the way has not left.
    pub(crate) fn enter(&self, number: u64, block: Block) -> Result<(), Block> {
        self.frames.enter(number, block)?;
        self.tail.cover(Address::new((number + 1) * FRAME));
        Ok(())
    }

    /// Lets the block in as the next frame, as [`enter`](Self::enter) does.
    pub(crate) fn grow(&self, block: Block) -> Result<(), Block> {
        self.enter(self.tail.covered().frame(), block)
    }

    /// Whether frames are there for a record of so many bytes, wherever the log ends in its page.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        // What it does not fit into is less than itself, and before it is the header of a page.
        self.tail.covered().get() - self.tail().get().min(self.tail.covered().get()) >= 2 * bytes + PAGE_HEADER
    }

    /// Gives out the place of a record and fills it. `None` if no frame is there for it.
    pub(crate) fn allocate<'p>(&'p self, key: &[u8], value: Option<&[u8]>, pin: &'p Pin<'_>) -> Option<Raw<'p>> {
        let capacity = Record::capacity_for(key.len() + value.map_or(0, <[u8]>::len));
        let address = self.tail.allocate(Record::bytes(capacity))?;
        let record =
            self.record(address, pin).expect("TAIL enters a frame when it is in the ring, and what is pinned above SAFE stays");
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

    /// Frames wholly below `until`, which is not above SAFE, leave memory. `then` gets each block when nobody looks at it any more.
    /// One thread at a time lets frames out.
    pub(crate) fn evict(&self, until: Address, then: impl Fn(Block) + Clone + Send + 'static) {
        let from = self.bounds.head().frame();
        self.bounds.raise_head(until);
        (from..until.frame()).for_each(|number| self.frames.leave(number, then.clone()));
    }

    /// What lies below `until`, which is not above HEAD, is not in the log any more.
    pub(crate) fn truncate(&self, until: Address) {
        self.bounds.raise_begin(until, &self.domain);
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
