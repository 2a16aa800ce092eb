//! Liveness: finds the live records in a region of the hot log by looking each one up in the index (hash-protocol.md,
//! invariant 19).

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
    frames::Windows,
    install::DurabilityPromise,
    record::RecordCopy,
    record_buffer::RecordBuffer,
    sorter::{Reference, Sorter},
};
use crate::{
    chains::{Newest, SearchDepth},
    cold::record_bytes,
    key::Key,
    log::{Address, HeaderKind, PAGE_HEADER, Page},
};

/// The live records of a region.
#[derive(Debug)]
pub(super) struct LiveRecords {
    pub(super) region: Region,
    pub(super) references: Sorter,
    /// Copies of the records, by the places of the references; `None` if places are addresses in the log.
    pub(super) copies: Option<RecordBuffer>,
    /// Bytes of the records in blocks of a run, in sum, and of the largest record.
    pub(super) bytes: usize,
    pub(super) largest: usize,
}

impl LiveRecords {
    pub(super) fn new(region: Region, copies: Option<RecordBuffer>) -> LiveRecords {
        LiveRecords { region, references: Sorter::default(), copies, bytes: 0, largest: 0 }
    }

    fn push(&mut self, memory: &Memory, hash: u64, place: u64, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
        self.references.push(memory, Reference::new(hash, place))
    }
}

/// A live record of a page.
struct Found {
    hash: u64,
    address: Address,
    bytes: usize,
}

impl Compactor<'_> {
    /// Finds the live records of a region in memory. Its frames may leave memory meanwhile.
    pub(super) fn live_in_memory(&self, region: Region) -> Result<LiveRecords> {
        let (memory, promised) = (&self.environment.memory, self.promised());
        let (mut living, mut found, mut frame) = (LiveRecords::new(region, None), Vec::new(), None);
        for page in region.pages() {
            if !self.judge(page, region.until, promised, &mut found) {
                self.with_page(page, &mut frame, |read| self.judge_stored(read, region.until, promised, &mut found))?;
            }
            for Found { hash, address, bytes } in found.drain(..) {
                self.hash.chains.memory_share.tuner.take(hash);
                living.push(memory, hash, region.place(address), bytes)?;
            }
        }
        Ok(living)
    }

    /// Finds the live records at the beginning of a region in segments, as many as there is memory for, and copies
    /// them. The returned region ends there.
    pub(super) fn live_on_disk(&self, region: Region) -> Result<LiveRecords> {
        let (memory, promised) = (&self.environment.memory, self.promised());
        let mut windows = Windows::new(self.environment, &self.hash.chains.log, region)?;
        let (mut copies, mut living, mut found) = (RecordBuffer::default(), LiveRecords::new(region, None), Vec::new());
        while let Some(window) = windows.next()? {
            for page in window.pages() {
                let read = window.page(page)?;
                let judged = self.judge_stored(&read, window.until(), promised, &mut found);
                judged.map_err(|e| window.damaged(page, e))?;
                for Found { hash, address, bytes } in found.drain(..) {
                    let stored = read.record(address).map_err(|e| window.damaged(page, e))?;
                    let place =
                        copies.push(memory, stored.key, (stored.kind == HeaderKind::Value).then_some(stored.value))?;
                    self.hash.chains.memory_share.tuner.take(hash);
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
        living: &LiveRecords,
        reference: Reference,
        frame: &mut Option<Block>,
        copied: &mut RecordCopy,
    ) -> Result<()> {
        if let Some(copies) = &living.copies {
            copies.read(reference.place(), copied);
            return Ok(());
        }
        let address = living.region.address(reference.place());
        if self.copy(address, copied) {
            return Ok(());
        }
        self.with_page(address.page(), frame, |page| {
            let stored = page.record(address)?;
            copied.set(stored.key, (stored.kind == HeaderKind::Value).then_some(stored.value));
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
        let segment = self.hash.chains.log.segment(page)?;
        segment.file().read(frame, segment.offset(page))?;
        look(&segment.parse(page, frame)?).map_err(|e| segment.damaged(page, e))
    }

    /// Finds the live records of a page below SAFE, when all below `until` leaves the log. Returns false and finds
    /// nothing if the frame has left memory.
    fn judge(&self, page: Address, until: Address, promised: DurabilityPromise, found: &mut Vec<Found>) -> bool {
        let (pin, mut bytes) = (self.hash.chains.domain.pin(), Vec::new());
        for (address, record) in self.hash.chains.log.page(page, &pin) {
            // Below SAFE a record is locked only to be sealed, which changes nothing that is read here.
            let state = record.state();
            if state.kind() == HeaderKind::Invalid {
                continue;
            }
            record.read_key(&mut bytes);
            let key = self.hash.chains.key(&bytes);
            if self.is_live(&key, address, until, promised, &pin) {
                found.push(Found { hash: key.hash, address, bytes: record_bytes(state.key_len(), state.value_len()) });
            }
        }
        // Frames only leave: if the frame is still there, the whole page was.
        let there = self.hash.chains.log.record(page.plus(PAGE_HEADER), &pin).is_some();
        if !there {
            found.clear();
        }
        there
    }

    /// Finds the live records of a page that was read from a segment.
    fn judge_stored(
        &self,
        page: &Page<'_>,
        until: Address,
        promised: DurabilityPromise,
        found: &mut Vec<Found>,
    ) -> result::Result<(), Malformed> {
        let pin = self.hash.chains.domain.pin();
        for record in page.records() {
            let (address, stored) = record?;
            if stored.kind == HeaderKind::Invalid {
                continue;
            }
            let key = self.hash.chains.key(stored.key);
            if self.is_live(&key, address, until, promised, &pin) {
                let bytes = record_bytes(stored.key.len(), stored.value.len());
                found.push(Found { hash: key.hash, address, bytes });
            }
        }
        Ok(())
    }

    /// Whether a record is live: memory has no newer record of the key, or only one that may be lost.
    fn is_live(
        &self,
        key: &Key<'_>,
        address: Address,
        until: Address,
        promised: DurabilityPromise,
        pin: &Pin<'_>,
    ) -> bool {
        let start = self.hash.chains.start(key, pin);
        let reach = SearchDepth { begin: start.begin, floor: address.plus(WORD as u64) };
        match self.hash.chains.newest(key, start.hot, reach, pin) {
            Newest::Here(newest, _) => !promised.may_drop(address, newest, until),
            // There is none in memory, or none is known.
            Newest::OnDisk(_) | Newest::Nowhere => true,
        }
    }

    /// Copies a record below SAFE. False if its frame has left memory.
    fn copy(&self, address: Address, copied: &mut RecordCopy) -> bool {
        let pin = self.hash.chains.domain.pin();
        let Some(record) = self.hash.chains.log.record(address, &pin) else { return false };
        copied.fill(|key, value| {
            let state = record.read(value);
            record.read_key(key);
            state.kind() == HeaderKind::Tombstone
        });
        true
    }
}
