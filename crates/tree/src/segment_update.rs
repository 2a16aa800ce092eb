//! An update of a claimed segment: the records that go into it, divided among its pages.

use std::ops::Range;

use ecotone_substrate::limits::PAGE;

use super::{
    cache::KeySpan,
    dirty::{DirtyRecord, DirtyRecords},
    index::PagePair,
    keyspace_cache::KeyspaceCache,
    store::{SegmentRange, StoredPages},
};

/// Fewest neighbouring pages that are kept unchanged.
const LEAST_KEPT: u8 = 4;
/// Mean entries of a leaf of the dirty index from which its keys count as inserted in order. With keys in random order
/// a leaf has between half and all of 480.
const PACKED: usize = 420;

/// A claimed segment, or some of its pages, and records to be merged over their records.
#[derive(Debug)]
pub(crate) struct SegmentUpdate<'t> {
    pub(crate) at: SegmentRange,
    /// The other pages of the segment, which stay unchanged.
    pub(crate) kept: Vec<SegmentRange>,
    /// Ascending.
    pub(crate) records: DirtyRecords,
    /// The base pages that get records, ascending.
    pub(crate) page_updates: Vec<PageUpdate>,
    /// The records taken from the cache for the update, if any.
    pub(crate) taken: Option<RecordsInFlight<'t>>,
    /// Whether the taken records were inserted in key order. The leaves of the dirty index are full then.
    pub(crate) is_packed: bool,
}

/// Records of one base page.
#[derive(Debug)]
pub(crate) struct PageUpdate {
    pub(crate) position: u8,
    pub(crate) pair: PagePair,
    /// Positions of the page's records in the update; at least one.
    places: Range<usize>,
    /// The pages as they are on disk, once they are read.
    pub(crate) stored: Option<StoredPages>,
}

