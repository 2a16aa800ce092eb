//! Scan statistics: how often scans start in a range, and how much they lose there by reading several runs. The key
//! space is divided into cells, finer where more scans start. The policy asks here which ranges are candidates for a
//! conversion, which are hot, and which have become cold (adaptive.md, "Scan statistics" and "Cost model" and
//! "Back-off" and "Converting to tables").

mod cell_stats;
pub(super) mod cells;

use std::{iter, mem, ops::Range};

use self::{
    cell_stats::LastConversion,
    cells::{Cells, KeyRange},
};

/// Decay time in nanoseconds: statistics fade to 1/e within this time of scanning.
const DECAY_NS: f64 = 600e9;
/// At most this much time counts between two ticks, in nanoseconds.
const MAX_TICK_NS: u64 = 1_000_000_000;
/// Payback factor: a range is converted when scans have lost this many times its cost. This is the ski-rental rule:
/// renting until the rent is twice the price loses at most three times as much as a choice that knows the future.
const PAYBACK_FACTOR: f64 = 2.0;

/// A range with a lower peak of scans does not become cold.
const MIN_SCANS: f64 = 100.0;
/// Share of all scans that the hot set has to include. It is below 1 because the cells at both ends of a hot range
/// reach far beyond the range.
const HOT_SHARE: f64 = 15.0 / 16.0;
/// Cells with at most this share of all scans are ignored. All such cells together have fewer scans than [`HOT_SHARE`]
/// leaves out.
const NEGLIGIBLE_SHARE: f64 = (1.0 - HOT_SHARE) / cells::MAX_CELLS as f64;

/// A cell outside the hot set still counts as hot if the coldest cell of the hot set has at most this many times its
/// density of scans.
const MAX_DENSITY_RATIO: f64 = 4.0;
/// Separate hot ranges at most.
const MAX_HOT_RANGES: usize = 8;

/// What scans have lost, by their start keys.
#[derive(Debug, Clone, Default)]
pub(super) struct ScanStats {
    cells: Cells,
    ticked_at: u64,
    /// Whether there were scans since the last tick.
    is_used: bool,
}

impl ScanStats {
    /// Records a scan that began at a key. `lost` is what it lost, and what it would have lost to pages, in
    /// nanoseconds.
    pub(super) fn record(&mut self, from: &[u8], lost: (f64, f64)) {
        self.cells.record(from, lost);
        self.is_used = true;
    }

    /// Fades the statistics by the time since the last tick, and divides the cells anew. Time without scans does not
    /// count, so that a workload that returns after another phase finds its statistics.
    pub(super) fn tick(&mut self, now: u64) {
        let passed = now.saturating_sub(mem::replace(&mut self.ticked_at, now)).min(MAX_TICK_NS);
        let passed = if mem::take(&mut self.is_used) { passed as f64 } else { 0.0 };
        self.cells.fade((-passed / DECAY_NS).exp());
        self.cells.divide();
    }

    /// Adjacent cells whose read cost exceeds the cost of converting them, best ratio first. `conversion_cost` gives
    /// the cost of converting a range in nanoseconds, `None` if there is nothing to convert. Each conversion costs
    /// `fixed` in addition.
    pub(super) fn candidates(
        &self,
        fixed: f64,
        mut conversion_cost: impl FnMut(&[u8], Option<&[u8]>) -> Option<f64>,
    ) -> impl Iterator<Item = KeyRange> {
        let (mut candidates, mut row) = (Vec::new(), AdjacentCells::default());
        for cell in 0..=self.cells.len() {
            let counted = (cell < self.cells.len()).then(|| self.cell_cost(cell, &mut conversion_cost)).flatten();
            match counted {
                Some((read_cost, conversion_cost)) if read_cost >= conversion_cost => row.take(cell, read_cost),
                _ => {
                    let row = mem::take(&mut row);
                    candidates.extend(
                        self.cost_ratio(&row, fixed, &mut conversion_cost).map(|cost_ratio| (cost_ratio, row.cells)),
                    );
                }
            }
        }
        candidates.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        candidates.into_iter().map(|(_, cells)| self.cells.key_range(&cells))
    }

