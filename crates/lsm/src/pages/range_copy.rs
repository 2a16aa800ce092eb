//! Copies the records of a range from tables to pages, in parts that several threads copy (adaptive.md, "Converting to
//! pages"; compaction-pace.md, "Subcompactions").

use std::{collections::BTreeSet, iter, ops::Bound, sync::Arc};

use ecotone_engine::{
    remaining_range::{Direction, RemainingRange},
    superseded::{LeftOut, SupersededReports},
};
use ecotone_substrate::{Error, Result, bug};

use crate::{
    cache::table_reader::TableReader,
    compaction::{
        executor::{
            cpu_time::CpuTime,
            job::mean,
            subtasks::{ParallelJob, Subtasks},
        },
        inputs::subcompactions,
    },
    pages::{
        conversion::Conversion,
        pending_frees::KeySpan,
        tier::{CopiedRecord, PageTier},
    },
    read::{
        merging_iterator::MergingIterator,
        run_iterator::{ReadMode, RunIterator},
    },
    version::{Run, TableMeta},
};

/// Records between two checks whether the job still goes on.
const LOOK: u64 = 1024;

/// The input of a copy, fixed before it is cut into parts.
struct RangeCopy {
    page_tier: Arc<dyn PageTier>,
    /// From young to old.
    runs: Vec<Run<TableReader>>,
    parts: Vec<KeySpan>,
    is_paged: bool,
    cpu_time: Arc<CpuTime>,
    reports: SupersededReports,
}

impl ParallelJob for RangeCopy {
    /// Versions that the copy leaves out.
    type Output = LeftOut;

    fn run_part(&self, part: usize, goes_on: &dyn Fn() -> bool) -> Result<LeftOut> {
        let (lower, upper) = &self.parts[part];
        let rest = RemainingRange::new((Bound::Included(lower.clone()), Bound::Excluded(upper.clone())));
        let way = (Direction::Up, ReadMode::Sequential);
        let begin = |run| RunIterator::begin(run, &rest, way.clone());
        let mut merged = MergingIterator::new(self.runs.iter().map(begin).collect::<Result<_>>()?, Direction::Up, 0);
        let (mut passed, mut left_out): (u64, _) = (0, self.reports.left_out());
        let next = || {
            passed += 1;
            if passed.is_multiple_of(LOOK) && !goes_on() {
                return Some(Err(Error::Closed { what: "the conversion" }));
            }
            let record = merged.first().and_then(RunIterator::record).filter(|(key, _)| rest.contains(key));
            let (key, value) = record.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))?;
            if bug!(ReportedCopy) {
                left_out.hidden(&key, value.as_deref());
            }
            left_out.newest(value.as_deref());
            let hide = |older: &RunIterator| {
                older.record().into_iter().for_each(|(key, value)| left_out.hidden(key, value));
            };
            Some(merged.pass_with(hide).map(|()| (key, value)))
        };
        let is_wanted =
            |record: &Result<CopiedRecord>| self.is_paged || record.as_ref().map_or(true, |(_, value)| value.is_some());
        self.cpu_time
            .make(|| self.page_tier.ingest(&mut iter::from_fn(next).filter(is_wanted), self.is_paged))
            .map(|_| left_out)
    }
}

impl Conversion<'_> {
    /// Copies the records of some runs in a range to pages, with helpers. A range that is not paged yet is cleared
    /// before. Into one that is paged, tombstones are copied too, as the pages may have a record to remove. Returns the
    /// versions that the copy leaves out.
    pub(super) fn copy_to_pages(
        self,
        runs: Vec<Run<TableReader>>,
        span: (&[u8], &[u8]),
        is_paged: bool,
    ) -> Result<LeftOut> {
        let (lsm, page_tier) = (self.lsm, self.page_tier);
        let helpers = lsm.helpers(runs.len(), mean(runs.iter().flat_map(Run::tables)));
        let parts = self.copy_ranges(&runs, span, is_paged, 1 + helpers)?;
        if !is_paged {
            parts.iter().try_for_each(|(lower, upper)| page_tier.clear_range(lower, Some(upper)))?;
        }
        let count = parts.len();
        lsm.conversions.parts.add(count as u64);
        let (cpu_time, reports) = (lsm.compactor.cpu_time.clone(), lsm.reports().clone());
        let moves = RangeCopy { page_tier: page_tier.clone(), runs, parts, is_paged, cpu_time, reports };
        let (parts, before) = (Subtasks::new(moves, count), page_tier.bytes_written());
        lsm.call_helpers("move a part of a range into pages", &parts, helpers.min(count - 1));
        let made = parts.run_all();
        lsm.conversions.bytes.add(page_tier.bytes_written() - before);
        made.map(LeftOut::from_iter).map_err(|(error, _)| error)
    }

    /// Cuts a range into ascending parts for `threads` threads. The tables of each part have about as many bytes, and
    /// the boundaries between the parts are pinned.
    fn copy_ranges(
        self,
        runs: &[Run<TableReader>],
        (lower, upper): (&[u8], &[u8]),
        is_paged: bool,
        threads: usize,
    ) -> Result<Vec<KeySpan>> {
        let tables = || runs.iter().flat_map(|run| run.within((lower, upper)));
        let within = |key: &&[u8]| *key > lower && *key < upper;
        // Tables are counted where they begin: of those at the ends of the range there may be little.
        let bytes: u64 = tables().filter(|table| within(&table.first())).map(|table| table.bytes()).sum();
        let candidates: BTreeSet<&[u8]> = tables().map(|table| table.first()).filter(within).collect();
        let parts = subcompactions::parts(threads, bytes, self.lsm.tuning.conversion_part);
        let cuts = subcompactions::cuts(tables(), candidates.into_iter().collect(), parts);
        // Boundaries are needed as threads claim whole segments: two threads in one segment would wait for each other.
        let fence = |cut: &[u8]| if is_paged { self.page_tier.boundary_after(cut) } else { Ok(cut.to_vec()) };
        let fences = cuts.into_iter().map(fence).collect::<Result<BTreeSet<Vec<u8>>>>()?;
        let inner: Vec<_> = fences.into_iter().filter(|fence| within(&fence.as_slice())).collect();
        let lowers = iter::once(lower.to_vec()).chain(inner.iter().cloned());
        let uppers = inner.iter().cloned().chain([upper.to_vec()]);
        Ok(lowers.zip(uppers).collect())
    }
}
