//! How flushed records of a range that is pages alone get into the pages: at once, or through a run above the pages
//! that is converted later (A10; adaptive.md, "Flush").

use ecotone_engine::{contract::Hint, option_value};

use super::cost_model;

/// How writes reach a range that has only pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Insert {
    /// The cheaper way, for each flush and range: straight into the pages if another table would cost the scans since
    /// the last flush more than the page writes cost, and no memtable waits.
    #[default]
    Auto,
    /// Through a table above the pages, which is converted when scans have paid for it.
    Batch,
    /// Straight into the pages when the memtable is flushed.
    Tree,
}

impl Insert {
    /// All ways, in the order of their numbers on disk.
    pub(super) const ALL: [Insert; 3] = [Insert::Auto, Insert::Batch, Insert::Tree];

    /// Returns its name among the options.
    pub fn name(self) -> &'static str {
        match self {
            Insert::Auto => "auto",
            Insert::Batch => "batch",
            Insert::Tree => "tree",
        }
    }
}

option_value!(Insert, "insert");

/// Whether a flush should write its records of a range into the pages at once, at a cost in nanoseconds. Without a
/// hint: if as many scans as began there since the last flush would lose at least that much to a run above the pages.
pub(super) fn pays(hint: Hint, scans: f64, cost: f64) -> bool {
    match hint {
        Hint::ReadMostly => true,
        Hint::WriteMostly => false,
        Hint::Auto => scans * cost_model::EXTRA_RUN >= cost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_have_to_lose_more_than_it_costs_unless_somebody_knows_better() {
        assert!(
            pays(Hint::Auto, 1000.0, 1000.0 * cost_model::EXTRA_RUN)
                && !pays(Hint::Auto, 999.0, 1000.0 * cost_model::EXTRA_RUN)
        );
        assert!(pays(Hint::ReadMostly, 0.0, 1e12) && !pays(Hint::WriteMostly, 1e12, 1.0));
    }
}
