//! The epochs of a forecast, and its statistics.

use super::kind::ForecastKind;

/// The division of time into epochs, counted in inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EpochSchedule {
    /// Least inserts of an epoch; the epoch ends with the write-out round that is then in progress.
    pub(crate) epoch: u32,
    /// Epochs that the forecast looks ahead (f of TreeLine).
    pub(crate) horizon: u16,
}

impl Default for EpochSchedule {
    fn default() -> Self {
        EpochSchedule { epoch: 100_000, horizon: 100 }
    }
}

/// The statistics of a forecast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ForecastStats {
    /// The kind in use: trend or seasonal, or off before the first epoch has ended.
    pub(crate) kind: ForecastKind,
    /// The share of the inserts, from 0 to 1, that this kind predicted elsewhere: the mean of the last back-tests.
    /// `None` before the first.
    pub(crate) error: Option<f64>,
    /// Epochs of the season found; 0 without one.
    pub(crate) season: usize,
    /// Bins of the histogram.
    pub(crate) bins: usize,
}