    /// Whether scans of a range have lost enough for its conversion cost and the fixed cost.
    pub(super) fn exceeds_threshold(&self, lower: &[u8], upper: &[u8], conversion_cost: (f64, f64)) -> bool {
        self.of(lower, upper).1 >= self.threshold(lower, upper, conversion_cost)
    }

    /// The same for a conversion to pages, which adds a read overhead for scans.
    pub(super) fn exceeds_page_threshold(&self, lower: &[u8], upper: &[u8], conversion_cost: (f64, f64)) -> bool {
        let page_overhead =
            self.cells.within(lower, upper).map(|cell| self.cells.get(cell).account.page_overhead()).sum::<f64>();
        self.of(lower, upper).1 - page_overhead >= self.threshold(lower, upper, conversion_cost)
    }

    /// Read cost of a row of cells, as a multiple of its conversion cost.
    fn cost_ratio(
        &self,
        row: &AdjacentCells,
        fixed: f64,
        conversion_cost: &mut impl FnMut(&[u8], Option<&[u8]>) -> Option<f64>,
    ) -> Option<f64> {
        if row.cells.is_empty() {
            return None;
        }
        let (lower, upper) = self.cells.bounds(&row.cells);
        conversion_cost(lower, upper)
            .map(|conversion_cost| row.read_cost / (self.backoff(row.cells.clone()) * conversion_cost + fixed))
    }

    /// Mean back-off of a row of cells, by which their conversion cost is multiplied.
    fn backoff(&self, cells: Range<usize>) -> f64 {
        let count = cells.len() as f64;
        cells.map(|cell| self.cells.get(cell).account.backoff()).sum::<f64>() / count
    }

    /// Read cost of a cell, and the cost of converting it.
    fn cell_cost(
        &self,
        cell: usize,
        conversion_cost: &mut impl FnMut(&[u8], Option<&[u8]>) -> Option<f64>,
    ) -> Option<(f64, f64)> {
        let account = &self.cells.get(cell).account;
        if account.read_cost() == 0.0 {
            return None;
        }
        let (lower, upper) = self.cells.bounds(&(cell..cell + 1));
        Some((account.read_cost(), account.backoff() * conversion_cost(lower, upper)?))
    }

    /// Ranges that scans have left, whether they are pages or tables: adjacent cells whose scans have fallen, with
    /// enough scans together at their peaks.
    pub(super) fn cold(&self) -> impl Iterator<Item = KeyRange> {
        let account = |cell: usize| &self.cells.get(cell).account;
        let mut cells = 0..self.cells.len();
        let rows = iter::from_fn(move || {
            let first = cells.find(|cell| account(*cell).has_fallen())?;
            let end = cells.find(|cell| !account(*cell).has_fallen()).unwrap_or(self.cells.len());
            Some(first..end)
        });
        let had_scans =
            move |row: &Range<usize>| row.clone().map(|cell| account(cell).peak_scans()).sum::<f64>() > MIN_SCANS;
        rows.filter(had_scans).map(|row| self.cells.key_range(&row))
    }

    /// Bytes of the smallest set of cells in which nearly all scans began. `bytes` gives the size of a range.
    pub(super) fn hot_bytes(&self, bytes: impl Fn(KeyRange) -> u64) -> u64 {
        let (cells, nearly_all) = self.densest(bytes);
        cells[..nearly_all].iter().map(|(.., bytes)| bytes).sum()
    }

