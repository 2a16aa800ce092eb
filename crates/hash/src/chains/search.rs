//! Searches a chain in memory. A search starts at the index entry of its key and follows the chain through the read
//! cache and the hot log, as far as its records are in memory (hash-protocol.md, "Positions of an operation").

use ecotone_sys::epoch::Pin;

use super::Chains;
use crate::{
    key::Key,
    log::{Address, HeaderKind, Link, Record, RecordHeader},
    read_cache::CachedRecord,
};

/// The start of a search: plain values, which stay usable without the pin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// Records linked since are not below this address.
    pub(crate) safe: Address,
    /// Addresses below are not in the chain.
    pub(crate) begin: Address,
    /// The first record of the chain in the log.
    pub(crate) hot: Link,
}

/// How far down a chain a search goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchDepth {
    /// BEGIN, at some time before the chain was read.
    pub(crate) begin: Address,
    /// Records from BEGIN to here are not searched.
    pub(crate) floor: Address,
}

impl SearchDepth {
    /// The whole chain.
    pub(crate) fn whole(begin: Address) -> SearchDepth {
        SearchDepth { begin, floor: begin }
    }
}

/// The newest record of a key in a part of its chain.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Newest<'p> {
    /// It is in memory.
    Here(Address, Record<'p>),
    /// No record in memory; the chain continues on disk with this address.
    OnDisk(Address),
    /// The chain has no record of the key.
    Nowhere,
}

/// The result of a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// Where the search began.
    pub(crate) start: Start,
    /// Where the newest record is.
    pub(crate) place: FoundIn,
}

/// Where the newest record of a key was found.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FoundIn {
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
    pub(crate) fn has_value(&self) -> bool {
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
pub(crate) struct FoundEntry {
    safe: Address,
    begin: Address,
    link: Link,
}

/// A started search, with the read-cache entry of the key, if there is one. The pin keeps that entry in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartedSearch<'p> {
    pub(crate) start: Start,
    copy: Option<CachedRecord<'p>>,
}

/// Where memory ends for a search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndOfMemory {
    pub(crate) start: Start,
    /// Where the chain continues on disk, if it does.
    pub(crate) next: Option<Address>,
}

impl Chains {
    /// Searches for a key in memory. If it is not there, returns where the search began and where its chain continues
    /// on disk, if it does.
    #[inline]
    pub(crate) fn search_memory(&self, key: &Key<'_>, value: &mut Vec<u8>) -> Result<Seen, EndOfMemory> {
        let pin = self.domain.pin();
        self.search_begun(key, &self.begin(key, &pin), &pin, value)
    }

    /// Continues a started search in memory. If the key is not there, returns where memory ended for it.
    #[inline]
    pub(crate) fn search_begun(
        &self,
        key: &Key<'_>,
        begun: &StartedSearch<'_>,
        pin: &Pin<'_>,
        value: &mut Vec<u8>,
    ) -> Result<Seen, EndOfMemory> {
        let start = begun.start;
        if let Some(copy) = begun.copy {
            copy.read(value);
            return Ok(Seen { start, place: FoundIn::Copy });
        }
        self.go_on(key, start, start.hot.address_from(start.begin), pin, value)
    }

    /// The start of a search for the key now.
    pub(crate) fn start(&self, key: &Key<'_>, pin: &Pin<'_>) -> Start {
        self.begin(key, pin).start
    }

    /// Starts a search for the key.
    #[inline]
    pub(crate) fn begin<'p>(&'p self, key: &Key<'_>, pin: &'p Pin<'_>) -> StartedSearch<'p> {
        self.begin_from(key, self.entry(key, pin), pin)
    }

    /// The index entry of the key.
    #[inline]
    pub(crate) fn entry(&self, key: &Key<'_>, pin: &Pin<'_>) -> FoundEntry {
        // The order matters: a record linked after the entry was read is above a SAFE that was read before.
        let (safe, begin) = (self.log.bounds().safe(), self.log.bounds().begin());
        let link = self.index.find(key.hash, pin).map_or(Link::NONE, |found| found.entry.link());
        FoundEntry { safe, begin, link }
    }

    /// Prefetches the record or the read-cache entry that a search reads first.
    #[inline]
    pub(crate) fn prefetch(&self, entry: &FoundEntry, pin: &Pin<'_>) {
        if entry.link.is_cached() {
            self.read_cache.prefetch(entry.link, pin);
        } else if let Some(record) =
            entry.link.address_from(entry.begin).and_then(|address| self.log.record(address, pin))
        {
            record.prefetch();
        }
    }

    /// Starts a search for the key with an entry that was read under the pin.
    #[inline]
    pub(crate) fn begin_from<'p>(&'p self, key: &Key<'_>, entry: FoundEntry, pin: &'p Pin<'_>) -> StartedSearch<'p> {
        let met = self.read_cache.search(key.bytes, entry.link, pin);
        StartedSearch { start: Start { safe: entry.safe, begin: entry.begin, hot: met.hot }, copy: met.copy }
    }

    /// Continues a search in memory from an address. The pin may be another than the one under which the search began.
    #[inline]
    pub(crate) fn go_on(
        &self,
        key: &Key<'_>,
        start: Start,
        next: Option<Address>,
        pin: &Pin<'_>,
        value: &mut Vec<u8>,
    ) -> Result<Seen, EndOfMemory> {
        match self.newest_from(key, next, SearchDepth::whole(start.begin), pin) {
            Newest::Here(address, record) => Ok(Seen { start, place: FoundIn::Memory(address, record.read(value)) }),
            Newest::OnDisk(address) => Err(EndOfMemory { start, next: Some(address) }),
            Newest::Nowhere => Err(EndOfMemory { start, next: None }),
        }
    }

    /// The newest record of the key in a chain that begins at `link`.
    #[inline]
    pub(crate) fn newest<'p>(&'p self, key: &Key<'_>, link: Link, reach: SearchDepth, pin: &'p Pin<'_>) -> Newest<'p> {
        self.newest_from(key, link.address_from(reach.begin), reach, pin)
    }

    /// The oldest record of the key in a part of its chain, as far as memory has it, from its newest record on.
    pub(crate) fn oldest<'p>(
        &'p self,
        key: &Key<'_>,
        newest: (Address, Record<'p>),
        reach: SearchDepth,
        pin: &'p Pin<'_>,
    ) -> (Address, Record<'p>) {
        let (mut address, mut record) = newest;
        while let Newest::Here(at, older) =
            self.newest_from(key, record.link().address(reach.begin, address), reach, pin)
        {
            (address, record) = (at, older);
        }
        (address, record)
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
