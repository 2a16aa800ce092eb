//! The interface of the page tier below the tables of a keyspace. Where a range of keys is paged, the page tier holds
//! its oldest records: every visible table record is newer. A keyspace of the lsm engine has no page tier (adaptive.md,
//! "Paged ranges").

use std::{fmt, sync::Arc};

use ecotone_engine::{
    contract::{Cursor, Range, VisitValue},
    record_cache::RecordCache,
    remaining_range::{Direction, RemainingRange},
};
use ecotone_substrate::{Result, memory::Component};

use crate::{checker::ReadChecker, read::merging_iterator::RecordIterator};

/// What one scan read in a stretch of keys, or a part of it. The page tier judges by this where pages pay off
/// (adaptive.md, "Scan statistics").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanReport<'p> {
    /// The lowest key that the scan read there, about.
    pub from: &'p [u8],
    /// Records that the scan returned.
    pub records: u64,
    /// Older records of the same keys that it passed over.
    pub hidden: u64,
    /// Disk requests for the oldest run or level, if the stretch has no pages.
    pub main: u64,
    /// Runs and levels besides the one that the scan read most of, or besides the pages.
    pub sources: u64,
    /// Disk requests for these.
    pub reads: u64,
}

/// Estimated size of what a conversion to pages has to move in a range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeSize {
    /// Bytes of visible tables.
    pub bytes: u64,
    /// Bytes of the largest run or level, summed over the fragments of the range.
    pub largest_run: u64,
    /// Records of visible tables.
    pub records: u64,
    /// Pages of the page tier.
    pub pages: u64,
    /// Bytes of these pages.
    pub page_bytes: u64,
}

/// A paged range in which no table is visible, so that a flush may write its records to pages. `range_size` counts the
/// records of the memtable in place of tables.
#[derive(Debug)]
pub struct FlushCandidate {
    /// Its first key.
    pub lower: Vec<u8>,
    /// The key behind its last one.
    pub upper: Vec<u8>,
    /// What it has of records.
    pub range_size: RangeSize,
}

/// The parts around the tables of a keyspace, where it has them.
#[derive(Debug, Clone, Default)]
pub struct LsmDeps {
    /// The record cache in front of the tables.
    pub record_cache: Option<Arc<dyn RecordCache>>,
    /// The page tier below the tables.
    pub page_tier: Option<Arc<dyn PageTier>>,
    /// Checks all reads, in builds for tests.
    pub(crate) read_checker: Option<Arc<ReadChecker>>,
}

impl LsmDeps {
    /// A record cache in front of the tables and a page tier below them.
    pub fn new(record_cache: Arc<dyn RecordCache>, page_tier: Arc<dyn PageTier>) -> LsmDeps {
        LsmDeps { record_cache: Some(record_cache), page_tier: Some(page_tier), read_checker: None }
    }
}

/// A record that is copied; no value is a tombstone.
pub type CopiedRecord = (Vec<u8>, Option<Vec<u8>>);

/// The page tier, which another engine keeps. A keyspace of the lsm engine has none.
pub trait PageTier: fmt::Debug + Send + Sync {
    /// Looks for a key of a paged range, and appends its value to `value`. False if there is none.
    fn find(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// The same for many keys; `found` gets the number and the value of each, in any order.
    fn find_many(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()>;
    /// A cursor over the records of a range that is paged.
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor>;
    /// Clears a range that is not paged, without an upper bound or with this one, and pins its boundaries, so that
    /// pages on both sides stay separate.
    fn clear_range(&self, lower: &[u8], upper: Option<&[u8]>) -> Result<()>;
    /// Whether such a range is already clear, or as good as that.
    fn is_cleared(&self, lower: &[u8], upper: Option<&[u8]>) -> bool;
    /// The last boundary within paged ranges that is not above a key. The range can be cut there; the boundary is
    /// pinned from now on.
    fn boundary_before(&self, key: &[u8]) -> Result<Vec<u8>>;
    /// The first boundary that is not below a key, likewise.
    fn boundary_after(&self, key: &[u8]) -> Result<Vec<u8>>;
    /// How far about `most` bytes of pages reach from `lower` on, to `upper` at most, and how many bytes there are
    /// until then.
    fn extent(&self, lower: &[u8], upper: &[u8], most: u64) -> (Vec<u8>, u64);
    /// Pins these boundaries, and unpins all others. No thread clears a range meanwhile.
    fn set_boundaries(&self, bounds: &mut dyn Iterator<Item = &[u8]>);
    /// A scan has read a stretch of keys.
    fn on_scan(&self, report: &ScanReport<'_>);
    /// About a second has passed. `is_idle` tells whether the keyspace was unused for some time.
    fn on_tick(&self, is_idle: bool);
    /// Chooses the ranges, of these ascending ones, whose records the flush writes to pages at once; those of the
    /// others go into a run. Called at every flush, even without candidates.
    fn select_for_pages(&self, flush_candidates: Vec<FlushCandidate>) -> Vec<FlushCandidate>;
    /// Guards, ascending: keys between which scans behave differently than beside them. Tables of L0 end there.
    fn guards(&self) -> Vec<Vec<u8>>;
    /// Whether flushes to pages are given up while memtables wait.
    fn yields_to_writers(&self) -> bool;
    /// Writes ascending records into ranges that are paged or were cleared, over the records there. Log records that
    /// are appended afterwards may rely on them. `inserts` says whether keys that are new to the pages count as
    /// inserts; in a cleared range they do not, as they come from tables. Returns the number of records.
    fn ingest(&self, records: &mut dyn Iterator<Item = Result<CopiedRecord>>, inserts: bool) -> Result<u64>;
    /// Bytes written to pages so far.
    fn bytes_written(&self) -> u64;
}

/// The records of a paged range, in either direction.
pub(crate) struct PageCursor {
    cursor: Box<dyn Cursor>,
    direction: Direction,
    /// Whether there is a current record; `key` and `value` are a copy of it.
    there: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl PageCursor {
    /// A cursor on the first record of the remaining range.
    pub(crate) fn begin(
        page_tier: &Arc<dyn PageTier>,
        rest: RemainingRange,
        direction: Direction,
        memory: Component,
    ) -> Result<PageCursor> {
        let cursor = page_tier.clone().cursor_in((rest.low, rest.high), memory);
        let mut source = PageCursor { cursor, direction, there: false, key: Vec::new(), value: Vec::new() };
        source.step().map(|()| source)
    }

    /// Deleted records that the cursor has passed over.
    pub(crate) fn deletes_passed(&self) -> u64 {
        self.cursor.deletes_passed()
    }

    /// The current record.
    pub(crate) fn record(&self) -> Option<(&[u8], &[u8])> {
        self.there.then_some((&self.key, &self.value))
    }
}

impl RecordIterator for PageCursor {
    fn key(&self) -> Option<&[u8]> {
        self.there.then_some(&self.key)
    }

    fn step(&mut self) -> Result<()> {
        let next = match self.direction {
            Direction::Up => self.cursor.next()?,
            Direction::Down => self.cursor.next_back()?,
        };
        self.there = next.is_some();
        if let Some((key, value)) = next {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.value.clear();
            self.value.extend_from_slice(value);
        }
        Ok(())
    }
}
