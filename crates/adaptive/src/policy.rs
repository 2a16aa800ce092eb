//! The adaptation policy. It chooses the next range to convert: to pages, to one run of tables, or back to tables. A
//! conversion to pages or to one run has to be paid for by the read cost of scans, or gives space back. A paged
//! range that scans have left goes back to tables (adaptive.md, "Cost model" and "Back-off" and "Controller" and
//! "Converting to tables").

use std::cell::OnceCell;

use ecotone_engine::contract::{ConversionReason, Hint};
use ecotone_lsm::{Split, manifest::PagedRange, store::Lsm};

use super::{
    cost_model::{self, FIXED_COST},
    hints::Hints,
    range_part::RangePart,
    scan_stats::{ScanStats, cells::KeyRange},
    task::{Target, Task},
};

/// What is known of a keyspace: the statistics of scans, and the hints.
#[derive(Debug, Clone, Default)]
pub(super) struct Policy {
    pub(super) scan_stats: ScanStats,
    pub(super) hints: Hints,
    /// Whether the keyspace was not used for some time.
    pub(super) is_idle: bool,
}

impl Policy {
    /// The next task, if a conversion is worth its cost. Ranges do not become cold while the keyspace is idle.
    pub(super) fn choose(&self, lsm: &Lsm, split: Split, budget: u64) -> Option<Task> {
        let ends = lsm.key_bounds()?;
        let fits = OnceCell::new();
        let fits = || *fits.get_or_init(|| cost_model::fits_as_one_run(self.hot_bytes(lsm, &ends, budget), budget));
        let conversion_cost = |lower: &[u8], upper: Option<&[u8]>| {
            let (lower, upper) = clip(&ends, lower, upper)?;
            if !self.may_be_pages(&lower, &upper) {
                return None;
            }
            let parts = RangePart::of(lsm, split, &fits, (lower, upper));
            (!parts.is_empty()).then(|| parts.iter().map(|part| self.conversion_cost(part)).sum())
        };
        let gathered = |(lower, upper): KeyRange| {
            let (lower, upper) = clip(&ends, &lower, upper.as_deref())?;
            RangePart::of(lsm, split, &fits, (lower, upper))
                .into_iter()
                .find_map(|part| self.plan_part(lsm, split, part))
        };
        if let Some(task) = self.scan_stats.candidates(FIXED_COST, conversion_cost).find_map(gathered) {
            return Some(task);
        }
        if self.is_idle {
            return lsm.is_idle().then(|| self.reclaim(lsm, split)).flatten();
        }
        let paged_ranges = lsm.paged_ranges();
        let is_paged = |lower: &[u8], upper: &[u8]| {
            paged_ranges.iter().map(PagedRange::bounds).any(|(from, to)| from < upper && lower < to)
        };
        let conversion_to_tables = |(lower, upper): KeyRange| {
            let (lower, upper) = clip(&ends, &lower, upper.as_deref())?;
            let mut parts = self.hints.parts(&lower, &upper).into_iter().filter(|(.., hint)| *hint != Hint::ReadMostly);
            let (lower, upper, _) = parts.find(|(lower, upper, _)| is_paged(lower, upper))?;
            Some(Task::new(Target::Tables, ConversionReason::Cold, lower.to_vec(), upper.to_vec()))
        };
        self.scan_stats.cold().find_map(conversion_to_tables)
    }

    /// The bounds of the hot ranges, ascending.
    pub(super) fn hot_bounds(&self, lsm: &Lsm, budget: u64) -> Vec<Vec<u8>> {
        lsm.key_bounds().map_or_else(Vec::new, |ends| self.scan_stats.hot_bounds(bytes_of(lsm, &ends, budget)))
    }

    /// Updates the statistics of the range of a finished task.
    pub(super) fn learn(&mut self, task: &Task) {
        match task.target {
            // Scans have not paid for this conversion.
            Target::Pages if task.reason == ConversionReason::Idle => {}
            Target::Pages | Target::OneRun => {
                self.scan_stats.converted(&task.lower, &task.upper, (task.cpu_ns as f64, task.levels_left == 0));
            }
            Target::Tables if task.is_given_up => self.scan_stats.keep(&task.lower, &task.upper),
            Target::Tables => self.scan_stats.reverted(&task.lower, &task.upper),
        }
    }

