//! The interface of all fitters.

/// Finds a line through intervals that come one by one, from left to right.
///
/// For a band of `epsilon` around points (T9), the intervals are `y - epsilon` to `y + epsilon`; where a line has to
/// cross at given steps, each interval is what the step allows. Greatest *x* times greatest *y* must stay below 2^125,
/// so that all arithmetic is exact.
pub trait Fitter {
    /// Takes the interval from `low` to `high`, both included, at `x`. Returns false, without taking it, if no line of
    /// this fitter goes through it and all before it.
    ///
    /// # Panics
    /// If `x` is not above the previous one, or `low` is above `high`.
    fn push(&mut self, x: u64, low: u64, high: u64) -> bool;

    /// A line through all intervals, as near to their middle as is cheap. `None` before the second interval.
    fn fit(&self) -> Option<Fit>;
}

/// A fitted line. The fitters' decisions are exact; only this result is rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Change of *y* for one step of *x*.
    pub slope: f64,
    /// *y* at *x* = 0.
    pub intercept: f64,
}

/// A point with exact coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) x: i128,
    pub(super) y: i128,
}

impl Point {
    pub(super) fn new(x: u64, y: u64) -> Point {
        Point { x: x.into(), y: y.into() }
    }
}

/// A line through two points, the second one to the right of the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Through(pub(super) Point, pub(super) Point);

impl Through {
    fn rise(self) -> i128 {
        self.1.y - self.0.y
    }

    fn run(self) -> i128 {
        self.1.x - self.0.x
    }

    /// Whether it is steeper than another line.
    pub(super) fn is_steeper(self, other: Through) -> bool {
        self.rise() * other.run() > other.rise() * self.run()
    }

    pub(super) fn fit(self) -> Fit {
        let slope = self.rise() as f64 / self.run() as f64;
        Fit { slope, intercept: self.0.y as f64 - slope * self.0.x as f64 }
    }
}

impl Fit {
    /// The line half-way between two. It goes through every interval that both go through.
    pub(super) fn between(self, other: Fit) -> Fit {
        Fit { slope: self.slope.midpoint(other.slope), intercept: self.intercept.midpoint(other.intercept) }
    }
}
