//! Searches in the hot log: where one begins, and the newest record of a key in its chain (decision 10, "Positions of an operation").

use ecotone_sys::epoch::Pin;

use super::{
    Hash,
    index::Entry,
    key::Key,
    log::{Address, Kind, Link, Record},
};

/// What a search goes by, also when its pin is gone: words alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// Whatever was linked since is not below.
    pub(super) safe: Address,
    /// What lies below is not in the chain.
    pub(super) begin: Address,
    /// The entry, if there is one.
    entry: Option<Entry>,
}

impl Start {
    /// The first record of the chain.
    pub(super) fn link(&self) -> Link {
        self.entry.map_or(Link::NONE, Entry::link)
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

impl Hash {
    /// The value of a key, to a buffer that holds it and nothing else then. False if it has none.
    pub(crate) fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        let (key, pin) = (self.key(key), self.domain.pin());
        let start = self.start(&key, &pin);
        self.read(&key, &start, &pin, value)
    }

    /// Where a search for the key begins now.
    #[inline]
    pub(super) fn start(&self, key: &Key<'_>, pin: &Pin<'_>) -> Start {
        // In this order: what is linked when the entry has been read is above a SAFE that was read before.
        let (safe, begin) = (self.log.bounds().safe(), self.log.bounds().begin());
        Start { safe, begin, entry: self.table.find(key.hash, pin).map(|found| found.entry) }
    }

    /// Reads the newest value that a search finds. False if there is none.
    #[inline]
    pub(super) fn read(&self, key: &Key<'_>, start: &Start, pin: &Pin<'_>, value: &mut Vec<u8>) -> bool {
        match self.newest(key, start.link(), Reach::whole(start.begin), pin) {
            Newest::Here(_, record) => record.read(value).kind() == Kind::Value,
            Newest::OnDisk => unreachable!("nothing leaves memory yet"),
            Newest::Nowhere => {
                value.clear();
                false
            }
        }
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
