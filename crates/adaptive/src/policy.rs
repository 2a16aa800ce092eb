//! The adaptation policy. It chooses the next range to convert: to pages, to one run of tables, or back to tables. A
//! conversion to pages or to one run has to be paid for by the read cost of scans, except in an idle keyspace. A paged
//! range that scans have left goes back to tables (adaptive.md, "Cost model" and "Back-off" and "Controller" and
//! "Converting to tables").

use std::cell::OnceCell;

use ecotone_engine::contract::{ConversionReason, Hint};
use ecotone_lsm::{Split, manifest::PagedRange, pages::tier::RangeSize, store::Lsm};

use super::{
    cost_model::{self, CostModel, FIXED_COST},
    hints::Hints,
    range_part::RangePart,
    scan_stats::{ScanStats, cells::KeyRange},
    task::{Target, Task},
};

/// A gap between a range and other pages is converted with the range if it costs at most this share of the range's
/// cost.
const MAX_GAP_COST_SHARE: f64 = 1.0 / 4.0;
/// Weight of one scan after the decay time of the scan statistics (about 1/e).
const RECENT: f64 = 0.36;

/// What is known of a keyspace: the statistics of scans, the costs of conversions, and the hints.
#[derive(Debug, Clone, Default)]
pub(super) struct Policy {
    pub(super) scan_stats: ScanStats,
    pub(super) costs: CostModel,
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
            return lsm.is_idle().then(|| self.idle_conversion(lsm, split)).flatten();
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

    /// Learns the cost of a finished task and updates the statistics of its range.
    pub(super) fn learn(&mut self, task: &Task) {
        match task.target {
            // Scans have not paid for this conversion.
            Target::Pages if task.reason == ConversionReason::Idle => {}
            target @ (Target::Pages | Target::OneRun) => {
                if task.bytes_rewritten() > 0.0 && !task.is_given_up {
                    self.costs.learn(target, task.bytes_rewritten(), task.cpu_ns);
                }
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

    /// The cheapest conversion to pages in an idle keyspace. It is chosen among the paged ranges that have table
    /// records above their pages, and that were scanned recently or consist mostly of deleted records.
    fn idle_conversion(&self, lsm: &Lsm, split: Split) -> Option<Task> {
        let paged_ranges = lsm.paged_ranges();
        let is_wanted = |(lower, upper): &(&[u8], &[u8])| {
            let is_wanted = self.scan_stats.of(lower, upper).0 >= RECENT || lsm.is_mostly_deleted((lower, upper));
            is_wanted && self.may_be_pages(lower, upper)
        };
        let wanted = paged_ranges.iter().map(PagedRange::bounds).filter(is_wanted);
        let range_size = wanted.map(|bounds| {
            (cost_model::bytes_rewritten(&lsm.range_sizes().conversion_size(split, bounds.0, bounds.1)), bounds)
        });
        let idle_conversion = range_size.filter(|(bytes, _)| *bytes > 0.0);
        let (bytes, (lower, upper)) = idle_conversion.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        Some(Task::convert(lsm, split, ConversionReason::Idle, (lower.to_vec(), upper.to_vec()), bytes))
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
        self.costs.of(self.target_for(part)).of(cost_model::bytes_rewritten(&part.range_size))
    }

    /// The task that converts a part of a range, if scans have paid for it. Conversion to pages is charged the size of
    /// the part. Conversion to one run is first checked against that size, which is cheap to estimate, then against all
    /// bytes that the range compaction would read. A part that is one run but for a small remainder stays as it is.
    fn plan_part(&self, lsm: &Lsm, split: Split, part: RangePart) -> Option<Task> {
        let (target, conversion_cost) = (self.target_for(&part), self.conversion_cost(&part));
        let RangePart { lower, upper, range_size, may_be_run } = part;
        let is_one_run = may_be_run && !cost_model::is_worth_merging(&lsm.range_sizes().range_size(&lower, &upper));
        let pays = match target {
            Target::Pages => self.scan_stats.exceeds_page_threshold(&lower, &upper, (conversion_cost, FIXED_COST)),
            _ => self.scan_stats.exceeds_threshold(&lower, &upper, (conversion_cost, FIXED_COST)),
        };
        if is_one_run || !pays {
            return None;
        }
        if target == Target::Pages {
            let (lower, upper) = self.with_gaps(lsm, split, (lower, upper), &range_size);
            let bytes = cost_model::bytes_rewritten(&lsm.range_sizes().conversion_size(split, &lower, &upper));
            return Some(Task::convert(lsm, split, ConversionReason::Scans, (lower, upper), bytes));
        }
        let plan = lsm.estimate_range_compaction((&lower, &upper))?;
        let conversion_cost = self.costs.of(Target::OneRun).of(plan.bytes as f64);
        self.scan_stats
            .exceeds_threshold(&lower, &upper, (conversion_cost, FIXED_COST))
            .then(|| Task::merge((lower, upper), plan))
    }

    /// Extends a range that becomes pages, with this size, over the gaps to its paged neighbours where a gap is cheap
    /// to convert. A scan across a gap in tables would have to seek again behind it.
    fn with_gaps(
        &self,
        lsm: &Lsm,
        split: Split,
        (lower, upper): (Vec<u8>, Vec<u8>),
        range_size: &RangeSize,
    ) -> (Vec<u8>, Vec<u8>) {
        let (paged_ranges, conversion_cost) = (lsm.paged_ranges(), |range_size: &RangeSize| {
            self.costs.of(Target::Pages).of(cost_model::bytes_rewritten(range_size))
        });
        let most = MAX_GAP_COST_SHARE * (conversion_cost(range_size) + FIXED_COST);
        let is_cheap = |from: &[u8], to: &[u8]| {
            from < to
                && self.may_be_pages(from, to)
                && conversion_cost(&lsm.range_sizes().conversion_size(split, from, to)) <= most
        };
        let bounds = || paged_ranges.iter().map(PagedRange::bounds);
        let before = bounds().filter(|(begin, _)| *begin < &lower[..]).last();
        let behind = bounds().find(|(_, end)| *end > &upper[..]);
        let from = before.map(|(_, end)| end).filter(|end| is_cheap(end, &lower)).map(<[u8]>::to_vec);
        let to = behind.map(|(begin, _)| begin).filter(|begin| is_cheap(&upper, begin)).map(<[u8]>::to_vec);
        (from.unwrap_or(lower), to.unwrap_or(upper))
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
