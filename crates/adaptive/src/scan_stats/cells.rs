//! The key space divided into cells, finer where more scans begin or more is lost (adaptive.md, "Scan
//! statistics").

use std::{mem, ops::Range};

use super::cell_stats::CellStats;

/// A range of keys: its first key, and its exclusive end, if there is one.
pub(crate) type KeyRange = (Vec<u8>, Option<Vec<u8>>);

/// Maximum number of cells.
pub(super) const MAX_CELLS: usize = 128;
/// A cell with more than the first share of all scans, or of all read cost, is divided. Two neighbours with less than
/// the second share of both together are joined.
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
    /// Records a scan that began at a key: its read cost, and what it would have lost to pages, in nanoseconds.
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

    /// Divides cells with a large share of the scans or of the read cost, the largest first, and joins neighbours with
    /// a small share of both. Scans tell where the hot set is. The read cost tells where it ends once the rest of it is
    /// converted. If there are too many cells, a larger share takes the place of a smaller one, so a hot set that moves
    /// is followed at once.
    pub(super) fn divide(&mut self) {
        let all = Totals::of(&self.0);
        self.0.dedup_by(|upper, lower| {
            let joins = all.joint(lower, upper).is_some_and(|fraction| fraction <= JOINED);
            if joins {
                lower.account.join(&upper.account);
            }
            joins
        });
        let fractions = self.0.iter().map(|cell| (all.fraction_of(&cell.account), cell.lower.clone()));
        let mut large: Vec<_> = fractions.filter(|(fraction, _)| *fraction > DIVIDED).collect();
        large.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        for (fraction, lower) in large {
            if self.0.len() == MAX_CELLS && !self.join_least(&all, fraction / 2.0) {
                return;
            }
            // Smaller ones may have been joined.
            let Ok(at) = self.0.binary_search_by(|cell| cell.lower.cmp(&lower)) else { continue };
            let upper = self.0[at].split();
            self.0.splice(at + 1..at + 1, upper);
        }
    }

    /// Joins the neighbours with the least share, if it is below `most`. False if there are none.
    fn join_least(&mut self, all: &Totals, most: f64) -> bool {
        let pairs = self.0.windows(2).enumerate();
        let joint = pairs.filter_map(|(at, pair)| Some((all.joint(&pair[0], &pair[1])?, at)));
        let least = joint.min_by(|(one, _), (other, _)| one.total_cmp(other));
        let Some((_, at)) = least.filter(|(fraction, _)| *fraction < most) else { return false };
        let upper = self.0.remove(at + 1);
        self.0[at].account.join(&upper.account);
        true
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

/// Sums over all cells, of which each cell has a fraction.
struct Totals {
    scans: f64,
    read_cost: f64,
}

impl Totals {
    fn of(cells: &[Cell]) -> Totals {
        let accounts = || cells.iter().map(|cell| &cell.account);
        Totals { scans: accounts().map(CellStats::scans).sum(), read_cost: accounts().map(CellStats::read_cost).sum() }
    }

    /// The fraction of the scans or of the read cost that a cell has, whichever is larger.
    fn fraction_of(&self, account: &CellStats) -> f64 {
        self.largest(account.scans(), account.read_cost())
    }

    /// The same of two cells together. `None` if one was converted and the other was not.
    fn joint(&self, one: &Cell, other: &Cell) -> Option<f64> {
        let (one, other) = (&one.account, &other.account);
        let is_alike = one.was_converted() == other.was_converted();
        is_alike.then(|| self.largest(one.scans() + other.scans(), one.read_cost() + other.read_cost()))
    }

    fn largest(&self, scans: f64, read_cost: f64) -> f64 {
        let fraction = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
        fraction(scans, self.scans).max(fraction(read_cost, self.read_cost))
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
        cells.0[0].lower.is_empty()
            && cells.0.is_sorted_by(|one, other| one.lower < other.lower)
            && cells.len() <= MAX_CELLS
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
        let scans: f64 = cells.row(within).iter().map(|cell| cell.account.scans()).sum();
        assert!(scans > 0.85 * Totals::of(&cells.0).scans);
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
        assert!((0..cells.len()).all(|cell| cells.get(cell).account.scans() < 0.1 * Totals::of(&cells.0).scans));
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

    /// Seconds of a hundred scans, of which 95 begin within a hot range and lose nothing once it is converted.
    fn scan_hot(cells: &mut Cells, hot: u32, seconds: u32, is_converted: bool) {
        for number in 0..100 * seconds {
            let from = if number % 20 == 0 { random(number) } else { hot + random(number) % 128 };
            cells.record(&key(from), if is_converted && number % 20 > 0 { (0.0, 0.0) } else { (1000.0, 0.0) });
            if number % 100 == 99 {
                cells.fade((-1.0 / 600.0_f64).exp());
                cells.divide();
            }
        }
    }

    /// Ranges that were hot fill all cells for minutes.
    #[test]
    fn a_new_hot_range_takes_the_place_of_an_old_one() {
        let mut cells = Cells::default();
        for hot in [10_000, 30_000, 50_000] {
            scan_hot(&mut cells, hot, 10, false);
            let within = cells.within(&key(hot), &key(hot + 128));
            assert!(within.len() >= 4, "{within:?} of {}", cells.len());
            cells.row(within).iter_mut().for_each(|cell| cell.account.convert(1000.0, true));
            scan_hot(&mut cells, hot, 300, true);
            assert!(is_sound(&cells));
        }
    }

    #[test]
    fn what_is_divided_and_joined_again_keeps_its_waste() {
        let mut cells = Cells::default();
        scanned(&mut cells, random, 50);
        let read_cost = |cells: &Cells| cells.0.iter().map(|cell| cell.account.read_cost()).sum::<f64>();
        let before = read_cost(&cells);
        while cells.join_least(&Totals::of(&cells.0), f64::INFINITY) {}
        assert_eq!(cells.len(), 1);
        assert!((read_cost(&cells) - before).abs() < 1e-6 * before);
    }
}