    /// The ascending bounds of those cells and of cells that are nearly as hot. Empty if they form too many ranges:
    /// then nothing is hot apart from the rest.
    pub(super) fn hot_bounds(&self, bytes: impl Fn(KeyRange) -> u64) -> Vec<Vec<u8>> {
        let (cells, nearly_all) = self.densest(bytes);
        let Some((_, scans, bytes)) = cells[..nearly_all].last() else { return Vec::new() };
        let is_hot = |(_, others, other): &&(usize, f64, u64)| {
            MAX_DENSITY_RATIO * others * *bytes as f64 >= *other as f64 * scans
        };
        let mut hot: Vec<_> = cells.iter().take_while(is_hot).map(|(cell, ..)| *cell).collect();
        hot.sort_unstable();
        let rows: Vec<_> = hot.chunk_by(|one, next| one + 1 == *next).collect();
        if rows.len() > MAX_HOT_RANGES {
            return Vec::new();
        }
        let bounds = rows.into_iter().flat_map(|row| {
            let (lower, upper) = self.cells.key_range(&(row[0]..row[row.len() - 1] + 1));
            iter::once(lower).chain(upper)
        });
        bounds.filter(|bound| !bound.is_empty()).collect()
    }

    /// The cells in which scans began, the densest first, with scans and bytes of each; and the number of them that
    /// have nearly all scans.
    fn densest(&self, bytes: impl Fn(KeyRange) -> u64) -> (Vec<(usize, f64, u64)>, usize) {
        let scans = |cell: &usize| self.cells.get(*cell).account.scans();
        let all = (0..self.cells.len()).map(|cell| scans(&cell)).sum::<f64>();
        let of = |cell: usize| (cell, scans(&cell), bytes(self.cells.key_range(&(cell..cell + 1))));
        let mut cells: Vec<_> =
            (0..self.cells.len()).filter(|cell| scans(cell) > NEGLIGIBLE_SHARE * all).map(of).collect();
        // Compares one quotient per cell: rounded products of two cells would be no total order. The quotient is
        // infinite without bytes.
        cells.sort_by(|(_, scans, bytes), (_, other, others)| {
            (other / *others as f64).total_cmp(&(scans / *bytes as f64))
        });
        let mut left = HOT_SHARE * all;
        let are_left = |(_, scans, _): &&(usize, f64, u64)| {
            let are_left = left > 0.0;
            left -= scans;
            are_left
        };
        let nearly_all = cells.iter().take_while(are_left).count();
        (cells, nearly_all)
    }

    /// A range was converted at this cost in nanoseconds. `is_whole` tells whether all its runs and levels were.
    pub(super) fn converted(&mut self, lower: &[u8], upper: &[u8], (cost, is_whole): (f64, bool)) {
        let cells = self.cells.within(lower, upper);
        let part = cost / cells.len() as f64;
        self.cells.row(cells).iter_mut().for_each(|cell| cell.account.convert(part, is_whole));
    }

    /// Whether the last conversions of a range did not pay back, taken together. Most of its cells must have had one.
    pub(super) fn did_not_pay_back(&self, lower: &[u8], upper: &[u8]) -> bool {
        let cells = self.cells.within(lower, upper);
        let last_conversion = || cells.clone().filter_map(|cell| self.cells.get(cell).account.last_conversion());
        let is_of_most = 2 * last_conversion().count() > cells.len();
        is_of_most && last_conversion().cloned().reduce(LastConversion::with).is_some_and(|all| all.did_not_pay_back())
    }

    /// A range is in tables again. A last cell that reaches beyond the range is left out, because the rest of the cell
    /// may still be to come.
    pub(super) fn reverted(&mut self, lower: &[u8], upper: &[u8]) {
        let mut cells = self.cells.within(lower, upper);
        let last = cells.end - 1;
        if self.cells.bounds(&(last..cells.end)).1.is_some_and(|end| upper < end) {
            cells.end = last;
        }
        self.leave(cells);
    }

    /// A range keeps its form. Its past peak no longer makes it cold.
    pub(super) fn keep(&mut self, lower: &[u8], upper: &[u8]) {
        self.leave(self.cells.within(lower, upper));
    }

    fn leave(&mut self, cells: Range<usize>) {
        self.cells.row(cells).iter_mut().for_each(|cell| cell.account.leave());
    }

    /// A hint was given for a range: its statistics start again.
    pub(super) fn forget(&mut self, lower: &[u8], upper: &[u8]) {
        let cells = self.cells.within(lower, upper);
        self.cells.row(cells).iter_mut().for_each(|cell| cell.account.forget());
    }

