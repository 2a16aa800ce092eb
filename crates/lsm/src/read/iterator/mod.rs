//! Iteration over a range, from both ends (lsm.md, "Reading"; lsm-protocol.md, invariant 21).
//!
//! Each end of a scan merges two sources: the sorted runs of one version, and a batch copied from the memtables
//! (`memtable::iterator`, `memtable::batch`). [`sources`] positions the iterators of the sorted runs. Where the
//! version has paged ranges, a scan goes from fragment to fragment and in each reads the sorted runs of its keys
//! (adaptive.md, "Reading").

pub(crate) mod sources;

use std::{mem, ops::Bound, sync::Arc};

use ecotone_engine::{
    contract::{Cursor, Range, RecordRef},
    remaining_range::{Direction, RemainingRange},
};
use ecotone_substrate::{Result, memory::Component};

use crate::{
    cache::table_reader::TableReader,
    memtable::batch::MemtableBatch,
    observer::ScanReport,
    read::{
        merging_iterator::{MergingIterator, RecordIterator},
        sorted_run_iterator::SortedRunIterator,
    },
    store::{Lsm, ReadObserver},
    version::Version,
};

/// A cursor over a range of a keyspace, behind the observer of reads if there is one.
pub(crate) fn cursor(lsm: Arc<Lsm>, range: Range, memory: Component) -> Box<dyn Cursor> {
    let read_observer = lsm.read_observer().cloned();
    let scan = Box::new(Scan::new(lsm, range, memory));
    match read_observer {
        Some(observer) => observer.cursor(scan),
        None => scan,
    }
}

/// A scan of a range.
struct Scan {
    lsm: Arc<Lsm>,
    rest: RemainingRange,
    /// The two ends. Each is built at its first use, since few scans use both.
    front: Option<Box<ScanEnd>>,
    back: Option<Box<ScanEnd>>,
    over: bool,
    /// The end that moved last.
    direction: Direction,
    /// The memory component that its read windows count for.
    memory: Component,
}

impl Scan {
    fn new(lsm: Arc<Lsm>, range: Range, memory: Component) -> Scan {
        let rest = RemainingRange::new(range);
        let over = rest.is_empty();
        Scan { lsm, rest, front: None, back: None, over, direction: Direction::Up, memory }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        let Scan { lsm, rest, front, back, .. } = self;
        [front, back].into_iter().flatten().for_each(|end| end.tell(lsm, rest));
    }
}

impl Cursor for Scan {
    fn advance(&mut self, direction: Direction) -> Result<bool> {
        if self.over {
            return Ok(false);
        }
        // The scan is over after an error, and at the end of the range.
        self.over = true;
        self.direction = direction;
        let (front, back) = (&mut self.front, &mut self.back);
        let end = if direction == Direction::Up { front } else { back };
        let end = end.get_or_insert_with(|| Box::new(ScanEnd::new((direction, self.memory), &self.rest)));
        self.over = !end.advance(&self.lsm, &self.rest)?;
        Ok(!self.over)
    }

    fn take(&mut self) -> Result<Option<RecordRef<'_>>> {
        let end = if self.direction == Direction::Up { &self.front } else { &self.back };
        let Some((key, value)) = end.as_ref().and_then(|end| end.record()) else { return Ok(None) };
        self.over = !self.rest.take(self.direction, &[], key);
        Ok((!self.over).then(|| (self.rest.taken(self.direction), value)))
    }

    fn remaining(&self) -> Range {
        self.rest.range()
    }

    fn deletes_passed(&self) -> u64 {
        [&self.front, &self.back].into_iter().flatten().map(|end| end.deletes_passed()).sum()
    }
}

/// Where the present record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordSource {
    Memtable,
    Disk,
}

/// One end of a scan.
struct ScanEnd {
    direction: Direction,
    /// The memory component that its read windows count for.
    memory: Component,
    /// Where the batch ends: the next refill starts here.
    from: Bound<Vec<u8>>,
    batch: MemtableBatch,
    /// The version that the iterators read.
    version: Option<Arc<Version<TableReader>>>,
    stored: MergingIterator<SortedRunIterator>,
    /// The end of the present fragment, if it has one. Other runs are visible beyond it. Upward it is the first key
    /// beyond the fragment, downward the lowest key of the fragment.
    limit: Option<Vec<u8>>,
    /// The source of the present record.
    found: Option<RecordSource>,
    /// The first key on disk at the last seek, and the records returned since then: for the scan report.
    sought: Option<Vec<u8>>,
    given: u64,
    /// Tombstones passed over.
    deletes: u64,
}