    /// Whether no hint keeps a part of the range in tables.
    fn may_be_pages(&self, lower: &[u8], upper: &[u8]) -> bool {
        self.hints.parts(lower, upper).iter().all(|(.., hint)| *hint != Hint::WriteMostly)
    }

    /// A conversion that gives space back, in an idle keyspace: of the smallest paged range whose tables mostly delete
    /// what its pages hold.
    fn reclaim(&self, lsm: &Lsm, split: Split) -> Option<Task> {
        let range_sizes = lsm.range_sizes();
        let ranges = range_sizes.mostly_deleted().filter(|(lower, upper)| self.may_be_pages(lower, upper));
        let sized = ranges.map(|range| (range_sizes.conversion_size(split, range.0, range.1).bytes, range));
        let (_, (lower, upper)) = sized.filter(|(bytes, _)| *bytes > 0).min_by_key(|(bytes, _)| *bytes)?;
        Some(Task::convert(lsm, split, ConversionReason::Idle, (lower.to_vec(), upper.to_vec())))
    }

    /// How to convert a part of a range. A part that may be one run becomes one, unless its last conversions did not
    /// pay back. All other parts become pages.
    fn target_for(&self, part: &RangePart) -> Target {
        if part.may_be_run && !self.scan_stats.did_not_pay_back(&part.lower, &part.upper) {
            Target::OneRun
        } else {
            Target::Pages
        }
    }

    /// Cost of converting the part, in nanoseconds.
    fn conversion_cost(&self, part: &RangePart) -> f64 {
        cost_model::conversion_cost(self.target_for(part), cost_model::bytes_rewritten(&part.range_size))
    }

    /// The task that converts a part of a range, if scans have paid for it. Conversion to pages is charged the size of
    /// the part. Conversion to one run is first checked against that size, which is cheap to estimate, then against all
    /// bytes that the range compaction would read. A part that is one run but for a small remainder stays as it is.
    fn plan_part(&self, lsm: &Lsm, split: Split, part: RangePart) -> Option<Task> {
        let (target, conversion_cost) = (self.target_for(&part), self.conversion_cost(&part));
        let RangePart { lower, upper, may_be_run, .. } = part;
        let is_one_run = may_be_run && !cost_model::is_worth_merging(&lsm.range_sizes().range_size(&lower, &upper));
        let pays = match target {
            Target::Pages => self.scan_stats.exceeds_page_threshold(&lower, &upper, (conversion_cost, FIXED_COST)),
            _ => self.scan_stats.exceeds_threshold(&lower, &upper, (conversion_cost, FIXED_COST)),
        };
        if is_one_run || !pays {
            return None;
        }
        if target == Target::Pages {
            return Some(Task::convert(lsm, split, ConversionReason::Scans, (lower, upper)));
        }
        let plan = lsm.estimate_range_compaction((&lower, &upper))?;
        let conversion_cost = cost_model::conversion_cost(Target::OneRun, plan.bytes as f64);
        self.scan_stats
            .exceeds_threshold(&lower, &upper, (conversion_cost, FIXED_COST))
            .then(|| Task::merge((lower, upper), plan))
    }

    /// Estimated size of the hot set if each range were merged, using its largest level. Anything above the budget does
    /// not fit.
    fn hot_bytes(&self, lsm: &Lsm, ends: &(Vec<u8>, Vec<u8>), budget: u64) -> u64 {
        self.scan_stats.hot_bytes(bytes_of(lsm, ends, budget))
    }
}

/// Estimates the size of a range if it were merged, using its largest level or its pages. Pages are counted up to twice
/// the budget.
fn bytes_of(lsm: &Lsm, ends: &(Vec<u8>, Vec<u8>), budget: u64) -> impl Fn(KeyRange) -> u64 {
    move |(lower, upper)| {
        clip(ends, &lower, upper.as_deref())
            .map_or(0, |(lower, upper)| lsm.range_sizes().merged_size(&lower, &upper, 2 * budget))
    }
}

/// The part of a range that lies within the key bounds of the keyspace, if any.
pub(super) fn clip(
    (first, end): &(Vec<u8>, Vec<u8>),
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let (lower, upper) = (lower.max(first), upper.map_or(&**end, |upper| upper.min(end)));
    (lower < upper).then(|| (lower.to_vec(), upper.to_vec()))
}
