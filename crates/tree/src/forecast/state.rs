//! The state of a forecast, and how it changes from epoch to epoch.

use ecotone_substrate::memory::{Component, Memory};

use super::{
    cells::Cells,
    epoch::{EpochSchedule, ForecastStats},
    histogram::{Histogram, HistogramMemory, Sums},
    history::{self, EpochHistory},
    kind::ForecastKind,
    sample::Sample,
    season::{self, Method, ahead},
};

/// The share of the budget that all forecasts of a database may use: one part in 64.
const BUDGET_PART: usize = 64;
/// Most bins of a histogram (b of TreeLine).
const MOST_BINS: usize = 20_000;
/// Least useful number of bins.
const LEAST_BINS: usize = 256;
/// Sampled keys for each bin.
const SAMPLES: usize = 10;
/// Initial bytes of a digest.
const DIGEST: usize = 8;
/// Bytes of memory of a bin: its part of the sample, and a digest and a number in each of two histograms.
const BIN_BYTES: usize = SAMPLES * DIGEST + 2 * (DIGEST + size_of::<f64>());

/// The prediction for the next epochs.
#[derive(Debug)]
pub(super) struct Prediction {
    /// Inserts by key; only their proportions matter.
    places: Sums,
    method: Method,
    /// Expected inserts within the horizon.
    pub(super) inserts: f64,
    /// Records that each insert adds to the keyspace: 1 if nothing is removed and the forecast is accurate.
    growth: f64,
}

impl Prediction {
    /// The share of the coming inserts that adds to the range from `lower` to `upper`, exclusive, from 0 to 1.
    pub(super) fn fraction_in(&self, lower: &[u8], upper: Option<&[u8]>) -> f64 {
        let end = upper.map_or(self.places.total(), |upper| self.places.below(upper));
        (end - self.places.below(lower)).max(0.0) / self.places.total() * self.growth
    }
}

/// The mutable state of a forecast.
#[derive(Debug)]
pub(super) struct ForecastState {
    kind: ForecastKind,
    pace: EpochSchedule,
    bins: usize,
    sample: Sample,
    /// Counts the current epoch; `None` in the first one, which is only sampled.
    counting: Option<Histogram>,
    outlook: Option<Prediction>,
    /// Unused memory of histograms.
    spare: Vec<HistogramMemory>,
    history: EpochHistory,
    /// Inserts and removals of the current epoch.
    inserted: u64,
    removed: u64,
}

impl ForecastState {
    /// Leases half of what the forecasts' share of the budget has left, so that other keyspaces get some too; `None` if
    /// that is too little.
    pub(super) fn lease(memory: &Memory, kind: ForecastKind, pace: EpochSchedule, seed: u64) -> Option<ForecastState> {
        let left = (memory.budget() / BUDGET_PART).saturating_sub(memory.used(&[Component::Forecast])) / 2;
        let bins = (left.saturating_sub(history::HISTORY_BYTES) / BIN_BYTES).min(MOST_BINS);
        if bins < LEAST_BINS {
            return None;
        }
        let room = || {
            Some(HistogramMemory::new(
                Cells::lease(memory, bins, DIGEST)?,
                Cells::lease(memory, bins, size_of::<f64>())?,
            ))
        };
        let spare = vec![room()?, room()?];
        let sample = Sample::new(Cells::lease(memory, bins * SAMPLES, DIGEST)?, seed);
        let history = EpochHistory::lease(memory)?;
        Some(ForecastState {
            kind,
            pace,
            bins,
            sample,
            counting: None,
            outlook: None,
            spare,
            history,
            inserted: 0,
            removed: 0,
        })
    }

    pub(super) fn insert(&mut self, key: &[u8]) {
        self.sample.offer(key);
        self.counting.iter_mut().for_each(|counting| counting.count(key));
        self.inserted += 1;
    }

    pub(super) fn remove(&mut self, keys: usize) {
        self.removed += keys as u64;
    }

    /// Ends the epoch if it is long enough.
    pub(super) fn round(&mut self) {
        if self.inserted >= self.pace.epoch.into() {
            self.end_epoch();
        }
    }

    pub(super) fn outlook(&self) -> Option<&Prediction> {
        self.outlook.as_ref()
    }

    pub(super) fn told(&self) -> Option<ForecastStats> {
        let outlook = self.outlook.as_ref()?;
        let kind = match outlook.method {
            Method::Trend => ForecastKind::Trend,
            Method::Season => ForecastKind::Seasonal,
        };
        let error = self.history.error(outlook.method).map(f64::from);
        let season = season::length(&self.history.rows()).unwrap_or(0);
        Some(ForecastStats { kind, error, season, bins: outlook.places.bins() })
    }

    /// Closes the epoch's histogram, predicts the coming epochs from it, and begins another one (T14). If too many
    /// sampled keys share their digests, digests become longer.
    fn end_epoch(&mut self) {
        // The first epoch was only sampled. Its bins have equal depth, so they get equal numbers.
        if let Some(counted) = self.counting.take().or_else(|| self.cut_bins(1.0)) {
            self.history.cut(&counted);
            let outlook = self.foretell(counted.sum_up());
            let before = self.outlook.replace(outlook);
            self.spare.extend(before.map(|outlook| outlook.places.into_room()));
        }
        self.counting = self.cut_bins(0.0);
        if self.counting.as_ref().is_some_and(|bins| bins.bins() < self.bins_wanted() / 4 * 3) {
            self.sample.lengthen_digests();
        }
        (self.inserted, self.removed) = (0, 0);
    }

    fn bins_wanted(&self) -> usize {
        self.sample.count().div_ceil(SAMPLES).min(self.bins)
    }

    /// Cuts bins by the sample, each with this number.
    fn cut_bins(&mut self, number: f64) -> Option<Histogram> {
        let (bins, room) = (self.bins_wanted(), self.spare.pop()?);
        let mut histogram = Histogram::cut(&mut self.sample, bins, room);
        histogram.fill(|_| number);
        Some(histogram)
    }

    fn foretell(&mut self, mut places: Sums) -> Prediction {
        let horizon = usize::from(self.pace.horizon);
        self.history.push(&places, horizon);
        let rows = self.history.rows();
        let method = match self.kind {
            ForecastKind::Trend | ForecastKind::Off => Method::Trend,
            _ if rows.is_empty() => Method::Trend,
            ForecastKind::Seasonal => Method::Season,
            ForecastKind::Auto => self.history.best(),
        };
        if method == Method::Season {
            places.redistribute(self.history.cuts(), &ahead(method, &rows, horizon));
        }
        let stays = 1.0 - (self.removed as f64 / self.inserted as f64).min(1.0);
        let comes_true = 1.0 - f64::from(self.history.error(method).unwrap_or(0.0));
        let inserts = f64::from(self.pace.epoch) * f64::from(self.pace.horizon);
        Prediction { places, method, inserts, growth: stays * comes_true }
    }
}
