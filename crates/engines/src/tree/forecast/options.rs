//! Options of the forecast.

use std::ops::RangeInclusive;

/// How the tree foretells where inserts will come (T14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum ForecastKind {
    /// Not at all: reorganisation fills all pages alike.
    Off = 0,
    /// As TreeLine does: the last epoch goes on.
    Trend = 1,
    /// The mean of past epochs, at the same place in the season if there is one.
    Seasonal = 2,
    /// The one of the two that would have told the past epochs better.
    #[default]
    Auto = 3,
}

impl ForecastKind {
    /// All kinds.
    pub const ALL: [ForecastKind; 4] = [ForecastKind::Off, ForecastKind::Trend, ForecastKind::Seasonal, ForecastKind::Auto];

    /// Its name in settings and statistics.
    pub fn name(self) -> &'static str {
        match self {
            ForecastKind::Off => "off",
            ForecastKind::Trend => "trend",
            ForecastKind::Seasonal => "seasonal",
            ForecastKind::Auto => "auto",
        }
    }
}

/// What can be chosen about the forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForecastOptions {
    /// Which forecast. Default [`ForecastKind::Auto`].
    pub kind: ForecastKind,
    /// Inserts of an epoch, [`ForecastOptions::EPOCH`].
    pub epoch: u32,
    /// Epochs that the forecast looks ahead, [`ForecastOptions::HORIZON`] (f of TreeLine).
    pub horizon: u16,
}

impl ForecastOptions {
    /// Inserts that an epoch may have.
    pub const EPOCH: RangeInclusive<u32> = 1_000..=10_000_000;
    /// Epochs that a forecast may look ahead.
    pub const HORIZON: RangeInclusive<u16> = 1..=1_000;

    /// Whether they are within their ranges, also when they come from disk.
    pub(crate) fn are_valid(self) -> bool {
        Self::EPOCH.contains(&self.epoch) && Self::HORIZON.contains(&self.horizon)
    }
}

impl Default for ForecastOptions {
    fn default() -> Self {
        ForecastOptions { kind: ForecastKind::Auto, epoch: 100_000, horizon: 100 }
    }
}
