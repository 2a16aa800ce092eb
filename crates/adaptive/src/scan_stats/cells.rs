//! The key space divided into cells, finer where scans lose more, or where more scans begin (adaptive.md, "Scan
//! statistics").

use std::{mem, ops::Range};

use super::cell_stats::CellStats;

/// A range of keys: its first key, and its exclusive end, if there is one.
pub(crate) type KeyRange = (Vec<u8>, Option<Vec<u8>>);

/// Maximum number of cells.
pub(super) const MOST: usize = 128;
/// A cell with more than the first share of all read cost is divided. Two neighbours with less than the second share
/// together are joined.
const DIVIDED: f64 = 1.0 / 64.0;
const JOINED: f64 = 1.0 / 512.0;
/// Start keys that a cell remembers, and bytes of each.
const SAMPLES: usize = 8;
const SAMPLE_BYTES: usize = 64;

/// A range of keys, and what scans that began there have lost.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    /// Its first key. The cell ends where the next begins.
    pub(super) lower: Vec<u8>,
    /// The last few start keys of scans.
    samples: Vec<Vec<u8>>,
    next: usize,
    pub(super) account: CellStats,
}

/// All cells, ascending. The first begins before all keys.
#[derive(Debug, Clone)]
pub(super) struct Cells(Vec<Cell>);

impl Default for Cells {
    fn default() -> Cells {
        Cells(vec![Cell::default()])
    }
}

impl Cells {
    /// Records a scan that began at a key. `lost` is what it lost, in nanoseconds, or 1 where only scans are counted;
    /// and what it would have lost to pages.
    pub(super) fn record(&mut self, from: &[u8], lost: (f64, f64)) {
        let cell = self.0.partition_point(|cell| cell.lower.as_slice() <= from).saturating_sub(1);
        let cell = &mut self.0[cell];
        cell.account.scan(lost);
        cell.begin(from);
    }

    /// Fades all statistics to this share.
    pub(super) fn fade(&mut self, part: f64) {
        self.0.iter_mut().for_each(|cell| cell.account.fade(part));
    }

    /// Read cost of all cells.
    pub(super) fn read_cost(&self) -> f64 {
        self.0.iter().map(|cell| cell.account.read_cost()).sum()
    }

    /// Divides cells with a large share of the read cost, and joins neighbours with a small one.
    pub(super) fn divide(&mut self) {
        let read_cost = self.read_cost();
        self.join(read_cost * JOINED);
        for at in (0..self.0.len()).rev() {
            let is_large = self.0.len() < MOST && self.0[at].account.read_cost() > read_cost * DIVIDED;
            if let Some(upper) = is_large.then(|| self.0[at].split()).flatten() {
                self.0.insert(at + 1, upper);
            }
        }
    }

    fn join(&mut self, most: f64) {
        self.0.dedup_by(|upper, lower| {
            let is_alike = upper.account.was_converted() == lower.account.was_converted();
            let joins = is_alike && upper.account.read_cost() + lower.account.read_cost() < most;
            if joins {
                lower.account.join(&upper.account);
            }
            joins
        });
    }

    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The bounds of adjacent cells: the first key, and the exclusive end, if there is one.
    pub(super) fn bounds(&self, cells: &Range<usize>) -> (&[u8], Option<&[u8]>) {
        (&self.0[cells.start].lower, self.0.get(cells.end).map(|cell| cell.lower.as_slice()))
    }

    /// The same as an owned range.
    pub(super) fn key_range(&self, cells: &Range<usize>) -> KeyRange {
        let (lower, upper) = self.bounds(cells);
        (lower.to_vec(), upper.map(<[u8]>::to_vec))
    }

    /// A cell by its number.
    pub(super) fn get(&self, cell: usize) -> &Cell {
        &self.0[cell]
    }

    /// Adjacent cells.
    pub(super) fn row(&mut self, cells: Range<usize>) -> &mut [Cell] {
        &mut self.0[cells]
    }

    /// The cells that overlap a range.
    pub(super) fn within(&self, lower: &[u8], upper: &[u8]) -> Range<usize> {
        let start = self.0.partition_point(|cell| cell.lower.as_slice() <= lower).saturating_sub(1);
        let end = self.0.partition_point(|cell| cell.lower.as_slice() < upper);
        start..end.max(start + 1)
    }
}

