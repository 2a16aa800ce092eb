//! The line that maps the keys of a segment to pages, and its one evaluator.

/// A rising line from offsets to pages. An index entry stores it, so it is rounded before any record is placed by it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    slope: f32,
    intercept: f32,
}

// Both are finite.
impl Eq for Line {}

impl Line {
    /// A line. `None` unless both numbers are finite and the slope (in pages per step of the offset) is not negative; a
    /// falling line would not keep the order of keys.
    pub fn new(slope: f32, intercept: f32) -> Option<Line> {
        (slope.is_finite() && slope >= 0.0 && intercept.is_finite()).then_some(Line { slope, intercept })
    }

    /// Pages for one step of the offset.
    pub fn slope(self) -> f32 {
        self.slope
    }

    /// The line's value at offset 0, in pages.
    pub fn intercept(self) -> f32 {
        self.intercept
    }

    /// The page, of `pages` (at least one), that an offset belongs to. Conversion, product, sum and floor each keep the
    /// order of their arguments, and nothing here can be contracted or overflow. So the page never falls as the offset
    /// rises, and it is the same on every machine.
    #[inline]
    pub fn page(self, offset: u64, pages: u8) -> u8 {
        let at = (offset as f64 * f64::from(self.slope) + f64::from(self.intercept)).floor();
        at.clamp(0.0, f64::from(pages - 1)) as u8
    }

    /// The smallest offset that belongs to `page` or a later one of `pages`. `None` if every offset lies before `page`.
    pub fn first_offset(self, page: u8, pages: u8) -> Option<u64> {
        let reached = |offset| self.page(offset, pages) >= page;
        if reached(0) {
            return Some(0);
        }
        if !reached(u64::MAX) {
            return None;
        }
        let (mut below, mut at) = self.bracket(page, reached);
        while at - below > 1 {
            let middle = below.midpoint(at);
            if reached(middle) { at = middle } else { below = middle }
        }
        Some(at)
    }

    /// Two offsets around the one at which `reached` becomes true: near the line's own answer, within the error of
    /// rounding.
    fn bracket(self, page: u8, reached: impl Fn(u64) -> bool) -> (u64, u64) {
        let near = ((f64::from(page) - f64::from(self.intercept)) / f64::from(self.slope)) as u64;
        let mut reach = 2u64;
        loop {
            let (below, at) = (near.saturating_sub(reach), near.saturating_add(reach));
            if !reached(below) && reached(at) {
                return (below, at);
            }
            reach = reach.saturating_mul(16);
        }
    }
}
