//! Searches in the hot log: where one begins, and the newest record of a key in its chain (decision 10, "Positions of an operation").

use ecotone_substrate::Result;
use ecotone_sys::epoch::Pin;

use super::{
    Hash,
    key::Key,
    log::{Address, Kind, Link, Record, State},
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
    /// Nowhere.
    Nowhere,
}

impl Seen {
    /// Whether the key has a value.
    pub(super) fn has_value(&self) -> bool {
        match self.place {
            Place::Memory(_, state) => state.kind() == Kind::Value,
            Place::Copy => true,
            Place::Nowhere => false,
        }
    }
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
    /// None in memory, and the chain goes on.
    OnDisk,
    /// None.
    Nowhere,
}

/// Where a search begins, and the copy of the key's record, if there is one. The copy stays as long as the pin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun<'p> {
    pub(super) start: Start,
    copy: Option<CachedRecord<'p>>,
}

impl Hash {
    /// The value of a key, to a buffer that holds it and nothing else then. False if it has none.
    pub(crate) fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(self.search(&self.key(key), value)?.has_value())
    }

    /// Looks for a key everywhere. Its value is in the buffer then, which is empty if it has none.
    #[inline]
    pub(super) fn search(&self, key: &Key<'_>, value: &mut Vec<u8>) -> Result<Seen> {
        loop {
            let pin = self.domain.pin();
            if let Some(seen) = self.search_from(key, &self.begin(key, &pin), &pin, value) {
                return Ok(seen);
            }
        }
    }

    /// Goes on with a search that has begun. `None` if it has to begin again, since what it looks at has left the log meanwhile.
    #[inline]
    pub(super) fn search_from(&self, key: &Key<'_>, begun: &Begun<'_>, pin: &Pin<'_>, value: &mut Vec<u8>) -> Option<Seen> {
        let start = begun.start;
        if let Some(copy) = begun.copy {
            copy.read(value);
            return Some(Seen { start, place: Place::Copy });
        }
        let place = match self.newest(key, start.hot, Reach::whole(start.begin), pin) {
            Newest::Here(address, record) => Place::Memory(address, record.read(value)),
            Newest::OnDisk => return None,
            Newest::Nowhere => {
                value.clear();
                Place::Nowhere
            }
        };
        Some(Seen { start, place })
    }

    /// Where a search for the key begins now.
    pub(super) fn start(&self, key: &Key<'_>, pin: &Pin<'_>) -> Start {
        self.begin(key, pin).start
    }

    /// Begins a search for the key.
    #[inline]
    pub(super) fn begin<'p>(&'p self, key: &Key<'_>, pin: &'p Pin<'_>) -> Begun<'p> {
        // In this order: what is linked when the entry has been read is above a SAFE that was read before.
        let (safe, begin) = (self.log.bounds().safe(), self.log.bounds().begin());
        let link = self.table.find(key.hash, pin).map_or(Link::NONE, |found| found.entry.link());
        let met = self.copies.search(key.bytes, link, pin);
        Begun { start: Start { safe, begin, hot: met.hot }, copy: met.copy }
    }

    /// The newest record of the key in a chain that begins by `link`.
    #[inline]
    pub(super) fn newest<'p>(&'p self, key: &Key<'_>, link: Link, reach: Reach, pin: &'p Pin<'_>) -> Newest<'p> {
        let mut next = link.head(reach.begin);
        while let Some(address) = next.filter(|address| *address >= reach.floor) {
            let Some(record) = self.log.record(address, pin) else { return Newest::OnDisk };
            if record.has_key(key.bytes) {
                return Newest::Here(address, record);
            }
            next = record.link().address(reach.begin, address);
        }
        Newest::Nowhere
    }
}
