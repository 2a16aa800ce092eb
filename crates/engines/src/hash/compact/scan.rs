//! What lives in a region, found by a look at all records behind it, as FASTER does it (H8, the alternative; decision
//! 9, "By scan"). All records of the region are copied into a table, from which each record behind them takes those of
//! its key; what is in no page that is read-only yet is asked of the index.

use ecotone_substrate::{Result, memory::Memory, storage::Block};

use super::{
    Compactor, Region, alive::Living, copies::Copies, frames::Windows, install::Promised, record::Copied,
    sorter::Reference, table::Table,
};
use crate::hash::{
    Hash,
    cold::record_bytes,
    key::Key,
    log::{Address, Kind, PAGE, PAGE_HEADER},
    lookup::{Newest, Reach},
};

/// Records of a page.
#[derive(Debug, Default)]
struct Records {
    list: Vec<(Address, Copied)>,
    used: usize,
}

impl Records {
    /// Where the next record comes. The buffers of an earlier one are used again.
    fn next(&mut self) -> &mut (Address, Copied) {
        if self.used == self.list.len() {
            self.list.push((Address::FIRST, Copied::default()));
        }
        self.used += 1;
        &mut self.list[self.used - 1]
    }

    fn iter(&self) -> impl Iterator<Item = (Address, &Copied)> {
        self.list[..self.used].iter().map(|(address, copied)| (*address, copied))
    }
}

/// Records of a region of which none was seen that takes their place.
pub(super) struct Candidates<'m> {
    memory: &'m Memory,
    region: Region,
    table: Table,
    copies: Copies,
    /// The first place of what nobody was promised, when it has come.
    floor: u64,
    bytes: usize,
    largest: usize,
    copied: Copied,
}

impl Candidates<'_> {
    fn add(&mut self, hash: u64, record: &Copied, is_promised: bool) -> Result<()> {
        let place = self.copies.push(self.memory, record.key(), record.value())?;
        if !is_promised {
            self.floor = self.floor.min(place);
        }
        self.table.insert(Reference::new(hash, place));
        let bytes = size(record);
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
        Ok(())
    }

    /// Another record of a key takes the place of those that are there: also of what was promised, if it is itself.
    fn supersede(&mut self, hash: u64, key: &[u8], is_promised: bool) {
        let mut slot = self.table.first(hash);
        while let Some((at, reference)) = self.table.next(&mut slot, hash) {
            if is_promised || reference.place() >= self.floor {
                self.copies.read(reference.place(), &mut self.copied);
                if self.copied.key() == key {
                    self.table.remove(at);
                    self.bytes -= size(&self.copied);
                }
            }
        }
    }
}

/// Bytes that a record needs of a block.
fn size(record: &Copied) -> usize {
    record_bytes(record.key().len(), record.value().map_or(0, <[u8]>::len))
}

impl Compactor<'_> {
    /// What lives from the beginning of a region on, as much as there is room for, with copies of it. The region ends
    /// there.
    pub(super) fn living_by_scan(&self, region: Region) -> Result<Living> {
        let (promised, safe) = (self.promised(), self.hash.log.bounds().safe());
        self.ask_for(self.candidates(region, safe, promised)?, safe, promised)
    }

    /// Records of a region, as many as there is room for, of which none below SAFE takes the place.
    pub(super) fn candidates(&self, region: Region, safe: Address, promised: Promised) -> Result<Candidates<'_>> {
        let memory = &*self.environment.memory;
        let (copies, copied, table) = (Copies::default(), Copied::default(), Table::new(memory, region.bytes())?);
        let mut candidates =
            Candidates { memory, region, table, copies, floor: u64::MAX, bytes: 0, largest: 0, copied };
        let until = self.scan(region, true, |records| {
            for (address, record) in records.iter() {
                let (hash, is_promised) = (self.hash.key(record.key()).hash, address < promised.floor);
                candidates.supersede(hash, record.key(), is_promised);
                candidates.add(hash, record, is_promised)?;
            }
            Ok(candidates.copies.bytes() < self.most_copies())
        })?;
        self.scan(Region { from: until, until: safe }, false, |records| {
            for (address, record) in records.iter() {
                candidates.supersede(self.hash.key(record.key()).hash, record.key(), address < promised.durable);
            }
            Ok(true)
        })?;
        candidates.region.until = until;
        Ok(candidates)
    }

    /// Those of which the index knows none that is newer and was not looked at, since it is not below SAFE of then.
    fn ask_for(&self, mut candidates: Candidates<'_>, safe: Address, promised: Promised) -> Result<Living> {
        let mut living = Living::new(candidates.region, None);
        for reference in candidates.table.references() {
            candidates.copies.read(reference.place(), &mut candidates.copied);
            let key = self.hash.key(candidates.copied.key());
            let may_go = |newest: Address| reference.place() >= candidates.floor || newest < promised.durable;
            if self.hash.newest_above(&key, safe).is_some_and(may_go) {
                candidates.bytes -= size(&candidates.copied);
            } else {
                self.hash.split.take(key.hash);
                living.references.push(candidates.memory, reference)?;
            }
        }
        (living.bytes, living.largest) = (candidates.bytes, candidates.largest);
        living.copies = Some(candidates.copies);
        Ok(living)
    }

    /// Gives what there is of a region to `take`, page by page, as long as it wants more. Where it ended. Values are
    /// left out where nobody wants them.
    fn scan(&self, region: Region, values: bool, mut take: impl FnMut(&Records) -> Result<bool>) -> Result<Address> {
        let in_memory = Address::of_frame(self.hash.log.bounds().head().frame()).max(region.from).min(region.until);
        let (mut records, mut frame) = (Records::default(), None);
        let mut windows = Windows::new(self.environment, &self.hash.log, Region { until: in_memory, ..region })?;
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

    /// Copies the records of a page that was in memory.
    fn read_page(&self, page: Address, values: bool, frame: &mut Option<Block>, records: &mut Records) -> Result<()> {
        records.used = 0;
        if self.hash.copy_page(page, values, records) {
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
}

impl Records {
    fn push(&mut self, address: Address, kind: Kind, key: &[u8], value: &[u8]) {
        if kind != Kind::Invalid {
            let next = self.next();
            next.0 = address;
            next.1.set(key, (kind == Kind::Value).then_some(value));
        }
    }
}

impl Hash {
    /// Copies the records of a page below SAFE. False if its frame has left memory.
    fn copy_page(&self, page: Address, values: bool, records: &mut Records) -> bool {
        let pin = self.domain.pin();
        for (address, record) in self.log.page(page, &pin) {
            if record.state().kind() == Kind::Invalid {
                continue;
            }
            let (at, copied) = records.next();
            *at = address;
            copied.fill(|key, value| {
                record.read_key(key);
                let state = if values { record.read(value) } else { record.state() };
                state.kind() == Kind::Tombstone
            });
        }
        // Frames only leave: if it is still there, all of the page was.
        self.log.record(page.plus(PAGE_HEADER), &pin).is_some()
    }

    /// The newest record of a key that is not below SAFE of some time ago, which is in memory.
    fn newest_above(&self, key: &Key<'_>, safe: Address) -> Option<Address> {
        let pin = self.domain.pin();
        let start = self.start(key, &pin);
        match self.newest(key, start.hot, Reach { begin: start.begin, floor: safe }, &pin) {
            Newest::Here(newest, _) => Some(newest),
            Newest::OnDisk(_) | Newest::Nowhere => None,
        }
    }
}
