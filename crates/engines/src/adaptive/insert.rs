//! How what is flushed of a range that is pages alone gets into these: at once, or by a run above them that is absorbed
//! later (A10; decision 14, "Writing").

use super::price;
use crate::engine::Hint;

/// What can be chosen when a keyspace is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Insert {
    /// Whatever is cheaper, told at each flush and for each range.
    #[default]
    Auto,
    /// By runs.
    Batch,
    /// At once, whatever that costs and whoever waits.
    Tree,
}

/// Whether a range gets what a flush has of it at once, which costs so many nanoseconds: as many scans as began there
/// since the last flush would lose more than that to a run above its pages, should it go on like this.
pub(super) fn pays(hint: Hint, scans: f64, cost: f64) -> bool {
    match hint {
        Hint::ReadMostly => true,
        Hint::WriteMostly => false,
        Hint::Auto => scans * price::RUN >= cost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_have_to_lose_more_than_it_costs_unless_somebody_knows_better() {
        assert!(pays(Hint::Auto, 1000.0, 1000.0 * price::RUN) && !pays(Hint::Auto, 999.0, 1000.0 * price::RUN));
        assert!(pays(Hint::ReadMostly, 0.0, 1e12) && !pays(Hint::WriteMostly, 1e12, 1.0));
    }
}
