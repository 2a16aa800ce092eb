//! Searches. A search starts at the index entry of its key, follows the chain through the read cache and the hot log in
//! memory, and continues on disk: in pages of the hot log, then in the cold tier (hash-protocol.md, "Positions of an
//! operation").

use std::sync::Arc;

use ecotone_substrate::{Result, storage};
use ecotone_sys::epoch::Pin;

use super::{
    Hash, cold,
    key::Key,
    log::{Address, HeaderKind, Link, PAGE, Record, RecordHeader, Segment},
    read_cache::CachedRecord,
};

/// The start of a search: plain values, which stay usable without the pin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// Records linked since are not below this address.
    pub(super) safe: Address,
    /// Addresses below are not in the chain.
    pub(super) begin: Address,
    /// The first record of the chain in the log.
    pub(super) hot: Link,
}

/// How far down a chain a search goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchDepth {
    /// BEGIN, at some time before the chain was read.
    pub(super) begin: Address,
    /// Records from BEGIN to here are not searched.
    pub(super) floor: Address,
}

impl SearchDepth {
    /// The whole chain.
    pub(super) fn whole(begin: Address) -> SearchDepth {
        SearchDepth { begin, floor: begin }
    }
}

/// The newest record of a key in a part of its chain.
#[derive(Debug, Clone, Copy)]
pub(super) enum Newest<'p> {
    /// It is in memory.
    Here(Address, Record<'p>),
    /// No record in memory; the chain continues on disk with this address.
    OnDisk(Address),
    /// The chain has no record of the key.
    Nowhere,
}

/// The result of a search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Where the search began.
    pub(super) start: Start,
    /// Where the newest record is.
    pub(super) place: FoundIn,
}

/// Where the newest record of a key was found.
#[derive(Debug, Clone, Copy)]
pub(super) enum FoundIn {
    /// In the hot log, in memory, with the header at the time when its value was copied.
    Memory(Address, RecordHeader),
    /// In a file, and in the read cache.
    Copy,
    /// In the hot log, on disk.
    Disk(HeaderKind),
    /// In a run, with a value.
    Cold,
    /// Nowhere.
    Nowhere,
}

impl Seen {
    /// Whether the key has a value.
    pub(super) fn has_value(&self) -> bool {
        match self.place {
            FoundIn::Memory(_, state) => state.kind() == HeaderKind::Value,
            FoundIn::Copy => true,
            FoundIn::Disk(kind) => kind == HeaderKind::Value,
            FoundIn::Cold => true,
            FoundIn::Nowhere => false,
        }
    }
}

/// An index entry as a search has read it. The first record of its chain has not been read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    safe: Address,
    begin: Address,
    link: Link,
}

/// A started search, with the read-cache entry of the key, if there is one. The pin keeps that entry in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartedSearch<'p> {
    pub(super) start: Start,
    copy: Option<CachedRecord<'p>>,
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

