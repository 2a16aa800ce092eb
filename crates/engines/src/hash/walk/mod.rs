//! Goes through all records in the order of their hashes, a stretch of them at a time (decision 9, "Reading many at once, iteration").

mod records;

use std::{collections::BinaryHeap, sync::Arc};

use ecotone_substrate::{Result, storage::Block};

use self::records::Records;
use super::{
    Hash,
    log::{Address, Kind, Link, PAGE, Segment},
};
use crate::engine::{self, RecordRef};

/// Buckets of the index whose records are collected together: a stretch of hashes.
const BUCKETS: usize = 16;

/// One way through all records.
#[derive(Debug)]
pub(crate) struct Walk {
    hash: Arc<Hash>,
    /// Where the stretch that comes next begins, if there is one.
    next: Option<u64>,
    /// The records of the present one, and how many of them were given.
    records: Records,
    given: usize,
}

impl Walk {
    /// Begins before the first record.
    pub(crate) fn new(hash: Arc<Hash>) -> Walk {
        Walk { hash, next: Some(0), records: Records::default(), given: 0 }
    }

    fn load(&mut self, first: u64) -> Result<()> {
        self.given = 0;
        let last = loop {
            if let Some(last) = self.hash.collect(first, &mut self.records)? {
                break last;
            }
        };
        self.next = last.checked_add(1);
        self.records.keep_newest();
        Ok(())
    }
}

impl engine::Walk for Walk {
    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        while self.given == self.records.len() {
            // After an error there is no next one.
            let Some(first) = self.next.take() else { return Ok(None) };
            self.load(first).inspect_err(|_| self.records.clear())?;
        }
        self.given += 1;
        Ok(Some(self.records.get(self.given - 1)))
    }
}

impl Hash {
    /// Collects what the hot log has of the stretch that begins with a hash; its last hash. `None` if a truncation has passed some of it.
    fn collect(&self, first: u64, records: &mut Records) -> Result<Option<u64>> {
        records.clear();
        let Memory { last, begin, mut ends } = self.collect_memory(first, records);
        let mut page = None;
        // Addresses fall along chains, so pages come in order, each once.
        while let Some(address) = ends.pop() {
            let passed = |address: Address| address < self.log.bounds().begin();
            match self.collect_stored(address, records, &mut page) {
                Err(_) if passed(address) => return Ok(None),
                Err(error) => return Err(error),
                Ok(link) => match link.address(begin, address) {
                    Some(next) if passed(next) => return Ok(None),
                    next => ends.extend(next),
                },
            }
        }
        Ok(Some(last))
    }

    /// Collects what is in memory.
    fn collect_memory(&self, first: u64, records: &mut Records) -> Memory {
        let (pin, begin) = (self.domain.pin(), self.log.bounds().begin());
        let (mut links, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
        let mut last = self.table.links(first, &mut links, &pin);
        for _ in 1..BUCKETS {
            let Some(next) = last.checked_add(1) else { break };
            last = self.table.links(next, &mut links, &pin);
        }
        let mut ends = BinaryHeap::new();
        for link in links {
            let mut next = self.copies.below(link, &pin).head(begin);
            while let Some((address, record)) = next.and_then(|at| Some((at, self.log.record(at, &pin)?))) {
                let state = record.read(&mut value);
                record.read_key(&mut key);
                self.collect_record(address, state.kind(), (&key[..], &value[..]), records);
                next = record.link().address(begin, address);
            }
            ends.extend(next);
        }
        Memory { last, begin, ends }
    }

    /// Collects a record on disk, in the page that was read last or another one. The link to the one before it.
    fn collect_stored(&self, address: Address, records: &mut Records, last: &mut Option<PageRead>) -> Result<Link> {
        let read = match last.take().filter(|read| read.page == address.page()) {
            Some(read) => read,
            None => self.read_page(address.page())?,
        };
        let stored =
            read.segment.parse(read.page, &read.block)?.record(address).map_err(|e| read.segment.damaged(read.page, e))?;
        let link = stored.link;
        self.collect_record(address, stored.kind, (stored.key, stored.value), records);
        *last = Some(read);
        Ok(link)
    }

    fn read_page(&self, page: Address) -> Result<PageRead> {
        let (segment, mut block) = (self.log.segment(page)?, self.room.frame()?);
        segment.file().read(&mut block[..PAGE as usize], segment.offset(page))?;
        Ok(PageRead { page, segment, block })
    }

    fn collect_record(&self, address: Address, kind: Kind, (key, value): RecordRef<'_>, records: &mut Records) {
        let hash = self.key(key).hash;
        // What is in the hot log is newer than all that is not, and of two records of a key the one with the higher address.
        records.push(hash, address.get(), key, (kind == Kind::Value).then_some(value));
    }
}

/// What memory has told of a stretch.
#[derive(Debug)]
struct Memory {
    /// The last hash.
    last: u64,
    /// BEGIN of before.
    begin: Address,
    /// Where chains go on on disk.
    ends: BinaryHeap<Address>,
}

/// A page that was read.
#[derive(Debug)]
struct PageRead {
    page: Address,
    segment: Arc<Segment>,
    block: Block,
}
