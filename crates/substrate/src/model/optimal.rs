//! Optimal piecewise linear approximation (O'Rourke 1981): all lines that go through the intervals so far.

use super::fit::{Fit, Fitter, Point, Through};

/// Accepts an interval exactly if any line goes through it and all before it.
///
/// A slope is possible if it is at most that of each line from a lower end to a later upper end, and at least that of
/// each line from an upper end to a later lower end (eliminate the intercept from the inequalities). The tightest of
/// these lines touch the convex hulls of the ends, and move to the right as they tighten, so that each end is looked at
/// a few times only.
#[derive(Debug, Default)]
pub struct OptimalPla {
    /// Lower ends. Lines stay above them.
    lows: Hull,
    /// Upper ends. Lines stay below them.
    highs: Hull,
    flattest: Option<Through>,
    steepest: Option<Through>,
    last: Option<u64>,
}

/// Ends that tangents from the right may touch: one convex hull.
#[derive(Debug, Default)]
struct Hull {
    points: Vec<Point>,
    /// Tangents touch no point before this one any more.
    first: usize,
}

impl Hull {
    /// The line from a point of the hull to `end` that `better` prefers, and the index of that point.
    fn tangent(&self, end: Point, better: impl Fn(Through, Through) -> bool) -> Option<(Through, usize)> {
        let mut best = (Through(*self.points.get(self.first)?, end), self.first);
        for (i, point) in self.points.iter().enumerate().skip(self.first + 1) {
            let line = Through(*point, end);
            // Seen from the right, slopes to the points of a hull rise to one maximum (or fall to one minimum).
            if better(best.0, line) {
                break;
            }
            best = (line, i);
        }
        Some(best)
    }

    /// Adds a point to the right and removes the points that are then inside the hull. `bends` says whether a second
    /// line bends outward from a first.
    fn push(&mut self, point: Point, bends: impl Fn(Through, Through) -> bool) {
        while let [.., before, last] = self.points[self.first..]
            && !bends(Through(before, last), Through(last, point))
        {
            self.points.pop();
        }
        self.points.push(point);
    }
}

fn steeper(a: Through, b: Through) -> bool {
    a.is_steeper(b)
}

fn flatter(a: Through, b: Through) -> bool {
    b.is_steeper(a)
}

impl Fitter for OptimalPla {
    fn push(&mut self, x: u64, low: u64, high: u64) -> bool {
        assert!(self.last.is_none_or(|last| last < x) && low <= high, "intervals come from left to right");
        let (low, high) = (Point::new(x, low), Point::new(x, high));
        // Only a tangent tighter than the present bound matters.
        let up =
            self.highs.tangent(low, steeper).filter(|(line, _)| self.flattest.is_none_or(|now| steeper(*line, now)));
        let down =
            self.lows.tangent(high, flatter).filter(|(line, _)| self.steepest.is_none_or(|now| flatter(*line, now)));
        let flattest = up.map(|(line, _)| line).or(self.flattest);
        let steepest = down.map(|(line, _)| line).or(self.steepest);
        if let (Some(flattest), Some(steepest)) = (flattest, steepest)
            && steeper(flattest, steepest)
        {
            return false;
        }
        (self.flattest, self.steepest, self.last) = (flattest, steepest, Some(x));
        self.highs.first = up.map_or(self.highs.first, |(_, first)| first);
        self.lows.first = down.map_or(self.lows.first, |(_, first)| first);
        self.highs.push(high, |a, b| steeper(b, a));
        self.lows.push(low, |a, b| flatter(b, a));
        true
    }

    fn fit(&self) -> Option<Fit> {
        Some(self.flattest?.fit().between(self.steepest?.fit()))
    }
}
