//! Flushing to pages: a flush writes records of a paged range straight to the page tier, and leaves them out of its
//! run, if no table is visible in that range (A10; adaptive.md, "Flush"; adaptive-protocol.md, invariants 4, 5 and 8).

use std::{cell::Cell, iter};

use ecotone_engine::job_lock::JobLock;
use ecotone_substrate::{Result, limits::PAGE, table::Answer};
use ecotone_sys::primitive::Mutex;

use crate::{
    flush::raise_floors::is_pages_only,
    memtable::{Cursor, Memtable},
    pages::{
        pending_frees::KeySpan,
        tier::{CopiedRecord, FlushCandidate, PageTier, RangeSize},
    },
    store::Lsm,
};

/// The ranges, ascending, whose records of a memtable were all written to pages.
#[derive(Debug, Default)]
pub(crate) struct FlushedToPages(Vec<KeySpan>);

/// The range that is being converted to tables. The conversion reads its pages, so no flush may write to them
/// (invariant 5).
#[derive(Debug, Default)]
pub(crate) struct ConvertingRange(Mutex<Option<KeySpan>>);

impl FlushedToPages {
    /// Whether there are no such ranges.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Moves the cursor to the next record outside of the ranges, and copies its key. False if there is none.
    pub(crate) fn advance(&self, cursor: &mut Cursor<'_>, key: &mut Vec<u8>) -> bool {
        let is_there = cursor.advance();
        self.pass(cursor, is_there, key)
    }

    /// Likewise, to the first record whose key is not below `from`.
    pub(crate) fn seek(&self, cursor: &mut Cursor<'_>, from: &[u8], key: &mut Vec<u8>) -> bool {
        let is_there = cursor.seek(from);
        self.pass(cursor, is_there, key)
    }

    fn pass(&self, cursor: &mut Cursor<'_>, mut is_there: bool, key: &mut Vec<u8>) -> bool {
        while is_there {
            cursor.read_key(key);
            match self.end_of(key) {
                None => return true,
                Some(end) => is_there = cursor.seek(end),
            }
        }
        false
    }

    /// The end of the range that contains a key.
    fn end_of(&self, key: &[u8]) -> Option<&[u8]> {
        let at = self.0.partition_point(|(_, upper)| upper.as_slice() <= key);
        self.0.get(at).filter(|(lower, _)| lower.as_slice() <= key).map(|(_, upper)| upper.as_slice())
    }
}

impl ConvertingRange {
    /// Marks a range that is about to be converted, when no flush is under way. The caller holds the compaction lock.
    pub(crate) fn begin(&self, flush_lock: &JobLock, span: &KeySpan) {
        let _guard = flush_lock.lock();
        *self.0.lock() = Some(span.clone());
    }

    /// The converting range, and a version that is loaded afterwards. If a conversion has ended before, its range is
    /// not paged in that version.
    pub(crate) fn before<V>(&self, version: impl FnOnce() -> V) -> (Option<KeySpan>, V) {
        let converting = self.0.lock().clone();
        (converting, version())
    }

    /// Clears the mark. A thread that sees no mark then sees the version after the conversion.
    pub(crate) fn end(&self) {
        *self.0.lock() = None;
    }
}

impl Lsm {
    /// Writes the records of an immutable memtable in some ranges to pages, durable but for the log's tail. If that is
    /// given up, for want of memory or space or as writers wait, all records go into the run, which hides the same ones
    /// in pages. The log is synced as far as the memtable goes, and the caller holds the flush lock.
    pub(crate) fn flush_to_pages(&self, memtable: &Memtable) -> Result<FlushedToPages> {
        let Some(page_tier) = self.page_tier() else { return Ok(FlushedToPages::default()) };
        let is_late = page_tier.yields_to_writers() && self.has_waiting_memtables();
        let taken = page_tier.select_for_pages(if is_late {
            Vec::new()
        } else {
            self.flush_candidates(&**page_tier, memtable)
        });
        if taken.is_empty() {
            return Ok(FlushedToPages::default());
        }
        let ranges = taken.into_iter().map(|FlushCandidate { lower, upper, .. }| (lower, upper)).collect::<Vec<_>>();
        match self.write_to_pages(&**page_tier, memtable, &ranges) {
            Ok(true) => return Ok(FlushedToPages(ranges)),
            Ok(false) => {}
            Err(error) if error.is_shortage() => {}
            Err(error) => return Err(error),
        }
        self.page_flushes_given_up.increment();
        Ok(FlushedToPages::default())
    }

    /// Paged ranges in which no table is visible and that are not converting, with the records that a memtable has of
    /// them, if any (invariant 4).
    fn flush_candidates(&self, page_tier: &dyn PageTier, memtable: &Memtable) -> Vec<FlushCandidate> {
        let (converting, version) = self.converting.before(|| self.version());
        let leaves = |(from, end): (&[u8], &[u8])| {
            converting.as_ref().is_some_and(|(lower, upper)| **lower < *end && *from < **upper)
        };
        let free = version
            .paged_ranges()
            .iter()
            .filter(|paged_range| is_pages_only(&version, paged_range) && !leaves(paged_range.bounds()));
        free.filter_map(|paged_range| flush_candidate(page_tier, memtable, paged_range.bounds())).collect()
    }

    /// False if the writing was given up.
    fn write_to_pages(&self, page_tier: &dyn PageTier, memtable: &Memtable, ranges: &[KeySpan]) -> Result<bool> {
        let is_late = Cell::new(false);
        let goes_on = || {
            is_late.set(page_tier.yields_to_writers() && self.has_waiting_memtables());
            !is_late.get()
        };
        let records = ranges.iter().flat_map(|(lower, upper)| records_of(memtable, (lower, upper)));
        let refreshed = records.inspect(|(key, value)| {
            self.record_cache().into_iter().for_each(|record_cache| record_cache.refresh(key, value.as_deref()))
        });
        let flushed_to_pages = page_tier.ingest(&mut refreshed.take_while(|_| goes_on()).map(Ok), true)?;
        self.flushed_to_pages.add(flushed_to_pages);
        Ok(!is_late.get())
    }

    /// Whether other memtables wait besides the one that is being flushed.
    pub fn has_waiting_memtables(&self) -> bool {
        self.current.load(&self.current.pin()).memtables.len() > 2
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
