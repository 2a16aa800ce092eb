//! Searches: where one begins, the newest record of a key in a chain, and what is read where memory ends (decision 10,
//! "Positions of an operation").

use std::sync::Arc;

use ecotone_substrate::{Result, storage};
use ecotone_sys::epoch::Pin;

use super::{
    Hash, cold,
    key::Key,
    log::{Address, Kind, Link, PAGE, Record, Segment, State},
    read_cache::CachedRecord,
};

/// What a search goes by, also when its pin is gone: words alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// Whatever was linked since is not below.
    pub(super) safe: Address,
    /// What lies below is not in the chain.
    pub(super) begin: Address,
    /// The first record of the chain in the log.
    pub(super) hot: Link,
}

/// How far down a chain is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// BEGIN, at some time before the chain was read.
    pub(super) begin: Address,
    /// What is below, and not below BEGIN, is not looked at.
    pub(super) floor: Address,
}

impl Reach {
    /// To its end.
    pub(super) fn whole(begin: Address) -> Reach {
        Reach { begin, floor: begin }
    }
}

/// The newest record of a key in a part of its chain.
#[derive(Debug, Clone, Copy)]
pub(super) enum Newest<'p> {
    /// In memory.
    Here(Address, Record<'p>),
    /// None in memory, and the chain goes on with this one.
    OnDisk(Address),
    /// None.
    Nowhere,
}

/// What a search came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Where it began.
    pub(super) start: Start,
    /// Where the newest record is.
    pub(super) place: Place,
}

/// Where the newest record of a key was found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// In the hot log, in memory, and what it was when its value was copied.
    Memory(Address, State),
    /// In a file; a copy of it is in memory.
    Copy,
    /// In the hot log, on disk.
    Disk(Kind),
    /// In a run, with a value.
    Cold,
    /// Nowhere.
    Nowhere,
}

impl Seen {
    /// Whether the key has a value.
    pub(super) fn has_value(&self) -> bool {
        match self.place {
            Place::Memory(_, state) => state.kind() == Kind::Value,
            Place::Copy => true,
            Place::Disk(kind) => kind == Kind::Value,
            Place::Cold => true,
            Place::Nowhere => false,
        }
    }
}

/// An entry of the index as a search has read it: what its chain begins with has not been looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    safe: Address,
    begin: Address,
    link: Link,
}

/// Where a search begins, and the copy of the key's record, if there is one. The copy stays as long as the pin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun<'p> {
    pub(super) start: Start,
    copy: Option<CachedRecord<'p>>,
}

/// A search that is beyond memory. It holds neither pin nor lock nor frame; the file that it wants to read stays as
/// long as it does.
#[derive(Debug)]
pub(super) struct Lookup {
    start: Start,
    wants: Wants,
}

/// What is to be read.
#[derive(Debug)]
enum Wants {
    /// The page of a record in the hot log.
    Page(Arc<Segment>, Address),
    /// A block of a run.
    Block(cold::Lookup),
}

/// How a search goes on.
#[derive(Debug)]
pub(super) enum Step {
    /// It has ended. The value is in the buffer.
    Ended(Seen),
    /// When this was read.
    Reads(Lookup),
    /// From its beginning, since what it would look at has left the log (trap 7).
    Again,
}

impl Lookup {
    /// What is to be read: a file, the offset there, and how many bytes.
    pub(super) fn wanted(&self) -> (&Arc<dyn storage::File>, u64, usize) {
        match &self.wants {
            Wants::Page(segment, address) => (segment.file(), segment.offset(address.page()), PAGE as usize),
            Wants::Block(lookup) => lookup.wanted(),
        }
    }

    /// Reads it.
    fn read(&self, block: &mut storage::Block) -> Result<()> {
        let (file, offset, len) = self.wanted();
        file.read(&mut block[..len], offset)
    }
}

