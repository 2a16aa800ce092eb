//! Searches through all places of a record: in memory along the chain of its key, then on disk, in pages of the hot log
//! and in the cold tier. A search on disk is a sequence of steps, each with one read, so that a thread can have many
//! searches in flight (hash-protocol.md, "Positions of an operation").

use std::sync::Arc;

use ecotone_substrate::{Result, storage};

use super::{
    chains::{Chains, EndOfMemory, FoundIn, Seen, Start},
    cold::{self, Tier},
    key::Key,
    log::{Address, PAGE, Segment},
    reservations::Reservations,
};

/// Searches for keys in memory and on disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Searcher<'h> {
    pub(super) chains: &'h Chains,
    pub(super) cold: &'h Tier,
    pub(super) reservations: &'h Reservations,
}

/// A search that continues on disk. It holds neither pin nor lock nor frame; it keeps the file that it reads open.
#[derive(Debug)]
pub(super) struct Lookup {
    start: Start,
    wants: PendingRead,
}

/// The next read of a search.
#[derive(Debug)]
enum PendingRead {
    /// The page of a record in the hot log.
    Page(Arc<Segment>, Address),
    /// A block of a run.
    Block(cold::Lookup),
}

/// The next step of a search.
#[derive(Debug)]
pub(super) enum Step {
    /// The search has ended. The value is in the buffer.
    Ended(Seen),
    /// The search continues after this read.
    Reads(Lookup),
    /// The search starts again, since the record that it would read has left the log (trap 7).
    Again,
}

impl Lookup {
    /// The next read: a file, the offset there, and the number of bytes.
    pub(super) fn wanted(&self) -> (&Arc<dyn storage::File>, u64, usize) {
        match &self.wants {
            PendingRead::Page(segment, address) => (segment.file(), segment.offset(address.page()), PAGE as usize),
            PendingRead::Block(lookup) => lookup.wanted(),
        }
    }

    /// Does the read.
    fn read(&self, block: &mut storage::Block) -> Result<()> {
        let (file, offset, len) = self.wanted();
        file.read(&mut block[..len], offset)
    }
}

impl Searcher<'_> {
    /// Searches for a key in memory and on disk. Afterwards the buffer holds its value, or is empty if it has none.
    #[inline]
    pub(super) fn search(&self, key: &Key<'_>, value: &mut Vec<u8>) -> Result<Seen> {
        match self.chains.search_memory(key, value) {
            Ok(seen) => Ok(seen),
            Err(beyond) => self.search_beyond(key, beyond, value),
        }
    }

    /// Continues a search on disk, one request after the other.
    #[cold]
    pub(super) fn search_beyond(&self, key: &Key<'_>, beyond: EndOfMemory, value: &mut Vec<u8>) -> Result<Seen> {
        let mut step = self.leave_memory(key, beyond, value)?;
        let mut block = None;
        loop {
            step = match step {
                Step::Ended(seen) => return Ok(seen),
                Step::Again => self.begin_again(key, value)?,
                Step::Reads(lookup) => {
                    let block = match &mut block {
                        Some(block) => block,
                        None => block.insert(self.reservations.frame()?),
                    };
                    lookup.read(block)?;
                    self.resume(key, lookup, block, value)?
                }
            }
        }
    }

    /// Starts a search again, since a truncation has passed the record that it would have read.
    pub(super) fn begin_again(&self, key: &Key<'_>, value: &mut Vec<u8>) -> Result<Step> {
        let gone_on = self.chains.search_memory(key, value);
        self.step(key, gone_on, value)
    }

    fn step(
        &self,
        key: &Key<'_>,
        gone_on: std::result::Result<Seen, EndOfMemory>,
        value: &mut Vec<u8>,
    ) -> Result<Step> {
        gone_on.map_or_else(|beyond| self.leave_memory(key, beyond, value), |seen| Ok(Step::Ended(seen)))
    }

    /// The first read of a search whose memory part has ended.
    pub(super) fn leave_memory(&self, key: &Key<'_>, beyond: EndOfMemory, value: &mut Vec<u8>) -> Result<Step> {
        let EndOfMemory { start, next } = beyond;
        let Some(address) = next else {
            value.clear();
            // The partition is read after BEGIN of the start, so it holds whatever left the log before that (invariant
            // 22).
            let partition = self.cold.partition(key.hash, &self.chains.domain.pin());
            return Ok(in_cold(start, cold::Lookup::begin(partition, key.hash)?));
        };
        match self.chains.log.segment(address) {
            Ok(segment) => Ok(Step::Reads(Lookup { start, wants: PendingRead::Page(segment, address) })),
            Err(error) => self.unless_passed(address, error),
        }
    }

    /// Continues a search with the bytes that it has read.
    pub(super) fn resume(&self, key: &Key<'_>, lookup: Lookup, read: &[u8], value: &mut Vec<u8>) -> Result<Step> {
        let start = lookup.start;
        let (segment, address) = match lookup.wants {
            PendingRead::Page(segment, address) => (segment, address),
            PendingRead::Block(lookup) => {
                // Other searches may share the buffer.
                value.clear();
                return Ok(in_cold(start, lookup.resume(key.bytes, read, value)?));
            }
        };
        let page = segment.parse(address.page(), read);
        let record = page.and_then(|page| page.linked(address).map_err(|e| segment.damaged(address.page(), e)));
        let stored = match record {
            Ok(stored) => stored,
            // The page may never have been written.
            Err(error) => return self.unless_passed(address, error),
        };
        if stored.key == key.bytes {
            value.clear();
            value.extend_from_slice(stored.value);
            return Ok(Step::Ended(Seen { start, place: FoundIn::Disk(stored.kind) }));
        }
        let next = stored.link.address(start.begin, address);
        if next.is_some_and(|next| next < self.chains.log.bounds().begin()) {
            return Ok(Step::Again);
        }
        let gone_on = self.chains.go_on(key, start, next, &self.chains.domain.pin(), value);
        self.step(key, gone_on, value)
    }

    /// Returns the error if the address is still in the log; else the search starts again.
    fn unless_passed(&self, address: Address, error: ecotone_substrate::Error) -> Result<Step> {
        // BEGIN passes an address before its frame leaves memory, so a search that misses the frame sees the new BEGIN.
        if address < self.chains.log.bounds().begin() { Ok(Step::Again) } else { Err(error) }
    }
}

/// Converts a step of the cold tier.
fn in_cold(start: Start, step: cold::Step) -> Step {
    match step {
        cold::Step::Reads(lookup) => Step::Reads(Lookup { start, wants: PendingRead::Block(lookup) }),
        cold::Step::Ended(true) => Step::Ended(Seen { start, place: FoundIn::Cold }),
        cold::Step::Ended(false) => Step::Ended(Seen { start, place: FoundIn::Nowhere }),
    }
}
