//! Insert forecasting (T14): predicts from past inserts where inserts will come, so that reorganisation leaves free
//! space there and nowhere else (`docs/decisions/0006-insert-forecasting.md`).
//!
//! [`sample`] and [`histogram`] follow the paper; [`history`] and [`season`] extend it. [`state`] combines them, epoch
//! by epoch.

mod cells;
mod digest;
mod epoch;
mod histogram;
mod history;
mod kind;
mod sample;
mod season;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ecotone_substrate::memory::Memory;
use ecotone_sys::primitive::Mutex;

pub(crate) use self::epoch::{EpochSchedule, ForecastStats};
pub use self::kind::ForecastKind;
use self::state::ForecastState;

/// Limit of the predicted inserts, as a multiple of the current records: a small keyspace must not leave space for the
/// inserts of a large one.
const GROWTH: f64 = 1.5;
/// Least fill of a page in percent, since predicted inserts may not come.
const LEAST_FILL: u8 = 40;

/// The forecast of a keyspace. It is not stored on disk: after opening it starts empty.
///
/// Its mutex is held for a batch of keys, or some milliseconds at the end of an epoch. Inside it only the memory
/// budget's mutex is taken.
#[derive(Debug)]
pub(crate) struct Forecast {
    memory: Arc<Memory>,
    kind: ForecastKind,
    pace: EpochSchedule,
    seed: u64,
    state: Mutex<Option<ForecastState>>,
}

impl Forecast {
    /// Creates an empty forecast. Its random choices follow from the seed.
    pub(crate) fn new(memory: Arc<Memory>, kind: ForecastKind, pace: EpochSchedule, seed: u64) -> Forecast {
        Forecast { memory, kind, pace, seed, state: Mutex::new(None) }
    }

    /// Whether the forecast needs to observe keys.
    pub(crate) fn is_on(&self) -> bool {
        self.kind != ForecastKind::Off
    }

    /// Records new keys that were written into pages, and how many others were removed from pages. Memory is leased
    /// with the first keys; while there is none, nothing is recorded.
    pub(crate) fn observe<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>, removed: usize) {
        if !self.is_on() {
            return;
        }
        let mut state = self.state.lock();
        if state.is_none() {
            *state = ForecastState::lease(&self.memory, self.kind, self.pace, self.seed);
        }
        if let Some(state) = &mut *state {
            keys.into_iter().for_each(|key| state.insert(key));
            state.remove(removed);
        }
    }

    /// Ends a round of write-out: all records that were dirty at its beginning have been written, in the whole key
    /// space. Epochs end only here. Otherwise an epoch would reflect a part of the key space instead of a part of time,
    /// since write-out goes by pages.
    pub(crate) fn round(&self) {
        self.state.lock().iter_mut().for_each(ForecastState::round);
    }

    /// Expected inserts from `lower` to `upper`, exclusive, within the horizon, while the keyspace has about
    /// `population` records.
    pub(crate) fn expected(&self, lower: &[u8], upper: Option<&[u8]>, population: u64) -> f64 {
        let state = self.state.lock();
        let outlook = state.as_ref().and_then(ForecastState::outlook);
        outlook
            .map_or(0.0, |outlook| outlook.fraction_in(lower, upper) * outlook.inserts.min(population as f64 * GROWTH))
    }

    /// The fill, in percent, of a page with `records` keys from `first` to `last`: `full` if no inserts are expected
    /// between them, and less the more are expected, so that both together reach `full`. Inserts below the first or
    /// above the last key do not count: they would go to other pages.
    pub(crate) fn fill(&self, first: &[u8], last: &[u8], records: usize, population: u64, full: u8) -> u8 {
        let expected = self.expected(first, Some(last), population);
        let now = records as f64 / (records as f64 + expected).max(1.0);
        ((f64::from(full) * now).round() as u8).clamp(LEAST_FILL.min(full), full)
    }

    /// The current statistics.
    pub(crate) fn stats(&self) -> ForecastStats {
        let state = self.state.lock();
        let nothing = ForecastStats { kind: ForecastKind::Off, error: None, season: 0, bins: 0 };
        state.as_ref().and_then(ForecastState::told).unwrap_or(nothing)
    }
}
