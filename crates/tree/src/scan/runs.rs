//! Pages of a scan, grouped into requests.

use ecotone_engine::read_ahead::LARGEST_READ;
use ecotone_substrate::limits::PAGE;
use ecotone_sys::chunk::Size;

/// Adjacent pages of the file, read by one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) pages: usize,
}

impl Run {
    pub(super) fn end(self) -> u64 {
        u64::from(self.first) + self.pages as u64
    }

    /// The run extended by one page, if that is adjacent to either end.
    pub(super) fn with(self, page: u32) -> Option<Run> {
        let first = if u64::from(page) + 1 == u64::from(self.first) { page } else { self.first };
        let beside = first == page || u64::from(page) == self.end();
        (beside && self.pages < LARGEST_READ).then_some(Run { first, pages: self.pages + 1 })
    }

    /// The run without its first page, or without its last.
    pub(super) fn shortened(self, at_start: bool) -> Run {
        Run { first: self.first + u32::from(at_start), pages: self.pages - 1 }
    }

    /// The size of the block that holds the run.
    pub(super) fn size(self) -> Size {
        if self.pages == 1 { Size::Frame } else { Size::Slab }
    }

    /// The offset of a page in the run's bytes.
    pub(super) fn offset_of(self, page: u32) -> Option<usize> {
        let behind = page.checked_sub(self.first)? as usize;
        (behind < self.pages).then_some(behind * PAGE)
    }
}

/// Base pages in scan order, grouped into runs.
#[derive(Debug, Default)]
pub(super) struct Runs(pub(super) Vec<Run>);

impl Runs {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn add(&mut self, page: u32) {
        match self.0.last_mut().and_then(|last| Some((last.with(page)?, last))) {
            Some((longer, last)) => *last = longer,
            None => self.0.push(Run { first: page, pages: 1 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LARGEST_READ, Run, Runs};

    fn runs(pages: impl IntoIterator<Item = u32>) -> Vec<Run> {
        let mut runs = Runs::default();
        pages.into_iter().for_each(|page| runs.add(page));
        runs.0
    }

    #[test]
    fn neighbours_are_one_request_in_either_direction() {
        let run = |first, pages| Run { first, pages };
        assert_eq!(runs([4, 5, 6, 9, 3, 2]), [run(4, 3), run(9, 1), run(2, 2)]);
        assert_eq!(
            runs(100..100 + LARGEST_READ as u32 + 1),
            [run(100, LARGEST_READ), run(100 + LARGEST_READ as u32, 1)]
        );
        assert_eq!(runs([u32::MAX - 1, 0, 1]), [run(u32::MAX - 1, 1), run(0, 2)]);
        assert_eq!([3, 4, 6, 7].map(|page| run(4, 3).offset_of(page)), [None, Some(0), Some(8192), None]);
    }
}
