//! Which forecast: a tuning option of the tree.

/// How a tree foretells where inserts will come, so that reorganisation leaves room there (T14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ForecastKind {
    /// Not at all: reorganisation fills all pages alike.
    Off = 0,
    /// As TreeLine does: the last epoch goes on.
    Trend = 1,
    /// The mean of past epochs, at the same place in the season if there is one.
    Seasonal = 2,
    /// The one of the two that would have foretold the past epochs better.
    Auto = 3,
}

impl ForecastKind {
    /// All kinds, each at the position of its number on disk.
    pub const ALL: [ForecastKind; 4] =
        [ForecastKind::Off, ForecastKind::Trend, ForecastKind::Seasonal, ForecastKind::Auto];

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