impl Hash {
    /// The value of a key, to a buffer that holds it and nothing else then. False if it has none.
    pub(crate) fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let key = self.key(key);
        let seen = self.search(&key, value)?;
        self.remember(&key, &seen, value);
        Ok(seen.has_value())
    }

    /// Offers a value to the read cache, if a search has read it from a file, and counts that.
    #[inline]
    pub(super) fn remember(&self, key: &Key<'_>, seen: &Seen, value: &[u8]) {
        if matches!(seen.place, Place::Disk(Kind::Value) | Place::Cold) {
            self.split.missed_read(key.hash);
            self.offer(key, &seen.start, value);
        }
    }

    /// Looks for a key everywhere. Its value is in the buffer then, which is empty if it has none.
    #[inline]
    pub(super) fn search(&self, key: &Key<'_>, value: &mut Vec<u8>) -> Result<Seen> {
        match self.search_memory(key, value) {
            Ok(seen) => Ok(seen),
            Err(beyond) => self.search_beyond(key, beyond, value),
        }
    }

    /// Looks for a key in memory. If it is not there: where the search began, and where its chain goes on, if it does.
    #[inline]
    pub(super) fn search_memory(&self, key: &Key<'_>, value: &mut Vec<u8>) -> std::result::Result<Seen, Beyond> {
        let pin = self.domain.pin();
        self.search_begun(key, &self.begin(key, &pin), &pin, value)
    }

    /// Goes on with a search that has begun, in memory. If the key is not there: where memory has ended for it.
    #[inline]
    pub(super) fn search_begun(
        &self,
        key: &Key<'_>,
        begun: &Begun<'_>,
        pin: &Pin<'_>,
        value: &mut Vec<u8>,
    ) -> std::result::Result<Seen, Beyond> {
        let start = begun.start;
        if let Some(copy) = begun.copy {
            copy.read(value);
            return Ok(Seen { start, place: Place::Copy });
        }
        self.go_on(key, start, start.hot.head(start.begin), pin, value)
    }

    /// Where a search for the key begins now.
    pub(super) fn start(&self, key: &Key<'_>, pin: &Pin<'_>) -> Start {
        self.begin(key, pin).start
    }

    /// Begins a search for the key.
    #[inline]
    pub(super) fn begin<'p>(&'p self, key: &Key<'_>, pin: &'p Pin<'_>) -> Begun<'p> {
        self.begin_from(key, self.head(key, pin), pin)
    }

    /// What the index has for the key.
    #[inline]
    pub(super) fn head(&self, key: &Key<'_>, pin: &Pin<'_>) -> Head {
        // In this order: what is linked when the entry has been read is above a SAFE that was read before.
        let (safe, begin) = (self.log.bounds().safe(), self.log.bounds().begin());
        let link = self.table.find(key.hash, pin).map_or(Link::NONE, |found| found.entry.link());
        Head { safe, begin, link }
    }

    /// Asks for the record or the copy that a search will look at first.
    #[inline]
    pub(super) fn prefetch(&self, head: &Head, pin: &Pin<'_>) {
        if head.link.is_copy() {
            self.copies.prefetch(head.link, pin);
        } else if let Some(record) = head.link.head(head.begin).and_then(|address| self.log.record(address, pin)) {
            record.prefetch();
        }
    }

    /// Begins a search for the key with an entry that was read under the pin.
    #[inline]
    pub(super) fn begin_from<'p>(&'p self, key: &Key<'_>, head: Head, pin: &'p Pin<'_>) -> Begun<'p> {
        let met = self.copies.search(key.bytes, head.link, pin);
        Begun { start: Start { safe: head.safe, begin: head.begin, hot: met.hot }, copy: met.copy }
    }

    /// Goes on with a chain in memory, from an address on. The pin may be another than the one under which the search
    /// began.
    #[inline]
    pub(super) fn go_on(
        &self,
        key: &Key<'_>,
        start: Start,
        next: Option<Address>,
        pin: &Pin<'_>,
        value: &mut Vec<u8>,
    ) -> std::result::Result<Seen, Beyond> {
        match self.newest_from(key, next, Reach::whole(start.begin), pin) {
            Newest::Here(address, record) => Ok(Seen { start, place: Place::Memory(address, record.read(value)) }),
            Newest::OnDisk(address) => Err(Beyond { start, next: Some(address) }),
            Newest::Nowhere => Err(Beyond { start, next: None }),
        }
    }

    /// The newest record of the key in a chain that begins by `link`.
    #[inline]
    pub(super) fn newest<'p>(&'p self, key: &Key<'_>, link: Link, reach: Reach, pin: &'p Pin<'_>) -> Newest<'p> {
        self.newest_from(key, link.head(reach.begin), reach, pin)
    }

    #[inline]
    fn newest_from<'p>(
        &'p self,
        key: &Key<'_>,
        mut next: Option<Address>,
        reach: Reach,
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
pub(super) struct Beyond {
    start: Start,
    /// Where the chain goes on, if it does.
    next: Option<Address>,
}

