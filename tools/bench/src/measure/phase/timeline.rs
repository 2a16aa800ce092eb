//! The progress of a phase over time: evenly spaced points, few enough to draw.

use std::time::Duration;

use crate::{
    measure::transfers::{Accounts, Transfers},
    row::Point,
};

/// Maximum number of points.
const POINTS: usize = 200;
/// Initial distance of the points; it doubles whenever there are too many.
const STEP: Duration = Duration::from_millis(50);

/// The timeline of a running phase.
#[derive(Debug)]
pub(crate) struct Timeline<'a> {
    accounts: &'a Accounts,
    before: Transfers,
    step: Duration,
    next: Duration,
    points: Vec<Point>,
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(accounts: &'a Accounts) -> Self {
        let before = accounts.transfers().unwrap_or_default();
        Timeline { accounts, before, step: STEP, next: STEP, points: Vec::with_capacity(POINTS) }
    }

    /// Adds a point if one is due.
    pub(crate) fn look(&mut self, elapsed: Duration, operations: u64) {
        if elapsed < self.next {
            return;
        }
        if self.points.len() == POINTS {
            self.thin();
        }
        let transfers = self.accounts.transfers().unwrap_or_default().since(self.before);
        self.points.push(Point {
            seconds: elapsed.as_secs_f64(),
            operations,
            memory_bytes: self.accounts.memory(),
            device_reads: transfers.reads,
            device_writes: transfers.writes,
        });
        self.next = elapsed + self.step;
    }

    /// Removes every second point.
    fn thin(&mut self) {
        let mut number = 0;
        self.points.retain(|_| {
            number += 1;
            number % 2 == 0
        });
        self.step *= 2;
    }

    /// Returns all points.
    pub(crate) fn finish(self) -> Vec<Point> {
        self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_long_it_takes_there_are_not_too_many_points() {
        let accounts = Accounts::default();
        let mut timeline = Timeline::new(&accounts);
        (0..100_000).for_each(|look| timeline.look(Duration::from_millis(20 * look), look));
        let points = timeline.finish();
        assert!((POINTS / 2..=POINTS).contains(&points.len()), "{}", points.len());
        assert!(points.last().unwrap().seconds > 1900.0);
        assert!(
            points.windows(2).all(|pair| pair[0].seconds < pair[1].seconds && pair[0].operations < pair[1].operations)
        );
        assert!(points.iter().all(|point| point.memory_bytes > 0));
    }
}
