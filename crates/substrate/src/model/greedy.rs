//! Greedy piecewise linear regression (the thesis' choice): narrows a cone.

use super::fit::{Fit, Fitter, Point, Through};

/// Tries only lines through the middle of the first interval. It takes constant memory and little work, but finds
/// shorter segments than [`OptimalPla`](super::OptimalPla).
#[derive(Debug, Default)]
pub struct GreedyPlr {
    apex: Option<Point>,
    /// The flattest and the steepest line from the apex through all intervals behind it.
    cone: Option<(Through, Through)>,
    last: Option<u64>,
}

impl Fitter for GreedyPlr {
    fn push(&mut self, x: u64, low: u64, high: u64) -> bool {
        assert!(self.last.is_none_or(|last| last < x) && low <= high, "intervals come from left to right");
        let Some(apex) = self.apex else {
            (self.apex, self.last) = (Some(Point::new(x, low.midpoint(high))), Some(x));
            return true;
        };
        let (mut flattest, mut steepest) = (Through(apex, Point::new(x, low)), Through(apex, Point::new(x, high)));
        if let Some(cone) = self.cone {
            flattest = if cone.0.is_steeper(flattest) { cone.0 } else { flattest };
            steepest = if steepest.is_steeper(cone.1) { cone.1 } else { steepest };
        }
        let fits = !flattest.is_steeper(steepest);
        if fits {
            (self.cone, self.last) = (Some((flattest, steepest)), Some(x));
        }
        fits
    }

    fn fit(&self) -> Option<Fit> {
        self.cone.map(|(flattest, steepest)| flattest.fit().between(steepest.fit()))
    }
}
