//! Segments with a directory, and single pages.

use ecotone_substrate::page::prefix_len;

use super::{
    super::index::{MOST_FENCE_BYTES, Placement},
    Part, Planned, Planner,
    price::{Choice, Price},
};

/// How many of the packed pages a directory takes, and what that costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Directory {
    pages: usize,
    pub(super) price: Price,
}

impl Planner<'_> {
    /// The cheapest directory over the first of the pages between `cuts`; of one page, it is a single page.
    pub(super) fn directory(&self, cuts: &[usize]) -> Directory {
        let start = cuts[0];
        let lower = self.run.lower(start);
        let mut best = Directory { pages: 1, price: self.directory_price(start, cuts[1], 1, 0) };
        let mut fences = 0;
        for pages in 2..cuts.len() {
            fences += self.run.fence(cuts[pages - 1]).map_or(0, <[u8]>::len);
            let skip = prefix_len(lower, self.run.fence(cuts[pages]));
            let bytes = fences - (pages - 1) * skip;
            if bytes + 2 * (pages - 1) > MOST_FENCE_BYTES {
                continue;
            }
            let price = self.directory_price(start, cuts[pages], pages, bytes + pages - 1);
            if price.is_below(best.price) {
                best = Directory { pages, price };
            }
        }
        best
    }

    /// The segment of such a directory.
    pub(super) fn directory_of(&self, cuts: &[usize], directory: Directory) -> Choice {
        let cuts = &cuts[..=directory.pages];
        let part = |cut: &[usize]| Part { lower: self.run.lower(cut[0]).to_vec(), records: cut[0]..cut[1] };
        let pages: Vec<Part> = cuts.windows(2).map(part).collect();
        let end = cuts[directory.pages];
        let lower = &pages[0].lower;
        let skip = prefix_len(lower, self.run.fence(end));
        let placement = match directory.pages {
            1 => Placement::Single,
            _ => Placement::directory(&lower[..skip], pages[1..].iter().map(|part| part.lower.clone())),
        };
        Choice { planned: Planned { placement, pages }, end }
    }
}
