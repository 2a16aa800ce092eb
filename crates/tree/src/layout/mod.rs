//! Plans how the records of a range are divided into segments and pages (T7, T9, T11, T12; decision 5).
//!
//! A plan is made from left to right. The next pages are packed, each filled to the target ([`run`]); a page may miss
//! the target by a twentieth, either way, where that makes its fence shorter. The next segment is the one that costs
//! the fewest bytes of index for each byte of records:
//!
//! - a **directory** over the first of these pages, up to 16, each as it was packed ([`directory`]); one page is a
//!   single page;
//! - a **line** over 16, 8, 4 or 2 pages that takes as many records as that many packed pages, or up to some percent
//!   fewer if no line fits those ([`mod@line`]). The search begins with T9's goal and epsilon; a line is accepted if
//!   the actual bytes of each page fit. Records that it leaves to other pages cost [`plan::PAGE`] bytes for each page.
//!
//! Memory costs about thirty times as much as disk, so a line may cost little disk space: its entry has 26 bytes, that
//! of a directory about 20 and 2 bytes for each page. At a page cost of 64, plans take 0.1% more pages than without
//! lines. At 32 they took 0.7% more on uniform keys of 64 bytes, for an index smaller by a seventh; at 16 they took
//! 4.2% more. Lines win where keys are dense (`refseq_acc`: 85% of the pages of 1024-byte records), directories where a
//! page holds three records or keys are strings. The tests check the results for real keys.

mod cost;
mod directory;
mod fill;
mod line;
mod plan;
mod run;
#[cfg(test)]
mod tests;

use ecotone_engine::option_value;

pub(crate) use self::{
    fill::FillFactor,
    plan::{PagePlan, SegmentPlan},
};
use self::{plan::Choice, run::Run};
use super::{index::MOST_PAGES, records::Records};

// T11.
/// How the lines of segments are fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Model {
    /// The best of all lines.
    Optimal,
    /// The best of the lines through the first record: less work, shorter segments.
    Greedy,
}

impl Model {
    /// Indexed by their number on disk.
    pub(crate) const ALL: [Model; 2] = [Model::Optimal, Model::Greedy];

    /// Returns its name among the options.
    pub fn name(self) -> &'static str {
        match self {
            Model::Optimal => "optimal",
            Model::Greedy => "greedy",
        }
    }
}

option_value!(Model, "model");

/// The limits of a plan: how full pages are, and how large segments may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FillPolicy {
    /// How full pages are.
    pub(crate) fill: FillFactor,
    /// Most pages of a segment, 1..=16.
    pub(crate) most_pages: u8,
    /// How lines are fitted.
    pub(crate) model: Model,
}

/// Spreads the records of the range from `lower` to `upper` evenly over as few pages as the fill policy allows, so that
/// none is nearly empty. There is at least one page, and the records of each fit.
pub(crate) fn spread(records: &Records, lower: &[u8], upper: Option<&[u8]>, policy: &FillPolicy) -> Vec<SegmentPlan> {
    Planner::new(records, lower, upper, policy).plan(true)
}

/// Fills pages one after the other, and the last with the remainder: for loads in key order.
pub(crate) fn fill_up(records: &Records, lower: &[u8], upper: Option<&[u8]>, policy: &FillPolicy) -> Vec<SegmentPlan> {
    Planner::new(records, lower, upper, policy).plan(false)
}

#[derive(Debug)]
struct Planner<'a> {
    run: Run<'a>,
    policy: FillPolicy,
    /// Target bytes of the fullest pages.
    target: usize,
    /// Approximate length of the prefix that all fences of the range share: the index stores it once.
    shared: usize,
    /// Cost of a page, in bytes of the index.
    page_price: usize,
}

impl<'a> Planner<'a> {
    fn new(records: &'a Records, lower: &'a [u8], upper: Option<&'a [u8]>, policy: &FillPolicy) -> Self {
        let most = policy.fill.most();
        assert!((1..=100).contains(&most) && (1..=MOST_PAGES).contains(&policy.most_pages), "goals are valid");
        let run = Run::new(records, lower, upper, policy.fill);
        let shared = run.shared();
        Planner {
            run,
            policy: *policy,
            target: run::PAGE_BYTES * usize::from(most) / 100,
            shared,
            page_price: plan::PAGE,
        }
    }

    fn plan(&self, evenly: bool) -> Vec<SegmentPlan> {
        let mut planned = Vec::new();
        let (mut start, mut target) = (0, None);
        while planned.is_empty() || start < self.run.len() {
            let goal = *target
                .get_or_insert_with(|| if evenly { self.run.even_target(start, self.target) } else { self.target });
            let most = if evenly { self.even_pages(start, goal) } else { self.policy.most_pages.into() };
            let cuts = self.run.cuts(start, goal, most);
            let choice = self.choose(&cuts);
            // A line that takes less than its share leaves more to later pages, so the target is computed again.
            target = target.filter(|_| cuts.contains(&choice.end));
            start = choice.end;
            planned.push(choice.planned);
        }
        planned
    }

    /// Most pages of the next segment, so that all following segments have about as many. A segment that has grown by a
    /// page then becomes two halves, not the same segment beside a single page.
    fn even_pages(&self, start: usize, target: usize) -> usize {
        let pages = self.run.cuts(start, target, usize::MAX).len() - 1;
        pages.div_ceil(pages.div_ceil(self.policy.most_pages.into()))
    }

    /// The cheapest segment that begins with the first of these pages.
    fn choose(&self, cuts: &[usize]) -> Choice {
        let directory = self.directory(cuts);
        // The pages of a line have equal fill.
        let may_have_line = self.policy.most_pages > 1 && self.policy.fill.is_even();
        let line = if may_have_line { self.line(cuts, directory.cost) } else { None };
        line.unwrap_or_else(|| self.directory_of(cuts, directory))
    }
}
