//! What lives in a region of the hot log (decision 10, invariant 19).

use std::result;

use ecotone_substrate::{
    Result,
    codec::Malformed,
    memory::{Component, Memory},
    storage::Block,
};
use ecotone_sys::{chunk::Size, epoch::Pin, words::WORD};

use super::{
    Compactor, Region,
    copies::Copies,
    frames::Windows,
    install::Promised,
    record::Copied,
    sorter::{Reference, Sorter},
};
use crate::hash::{
    Hash,
    cold::record_bytes,
    key::Key,
    log::{Address, Kind, PAGE_HEADER, Page},
    lookup::{Newest, Reach},
};

/// What lives in a region.
#[derive(Debug)]
pub(super) struct Living {
    pub(super) region: Region,
    pub(super) references: Sorter,
    /// Copies of the records, by the places of the references; `None` if these are places in the log.
    pub(super) copies: Option<Copies>,
    /// Bytes that they need of a run's blocks, all together and the largest of them.
    pub(super) bytes: usize,
    pub(super) largest: usize,
}

impl Living {
    pub(super) fn new(region: Region, copies: Option<Copies>) -> Living {
        Living { region, references: Sorter::default(), copies, bytes: 0, largest: 0 }
    }

    fn push(&mut self, memory: &Memory, hash: u64, place: u64, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
        self.references.push(memory, Reference::new(hash, place))
    }
}

/// A record of a page in memory that lives.
struct Found {
    hash: u64,
    address: Address,
    bytes: usize,
}

impl Compactor<'_> {
    /// What lives in a region that is in memory. Its frames may leave meanwhile.
    pub(super) fn living_in_memory(&self, region: Region) -> Result<Living> {
        let (memory, promised) = (&self.environment.memory, self.promised());
        let (mut living, mut found, mut frame) = (Living::new(region, None), Vec::new(), None);
        for page in region.pages() {
            if !self.hash.judge(page, region.until, promised, &mut found) {
                self.with_page(page, &mut frame, |read| {
                    self.hash.judge_stored(read, region.until, promised, &mut found)
                })?;
            }
            for Found { hash, address, bytes } in found.drain(..) {
                self.hash.split.take(hash);
                living.push(memory, hash, region.place(address), bytes)?;
            }
        }
        Ok(living)
    }

    /// What lives from the beginning of a region on that is in segments, as much as there is room for, with copies of
    /// it. The region ends there.
    pub(super) fn living_on_disk(&self, region: Region) -> Result<Living> {
        let (memory, promised) = (&self.environment.memory, self.promised());
        let mut windows = Windows::new(self.environment, &self.hash.log, region)?;
        let (mut copies, mut living, mut found) = (Copies::default(), Living::new(region, None), Vec::new());
        while let Some(window) = windows.next()? {
            for page in window.pages() {
                let read = window.page(page)?;
                let judged = self.hash.judge_stored(&read, window.until(), promised, &mut found);
                judged.map_err(|e| window.damaged(page, e))?;
                for Found { hash, address, bytes } in found.drain(..) {
                    let stored = read.record(address).map_err(|e| window.damaged(page, e))?;
                    let place =
                        copies.push(memory, stored.key, (stored.kind == Kind::Value).then_some(stored.value))?;
                    self.hash.split.take(hash);
                    living.push(memory, hash, place, bytes)?;
                }
            }
            living.region.until = window.until();
            if copies.bytes() >= self.most_copies() {
                break;
            }
            windows.give_back(window);
        }
        living.copies = Some(copies);
        Ok(living)
    }

    /// Copies the record of a reference.
    pub(super) fn read(
        &self,
        living: &Living,
        reference: Reference,
        frame: &mut Option<Block>,
        copied: &mut Copied,
    ) -> Result<()> {
        if let Some(copies) = &living.copies {
            copies.read(reference.place(), copied);
            return Ok(());
        }
        let address = living.region.address(reference.place());
        if self.hash.copy(address, copied) {
            return Ok(());
        }
        self.with_page(address.page(), frame, |page| {
            let stored = page.record(address)?;
            copied.set(stored.key, (stored.kind == Kind::Value).then_some(stored.value));
            Ok(())
        })
    }

    /// Reads a page whose frame has left memory.
    pub(super) fn with_page(
        &self,
        page: Address,
        frame: &mut Option<Block>,
        look: impl FnOnce(&Page<'_>) -> result::Result<(), Malformed>,
    ) -> Result<()> {
        let frame = match frame {
            Some(frame) => frame,
            None => frame.insert(self.environment.memory.lease_essential(Component::Frames, Size::Frame)?),
        };
        let segment = self.hash.log.segment(page)?;
        segment.file().read(frame, segment.offset(page))?;
        look(&segment.parse(page, frame)?).map_err(|e| segment.damaged(page, e))
    }
}

impl Hash {
    /// Looks at the records of a page below SAFE, when all below `until` leaves the log. False, and nothing was found,
    /// if its frame has left memory.
    fn judge(&self, page: Address, until: Address, promised: Promised, found: &mut Vec<Found>) -> bool {
        let (pin, mut bytes) = (self.domain.pin(), Vec::new());
        for (address, record) in self.log.page(page, &pin) {
            // It is not locked but by who seals it, which changes nothing of this.
            let state = record.state();
            if state.kind() == Kind::Invalid {
                continue;
            }
            record.read_key(&mut bytes);
            let key = self.key(&bytes);
            if self.lives(&key, address, until, promised, &pin) {
                found.push(Found { hash: key.hash, address, bytes: record_bytes(state.key_len(), state.value_len()) });
            }
        }
        // Frames only leave: if it is still there, all of the page was.
        let there = self.log.record(page.plus(PAGE_HEADER), &pin).is_some();
        if !there {
            found.clear();
        }
        there
    }

    /// Looks at the records of a page of a segment.
    fn judge_stored(
        &self,
        page: &Page<'_>,
        until: Address,
        promised: Promised,
        found: &mut Vec<Found>,
    ) -> result::Result<(), Malformed> {
        let pin = self.domain.pin();
        for record in page.records() {
            let (address, stored) = record?;
            if stored.kind == Kind::Invalid {
                continue;
            }
            let key = self.key(stored.key);
            if self.lives(&key, address, until, promised, &pin) {
                let bytes = record_bytes(stored.key.len(), stored.value.len());
                found.push(Found { hash: key.hash, address, bytes });
            }
        }
        Ok(())
    }

    /// Whether a record has to be copied: no newer one is seen in memory, or that one may be lost.
    fn lives(&self, key: &Key<'_>, address: Address, until: Address, promised: Promised, pin: &Pin<'_>) -> bool {
        let start = self.start(key, pin);
        let reach = Reach { begin: start.begin, floor: address.plus(WORD as u64) };
        match self.newest(key, start.hot, reach, pin) {
            Newest::Here(newest, _) => !promised.lets_go(address, newest, until),
            // None, or in doubt.
            Newest::OnDisk(_) | Newest::Nowhere => true,
        }
    }

    /// Copies a record below SAFE. False if its frame has left memory.
    fn copy(&self, address: Address, copied: &mut Copied) -> bool {
        let pin = self.domain.pin();
        let Some(record) = self.log.record(address, &pin) else { return false };
        copied.fill(|key, value| {
            let state = record.read(value);
            record.read_key(key);
            state.kind() == Kind::Tombstone
        });
        true
    }
}