impl Cell {
    fn begin(&mut self, from: &[u8]) {
        let from = &from[..from.len().min(SAMPLE_BYTES)];
        match self.samples.get_mut(self.next) {
            None => self.samples.push(from.to_vec()),
            Some(begin) => {
                begin.clear();
                begin.extend_from_slice(from);
            }
        }
        self.next = (self.next + 1) % SAMPLES;
    }

    /// Splits off and returns the upper half, at the median start key. `None` if too few scans began on both sides.
    fn split(&mut self) -> Option<Cell> {
        let mut samples = mem::take(&mut self.samples);
        self.next = 0;
        if samples.len() < SAMPLES {
            self.next = samples.len();
            self.samples = samples;
            return None;
        }
        samples.sort_unstable();
        let lower = samples.swap_remove(SAMPLES / 2);
        if lower <= self.lower {
            return None;
        }
        Some(Cell { lower, account: self.account.split_half(), ..Cell::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> [u8; 4] {
        number.to_be_bytes()
    }

    /// Rounds of a hundred scans, with a division after each.
    fn scanned(cells: &mut Cells, keys: impl Fn(u32) -> u32, rounds: u32) {
        for round in 0..rounds {
            (0..100).for_each(|scan| cells.record(&key(keys(round * 100 + scan)), (1000.0, 0.0)));
            cells.divide();
        }
    }

    fn is_sound(cells: &Cells) -> bool {
        cells.0[0].lower.is_empty() && cells.0.is_sorted_by(|one, other| one.lower < other.lower) && cells.len() <= MOST
    }

    /// Pseudorandom, from 0 to 2^16.
    fn random(number: u32) -> u32 {
        number.wrapping_mul(2_654_435_761) >> 16
    }

    #[test]
    fn a_hot_range_is_known_to_a_part_of_itself() {
        let mut cells = Cells::default();
        let hot = |number: u32| if number.is_multiple_of(10) { random(number) } else { 30_000 + random(number) % 1000 };
        scanned(&mut cells, hot, 200);
        assert!(is_sound(&cells));
        let within = cells.within(&key(30_000), &key(31_000));
        assert!(within.len() > 8, "{within:?}");
        let (lower, upper) = cells.bounds(&within);
        let number = |key: &[u8]| u32::from_be_bytes(key.try_into().unwrap());
        assert!(number(lower) > 28_000 && number(upper.unwrap()) < 33_000, "{lower:?} {upper:?}");
        let read_cost: f64 = cells.row(within).iter().map(|cell| cell.account.read_cost()).sum();
        assert!(read_cost > 0.85 * cells.read_cost());
    }

    #[test]
    fn a_hot_range_that_moves_is_followed() {
        let mut cells = Cells::default();
        for lower in [1000, 50_000, 20_000] {
            (0..60).for_each(|_| {
                scanned(&mut cells, |number| lower + random(number) % 500, 1);
                cells.fade(0.8);
            });
            assert!(is_sound(&cells));
            let within = cells.within(&key(lower), &key(lower + 500));
            assert!(within.len() >= 8, "{lower}: {within:?}");
        }
    }

    #[test]
    fn uniform_scans_make_cells_that_are_alike_and_rest() {
        let mut cells = Cells::default();
        scanned(&mut cells, random, 300);
        assert!(is_sound(&cells) && cells.len() > 40, "{}", cells.len());
        assert!((0..cells.len()).all(|cell| cells.get(cell).account.read_cost() < 0.1 * cells.read_cost()));
    }

    #[test]
    fn keys_that_begin_alike_stay_in_one_cell() {
        let mut cells = Cells::default();
        let mut long = vec![7; 200];
        for number in 0..2000u32 {
            long.truncate(100);
            long.extend_from_slice(&key(random(number)));
            cells.record(&long, (1.0, 0.0));
            cells.divide();
        }
        assert!(is_sound(&cells) && cells.len() <= 2);
        assert_eq!(cells.within(&long, &[8]).len(), 1);
    }

    #[test]
    fn what_is_divided_and_joined_again_keeps_its_waste() {
        let mut cells = Cells::default();
        scanned(&mut cells, random, 50);
        let read_cost = cells.read_cost();
        cells.join(f64::INFINITY);
        assert_eq!(cells.len(), 1);
        assert!((cells.read_cost() - read_cost).abs() < 1e-6 * read_cost);
    }
}
