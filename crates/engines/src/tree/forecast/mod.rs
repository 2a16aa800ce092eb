//! Insert forecasting (T14): where inserts will come, told from where they came, so that reorganisation leaves room
//! there and nowhere else (`docs/decisions/0006-insert-forecasting.md`).
//!
//! [`sample`] and [`histogram`] are the paper's; [`history`] and [`season`] go beyond it. [`state`] puts them together,
//! epoch by epoch.

mod cells;
mod digest;
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

pub use self::kind::ForecastKind;
use self::state::State;

/// A forecast does not reach further than until the keyspace has got this many times its records besides: a small one
/// must not leave room for what a large one gets.
const GROWTH: f64 = 1.5;
/// Percent of a page that are filled however much is expected: what is foretold may not come.
const LEAST_FILL: u8 = 40;

/// How a forecast divides time, which it counts in inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Inserts of an epoch, at least; it goes on to the end of a round of write-out.
    pub(crate) epoch: u32,
    /// Epochs that the forecast looks ahead (f of TreeLine).
    pub(crate) horizon: u16,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { epoch: 100_000, horizon: 100 }
    }
}

/// The forecast of a keyspace. It is not kept on disk: after opening it begins with nothing.
///
/// Its mutex is a leaf but for the memory budget's, and is held for a batch of keys, or some milliseconds at the end of
/// an epoch.
#[derive(Debug)]
pub(crate) struct Forecast {
    memory: Arc<Memory>,
    kind: ForecastKind,
    pace: Pace,
    seed: u64,
    state: Mutex<Option<State>>,
}

/// What `stats` tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Told {
    /// The kind in use: trend or seasonal, or off before the first epoch has ended.
    pub(crate) kind: ForecastKind,
    /// The part of the inserts, 0 to 1, that came elsewhere than this kind had told: the mean of the last back-tests.
    /// None before the first.
    pub(crate) error: Option<f64>,
    /// Epochs of the season found; 0 without one.
    pub(crate) season: usize,
    /// Bins of the histogram.
    pub(crate) bins: usize,
}

impl Forecast {
    /// A forecast that has seen nothing. What it draws follows from the seed.
    pub(crate) fn new(memory: Arc<Memory>, kind: ForecastKind, pace: Pace, seed: u64) -> Forecast {
        Forecast { memory, kind, pace, seed, state: Mutex::new(None) }
    }

    /// Whether there is anything to take note of keys for.
    pub(crate) fn is_on(&self) -> bool {
        self.kind != ForecastKind::Off
    }

    /// Takes note of new keys that were written into pages, and of how many others were removed from them. Its memory
    /// is leased when the first keys come; while there is none to have, it does nothing.
    pub(crate) fn observe<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>, removed: usize) {
        if !self.is_on() {
            return;
        }
        let mut state = self.state.lock();
        if state.is_none() {
            *state = State::lease(&self.memory, self.kind, self.pace, self.seed);
        }
        if let Some(state) = &mut *state {
            keys.into_iter().for_each(|key| state.insert(key));
            state.remove(removed);
        }
    }

    /// A round of write-out is complete: whatever was dirty when it began has been written, in the whole key space.
    /// Epochs end only here. Otherwise one would hold a part of the key space, since write-out goes by pages, and not a
    /// part of time.
    pub(crate) fn round(&self) {
        self.state.lock().iter_mut().for_each(State::round);
    }

    /// Inserts that are expected from `lower` to below `upper` within the horizon, while the keyspace has about
    /// `population` records.
    pub(crate) fn expected(&self, lower: &[u8], upper: Option<&[u8]>, population: u64) -> f64 {
        let state = self.state.lock();
        let outlook = state.as_ref().and_then(State::outlook);
        outlook.map_or(0.0, |outlook| outlook.share(lower, upper) * outlook.inserts.min(population as f64 * GROWTH))
    }

    /// Percent of a page that `records` with keys from `first` to `last` are to fill: `full` if nothing is expected
    /// between them, and the less the more comes, so that both together would fill `full`. What comes before the first
    /// key or behind the last does not count: the room would be on other pages.
    pub(crate) fn fill(&self, first: &[u8], last: &[u8], records: usize, population: u64, full: u8) -> u8 {
        let expected = self.expected(first, Some(last), population);
        let now = records as f64 / (records as f64 + expected).max(1.0);
        ((f64::from(full) * now).round() as u8).clamp(LEAST_FILL.min(full), full)
    }

    /// What is to be told of it.
    pub(crate) fn told(&self) -> Told {
        let state = self.state.lock();
        let nothing = Told { kind: ForecastKind::Off, error: None, season: 0, bins: 0 };
        state.as_ref().and_then(State::told).unwrap_or(nothing)
    }
}