impl Hash {
    /// Looks for a key beyond memory, one request after the other.
    #[cold]
    pub(super) fn search_beyond(&self, key: &Key<'_>, beyond: Beyond, value: &mut Vec<u8>) -> Result<Seen> {
        let mut step = self.leave_memory(key, beyond, value)?;
        let mut block = None;
        loop {
            step = match step {
                Step::Ended(seen) => return Ok(seen),
                Step::Again => self.begin_again(key, value)?,
                Step::Reads(lookup) => {
                    let block = match &mut block {
                        Some(block) => block,
                        None => block.insert(self.room.frame()?),
                    };
                    lookup.read(block)?;
                    self.resume(key, lookup, block, value)?
                }
            }
        }
    }

    /// Looks for a key once more, since a truncation has passed what the search would have looked at.
    pub(super) fn begin_again(&self, key: &Key<'_>, value: &mut Vec<u8>) -> Result<Step> {
        let gone_on = self.search_memory(key, value);
        self.step(key, gone_on, value)
    }

    fn step(&self, key: &Key<'_>, gone_on: std::result::Result<Seen, Beyond>, value: &mut Vec<u8>) -> Result<Step> {
        gone_on.map_or_else(|beyond| self.leave_memory(key, beyond, value), |seen| Ok(Step::Ended(seen)))
    }

    /// What a search wants to read where memory has ended.
    pub(super) fn leave_memory(&self, key: &Key<'_>, beyond: Beyond, value: &mut Vec<u8>) -> Result<Step> {
        let Beyond { start, next } = beyond;
        let Some(address) = next else {
            value.clear();
            // Later than BEGIN of the start: what has left the log before that is here (invariant 22).
            let partition = self.cold.partition(key.hash, &self.domain.pin());
            return Ok(in_cold(start, cold::Lookup::begin(partition, key.hash)?));
        };
        match self.log.segment(address) {
            Ok(segment) => Ok(Step::Reads(Lookup { start, wants: Wants::Page(segment, address) })),
            Err(error) => self.unless_passed(address, error),
        }
    }

    /// Goes on with what was read.
    pub(super) fn resume(&self, key: &Key<'_>, lookup: Lookup, read: &[u8], value: &mut Vec<u8>) -> Result<Step> {
        let start = lookup.start;
        let (segment, address) = match lookup.wants {
            Wants::Page(segment, address) => (segment, address),
            Wants::Block(lookup) => {
                // Other searches may share the buffer.
                value.clear();
                return Ok(in_cold(start, lookup.resume(key.bytes, read, value)?));
            }
        };
        let page = segment.parse(address.page(), read);
        let record = page.and_then(|page| page.linked(address).map_err(|e| segment.damaged(address.page(), e)));
        let stored = match record {
            Ok(stored) => stored,
            // It may never have been written.
            Err(error) => return self.unless_passed(address, error),
        };
        if stored.key == key.bytes {
            value.clear();
            value.extend_from_slice(stored.value);
            return Ok(Step::Ended(Seen { start, place: Place::Disk(stored.kind) }));
        }
        let next = stored.link.address(start.begin, address);
        if next.is_some_and(|next| next < self.log.bounds().begin()) {
            return Ok(Step::Again);
        }
        let gone_on = self.go_on(key, start, next, &self.domain.pin(), value);
        self.step(key, gone_on, value)
    }

    /// An error at an address, if that is still in the log.
    fn unless_passed(&self, address: Address, error: ecotone_substrate::Error) -> Result<Step> {
        // BEGIN passes an address before its frame leaves memory, so who misses the frame sees that.
        if address < self.log.bounds().begin() { Ok(Step::Again) } else { Err(error) }
    }
}

/// What a search has come to in the cold tier.
fn in_cold(start: Start, step: cold::Step) -> Step {
    match step {
        cold::Step::Reads(lookup) => Step::Reads(Lookup { start, wants: Wants::Block(lookup) }),
        cold::Step::Ended(true) => Step::Ended(Seen { start, place: Place::Cold }),
        cold::Step::Ended(false) => Step::Ended(Seen { start, place: Place::Nowhere }),
    }
}
