//! Insert forecasting (T14): where inserts will come, told from where they came, so that reorganisation leaves room there and nowhere else
//! (`docs/decisions/0006-insert-forecasting.md`).
//!
//! [`sample`] and [`histogram`] are the paper's; [`season`] and [`history`] go beyond it.

mod cells;
mod digest;
mod histogram;
mod history;
mod options;
mod sample;
mod season;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ecotone_substrate::memory::{Component, Memory};
use ecotone_sys::primitive::Mutex;

pub use self::options::{ForecastKind, ForecastOptions};
use self::{
    cells::Cells,
    histogram::{Histogram, Room, Sums},
    history::History,
    sample::Sample,
    season::{Method, ahead},
};

/// Part of the budget that all forecasts of a database have at most.
const BUDGET_PART: usize = 64;
/// Most bins of a histogram (b of TreeLine).
const MOST_BINS: usize = 20_000;
/// Fewer bins tell nothing.
const LEAST_BINS: usize = 256;
/// Sampled keys for each bin.
const SAMPLES: usize = 10;
/// Bytes of a digest at first.
const DIGEST: usize = 8;
/// What a bin takes: its part of the sample, and a digest and a number in two histograms.
const BIN_BYTES: usize = SAMPLES * DIGEST + 2 * (DIGEST + size_of::<f64>());

/// The forecast of a keyspace. It is not kept on disk: after opening it begins with nothing.
#[derive(Debug)]
pub(crate) struct Forecast {
    memory: Arc<Memory>,
    options: ForecastOptions,
    seed: u64,
    state: Mutex<Option<State>>,
}

/// What `stats` tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Told {
    /// The part of the inserts, 0 to 1, that came elsewhere than the kind in use told: the mean of the last back-tests. None before the first.
    pub(crate) error: Option<f64>,
    /// The kind in use: trend or seasonal, or off before the first epoch has ended.
    pub(crate) kind: ForecastKind,
    /// Epochs of the season found; 0 without one.
    pub(crate) season: usize,
    /// Bins of the histogram.
    pub(crate) bins: usize,
}

impl Forecast {
    /// A forecast that has seen nothing. What it draws follows from the seed.
    pub(crate) fn new(memory: Arc<Memory>, options: ForecastOptions, seed: u64) -> Forecast {
        Forecast { memory, options, seed, state: Mutex::new(None) }
    }

    /// Takes note of new keys that were written into pages, and of how many others were removed from them. Its memory is leased when the first come;
    /// if there is none, it does nothing.
    pub(crate) fn observe<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>, removed: usize) {
        if self.options.kind == ForecastKind::Off {
            return;
        }
        let mut state = self.state.lock();
        if state.is_none() {
            *state = State::lease(&self.memory, self.options, self.seed);
        }
        if let Some(state) = &mut *state {
            state.removed += removed as u64;
            keys.into_iter().for_each(|key| state.insert(key));
        }
    }

    /// Inserts that are expected from `lower` to below `upper` while at most `population` come to the whole keyspace, and at most those of the horizon.
    pub(crate) fn expected(&self, lower: &[u8], upper: Option<&[u8]>, population: u64) -> f64 {
        let state = self.state.lock();
        let Some(outlook) = state.as_ref().and_then(|state| state.outlook.as_ref()) else { return 0.0 };
        let end = upper.map_or(outlook.shares.total(), |upper| outlook.shares.below(upper));
        let share = (end - outlook.shares.below(lower)).max(0.0) / outlook.shares.total();
        share * outlook.growth * outlook.inserts.min(population as f64)
    }

    /// What is to be told of it.
    pub(crate) fn told(&self) -> Told {
        let state = self.state.lock();
        let outlook = state.as_ref().and_then(|state| state.outlook.as_ref());
        Told {
            error: state.as_ref().and_then(State::error),
            kind: outlook.map_or(ForecastKind::Off, |outlook| outlook.kind()),
            season: state.as_ref().and_then(|state| season::length(&state.history.rows())).unwrap_or(0),
            bins: outlook.map_or(0, |outlook| outlook.shares.bins()),
        }
    }
}

/// What comes in the next epochs.
#[derive(Debug)]
struct Outlook {
    /// By where it comes.
    shares: Sums,
    method: Method,
    /// Inserts of the horizon.
    inserts: f64,
    /// What each of them adds to the keyspace: 1 if nothing is removed and the forecast comes true.
    growth: f64,
}

