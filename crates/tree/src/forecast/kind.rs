//! The kind of insert forecast: a tuning option of the tree.

use ecotone_engine::option_value;

// T14.
/// How a tree predicts where inserts will come, so that reorganisation leaves free space there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum ForecastKind {
    /// No prediction: reorganisation fills all pages equally.
    Off = 0,
    /// As in TreeLine: the next epochs are like the last one.
    Trend = 1,
    /// The mean of past epochs, at the same place in the season if there is one.
    Seasonal = 2,
    /// The one of these two that would have predicted the past epochs better.
    Auto = 3,
}

impl ForecastKind {
    /// All kinds, indexed by their number on disk.
    #[doc(hidden)]
    pub const ALL: [ForecastKind; 4] =
        [ForecastKind::Off, ForecastKind::Trend, ForecastKind::Seasonal, ForecastKind::Auto];

    /// Returns its name among the options.
    pub fn name(self) -> &'static str {
        match self {
            ForecastKind::Off => "off",
            ForecastKind::Trend => "trend",
            ForecastKind::Seasonal => "seasonal",
            ForecastKind::Auto => "auto",
        }
    }
}

option_value!(ForecastKind, "forecast");
