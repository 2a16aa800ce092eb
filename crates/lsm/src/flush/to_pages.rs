//! Flushing to pages: a flush writes records of a paged range straight to the page tier, and leaves them out of its
//! run, if no table is visible in that range (A10; adaptive.md, "Flush"; adaptive-protocol.md, invariants 4, 5 and 8).

use std::{cell::Cell, iter};

use ecotone_substrate::{Result, limits::PAGE, table::Answer};

use crate::{
    flush::{flushed_to_pages::FlushedToPages, job::Flush},
    memtable::Memtable,
    observer::{FlushCandidate, ScanObserver},
    pages::{
        pending_frees::KeySpan,
        tier::{CopiedRecord, PageTier, RangeSize},
    },
};

impl Flush<'_> {
    /// Writes the records in some ranges to pages, durable but for the log's tail. If that is
    /// given up, for want of memory or space or as writers wait, all records go into the run, which hides the same ones
    /// in pages. The log is synced as far as the memtable goes, and the caller holds the flush lock.
    pub(super) fn flush_to_pages(&self) -> Result<FlushedToPages> {
        let page_tier = self.lsm.page_tier().inspect(|page_tier| page_tier.begin_flush());
        let Some(observer) = self.lsm.observer() else { return Ok(FlushedToPages::default()) };
        let candidates = page_tier.filter(|_| !self.yields(observer)).map(|page_tier| self.candidates(&**page_tier));
        let taken = observer.select_for_pages(candidates.unwrap_or_default());
        let Some(page_tier) = page_tier.filter(|_| !taken.is_empty()) else { return Ok(FlushedToPages::default()) };
        let ranges = taken.into_iter().map(|FlushCandidate { lower, upper, .. }| (lower, upper)).collect::<Vec<_>>();
        match self.write_to_pages((&**page_tier, observer), &ranges) {
            Ok(true) => return Ok(FlushedToPages(ranges)),
            Ok(false) => {}
            Err(error) if error.is_shortage() => {}
            Err(error) => return Err(error),
        }
        self.lsm.flusher.page_flushes_given_up.increment();
        Ok(FlushedToPages::default())
    }

    /// Whether writers wait, and the flush gives way to them.
    fn yields(&self, observer: &dyn ScanObserver) -> bool {
        observer.yields_to_writers() && self.lsm.has_waiting_memtables()
    }

    /// Paged ranges in which no table is visible and that are not converting, with the records that the memtable has of
    /// them, if any (invariant 4).
    fn candidates(&self, page_tier: &dyn PageTier) -> Vec<FlushCandidate> {
        let (converting, version) = self.lsm.conversions.converting.before(|| self.lsm.version());
        let leaves = |(from, end): (&[u8], &[u8])| {
            converting.as_ref().is_some_and(|(lower, upper)| **lower < *end && *from < **upper)
        };
        let free = version
            .paged_ranges()
            .iter()
            .filter(|paged_range| version.is_pages_only(paged_range) && !leaves(paged_range.bounds()));
        free.filter_map(|paged_range| flush_candidate(page_tier, &self.memtable.memtable, paged_range.bounds()))
            .collect()
    }

    /// False if the writing was given up.
    fn write_to_pages(
        &self,
        (page_tier, observer): (&dyn PageTier, &dyn ScanObserver),
        ranges: &[KeySpan],
    ) -> Result<bool> {
        let is_late = Cell::new(false);
        let goes_on = || {
            is_late.set(self.yields(observer));
            !is_late.get()
        };
        let records = ranges.iter().flat_map(|(lower, upper)| records_of(&self.memtable.memtable, (lower, upper)));
        let refreshed = records.inspect(|(key, value)| {
            self.lsm.record_cache().into_iter().for_each(|record_cache| record_cache.refresh(key, value.as_deref()))
        });
        let flushed_to_pages = page_tier.ingest(&mut refreshed.take_while(|_| goes_on()).map(Ok), true)?;
        self.lsm.flusher.records_to_pages.add(flushed_to_pages);
        Ok(!is_late.get())
    }
}

/// The records that a memtable has in a range, counted, and the pages there. `None` without records.
fn flush_candidate(
    page_tier: &dyn PageTier,
    memtable: &Memtable,
    (lower, upper): (&[u8], &[u8]),
) -> Option<FlushCandidate> {
    // One buffer for all records: there may be as many as a memtable has.
    let (mut cursor, mut key, mut value) = (memtable.cursor(), Vec::new(), Vec::new());
    let (mut records, mut bytes, mut is_there) = (0, 0, cursor.seek(lower));
    while is_there {
        cursor.read_key(&mut key);
        if *key >= *upper {
            break;
        }
        let (answer, _) = cursor.read(&mut value);
        records += 1;
        bytes += (key.len() + if answer == Answer::Value { value.len() } else { 0 }) as u64;
        is_there = cursor.advance();
    }
    if records == 0 {
        return None;
    }
    let page_bytes = page_tier.extent(lower, upper, u64::MAX).1;
    let range_size = RangeSize { bytes, largest_run: bytes, records, pages: page_bytes / PAGE as u64, page_bytes };
    Some(FlushCandidate { lower: lower.to_vec(), upper: upper.to_vec(), range_size })
}

/// The records of a memtable in a range.
fn records_of<'m>(
    memtable: &'m Memtable,
    (lower, upper): (&[u8], &'m [u8]),
) -> impl Iterator<Item = CopiedRecord> + use<'m> {
    let mut cursor = memtable.cursor();
    let mut is_there = cursor.seek(lower);
    iter::from_fn(move || {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        if is_there {
            cursor.read_key(&mut key);
        }
        if !is_there || *key >= *upper {
            return None;
        }
        let (answer, _) = cursor.read(&mut value);
        is_there = cursor.advance();
        Some((key, (answer == Answer::Value).then_some(value)))
    })
}
