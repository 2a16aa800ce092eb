//! Compaction by scan: finds the live records of a region by reading all records behind it, as FASTER does (H8, the
//! alternative; hash.md, "Compaction"). All records of the region are copied into a table; each later record removes
//! the ones of its key. Records in pages that are not yet read-only are looked up in the index.

use ecotone_substrate::{Result, memory::Memory, storage::Block};
use ecotone_sys::epoch::Pin;

use super::{
    Compactor, Region, dropped::DroppedRecords, frames::Windows, install::DurabilityPromise, liveness::LiveRecords,
    record::RecordCopy, record_buffer::RecordBuffer, sorter::Reference, table::Table,
};
use crate::{
    chains::{Newest, SearchDepth},
    cold::record_bytes,
    key::Key,
    log::{Address, HeaderKind, PAGE, PAGE_HEADER, Record},
};

/// The records of a page.
#[derive(Debug, Default)]
struct Records {
    list: Vec<(Address, RecordCopy)>,
    used: usize,
}

impl Records {
    /// The slot of the next record. Its buffers are reused.
    fn next(&mut self) -> &mut (Address, RecordCopy) {
        if self.used == self.list.len() {
            self.list.push((Address::FIRST, RecordCopy::default()));
        }
        self.used += 1;
        &mut self.list[self.used - 1]
    }

    /// Adds a record, unless it is invalid.
    fn push(&mut self, address: Address, kind: HeaderKind, key: &[u8], value: &[u8]) {
        if kind != HeaderKind::Invalid {
            let next = self.next();
            next.0 = address;
            next.1.set(key, (kind == HeaderKind::Value).then_some(value));
        }
    }
    fn iter(&self) -> impl Iterator<Item = (Address, &RecordCopy)> {
        self.list[..self.used].iter().map(|(address, copied)| (*address, copied))
    }
}

/// Records of a region that no record read so far supersedes.
pub(super) struct Candidates<'m> {
    compactor: Compactor<'m>,
    memory: &'m Memory,
    region: Region,
    table: Table,
    copies: RecordBuffer,
    /// The first place of a record that is not promised, once there is one.
    floor: u64,
    bytes: usize,
    largest: usize,
    copied: RecordCopy,
    /// Places and addresses, ascending; empty without a listener.
    addresses: Vec<(u64, Address)>,
    /// The candidates that were removed.
    dropped: DroppedRecords,
}

impl Candidates<'_> {
    fn add(&mut self, hash: u64, address: Address, record: &RecordCopy, is_promised: bool) -> Result<()> {
        let place = self.copies.push(self.memory, record.key(), record.value())?;
        if self.compactor.hash.chains.reports.is_on() {
            self.addresses.push((place, address));
        }
        if !is_promised {
            self.floor = self.floor.min(place);
        }
        self.table.insert(Reference::new(hash, place));
        let bytes = size(record);
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
        Ok(())
    }

    /// Removes the older records of a key. A promised one is removed only if the newer record is promised too.
    fn supersede(&mut self, hash: u64, (address, newer): (Address, &RecordCopy), is_promised: bool) {
        let mut slot = self.table.first(hash);
        while let Some((at, reference)) = self.table.next(&mut slot, hash) {
            if is_promised || reference.place() >= self.floor {
                self.copies.read(reference.place(), &mut self.copied);
                if self.copied.key() == newer.key() {
                    self.table.remove(at);
                    self.bytes -= size(&self.copied);
                    if let Some(at) = address_at(&self.addresses, reference.place()) {
                        let old = (at, self.copied.key(), self.copied.value());
                        let younger = || (address, newer.value().map(<[u8]>::to_vec));
                        self.compactor.add_dropped(&mut self.dropped, old, younger);
                    }
                }
            }
        }
    }
}

/// The address of the candidate at a place; none without a listener.
fn address_at(addresses: &[(u64, Address)], place: u64) -> Option<Address> {
    let at = addresses.binary_search_by_key(&place, |(place, _)| *place).ok()?;
    Some(addresses[at].1)
}

/// Bytes of a record in a block.
fn size(record: &RecordCopy) -> usize {
    record_bytes(record.key().len(), record.value().map_or(0, <[u8]>::len))
}

