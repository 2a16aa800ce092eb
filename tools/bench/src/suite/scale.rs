//! How large a suite is.

use clap::ValueEnum;

/// How large a suite is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scale {
    /// For the tests of the suites: some thousand records, no prepared states.
    #[value(hide = true)]
    Tiny,
    /// About a million small records and two seconds a cell, to see that all is well.
    Small,
    /// The records that the suite states and ten seconds a cell; these are the figures.
    Full,
}

impl Scale {
    /// Seconds of the measurement.
    pub(super) fn seconds(self) -> f64 {
        match self {
            Scale::Tiny => 0.05,
            Scale::Small => 2.0,
            Scale::Full => 10.0,
        }
    }

    /// Whether cells start from a prepared state rather than from a fresh load.
    pub(super) fn prepared(self) -> bool {
        self != Scale::Tiny
    }
}
