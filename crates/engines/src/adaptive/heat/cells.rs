//! The key space in cells, the finer the more scans lose there, or the more begin (decision 14, "Finding hot ranges").

use std::{mem, ops::Range};

use super::{Stretch, account::Account};

/// Cells that there are at most.
pub(super) const MOST: usize = 128;
/// A cell with more than this part of all waste is divided, and two neighbours that have less than that are joined.
const DIVIDED: f64 = 1.0 / 64.0;
const JOINED: f64 = 1.0 / 512.0;
/// Keys at which scans began that a cell knows, and bytes of each.
const BEGINS: usize = 8;
const BEGIN_BYTES: usize = 64;

/// A stretch of keys, and what scans that began there have lost.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    /// Its first key. It ends where the next begins.
    pub(super) lower: Vec<u8>,
    /// Where scans began, the last few.
    begins: Vec<Vec<u8>>,
    next: usize,
    pub(super) account: Account,
}

/// All of them, ascending. The first begins before all keys.
#[derive(Debug, Clone)]
pub(super) struct Cells(Vec<Cell>);

impl Default for Cells {
    fn default() -> Cells {
        Cells(vec![Cell::default()])
    }
}

impl Cells {
    /// A scan began at a key, and lost so many nanoseconds by sources besides one, or 1 where scans are counted alone;
    /// and would have lost so many to pages.
    pub(super) fn note(&mut self, from: &[u8], lost: (f64, f64)) {
        let cell = self.0.partition_point(|cell| cell.lower.as_slice() <= from).saturating_sub(1);
        let cell = &mut self.0[cell];
        cell.account.scan(lost);
        cell.begin(from);
    }

    /// Some time has passed: what was counted fades to this part.
    pub(super) fn fade(&mut self, part: f64) {
        self.0.iter_mut().for_each(|cell| cell.account.fade(part));
    }

    /// All waste.
    pub(super) fn waste(&self) -> f64 {
        self.0.iter().map(|cell| cell.account.waste()).sum()
    }

    /// Divides cells with much of the waste, and joins neighbours that have little.
    pub(super) fn divide(&mut self) {
        let waste = self.waste();
        self.join(waste * JOINED);
        for at in (0..self.0.len()).rev() {
            let is_large = self.0.len() < MOST && self.0[at].account.waste() > waste * DIVIDED;
            if let Some(upper) = is_large.then(|| self.0[at].split()).flatten() {
                self.0.insert(at + 1, upper);
            }
        }
    }

    fn join(&mut self, most: f64) {
        self.0.dedup_by(|upper, lower| {
            let is_alike = upper.account.is_adapted() == lower.account.is_adapted();
            let joins = is_alike && upper.account.waste() + lower.account.waste() < most;
            if joins {
                lower.account.join(&upper.account);
            }
            joins
        });
    }

    /// Their number.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The bounds of some neighbours: the first key, and the first behind, if there is one.
    pub(super) fn bounds(&self, cells: &Range<usize>) -> (&[u8], Option<&[u8]>) {
        (&self.0[cells.start].lower, self.0.get(cells.end).map(|cell| cell.lower.as_slice()))
    }

    /// The same, to keep.
    pub(super) fn stretch(&self, cells: &Range<usize>) -> Stretch {
        let (lower, upper) = self.bounds(cells);
        (lower.to_vec(), upper.map(<[u8]>::to_vec))
    }

    /// One by its number.
    pub(super) fn get(&self, cell: usize) -> &Cell {
        &self.0[cell]
    }

    /// Some neighbours.
    pub(super) fn row(&mut self, cells: Range<usize>) -> &mut [Cell] {
        &mut self.0[cells]
    }

    /// Those that have keys of a range.
    pub(super) fn within(&self, lower: &[u8], upper: &[u8]) -> Range<usize> {
        let start = self.0.partition_point(|cell| cell.lower.as_slice() <= lower).saturating_sub(1);
        let end = self.0.partition_point(|cell| cell.lower.as_slice() < upper);
        start..end.max(start + 1)
    }
}

impl Cell {
    fn begin(&mut self, from: &[u8]) {
        let from = &from[..from.len().min(BEGIN_BYTES)];
        match self.begins.get_mut(self.next) {
            None => self.begins.push(from.to_vec()),
            Some(begin) => {
                begin.clear();
                begin.extend_from_slice(from);
            }
        }
        self.next = (self.next + 1) % BEGINS;
    }

    /// Leaves the lower half, and gives the upper one, if enough scans began in both.
    fn split(&mut self) -> Option<Cell> {
        let mut begins = mem::take(&mut self.begins);
        self.next = 0;
        if begins.len() < BEGINS {
            self.next = begins.len();
            self.begins = begins;
            return None;
        }
        begins.sort_unstable();
        let lower = begins.swap_remove(BEGINS / 2);
        if lower <= self.lower {
            return None;
        }
        Some(Cell { lower, account: self.account.halve(), ..Cell::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> [u8; 4] {
        number.to_be_bytes()
    }

    /// Scans of keys by turns, and a division after each hundred.
    fn scanned(cells: &mut Cells, keys: impl Fn(u32) -> u32, rounds: u32) {
        for round in 0..rounds {
            (0..100).for_each(|scan| cells.note(&key(keys(round * 100 + scan)), (1000.0, 0.0)));
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
        let waste: f64 = cells.row(within).iter().map(|cell| cell.account.waste()).sum();
        assert!(waste > 0.85 * cells.waste());
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
        assert!((0..cells.len()).all(|cell| cells.get(cell).account.waste() < 0.1 * cells.waste()));
    }

    #[test]
    fn keys_that_begin_alike_stay_in_one_cell() {
        let mut cells = Cells::default();
        let mut long = vec![7; 200];
        for number in 0..2000u32 {
            long.truncate(100);
            long.extend_from_slice(&key(random(number)));
            cells.note(&long, (1.0, 0.0));
            cells.divide();
        }
        assert!(is_sound(&cells) && cells.len() <= 2);
        assert_eq!(cells.within(&long, &[8]).len(), 1);
    }

    #[test]
    fn what_is_divided_and_joined_again_keeps_its_waste() {
        let mut cells = Cells::default();
        scanned(&mut cells, random, 50);
        let waste = cells.waste();
        cells.join(f64::INFINITY);
        assert_eq!(cells.len(), 1);
        assert!((cells.waste() - waste).abs() < 1e-6 * waste);
    }
}
