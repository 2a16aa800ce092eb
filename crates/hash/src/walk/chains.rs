//! Collects the records of a hash range from the hot log, in memory and on disk.

use std::{collections::BinaryHeap, sync::Arc};

use ecotone_engine::contract::RecordRef;
use ecotone_substrate::{Result, storage::Block};

use super::{Hashes, records::Records};
use crate::{
    Hash,
    log::{Address, HeaderKind, Link, PAGE, Segment},
};

/// A page that was read.
#[derive(Debug)]
struct PageRead {
    page: Address,
    segment: Arc<Segment>,
    block: Block,
}

impl Hash {
    /// Collects the range. False if a truncation has passed some of it.
    pub(super) fn collect_chains(&self, stretch: &Hashes, records: &mut Records) -> Result<bool> {
        let (begin, mut ends) = self.collect_memory(stretch, records);
        let mut page = None;
        // Addresses fall along chains, so pages come in order, each once.
        while let Some(address) = ends.pop() {
            let passed = |address: Address| address < self.log.bounds().begin();
            match self.collect_stored(stretch, address, records, &mut page) {
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
    fn collect_memory(&self, stretch: &Hashes, records: &mut Records) -> (Address, BinaryHeap<Address>) {
        let (pin, begin) = (self.domain.pin(), self.log.bounds().begin());
        let (mut links, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
        let mut bucket = Some(*stretch.start());
        while let Some(first) = bucket.filter(|first| stretch.contains(first)) {
            bucket = self.table.links(first, &mut links, &pin).checked_add(1);
        }
        let mut ends = BinaryHeap::new();
        for link in links {
            let mut next = self.read_cache.below(link, &pin).head(begin);
            while let Some((address, record)) = next.and_then(|at| Some((at, self.log.record(at, &pin)?))) {
                let state = record.read(&mut value);
                record.read_key(&mut key);
                self.collect_record(stretch, address, state.kind(), (&key[..], &value[..]), records);
                next = record.link().address(begin, address);
            }
            ends.extend(next);
        }
        (begin, ends)
    }

    /// Collects a record on disk, from the page that was read last or another one. Returns the link to the record
    /// before it.
    fn collect_stored(
        &self,
        stretch: &Hashes,
        address: Address,
        records: &mut Records,
        last: &mut Option<PageRead>,
    ) -> Result<Link> {
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
        self.collect_record(stretch, address, stored.kind, (stored.key, stored.value), records);
        *last = Some(read);
        Ok(link)
    }

    fn read_page(&self, page: Address) -> Result<PageRead> {
        let (segment, mut block) = (self.log.segment(page)?, self.reservations.frame()?);
        segment.file().read(&mut block[..PAGE as usize], segment.offset(page))?;
        Ok(PageRead { page, segment, block })
    }

    /// Collects a record, if its hash lies in the range. Of two records of a key the one with the higher address is
    /// newer.
    fn collect_record(
        &self,
        stretch: &Hashes,
        address: Address,
        kind: HeaderKind,
        (key, value): RecordRef<'_>,
        records: &mut Records,
    ) {
        let hash = self.key(key).hash;
        // A bucket may have more hashes than the range.
        if stretch.contains(&hash) {
            records.push(hash, address.get(), key, (kind == HeaderKind::Value).then_some(value));
        }
    }
}
