//! Collects the records of a hash range from the hot log, in memory and on disk.

use std::{collections::BinaryHeap, sync::Arc};

use ecotone_engine::contract::RecordRef;
use ecotone_substrate::{Result, storage::Block};

use super::Collector;
use crate::log::{Address, HeaderKind, Link, PAGE, Segment};

/// A page that was read.
#[derive(Debug)]
struct PageRead {
    page: Address,
    segment: Arc<Segment>,
    block: Block,
}

impl Collector<'_> {
    /// Collects the range. False if a truncation has passed some of it.
    pub(super) fn collect_chains(&mut self) -> Result<bool> {
        let (hash, (begin, mut ends)) = (self.hash, self.collect_memory());
        let mut page = None;
        // Addresses fall along chains, so pages come in order, each once.
        while let Some(address) = ends.pop() {
            let passed = |address: Address| address < hash.chains.log.bounds().begin();
            match self.collect_stored(address, &mut page) {
                Err(_) if passed(address) => return Ok(false),
                Err(error) => return Err(error),
                Ok(link) => match link.address(begin, address) {
                    Some(next) if passed(next) => return Ok(false),
                    next => ends.extend(next),
                },
            }
        }
        Ok(true)
    }

    /// Collects the records in memory. Returns BEGIN from before, and the addresses at which chains go on on disk.
    fn collect_memory(&mut self) -> (Address, BinaryHeap<Address>) {
        let (hash, range) = (self.hash, self.range);
        let (pin, begin) = (hash.chains.domain.pin(), hash.chains.log.bounds().begin());
        let (mut links, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
        let mut bucket = Some(*range.start());
        while let Some(first) = bucket.filter(|first| range.contains(first)) {
            bucket = hash.chains.index.links(first, &mut links, &pin).checked_add(1);
        }
        let mut ends = BinaryHeap::new();
        for link in links {
            let mut next = hash.chains.read_cache.below(link, &pin).address_from(begin);
            while let Some((address, record)) = next.and_then(|at| Some((at, hash.chains.log.record(at, &pin)?))) {
                let state = record.read(&mut value);
                record.read_key(&mut key);
                self.collect_record(address, state.kind(), (&key[..], &value[..]));
                next = record.link().address(begin, address);
            }
            ends.extend(next);
        }
        (begin, ends)
    }

    /// Collects a record on disk, from the page that was read last or another one. Returns the link to the record
    /// before it.
    fn collect_stored(&mut self, address: Address, last: &mut Option<PageRead>) -> Result<Link> {
        let read = match last.take().filter(|read| read.page == address.page()) {
            Some(read) => read,
            None => self.read_page(address.page())?,
        };
        let stored = read
            .segment
            .parse(read.page, &read.block)?
            .linked(address)
            .map_err(|e| read.segment.damaged(read.page, e))?;
        let link = stored.link;
        self.collect_record(address, stored.kind, (stored.key, stored.value));
        *last = Some(read);
        Ok(link)
    }

    fn read_page(&self, page: Address) -> Result<PageRead> {
        let (segment, mut block) = (self.hash.chains.log.segment(page)?, self.hash.reservations.frame()?);
        segment.file().read(&mut block[..PAGE as usize], segment.offset(page))?;
        Ok(PageRead { page, segment, block })
    }

    /// Collects a record, if its hash lies in the range. Of two records of a key the one with the higher address is
    /// newer.
    fn collect_record(&mut self, address: Address, kind: HeaderKind, (key, value): RecordRef<'_>) {
        let hash = self.hash.chains.key(key).hash;
        // A bucket may have more hashes than the range.
        if self.range.contains(&hash) {
            self.records.push(hash, address.get(), key, (kind == HeaderKind::Value).then_some(value));
        }
    }
}
