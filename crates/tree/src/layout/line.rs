//! Plans segments with a line: a linear model from keys to pages (T8, T9, T11).
//!
//! A line over *k* pages has *k* − 1 boundaries, equally spaced. Boundary *j* may lie in an interval of offsets:
//! between the records at which *j* shares of the bytes are reached, minus and plus an error. To fit boundaries over
//! offsets is therefore the same problem as to fit ranks over keys, and the same fitters solve it with fewer points,
//! since the records between the boundaries do not matter. The error is made as small as possible. The line is accepted
//! if the records of each page fit.

use ecotone_substrate::{
    limits::MAX_KEY,
    model::{DIGEST, Fit, Fitter, GreedyPlr, Line, OptimalPla, digest, fence},
    page::prefix_len,
};

use super::{
    super::index::Placement,
    Model, Planner,
    plan::{Choice, Cost, PagePlan, SegmentPlan},
    run::{PAGE_BYTES, Run},
};

/// Numbers of pages that a line can have, from the most (T7).
const PAGES: [u8; 4] = [16, 8, 4, 2];
/// How often the error is halved.
const HALVINGS: usize = 5;

impl Planner<'_> {
    /// The cheapest line over the records of the pages between `cuts`, or over slightly fewer, if it costs less than
    /// `below`.
    pub(super) fn line(&self, cuts: &[usize], below: Cost) -> Option<Choice> {
        let (start, mut best, mut below) = (cuts[0], None, below);
        for pages in PAGES.into_iter().filter(|pages| usize::from(*pages) < cuts.len()) {
            let whole = cuts[usize::from(pages)];
            let mut end = whole;
            while end >= start + usize::from(pages) && self.line_cost(start, end, whole, pages.into()).is_below(below) {
                if let Some(planned) =
                    Span::new(&self.run, start, end, pages).and_then(|span| span.plan(self.policy.model))
                {
                    below = self.line_cost(start, end, whole, pages.into());
                    best = Some(Choice { planned, end });
                    break;
                }
                let less = self.run.raw(start..end) - self.run.raw(start..whole) / 100;
                end = self.run.position(start, end - 1, less);
            }
        }
        best
    }
}

/// Records that a line must place on `pages` pages.
#[derive(Debug)]
struct Span<'a> {
    run: &'a Run<'a>,
    start: usize,
    end: usize,
    pages: u8,
    lower: &'a [u8],
    upper: Option<&'a [u8]>,
    skip: usize,
    origin: u64,
}

impl<'a> Span<'a> {
    fn new(run: &'a Run<'a>, start: usize, end: usize, pages: u8) -> Option<Self> {
        let (lower, upper) = (run.lower(start), run.fence(end));
        let skip = prefix_len(lower, upper);
        let origin = digest(lower, skip);
        (skip + DIGEST <= MAX_KEY).then_some(Span { run, start, end, pages, lower, upper, skip, origin })
    }

    fn offset(&self, position: usize) -> u64 {
        digest(self.run.key(position), self.skip) - self.origin
    }

    fn plan(&self, model: Model) -> Option<SegmentPlan> {
        let line = match model {
            // A single boundary leaves a line too much choice.
            Model::Optimal => self.find::<OptimalPla>(self.pages == 2),
            Model::Greedy => self.find::<GreedyPlr>(true),
        }?;
        let pages = self.accept(line)?;
        Some(SegmentPlan { placement: Placement::Line { skip: self.skip as u16, line }, pages })
    }

    /// The line whose boundaries have the smallest error. With `from_first`, only lines through the first record.
    fn find<F: Fitter + Default>(&self, from_first: bool) -> Option<Line> {
        let share = self.run.raw(self.start..self.end) / usize::from(self.pages);
        let room = PAGE_BYTES.saturating_sub(
            self.run.page_bytes(self.start..self.end, self.lower, self.upper) / usize::from(self.pages),
        );
        let (mut narrow, mut wide) = (0usize, 2 * room.max(PAGE_BYTES / 20));
        let mut fit = self.fit::<F>(from_first, share, wide)?;
        for _ in 0..HALVINGS {
            let middle = narrow.midpoint(wide);
            match self.fit::<F>(from_first, share, middle) {
                Some(better) => (fit, wide) = (better, middle),
                None => narrow = middle,
            }
        }
        Line::new((1.0 / fit.slope) as f32, (-fit.intercept / fit.slope) as f32)
    }

    /// A line through the boundaries, as offsets over page numbers, that misses no share by more than `error` bytes.
    fn fit<F: Fitter + Default>(&self, from_first: bool, share: usize, error: usize) -> Option<Fit> {
        let mut fitter = F::default();
        if from_first {
            let first = self.offset(self.start);
            fitter.push(0, first, first);
        }
        for boundary in 1..usize::from(self.pages) {
            let bytes = boundary * share;
            let first = if bytes > error {
                self.run.position(self.start, self.end - 1, bytes - error - 1) + 1
            } else {
                self.start + 1
            };
            let last = self.run.position(self.start, self.end - 1, bytes + error);
            if first > last
                || last >= self.end
                || !fitter.push(boundary as u64, self.offset(first - 1), self.offset(last))
            {
                return None;
            }
        }
        fitter.fit()
    }

    /// The pages of a line, if each has a non-empty range of its own and its records fit.
    fn accept(&self, line: Line) -> Option<Vec<PagePlan>> {
        let prefix = &self.lower[..self.skip];
        let mut pages = vec![PagePlan { lower: self.lower.to_vec(), records: self.start..self.end }];
        for page in 1..self.pages {
            let first = self.origin.checked_add(line.first_offset(page, self.pages)?)?;
            let lower = fence(prefix, first);
            let before = pages.last_mut().expect("there is a first page");
            let cut = self.run.lower_bound(before.records.start..self.end, &lower);
            before.records.end = cut;
            if lower <= before.lower
                || self.run.page_bytes(before.records.clone(), &before.lower, Some(&lower)) > PAGE_BYTES
            {
                return None;
            }
            pages.push(PagePlan { lower, records: cut..self.end });
        }
        let last = pages.last().expect("there is a first page");
        let fits = self.upper.is_none_or(|upper| last.lower.as_slice() < upper)
            && self.run.page_bytes(last.records.clone(), &last.lower, self.upper) <= PAGE_BYTES;
        fits.then_some(pages)
    }
}