impl Compactor<'_> {
    /// Finds the live records at the beginning of a region, as many as there is memory for, and copies them. The
    /// returned region ends there.
    pub(super) fn live_by_scan(&self, region: Region) -> Result<LiveRecords> {
        let (promised, safe) = (self.promised(), self.hash.chains.log.bounds().safe());
        self.ask_for(self.candidates(region, safe, promised)?, safe, promised)
    }

    /// Copies the records of a region, as many as there is memory for, that no record below SAFE supersedes.
    pub(super) fn candidates(
        &self,
        region: Region,
        safe: Address,
        promised: DurabilityPromise,
    ) -> Result<Candidates<'_>> {
        let memory = &*self.environment.memory;
        let (copies, copied, table) =
            (RecordBuffer::default(), RecordCopy::default(), Table::new(memory, region.bytes())?);
        let (addresses, dropped) = Default::default();
        let mut candidates = Candidates {
            compactor: *self,
            memory,
            region,
            table,
            copies,
            floor: u64::MAX,
            bytes: 0,
            largest: 0,
            copied,
            addresses,
            dropped,
        };
        let until = self.scan(region, true, |records| {
            for (address, record) in records.iter() {
                let (hash, is_promised) = (self.hash.chains.key(record.key()).hash, address < promised.floor);
                candidates.supersede(hash, (address, record), is_promised);
                candidates.add(hash, address, record, is_promised)?;
            }
            Ok(candidates.copies.bytes() < self.most_copies())
        })?;
        // Values are needed only to recognise copies.
        let values = self.hash.chains.reports.is_on();
        self.scan(Region { from: until, until: safe }, values, |records| {
            for (address, record) in records.iter() {
                let hash = self.hash.chains.key(record.key()).hash;
                candidates.supersede(hash, (address, record), address < promised.durable);
            }
            Ok(true)
        })?;
        candidates.region.until = until;
        Ok(candidates)
    }

    /// Keeps the candidates for which the index has no newer record at or above `safe`, which the scan has not read.
    fn ask_for(
        &self,
        mut candidates: Candidates<'_>,
        safe: Address,
        promised: DurabilityPromise,
    ) -> Result<LiveRecords> {
        let mut living = LiveRecords::new(candidates.region, None);
        for reference in candidates.table.references() {
            candidates.copies.read(reference.place(), &mut candidates.copied);
            let key = self.hash.chains.key(candidates.copied.key());
            let may_go = |newest: &Address| reference.place() >= candidates.floor || *newest < promised.durable;
            let pin = self.hash.chains.domain.pin();
            if let Some(newest) = self.newest_above(&key, safe, &pin).filter(|(newest, _)| may_go(newest)) {
                candidates.bytes -= size(&candidates.copied);
                if let Some(address) = address_at(&candidates.addresses, reference.place()) {
                    let old = (address, candidates.copied.key(), candidates.copied.value());
                    self.add_dropped(&mut candidates.dropped, old, || self.younger(&key, address, newest, &pin));
                }
            } else {
                drop(pin);
                self.hash.chains.memory_share.tuner.take(key.hash);
                living.references.push(candidates.memory, reference)?;
            }
        }
        (living.bytes, living.largest) = (candidates.bytes, candidates.largest);
        living.copies = Some(candidates.copies);
        living.dropped = candidates.dropped;
        Ok(living)
    }

    /// Passes the records of a region to `take`, page by page, as long as it returns true. Returns where the scan
    /// ended. Without `values` records have no values.
    fn scan(&self, region: Region, values: bool, mut take: impl FnMut(&Records) -> Result<bool>) -> Result<Address> {
        let in_memory =
            Address::of_frame(self.hash.chains.log.bounds().head().frame()).max(region.from).min(region.until);
        let (mut records, mut frame) = (Records::default(), None);
        let mut windows = Windows::new(self.environment, &self.hash.chains.log, Region { until: in_memory, ..region })?;
        while let Some(window) = windows.next()? {
            let mut goes_on = true;
            for page in window.pages() {
                records.used = 0;
                for record in window.page(page)?.records() {
                    let (address, stored) = record.map_err(|e| window.damaged(page, e))?;
                    records.push(address, stored.kind, stored.key, if values { stored.value } else { &[] });
                }
                goes_on &= take(&records)?;
            }
            if !goes_on {
                return Ok(window.until());
            }
            windows.give_back(window);
        }
        drop(windows);
        for page in (Region { from: in_memory, ..region }).pages() {
            self.read_page(page, values, &mut frame, &mut records)?;
            if !take(&records)? {
                return Ok(page.plus(PAGE));
            }
        }
        Ok(region.until)
    }

    /// Copies the records of a page that was in memory when the scan began.
    fn read_page(&self, page: Address, values: bool, frame: &mut Option<Block>, records: &mut Records) -> Result<()> {
        records.used = 0;
        if self.copy_page(page, values, records) {
            return Ok(());
        }
        records.used = 0;
        self.with_page(page, frame, |read| {
            read.records().try_for_each(|record| {
                let (address, stored) = record?;
                records.push(address, stored.kind, stored.key, if values { stored.value } else { &[] });
                Ok(())
            })
        })
    }

    /// Copies the records of a page below SAFE. False if its frame has left memory.
    fn copy_page(&self, page: Address, values: bool, records: &mut Records) -> bool {
        let pin = self.hash.chains.domain.pin();
        for (address, record) in self.hash.chains.log.page(page, &pin) {
            if record.state().kind() == HeaderKind::Invalid {
                continue;
            }
            let (at, copied) = records.next();
            *at = address;
            copied.fill(|key, value| {
                record.read_key(key);
                let state = if values { record.read(value) } else { record.state() };
                state.kind() == HeaderKind::Tombstone
            });
        }
        // Frames only leave: if the frame is still there, the whole page was.
        self.hash.chains.log.record(page.plus(PAGE_HEADER), &pin).is_some()
    }

    /// The newest record of a key at or above `safe`, an earlier SAFE. All such records are in memory.
    fn newest_above<'p>(&'p self, key: &Key<'_>, safe: Address, pin: &'p Pin<'_>) -> Option<(Address, Record<'p>)> {
        let start = self.hash.chains.start(key, pin);
        match self.hash.chains.newest(key, start.hot, SearchDepth { begin: start.begin, floor: safe }, pin) {
            Newest::Here(newest, record) => Some((newest, record)),
            Newest::OnDisk(_) | Newest::Nowhere => None,
        }
    }
}