impl ScanEnd {
    fn new((direction, memory): (Direction, Component), rest: &RemainingRange) -> ScanEnd {
        let from = match direction {
            Direction::Up => rest.low.clone(),
            Direction::Down => rest.high.clone(),
        };
        let stored = MergingIterator::new(Vec::new(), direction, 0);
        ScanEnd {
            direction,
            memory,
            from,
            batch: MemtableBatch::default(),
            version: None,
            stored,
            limit: None,
            found: None,
            sought: None,
            given: 0,
            deletes: 0,
        }
    }

    /// Goes to the next record that has a value. False if there is none, or if it lies outside the remaining range.
    fn advance(&mut self, lsm: &Arc<Lsm>, rest: &RemainingRange) -> Result<bool> {
        loop {
            self.pass()?;
            if self.batch.is_used_up() {
                self.refill(lsm, rest)?;
            }
            while let Some(limit) = self.passed_limit() {
                self.tell(lsm, rest);
                self.seek(lsm, &rest.split_after(self.direction, &limit))?;
            }
            self.found = self.choose();
            lsm.read_observer().into_iter().for_each(|observer| self.show_key(lsm, &**observer));
            match self.record_with_tombstones() {
                Some((_, Some(_))) => {
                    self.given += 1;
                    return Ok(true);
                }
                Some((key, None)) if rest.contains(key) => self.deletes += 1,
                _ => return Ok(false),
            }
        }
    }

    /// Tombstones passed over, including those of the page cursor since the last seek.
    fn deletes_passed(&self) -> u64 {
        self.deletes + self.stored.sources().iter().map(SortedRunIterator::deletes_passed).sum::<u64>()
    }