impl<'t> SegmentUpdate<'t> {
    /// An update without records.
    pub(crate) fn empty(at: SegmentRange) -> SegmentUpdate<'t> {
        SegmentUpdate::new(at, DirtyRecords::default(), None)
    }

    /// Divides ascending records among the pages of their keys.
    pub(crate) fn new(
        at: SegmentRange,
        records: DirtyRecords,
        taken: Option<RecordsInFlight<'t>>,
    ) -> SegmentUpdate<'t> {
        let (mut page_updates, mut start) = (Vec::new(), 0);
        while start < records.len() {
            let position = at.segment.position_of(&at.lower, records.get(start).key);
            let end = records.count_below(at.key_span(position).upper.as_deref());
            let places = start..end.max(start + 1);
            start = places.end;
            page_updates.push(PageUpdate { position, pair: at.segment.page_pair(position), places, stored: None });
        }
        SegmentUpdate { at, kept: Vec::new(), records, page_updates, taken, is_packed: false }
    }

    /// Takes dirty records of a claimed segment from its beginning on, about `most` bytes. Also returns the range that
    /// is left.
    pub(crate) fn take(cache: &'t KeyspaceCache, at: SegmentRange, most: usize) -> (Self, Option<KeySpan>) {
        let span = at.all();
        let (records, taken) = cache.begin_write(&span, most);
        let left = span.behind(&taken);
        let (entries, leaves) = if records.bytes() > 4 * PAGE { cache.index_fill(&taken) } else { (0, 0) };
        let taken = RecordsInFlight { cache, span: Some(taken) };
        let is_packed = leaves > 1 && entries >= leaves * PACKED;
        (SegmentUpdate { is_packed, ..SegmentUpdate::new(at, records, Some(taken)) }, left)
    }

    /// The lower fence of the whole segment.
    pub(crate) fn begin(&self) -> &[u8] {
        self.kept.first().map_or(&self.at.lower, |kept| kept.lower.as_slice().min(&self.at.lower))
    }

    /// The records of a page.
    pub(crate) fn records_of(
        &self,
        page_update: &PageUpdate,
    ) -> impl ExactSizeIterator<Item = DirtyRecord<'_>> + Clone {
        self.records.within(page_update.places.clone())
    }

    /// An update with the records of one page.
    pub(crate) fn of_page(&self, page_update: &PageUpdate, taken: Option<RecordsInFlight<'t>>) -> SegmentUpdate<'t> {
        SegmentUpdate::new(self.at.clone(), self.records.part(page_update.places.clone()), taken)
    }

    /// Splits off the taken records of a page. Called for each page in order; the last page gets all that is left.
    pub(crate) fn take_part(&mut self, number: usize) -> Option<RecordsInFlight<'t>> {
        let end =
            self.page_updates.get(number + 1).and_then(|_| self.at.key_span(self.page_updates[number].position).upper);
        match end {
            Some(end) => self.taken.as_mut()?.split(end),
            None => self.taken.take(),
        }
    }

    /// Whether less than half of the pages get records.
    pub(crate) fn is_thin(&self) -> bool {
        2 * self.page_updates.len() < usize::from(self.at.segment.base_count())
    }

    pub(crate) fn base_count(&self) -> usize {
        self.at.segment.base_count().into()
    }

    /// Keeps the pages on both sides of those that get records, if the records exceed twice the size of their pages, as
    /// when keys arrive in order.
    pub(crate) fn narrow(&mut self) {
        let [Some(first), Some(last)] = [self.page_updates.first(), self.page_updates.last()] else { return };
        let (first, end, count) = (first.position, last.position + 1, self.at.segment.base_count());
        if self.records.bytes() <= usize::from(end - first) * 2 * PAGE {
            return;
        }
        // Too few pages to keep would remain a small segment for good, so they are included.
        let first = if first < LEAST_KEPT { 0 } else { first };
        let end = if count - end < LEAST_KEPT { count } else { end };
        let kept = [0..first, end..count].into_iter().filter(|positions| !positions.is_empty());
        let kept: Option<Vec<SegmentRange>> = kept.map(|positions| self.at.part(positions)).collect();
        let (Some(kept), Some(at)) = (kept, self.at.part(first..end)) else { return };
        (self.at, self.kept) = (at, kept);
        self.page_updates.iter_mut().for_each(|page_update| page_update.position -= first);
    }

    /// Whether the page pair at a position was read.
    fn has_read(&self, position: u8) -> bool {
        self.page_updates.iter().any(|page_update| page_update.position == position && page_update.stored.is_some())
    }

    /// The page pairs that are still to be read.
    pub(crate) fn missing(&self) -> impl Iterator<Item = PagePair> {
        (0..self.at.segment.base_count())
            .filter(|position| !self.has_read(*position))
            .map(|position| self.at.segment.page_pair(position))
    }

    /// The pages of all page pairs; those that were missing come from `read`.
    pub(crate) fn all_stored(&mut self, read: &mut impl Iterator<Item = StoredPages>) -> Vec<StoredPages> {
        let mut page_updates = self.page_updates.iter_mut().peekable();
        let mut stored = |position| page_updates.next_if(|page_update| page_update.position == position)?.stored.take();
        (0..self.at.segment.base_count()).filter_map(|position| stored(position).or_else(|| read.next())).collect()
    }

    /// Settles the taken records: they are written.
    pub(crate) fn settle(&mut self) {
        self.taken.take().into_iter().for_each(RecordsInFlight::settle);
    }
}

/// A range of keys whose dirty records are being written. They become dirty again when this is dropped, unless it was
/// settled.
#[derive(Debug)]
pub(crate) struct RecordsInFlight<'t> {
    cache: &'t KeyspaceCache,
    /// `None` once it is settled.
    span: Option<KeySpan>,
}

impl<'t> RecordsInFlight<'t> {
    /// Splits off the keys below `end`.
    fn split(&mut self, end: Vec<u8>) -> Option<RecordsInFlight<'t>> {
        let span = self.span.as_mut()?;
        let lower = std::mem::replace(&mut span.lower, end.clone());
        Some(RecordsInFlight { cache: self.cache, span: Some(KeySpan { lower, upper: Some(end) }) })
    }

    /// Marks the records as written: they are in their pages, and readers can find these.
    pub(crate) fn settle(mut self) {
        self.span.take().into_iter().for_each(|span| self.cache.end_write(&span));
    }
}

impl Drop for RecordsInFlight<'_> {
    fn drop(&mut self) {
        self.span.take().into_iter().for_each(|span| self.cache.abort_write(&span));
    }
}
