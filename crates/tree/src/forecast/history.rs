//! The last epochs in coarse cells, and the back-test that chooses the prediction method.

use ecotone_substrate::memory::Memory;

use super::{
    cells::Cells,
    histogram::{Histogram, Sums},
    season::{CELLS, Method, Row, ahead, distance, mean},
};

/// Epochs kept; a season is at most half as long.
const EPOCHS: usize = 128;
/// Bytes of memory of a history.
pub(super) const HISTORY_BYTES: usize = EPOCHS * CELLS * size_of::<f32>();
/// Largest useful share of an epoch in one cell: above it, new cells are cut.
const LARGEST: f32 = 0.5;
/// Weight of a new back-test in the running mean.
const NEWEST: f32 = 0.25;

/// Insert shares of past epochs by cell; each cell is a part of the key space.
#[derive(Debug)]
pub(super) struct EpochHistory {
    /// A ring of rows.
    ring: Cells,
    epochs: usize,
    /// Lower bounds of all cells but the first; empty before the first epoch.
    cuts: Vec<Vec<u8>>,
    errors: [Option<f32>; 2],
}

impl EpochHistory {
    pub(super) fn lease(memory: &Memory) -> Option<EpochHistory> {
        let ring = Cells::lease(memory, EPOCHS, CELLS * size_of::<f32>())?;
        Some(EpochHistory { ring, epochs: 0, cuts: Vec::new(), errors: [None; 2] })
    }

    /// Cuts cells of equal depth, if there are none or they have become useless; the old rows are then dropped.
    pub(super) fn cut(&mut self, bins: &Histogram) {
        let last = self.epochs.checked_sub(1).map(|last| self.row(last));
        if last.is_some_and(|last| last.iter().all(|share| *share <= LARGEST)) || bins.bins() < 2 * CELLS {
            return;
        }
        (self.epochs, self.errors) = (0, [None; 2]);
        self.cuts = (1..CELLS).filter_map(|cell| bins.begin_key(cell * bins.bins() / CELLS)).collect();
    }

    /// Lower bounds of all cells but the first.
    pub(super) fn cuts(&self) -> &[Vec<u8>] {
        &self.cuts
    }

    /// Adds an epoch, once cells are cut, and back-tests how well each method would have predicted the last epochs,
    /// `horizon` at most.
    pub(super) fn push(&mut self, epoch: &Sums, horizon: usize) {
        if self.cuts.is_empty() || epoch.total() <= 0.0 {
            return;
        }
        let mut begin = 0.0;
        let ends = self.cuts.iter().map(|cut| epoch.below(cut)).chain([epoch.total()]);
        let shares = ends.map(|end| {
            let share = (end - begin) / epoch.total();
            begin = end;
            share as f32
        });
        let row = self.ring.get_mut(self.epochs % EPOCHS);
        row.as_chunks_mut().0.iter_mut().zip(shares).for_each(|(bytes, share)| *bytes = share.to_le_bytes());
        self.epochs += 1;
        self.test(horizon);
    }

    fn test(&mut self, horizon: usize) {
        let rows = self.rows();
        let epochs = horizon.min(rows.len() / 2);
        let (past, came) = rows.split_at(rows.len() - epochs);
        if epochs == 0 {
            return;
        }
        for method in [Method::Trend, Method::Season] {
            let error = distance(&ahead(method, past, epochs), &mean(came));
            let mean = &mut self.errors[method as usize];
            *mean = Some(mean.map_or(error, |mean| mean + (error - mean) * NEWEST));
        }
    }

    /// The mean back-test error of a method, from 0 to 1; `None` before the first test.
    pub(super) fn error(&self, method: Method) -> Option<f32> {
        self.errors[method as usize]
    }

    /// The method with the smaller error; the paper's if the errors are equal or unknown.
    pub(super) fn best(&self) -> Method {
        let [trend, season] = [Method::Trend, Method::Season].map(|method| self.error(method).unwrap_or(1.0));
        if season < trend { Method::Season } else { Method::Trend }
    }

    /// Rows of the epochs kept, oldest first.
    pub(super) fn rows(&self) -> Vec<Row> {
        (self.epochs.saturating_sub(EPOCHS)..self.epochs).map(|epoch| self.row(epoch)).collect()
    }

    fn row(&self, epoch: usize) -> Row {
        let bytes = self.ring.get(epoch % EPOCHS).as_chunks().0;
        std::array::from_fn(|cell| f32::from_le_bytes(bytes[cell]))
    }
}