impl Outlook {
    fn kind(&self) -> ForecastKind {
        match self.method {
            Method::Trend => ForecastKind::Trend,
            Method::Season => ForecastKind::Seasonal,
        }
    }
}

/// All that changes.
#[derive(Debug)]
struct State {
    options: ForecastOptions,
    bins: usize,
    sample: Sample,
    /// Counts the present epoch; none in the first one.
    counting: Option<Histogram>,
    outlook: Option<Outlook>,
    /// Memory of histograms that is not in use.
    spare: Vec<Room>,
    history: History,
    /// Inserts and removals of the present epoch.
    inserted: u64,
    removed: u64,
}

impl State {
    /// Half of what the part of the budget has left, so that other keyspaces find some too.
    fn lease(memory: &Memory, options: ForecastOptions, seed: u64) -> Option<State> {
        let left = (memory.budget() / BUDGET_PART).saturating_sub(memory.used(&[Component::Forecast])) / 2;
        let bins = (left.saturating_sub(history::BYTES) / BIN_BYTES).min(MOST_BINS);
        if bins < LEAST_BINS {
            return None;
        }
        let room = || Some(Room::new(Cells::lease(memory, bins, DIGEST)?, Cells::lease(memory, bins, size_of::<f64>())?));
        Some(State {
            options,
            bins,
            sample: Sample::new(Cells::lease(memory, bins * SAMPLES, DIGEST)?, seed),
            counting: None,
            outlook: None,
            spare: vec![room()?, room()?],
            history: History::lease(memory)?,
            inserted: 0,
            removed: 0,
        })
    }

    fn insert(&mut self, key: &[u8]) {
        self.sample.offer(key);
        if let Some(counting) = &mut self.counting {
            counting.count(key);
        }
        self.inserted += 1;
        if self.inserted == self.options.epoch.into() {
            self.end_epoch();
        }
    }

    /// Freezes the epoch's histogram, tells the coming epochs from it, and begins another one (T14).
    fn end_epoch(&mut self) {
        // The first epoch was only sampled: its bins are equally full by how they are cut.
        let counted = self.counting.take().or_else(|| self.cut_bins(1.0));
        if let Some(counted) = counted {
            self.history.cut(&counted);
            let outlook = self.foretell(counted.sum_up());
            let before = self.outlook.replace(outlook);
            self.spare.extend(before.map(|outlook| outlook.shares.into_room()));
        }
        self.counting = self.cut_bins(0.0);
        (self.inserted, self.removed) = (0, 0);
    }

    /// New bins, each with a number. Where many sampled keys share their digests, digests will be longer.
    fn cut_bins(&mut self, number: f64) -> Option<Histogram> {
        let room = self.spare.pop()?;
        let wanted = self.sample.count().div_ceil(SAMPLES).min(self.bins);
        match Histogram::of(&mut self.sample, wanted, room) {
            Ok(mut histogram) => {
                histogram.fill(|_| number);
                if histogram.bins() < wanted / 4 * 3 {
                    self.sample.restart_longer();
                }
                Some(histogram)
            }
            Err(room) => {
                self.spare.push(room);
                None
            }
        }
    }

    fn foretell(&mut self, mut counted: Sums) -> Outlook {
        let horizon = usize::from(self.options.horizon);
        self.history.push(&counted, horizon);
        let method = match self.options.kind {
            ForecastKind::Seasonal => Method::Season,
            ForecastKind::Auto => self.history.best(),
            ForecastKind::Trend | ForecastKind::Off => Method::Trend,
        };
        let rows = self.history.rows();
        if method == Method::Season && !rows.is_empty() {
            counted.deal_out(self.history.cuts(), &ahead(method, &rows, horizon));
        }
        let kept = 1.0 - (self.removed as f64 / self.inserted as f64).min(1.0);
        let sure = 1.0 - f64::from(self.history.error(method).unwrap_or(0.0));
        Outlook { shares: counted, method, inserts: horizon as f64 * self.inserted as f64, growth: kept * sure }
    }

    fn error(&self) -> Option<f64> {
        self.history.error(self.outlook.as_ref()?.method).map(f64::from)
    }
}