    /// Scans that began in a range since the last flush. Cells at its ends count in full.
    pub(super) fn scans_since_flush(&self, lower: &[u8], upper: &[u8]) -> f64 {
        self.cells.within(lower, upper).map(|cell| self.cells.get(cell).account.scans_since_flush()).sum()
    }

    /// A memtable is being flushed.
    pub(super) fn on_flush(&mut self) {
        let all = 0..self.cells.len();
        self.cells.row(all).iter_mut().for_each(|cell| cell.account.flush());
    }

    /// The read cost at which a range is converted.
    pub(super) fn threshold(&self, lower: &[u8], upper: &[u8], (conversion_cost, fixed): (f64, f64)) -> f64 {
        PAYBACK_FACTOR * (self.backoff(self.cells.within(lower, upper)) * conversion_cost + fixed)
    }

    /// Scans that began in a range, and the nanoseconds that they lost; both fade. Cells at its ends count in full.
    pub(super) fn of(&self, lower: &[u8], upper: &[u8]) -> (f64, f64) {
        let accounts = self.cells.within(lower, upper).map(|cell| &self.cells.get(cell).account);
        accounts
            .fold((0.0, 0.0), |(scans, read_cost), account| (scans + account.scans(), read_cost + account.read_cost()))
    }
}

/// Adjacent cells whose read cost exceeds their conversion cost.
#[derive(Debug, Default)]
struct AdjacentCells {
    cells: Range<usize>,
    read_cost: f64,
}

