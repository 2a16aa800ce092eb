//! Plans how the records of a range lie in segments and pages (T7, T9, T11, T12; decision 5).
//!
//! A plan is made from the left. The pages that would come next if each were filled to the goal are packed ([`run`]); a
//! page may miss the goal by a twentieth, either way, where that makes its fence shorter. The next segment is what
//! costs the fewest bytes of index for each byte of records:
//!
//! - a **directory** over the first of these pages, up to 16, each as it was packed ([`directory`]); one page is a
//!   single page;
//! - a **line** over 16, 8, 4 or 2 pages that takes as many records as that many packed pages, or up to some percent
//!   fewer if no line fits those ([`mod@line`]). T9's goal and epsilon are where the search begins; a line is accepted
//!   if the actual bytes of each page fit. What it leaves to others costs [`price::PAGE`] bytes for each page.
//!
//! Memory is some thirty times the price of disk, so a line may cost little space: its entry is 26 bytes, that of a
//! directory about 20 and 2 bytes for each page. At a price of 64, plans take 0.1% more pages than without lines. At 32
//! it was 0.7% on uniform keys of 64 bytes, for an index smaller by a seventh; at 16 it was 4.2%. Lines win where keys
//! are dense (`refseq_acc`: 85% of the pages of 1024-byte records), directories where a page holds three records or
//! keys are strings. The tests hold what comes out for real keys.

mod directory;
mod fill;
mod line;
mod price;
mod run;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub(crate) use self::fill::Fill;
use self::{price::Choice, run::Run};
use super::{
    index::{MOST_PAGES, Placement},
    records::Records,
};

/// How lines are found (T11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Among all lines.
    Optimal,
    /// Among the lines through the first record: less work, shorter segments.
    Greedy,
}

/// What a plan aims at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goals {
    /// How full pages are.
    pub(crate) fill: Fill,
    /// Most pages of a segment, 1..=16.
    pub(crate) most_pages: u8,
    /// How lines are found.
    pub(crate) model: Model,
}

/// One page of a plan: which records, and its lower fence. Its upper fence is the next page's lower one, or the
/// range's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) lower: Vec<u8>,
    pub(crate) records: Range<usize>,
}

/// One segment of a plan. It begins where its first page does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) placement: Placement,
    pub(crate) pages: Vec<Part>,
}

/// Spreads the records of the range from `lower` to `upper` over as few pages as the goals allow, none of which is left
/// nearly empty. There is always one page, and each fits.
pub(crate) fn spread(records: &Records, lower: &[u8], upper: Option<&[u8]>, goals: &Goals) -> Vec<Planned> {
    Planner::new(records, lower, upper, goals).plan(true)
}

/// Fills pages one after the other and leaves the last as it comes: for loads in key order.
pub(crate) fn fill_up(records: &Records, lower: &[u8], upper: Option<&[u8]>, goals: &Goals) -> Vec<Planned> {
    Planner::new(records, lower, upper, goals).plan(false)
}

#[derive(Debug)]
struct Planner<'a> {
    run: Run<'a>,
    goals: Goals,
    /// Bytes of the fullest pages at the goal.
    target: usize,
    /// Length of what all fences of the range share, about: the index stores it once.
    shared: usize,
    /// What a page costs, in bytes of the index.
    page_price: usize,
}

impl<'a> Planner<'a> {
    fn new(records: &'a Records, lower: &'a [u8], upper: Option<&'a [u8]>, goals: &Goals) -> Self {
        let most = goals.fill.most();
        assert!((1..=100).contains(&most) && (1..=MOST_PAGES).contains(&goals.most_pages), "goals are valid");
        let run = Run::new(records, lower, upper, goals.fill);
        let shared = run.shared();
        Planner {
            run,
            goals: *goals,
            target: run::PAGE_BYTES * usize::from(most) / 100,
            shared,
            page_price: price::PAGE,
        }
    }

    fn plan(&self, evenly: bool) -> Vec<Planned> {
        let mut planned = Vec::new();
        let (mut start, mut target) = (0, None);
        while planned.is_empty() || start < self.run.len() {
            let goal = *target
                .get_or_insert_with(|| if evenly { self.run.even_target(start, self.target) } else { self.target });
            let most = if evenly { self.even_pages(start, goal) } else { self.goals.most_pages.into() };
            let cuts = self.run.cuts(start, goal, most);
            let choice = self.choose(&cuts);
            // A line that takes less than its share leaves more to the others.
            target = target.filter(|_| cuts.contains(&choice.end));
            start = choice.end;
            planned.push(choice.planned);
        }
        planned
    }

    /// Most pages of the next segment, if all that follow have about as many: a segment that grew by a page then
    /// becomes two halves, and not the same again beside a single page.
    fn even_pages(&self, start: usize, target: usize) -> usize {
        let pages = self.run.cuts(start, target, usize::MAX).len() - 1;
        pages.div_ceil(pages.div_ceil(self.goals.most_pages.into()))
    }

    /// The cheapest segment that begins with the first of these pages.
    fn choose(&self, cuts: &[usize]) -> Choice {
        let directory = self.directory(cuts);
        // The pages of a line are alike.
        let may_have_line = self.goals.most_pages > 1 && self.goals.fill.is_even();
        let line = if may_have_line { self.line(cuts, directory.price) } else { None };
        line.unwrap_or_else(|| self.directory_of(cuts, directory))
    }
}