    /// The record that [`advance`](Self::advance) went to.
    fn record(&self) -> Option<RecordRef<'_>> {
        self.record_with_tombstones().and_then(|(key, value)| Some((key, value?)))
    }

    fn record_with_tombstones(&self) -> Option<(&[u8], Option<&[u8]>)> {
        match self.found? {
            RecordSource::Memtable => self.batch.first(),
            RecordSource::Disk => self.stored.first().and_then(SortedRunIterator::record),
        }
    }

    /// Shows the records of the present key. A record of a page is shown only if the version is current: after a
    /// conversion it may be younger than a table of an old version. A batch may be older than what was flushed since.
    fn show_key(&self, lsm: &Lsm, observer: &dyn ReadObserver) {
        let Some((key, _)) = self.record_with_tombstones() else { return };
        let copied = self.batch.first().filter(|(copied, _)| *copied == key);
        let (mut tables, mut page) = (Vec::new(), None);
        let is_current = self.version.as_ref().is_some_and(|before| Arc::ptr_eq(before, &lsm.version()));
        for (source, (_, value)) in self.stored.sources().iter().filter_map(|source| Some((source, source.record()?))) {
            let met = Some(value).filter(|_| source.key() == Some(key));
            match source {
                SortedRunIterator::Tables(_) => tables.extend(met),
                SortedRunIterator::Pages(_) => page = met.filter(|_| is_current),
            }
        }
        observer.on_key(key, copied.map(|(_, value)| value), &tables, page);
    }

    /// Chooses the source of the next record. A memtable record is newer than a record of the same key on disk.
    fn choose(&self) -> Option<RecordSource> {
        let (copied, stored) = (self.batch.first(), self.stored.first().and_then(SortedRunIterator::record));
        match (copied, stored) {
            (Some((copied, _)), Some((stored, _))) if self.direction.order(copied, stored).is_gt() => {
                Some(RecordSource::Disk)
            }
            (Some(_), _) => Some(RecordSource::Memtable),
            (None, stored) => stored.map(|_| RecordSource::Disk),
        }
    }

    /// Steps over the present record and all others of its key.
    fn pass(&mut self) -> Result<()> {
        match self.found.take() {
            None => Ok(()),
            Some(RecordSource::Disk) => self.stored.pass(),
            Some(RecordSource::Memtable) => {
                let stored = self.stored.first().and_then(SortedRunIterator::record);
                let is_stored =
                    self.batch.first().zip(stored).is_some_and(|((copied, _), (stored, _))| copied == stored);
                self.batch.pop();
                if is_stored { self.stored.pass() } else { Ok(()) }
            }
        }
    }

    /// Copies the next batch from the memtables. If the version has changed, seeks again in the new one.
    fn refill(&mut self, lsm: &Arc<Lsm>, rest: &RemainingRange) -> Result<()> {
        lsm.check_live()?;
        let left = self.left(rest);
        let version = {
            let pin = lsm.current.pin();
            let super_version = lsm.current.load(&pin);
            self.batch.copy(&super_version.memtables, &left, self.direction)?;
            super_version.version.clone()
        };
        if self.version.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &version)) {
            self.tell(lsm, rest);
            self.version = Some(version);
            self.seek(lsm, &left)?;
        }
        if let Some((last, _)) = self.batch.last() {
            self.from = Bound::Excluded(last.to_vec());
        }
        Ok(())
    }

    /// Seeks in the version, in the fragment where the remaining range begins.
    fn seek(&mut self, lsm: &Arc<Lsm>, left: &RemainingRange) -> Result<()> {
        let Some(version) = &self.version else { return Ok(()) };
        let fragment = version.first_fragment(left, self.direction);
        let limit = match self.direction {
            Direction::Up => fragment.upper,
            Direction::Down => Some(fragment.lower).filter(|lower| !lower.is_empty()),
        };
        let part = left.split_before(self.direction, limit);
        let runs = version.sorted_runs(fragment.visibility).filter(|_| !part.is_empty());
        let sources = sources::begin(lsm, runs, &part, (self.direction, self.memory))?;
        self.stored = MergingIterator::new(sources, self.direction, 0);
        let first = self.stored.first().and_then(SortedRunIterator::key);
        self.sought = first.filter(|_| lsm.observer().is_some()).map(<[u8]>::to_vec);
        self.limit = limit.filter(|_| !left.is_empty()).map(<[u8]>::to_vec);
        Ok(())
    }

    /// Reports to the observer, if there is one, what the scan read since the last seek. `rest` is the remaining
    /// range.
    fn tell(&mut self, lsm: &Lsm, rest: &RemainingRange) {
        let records = mem::take(&mut self.given);
        let (Some(observer), Some(sought)) = (lsm.observer(), self.sought.take()) else { return };
        let from = match (self.direction, &rest.high) {
            (Direction::Down, Bound::Included(key) | Bound::Excluded(key)) if records > 0 => key.clone(),
            _ => sought,
        };
        let (mut sources, mut reads, mut most, mut main, mut has_pages) = (0, 0, 0, 0, false);
        for layer in self.stored.sources() {
            match layer {
                SortedRunIterator::Tables(stored) => {
                    sources += 1;
                    main = stored.reads();
                    reads += main;
                    most = most.max(main);
                }
                SortedRunIterator::Pages(_) => (has_pages, main) = (true, 0),
            }
        }
        if !has_pages && sources > 0 {
            sources -= 1;
            reads -= most;
        }
        observer.on_scan(&ScanReport { from: &from, records, hidden: self.stored.hidden(), main, sources, reads });
    }

    /// Takes the limit if no record is left before it.
    fn passed_limit(&mut self) -> Option<Vec<u8>> {
        let limit = self.limit.as_deref()?;
        let is_before = |key: &[u8]| match self.direction {
            Direction::Up => key < limit,
            Direction::Down => key >= limit,
        };
        let stored = self.stored.first().and_then(SortedRunIterator::key);
        let copied = self.batch.first().map(|(key, _)| key);
        let is_through = !stored.into_iter().chain(copied).any(is_before);
        self.limit.take_if(|_| is_through)
    }

    /// The remaining range beyond the batch.
    fn left(&self, rest: &RemainingRange) -> RemainingRange {
        match self.direction {
            Direction::Up => RemainingRange::new((self.from.clone(), rest.high.clone())),
            Direction::Down => RemainingRange::new((rest.low.clone(), self.from.clone())),
        }
    }
}