impl AdjacentCells {
    fn take(&mut self, cell: usize, read_cost: f64) {
        let start = if self.cells.is_empty() { cell } else { self.cells.start };
        *self = AdjacentCells { cells: start..cell + 1, read_cost: self.read_cost + read_cost };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u32 = 1 << 16;
    const SECOND: u64 = 1_000_000_000;

    /// Pseudorandom, below 2^16.
    fn random(number: u32) -> u32 {
        number.wrapping_mul(2_654_435_761) >> 16
    }

    /// Scans a range for some seconds, a hundred scans a second; each loses 10 microseconds.
    fn scan(scan_stats: &mut ScanStats, now: &mut u64, seconds: u32, (lower, keys): (u32, u32)) {
        for second in 0..seconds {
            (0..100).for_each(|scan| {
                scan_stats.record(&(lower + random(second * 100 + scan) % keys).to_be_bytes(), (10_000.0, 4000.0))
            });
            *now += SECOND;
            scan_stats.tick(*now);
        }
    }

    /// A conversion cost of so many nanoseconds per key.
    fn conversion_cost(ns: f64) -> impl FnMut(&[u8], Option<&[u8]>) -> Option<f64> {
        let number = |key: &[u8]| key.try_into().map_or(0, u32::from_be_bytes);
        move |lower, upper| Some(ns * f64::from(upper.map_or(KEYS, number) - number(lower)))
    }

    /// The first range that has lost enough.
    fn worth(scan_stats: &ScanStats, fixed: f64, ns: f64) -> Option<KeyRange> {
        scan_stats.candidates(fixed, conversion_cost(ns)).find(|(lower, upper)| {
            let end = upper.clone().unwrap_or_else(|| vec![0xff; 5]);
            scan_stats.exceeds_threshold(lower, &end, (conversion_cost(ns)(lower, upper.as_deref()).unwrap(), fixed))
        })
    }

    fn numbers((lower, upper): KeyRange) -> (u32, u32) {
        let number = |key: Vec<u8>| key.try_into().map_or(0, u32::from_be_bytes);
        (number(lower), upper.map_or(KEYS, number))
    }

    #[test]
    fn a_hot_range_is_converted_when_it_has_lost_twice_its_cost_and_not_before() {
        let (mut scan_stats, mut now) = (ScanStats::default(), 0);
        scan(&mut scan_stats, &mut now, 60, (20_000, 1000));
        assert_eq!(worth(&scan_stats, 1000.0, 60_000.0), None, "60 ms lost of 60 ms");
        let (lower, upper) = numbers(worth(&scan_stats, 1000.0, 20_000.0).expect("it has lost three times its cost"));
        assert!((19_500..=20_200).contains(&lower) && (20_700..=21_600).contains(&upper), "{lower} {upper}");
        assert_eq!(worth(&scan_stats, 60e6, 1000.0), None, "its beginning alone costs as much as was lost");
        assert_eq!(scan_stats.candidates(0.0, |_, _| None).next(), None, "there is nothing to convert");
        let (from, to) = (&20_000u32.to_be_bytes(), &21_000u32.to_be_bytes());
        assert_eq!(scan_stats.threshold(from, to, (20e6, 1000.0)), 40_002_000.0);
        // Of the 60 ms lost, 24 would be lost to pages as well.
        assert!(
            scan_stats.exceeds_threshold(from, to, (28e6, 0.0))
                && !scan_stats.exceeds_page_threshold(from, to, (28e6, 0.0))
        );
        assert!(scan_stats.exceeds_page_threshold(from, to, (15e6, 0.0)));
        scan_stats.converted(&lower.to_be_bytes(), &upper.to_be_bytes(), (20e6, true));
        assert_eq!(worth(&scan_stats, 1000.0, 20_000.0), None);
    }

    /// Scans go on to lose as much, since writes come above the pages.
    #[test]
    fn after_a_conversion_that_did_not_pay_back_scans_have_to_lose_about_twice_as_much() {
        let (mut scan_stats, mut now) = (ScanStats::default(), 0);
        let (from, to) = (&20_000u32.to_be_bytes(), &21_000u32.to_be_bytes());
        let seconds = [(); 3].map(|()| {
            let seconds = (1..400).find(|_| {
                scan(&mut scan_stats, &mut now, 1, (20_000, 1000));
                scan_stats.exceeds_threshold(from, to, (20e6, 0.0))
            });
            scan_stats.converted(from, to, (20e6, true));
            seconds.expect("it is converted at last")
        });
        assert!(2 * seconds[1] > 3 * seconds[0] && 2 * seconds[2] > 3 * seconds[1], "{seconds:?}");
    }

    /// A quarter at one end is pages already and loses nothing. It is as hot as the rest, and its cell does not reach
    /// far beyond it.
    #[test]
    fn what_is_hot_is_resolved_where_nothing_is_lost() {
        let (mut scan_stats, mut now) = (ScanStats::default(), 0);
        for second in 0..400 {
            for scan in 0..100 {
                let key = 20_000 + random(second * 100 + scan) % 1000;
                scan_stats.record(&key.to_be_bytes(), if key < 20_250 { (0.0, 0.0) } else { (10_000.0, 0.0) });
            }
            now += SECOND;
            scan_stats.tick(now);
        }
        let bytes = |key_range| {
            let (lower, upper) = numbers(key_range);
            u64::from(upper - lower)
        };
        let hot = scan_stats.hot_bytes(bytes);
        assert!((900..1100).contains(&hot), "{hot}");
    }

    /// The scans of a range are spread over many cells.
    #[test]
    fn a_range_that_scans_have_left_is_cold_if_it_had_scans_enough() {
        for (seconds, is_cold) in [(4, true), (1, false)] {
            let (mut scan_stats, mut now) = (ScanStats::default(), 0);
            scan(&mut scan_stats, &mut now, seconds, (20_000, 1000));
            let (from, to) = (20_000u32.to_be_bytes(), 21_000u32.to_be_bytes());
            scan_stats.converted(&from, &to, (20e6, true));
            scan(&mut scan_stats, &mut now, 1200, (50_000, 1000));
            let cold: Vec<_> = scan_stats.cold().map(numbers).collect();
            let is_found = cold.iter().any(|(lower, upper)| *lower < 20_500 && 20_500 < *upper);
            assert_eq!(is_found, is_cold, "{cold:?}");
        }
    }

    fn bounds(scan_stats: &ScanStats) -> Vec<u32> {
        let bytes = |key_range| {
            let (lower, upper) = numbers(key_range);
            u64::from(upper - lower)
        };
        scan_stats.hot_bounds(bytes).into_iter().map(|key| u32::from_be_bytes(key.try_into().unwrap())).collect()
    }

    #[test]
    fn what_is_hot_has_bounds_where_it_is_apart_from_the_rest() {
        let of = |ranges: &[(u32, u32)]| {
            let (mut scan_stats, mut now) = (ScanStats::default(), 0);
            for _ in 0..60 {
                ranges.iter().for_each(|range| scan(&mut scan_stats, &mut now, 1, *range));
            }
            bounds(&scan_stats)
        };
        let is_about = |bounds: &[u32], expected: &[u32]| {
            bounds.len() == expected.len() && bounds.iter().zip(expected).all(|(one, other)| one.abs_diff(*other) < 100)
        };
        let one = of(&[(20_000, 1000)]);
        assert!(is_about(&one, &[20_000, 21_000]), "{one:?}");
        let two = of(&[(20_000, 1000), (50_000, 1000)]);
        assert!(is_about(&two, &[20_000, 21_000, 50_000, 51_000]), "{two:?}");
        assert_eq!(of(&[(0, KEYS)]), [], "all is as hot");
        let many: Vec<_> = (0..12).map(|number| (5000 * number + 1000, 50)).collect();
        assert_eq!(of(&many), [], "nothing is hot apart from the rest");
        assert_eq!(bounds(&ScanStats::default()), []);
    }

    #[test]
    fn several_hot_ranges_are_found_and_the_costliest_comes_first() {
        let (mut scan_stats, mut now) = (ScanStats::default(), 0);
        for _ in 0..60 {
            scan(&mut scan_stats, &mut now, 1, (50_000, 500));
            scan(&mut scan_stats, &mut now, 2, (10_000, 500));
        }
        let candidates: Vec<_> = scan_stats.candidates(1000.0, conversion_cost(20_000.0)).map(numbers).collect();
        let &[(lower, upper), (second, _)] = &candidates[..] else { panic!("{candidates:?}") };
        assert!((9_500..10_500).contains(&lower) && upper < 11_000, "{lower} {upper}");
        assert!((49_500..50_500).contains(&second), "{second}");
        scan_stats.converted(&lower.to_be_bytes(), &upper.to_be_bytes(), (1e6, true));
        let (lower, upper) = numbers(worth(&scan_stats, 1000.0, 20_000.0).unwrap());
        assert!((49_500..50_500).contains(&lower) && upper < 51_000, "{lower} {upper}");
    }

    #[test]
    fn a_range_that_scans_have_left_for_long_is_given_up() {
        let (mut scan_stats, mut now) = (ScanStats::default(), 0);
        scan(&mut scan_stats, &mut now, 60, (20_000, 1000));
        scan_stats.converted(&20_000u32.to_be_bytes(), &21_000u32.to_be_bytes(), (20e6, true));
        scan(&mut scan_stats, &mut now, 300, (20_000, 1000));
        assert_eq!(scan_stats.cold().next(), None);
        scan(&mut scan_stats, &mut now, 600, (60_000, 1000));
        assert_eq!(scan_stats.cold().next(), None, "after ten minutes it may come back");
        scan(&mut scan_stats, &mut now, 600, (60_000, 1000));
        let (lower, upper) = numbers(scan_stats.cold().next().expect("scans have left it"));
        assert!((lower..upper).contains(&20_500) && upper <= 22_000, "{lower} {upper}");
        scan_stats.reverted(&19_000u32.to_be_bytes(), &20_500u32.to_be_bytes());
        assert_eq!(numbers(scan_stats.cold().last().unwrap()).1, upper, "not all of it");
        scan_stats.reverted(&19_000u32.to_be_bytes(), &upper.to_be_bytes());
        assert_eq!(scan_stats.cold().next(), None);
    }
}
