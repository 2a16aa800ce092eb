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
    dropped::DroppedRecords,
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
    log::{Address, HeaderKind, PAGE_HEADER, Page, Record},
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
    /// The records of the region that are not live.
    pub(super) dropped: DroppedRecords,
}

impl LiveRecords {
    pub(super) fn new(region: Region, copies: Option<RecordBuffer>) -> LiveRecords {
        let (references, dropped) = Default::default();
        LiveRecords { region, references, copies, bytes: 0, largest: 0, dropped }
    }

    fn push(&mut self, memory: &Memory, hash: u64, place: u64, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
        self.references.push(memory, Reference::new(hash, place))
    }
}

/// The records of a page, judged.
#[derive(Default)]
struct JudgedPage {
    live: Vec<Found>,
    dropped: DroppedRecords,
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
        let (mut living, mut judged, mut frame) = (LiveRecords::new(region, None), JudgedPage::default(), None);
        for page in region.pages() {
            if !self.judge(page, region.until, promised, &mut judged) {
                self.with_page(page, &mut frame, |read| self.judge_stored(read, region.until, promised, &mut judged))?;
            }
            for Found { hash, address, bytes } in judged.live.drain(..) {
                self.hash.chains.memory_share.tuner.take(hash);
                living.push(memory, hash, region.place(address), bytes)?;
            }
        }
        living.dropped = judged.dropped;
        Ok(living)
    }

    /// Finds the live records at the beginning of a region in segments, as many as there is memory for, and copies
    /// them. The returned region ends there.
    pub(super) fn live_on_disk(&self, region: Region) -> Result<LiveRecords> {
        let (memory, promised) = (&self.environment.memory, self.promised());
        let mut windows = Windows::new(self.environment, &self.hash.chains.log, region)?;
        let (mut copies, mut judged) = (RecordBuffer::default(), JudgedPage::default());
        let mut living = LiveRecords::new(region, None);
        while let Some(window) = windows.next()? {
            for page in window.pages() {
                let read = window.page(page)?;
                let is_sound = self.judge_stored(&read, window.until(), promised, &mut judged);
                is_sound.map_err(|e| window.damaged(page, e))?;
                for Found { hash, address, bytes } in judged.live.drain(..) {
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
        living.dropped = judged.dropped;
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
    fn judge(&self, page: Address, until: Address, promised: DurabilityPromise, judged: &mut JudgedPage) -> bool {
        let (pin, mut bytes, mut value) = (self.hash.chains.domain.pin(), Vec::new(), Vec::new());
        let before = judged.dropped.len();
        for (address, record) in self.hash.chains.log.page(page, &pin) {
            // Below SAFE a record is locked only to be sealed, which changes nothing that is read here.
            let state = record.state();
            if state.kind() == HeaderKind::Invalid {
                continue;
            }
            record.read_key(&mut bytes);
            let key = self.hash.chains.key(&bytes);
            if let Some(newest) = self.superseding(&key, address, until, promised, &pin) {
                let old = (record.read(&mut value).kind() == HeaderKind::Value).then_some(&value[..]);
                let younger = || self.younger(&key, address, newest, &pin);
                self.add_dropped(&mut judged.dropped, (address, key.bytes, old), younger);
            } else {
                let bytes = record_bytes(state.key_len(), state.value_len());
                judged.live.push(Found { hash: key.hash, address, bytes });
            }
        }
        // Frames only leave: if the frame is still there, the whole page was.
        let there = self.hash.chains.log.record(page.plus(PAGE_HEADER), &pin).is_some();
        if !there {
            judged.live.clear();
            judged.dropped.truncate(before);
        }
        there
    }

    /// Finds the live records of a page that was read from a segment.
    fn judge_stored(
        &self,
        page: &Page<'_>,
        until: Address,
        promised: DurabilityPromise,
        judged: &mut JudgedPage,
    ) -> result::Result<(), Malformed> {
        let pin = self.hash.chains.domain.pin();
        for record in page.records() {
            let (address, stored) = record?;
            if stored.kind == HeaderKind::Invalid {
                continue;
            }
            let key = self.hash.chains.key(stored.key);
            if let Some(newest) = self.superseding(&key, address, until, promised, &pin) {
                let old = (stored.kind == HeaderKind::Value).then_some(stored.value);
                let younger = || self.younger(&key, address, newest, &pin);
                self.add_dropped(&mut judged.dropped, (address, key.bytes, old), younger);
            } else {
                let bytes = record_bytes(stored.key.len(), stored.value.len());
                judged.live.push(Found { hash: key.hash, address, bytes });
            }
        }
        Ok(())
    }

    /// The newest record of a key, for which the record at an address may be dropped. `None` if that one is live:
    /// memory has no newer record, or only one that may be lost.
    fn superseding<'p>(
        &'p self,
        key: &Key<'_>,
        address: Address,
        until: Address,
        promised: DurabilityPromise,
        pin: &'p Pin<'_>,
    ) -> Option<(Address, Record<'p>)> {
        let start = self.hash.chains.start(key, pin);
        let reach = SearchDepth { begin: start.begin, floor: address.plus(WORD as u64) };
        match self.hash.chains.newest(key, start.hot, reach, pin) {
            Newest::Here(newest, record) => promised.may_drop(address, newest, until).then_some((newest, record)),
            // There is none in memory, or none is known.
            Newest::OnDisk(_) | Newest::Nowhere => None,
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
