//! Plans segments with a directory of fences, and single pages.

use ecotone_substrate::page::prefix_len;

use super::{
    super::index::{MOST_FENCE_BYTES, Placement, fence_len},
    Planner,
    plan::{Choice, Cost, PagePlan, SegmentPlan},
};

/// Number of packed pages in a directory, and its cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Directory {
    pages: usize,
    pub(super) cost: Cost,
}

impl Planner<'_> {
    /// The cheapest directory over the first of the pages between `cuts`. With one page it is a single page.
    pub(super) fn directory(&self, cuts: &[usize]) -> Directory {
        let start = cuts[0];
        let lower = self.run.lower(start);
        let mut best = Directory { pages: 1, cost: self.directory_cost(start, cuts[1], 1, 0) };
        // For each fence, the length of the prefix shared with the fence before (for the first, with the segment's
        // prefix) and the length of the rest.
        let mut lengths: Vec<(usize, usize)> = Vec::new();
        for pages in 2..cuts.len() {
            let (before, fence) = (self.run.lower(cuts[pages - 2]), self.run.lower(cuts[pages - 1]));
            let shared = prefix_len(before, Some(fence));
            lengths.push((shared, fence.len() - shared));
            let skip = prefix_len(lower, self.run.fence(cuts[pages]));
            lengths[0] = (skip, self.run.lower(cuts[1]).len() - skip);
            let bytes = lengths.iter().map(|(shared, own)| fence_len(shared - skip, *own)).sum();
            if bytes > MOST_FENCE_BYTES {
                break;
            }
            let cost = self.directory_cost(start, cuts[pages], pages, bytes);
            if cost.is_below(best.cost) {
                best = Directory { pages, cost };
            }
        }
        best
    }

    /// The planned segment of a directory.
    pub(super) fn directory_of(&self, cuts: &[usize], directory: Directory) -> Choice {
        let cuts = &cuts[..=directory.pages];
        let part = |cut: &[usize]| PagePlan { lower: self.run.lower(cut[0]).to_vec(), records: cut[0]..cut[1] };
        let pages: Vec<PagePlan> = cuts.windows(2).map(part).collect();
        let end = cuts[directory.pages];
        let lower = &pages[0].lower;
        let skip = prefix_len(lower, self.run.fence(end));
        let placement = match directory.pages {
            1 => Placement::Single,
            _ => Placement::directory(&lower[..skip], pages[1..].iter().map(|part| part.lower.clone())),
        };
        Choice { planned: SegmentPlan { placement, pages }, end }
    }
}