impl Hash {
    /// Reads the value of a key into a buffer, whose old content is dropped. False if the key has no value.
    pub(crate) fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let key = self.key(key);
        let seen = self.search(&key, value)?;
        self.remember(&key, &seen, value);
        Ok(seen.has_value())
    }

    /// Offers a value to the read cache and counts the miss, if a search has read it from a file.
    #[inline]
    pub(super) fn remember(&self, key: &Key<'_>, seen: &Seen, value: &[u8]) {
        if matches!(seen.place, FoundIn::Disk(HeaderKind::Value) | FoundIn::Cold) {
            self.memory_tuner.missed_read(key.hash);
            self.offer(key, &seen.start, value);
        }
    }

    /// Searches for a key in memory and on disk. Afterwards the buffer holds its value, or is empty if it has none.
    #[inline]
    pub(super) fn search(&self, key: &Key<'_>, value: &mut Vec<u8>) -> Result<Seen> {
        match self.search_memory(key, value) {
            Ok(seen) => Ok(seen),
            Err(beyond) => self.search_beyond(key, beyond, value),
        }
    }

    /// Searches for a key in memory. If it is not there, returns where the search began and where its chain continues
    /// on disk, if it does.
    #[inline]
    pub(super) fn search_memory(&self, key: &Key<'_>, value: &mut Vec<u8>) -> std::result::Result<Seen, EndOfMemory> {
        let pin = self.domain.pin();
        self.search_begun(key, &self.begin(key, &pin), &pin, value)
    }

    /// Continues a started search in memory. If the key is not there, returns where memory ended for it.
    #[inline]
    pub(super) fn search_begun(
        &self,
        key: &Key<'_>,
        begun: &StartedSearch<'_>,
        pin: &Pin<'_>,
        value: &mut Vec<u8>,
    ) -> std::result::Result<Seen, EndOfMemory> {
        let start = begun.start;
        if let Some(copy) = begun.copy {
            copy.read(value);
            return Ok(Seen { start, place: FoundIn::Copy });
        }
        self.go_on(key, start, start.hot.head(start.begin), pin, value)
    }

    /// The start of a search for the key now.
    pub(super) fn start(&self, key: &Key<'_>, pin: &Pin<'_>) -> Start {
        self.begin(key, pin).start
    }

    /// Starts a search for the key.
    #[inline]
    pub(super) fn begin<'p>(&'p self, key: &Key<'_>, pin: &'p Pin<'_>) -> StartedSearch<'p> {
        self.begin_from(key, self.head(key, pin), pin)
    }

    /// The index entry of the key.
    #[inline]
    pub(super) fn head(&self, key: &Key<'_>, pin: &Pin<'_>) -> Head {
        // The order matters: a record linked after the entry was read is above a SAFE that was read before.
        let (safe, begin) = (self.log.bounds().safe(), self.log.bounds().begin());
        let link = self.table.find(key.hash, pin).map_or(Link::NONE, |found| found.entry.link());
        Head { safe, begin, link }
    }

    /// Prefetches the record or the read-cache entry that a search reads first.
    #[inline]
    pub(super) fn prefetch(&self, head: &Head, pin: &Pin<'_>) {
        if head.link.is_cached() {
            self.read_cache.prefetch(head.link, pin);
        } else if let Some(record) = head.link.head(head.begin).and_then(|address| self.log.record(address, pin)) {
            record.prefetch();
        }
    }

    /// Starts a search for the key with an entry that was read under the pin.
    #[inline]
    pub(super) fn begin_from<'p>(&'p self, key: &Key<'_>, head: Head, pin: &'p Pin<'_>) -> StartedSearch<'p> {
        let met = self.read_cache.search(key.bytes, head.link, pin);
        StartedSearch { start: Start { safe: head.safe, begin: head.begin, hot: met.hot }, copy: met.copy }
    }

    /// Continues a search in memory from an address. The pin may be another than the one under which the search began.
    #[inline]
    pub(super) fn go_on(
        &self,
        key: &Key<'_>,
        start: Start,
        next: Option<Address>,
        pin: &Pin<'_>,
        value: &mut Vec<u8>,
    ) -> std::result::Result<Seen, EndOfMemory> {
        match self.newest_from(key, next, SearchDepth::whole(start.begin), pin) {
            Newest::Here(address, record) => Ok(Seen { start, place: FoundIn::Memory(address, record.read(value)) }),
            Newest::OnDisk(address) => Err(EndOfMemory { start, next: Some(address) }),
            Newest::Nowhere => Err(EndOfMemory { start, next: None }),
        }
    }

    /// The newest record of the key in a chain that begins at `link`.
    #[inline]
    pub(super) fn newest<'p>(&'p self, key: &Key<'_>, link: Link, reach: SearchDepth, pin: &'p Pin<'_>) -> Newest<'p> {
        self.newest_from(key, link.head(reach.begin), reach, pin)
    }

    #[inline]
    fn newest_from<'p>(
        &'p self,
        key: &Key<'_>,
        mut next: Option<Address>,
        reach: SearchDepth,
        pin: &'p Pin<'_>,
    ) -> Newest<'p> {
        while let Some(address) = next.filter(|address| *address >= reach.floor) {
            let Some(record) = self.log.record(address, pin) else { return Newest::OnDisk(address) };
            if record.has_key(key.bytes) {
                return Newest::Here(address, record);
            }
            next = record.link().address(reach.begin, address);
        }
        Newest::Nowhere
    }
}

/// Where memory ends for a search.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndOfMemory {
    start: Start,
    /// Where the chain continues on disk, if it does.
    next: Option<Address>,
}

impl Hash {
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
        let gone_on = self.search_memory(key, value);
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
            let partition = self.cold.partition(key.hash, &self.domain.pin());
            return Ok(in_cold(start, cold::Lookup::begin(partition, key.hash)?));
        };
        match self.log.segment(address) {
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
        if next.is_some_and(|next| next < self.log.bounds().begin()) {
            return Ok(Step::Again);
        }
        let gone_on = self.go_on(key, start, next, &self.domain.pin(), value);
        self.step(key, gone_on, value)
    }

    /// Returns the error if the address is still in the log; else the search starts again.
    fn unless_passed(&self, address: Address, error: ecotone_substrate::Error) -> Result<Step> {
        // BEGIN passes an address before its frame leaves memory, so a search that misses the frame sees the new BEGIN.
        if address < self.log.bounds().begin() { Ok(Step::Again) } else { Err(error) }
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
