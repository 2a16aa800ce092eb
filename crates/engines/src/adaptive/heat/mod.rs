//! Which ranges scans would have in pages, and which are not worth them any more (decision 14, "Finding hot ranges",
//! "Price", "Caution", "Going back").

mod account;
mod cells;

use std::{iter, mem, ops::Range};

use self::{account::Adapted, cells::Cells};

/// Nanoseconds of scans in which what was counted fades to 1/e.
const MEMORY: f64 = 600e9;
/// Nanoseconds from one look to the next that count as such at most.
const LOOK: u64 = 1_000_000_000;
/// How many times its price a range has to have lost: with no knowledge of what comes, renting until the rent is twice
/// the price loses at most three times what who knows it loses.
const PATIENCE: f64 = 2.0;

/// The part of all scans of which it counts how much they read. The cells at both ends of what is hot reach far beyond
/// it.
const HOT: f64 = 15.0 / 16.0;
/// The part of them with which a cell is not looked at: all such cells have less than the rest.
const FEW: f64 = (1.0 - HOT) / cells::MOST as f64;

/// How many times as hot the coldest of what is hot may be as a cell that counts as hot with it.
const ALIKE: f64 = 4.0;
/// Ranges that are hot apart from the rest, at most.
const MOST_ROWS: usize = 8;

/// A range of keys that begins at one and ends before another, if there is an end.
pub(super) type Stretch = (Vec<u8>, Option<Vec<u8>>);

/// What scans have lost, by where they began.
#[derive(Debug, Clone, Default)]
pub(super) struct Heat {
    cells: Cells,
    /// Where they began, whatever they lost: as if each had lost 1. Of ranges that lose nothing `cells` resolves
    /// nothing.
    begun: Cells,
    looked_at: u64,
    /// Whether anybody has scanned since then.
    is_used: bool,
}

impl Heat {
    /// A scan began at a key, lost so many nanoseconds, and would have lost so many to pages.
    pub(super) fn note(&mut self, from: &[u8], lost: (f64, f64)) {
        self.cells.note(from, lost);
        self.begun.note(from, (1.0, 0.0));
        self.is_used = true;
    }

    /// It is so late now. Time in which nobody scans does not count: who comes back from another phase finds what he
    /// left.
    pub(super) fn tick(&mut self, now: u64) {
        let passed = now.saturating_sub(mem::replace(&mut self.looked_at, now)).min(LOOK);
        let passed = if mem::take(&mut self.is_used) { passed as f64 } else { 0.0 };
        for cells in [&mut self.cells, &mut self.begun] {
            cells.fade((-passed / MEMORY).exp());
            cells.divide();
        }
    }

    /// The ranges of which each cell has lost its price, that first which has lost the most for its own. `price` tells
    /// what it costs to adapt a range, in nanoseconds; none where there is nothing to adapt. Each adaptation costs
    /// `fixed` besides.
    pub(super) fn candidates(
        &self,
        fixed: f64,
        mut price: impl FnMut(&[u8], Option<&[u8]>) -> Option<f64>,
    ) -> impl Iterator<Item = Stretch> {
        let (mut candidates, mut row) = (Vec::new(), Row::default());
        for cell in 0..=self.cells.len() {
            let counted = (cell < self.cells.len()).then(|| self.judge(cell, &mut price)).flatten();
            match counted {
                Some((waste, price)) if waste >= price => row.take(cell, waste),
                _ => {
                    let row = mem::take(&mut row);
                    candidates.extend(self.gain(&row, fixed, &mut price).map(|gain| (gain, row.cells)));
                }
            }
        }
        candidates.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        candidates.into_iter().map(|(_, cells)| self.cells.stretch(&cells))
    }

    /// Whether scans of a range have lost enough for a price, and what an adaptation costs besides.
    pub(super) fn pays(&self, lower: &[u8], upper: &[u8], price: (f64, f64)) -> bool {
        self.of(lower, upper).1 >= self.stake(lower, upper, price)
    }

    /// The same, where that makes it pages.
    pub(super) fn pays_for_pages(&self, lower: &[u8], upper: &[u8], price: (f64, f64)) -> bool {
        let air = self.cells.within(lower, upper).map(|cell| self.cells.get(cell).account.air()).sum::<f64>();
        self.of(lower, upper).1 - air >= self.stake(lower, upper, price)
    }

    /// What a row has lost, as a multiple of its price.
    fn gain(&self, row: &Row, fixed: f64, price: &mut impl FnMut(&[u8], Option<&[u8]>) -> Option<f64>) -> Option<f64> {
        if row.cells.is_empty() {
            return None;
        }
        let (lower, upper) = self.cells.bounds(&row.cells);
        price(lower, upper).map(|price| row.waste / (self.caution(row.cells.clone()) * price + fixed))
    }

    /// How much dearer than its price it is to adapt some neighbours: what is in the mean of their cautions.
    fn caution(&self, cells: Range<usize>) -> f64 {
        let count = cells.len() as f64;
        cells.map(|cell| self.cells.get(cell).account.caution()).sum::<f64>() / count
    }

    /// What a cell has lost, and what it has to lose.
    fn judge(&self, cell: usize, price: &mut impl FnMut(&[u8], Option<&[u8]>) -> Option<f64>) -> Option<(f64, f64)> {
        let account = &self.cells.get(cell).account;
        if account.waste() == 0.0 {
            return None;
        }
        let (lower, upper) = self.cells.bounds(&(cell..cell + 1));
        Some((account.waste(), account.caution() * price(lower, upper)?))
    }

    /// Ranges that scans have left, whatever they are.
    pub(super) fn cold(&self) -> impl Iterator<Item = Stretch> {
        let is_cold = |cell: usize| self.cells.get(cell).account.is_cold();
        let mut cells = 0..self.cells.len();
        iter::from_fn(move || {
            let first = cells.find(|cell| is_cold(*cell))?;
            let end = cells.find(|cell| !is_cold(*cell)).unwrap_or(self.cells.len());
            Some(self.cells.stretch(&(first..end)))
        })
    }

    /// Bytes of the smallest ranges in which nearly all scans began, as far as is resolved, of those that `bytes` tells
    /// for each.
    pub(super) fn hot_bytes(&self, bytes: impl Fn(Stretch) -> u64) -> u64 {
        let (cells, nearly_all) = self.densest(bytes);
        cells[..nearly_all].iter().map(|(.., bytes)| bytes).sum()
    }

    /// Where those ranges begin and end, with others that are nearly as hot, ascending; none where they are many, since
    /// nothing is hot apart from the rest then.
    pub(super) fn hot_bounds(&self, bytes: impl Fn(Stretch) -> u64) -> Vec<Vec<u8>> {
        let (cells, nearly_all) = self.densest(bytes);
        let Some((_, scans, bytes)) = cells[..nearly_all].last() else { return Vec::new() };
        let is_hot = |(_, others, other): &&(usize, f64, u64)| ALIKE * others * *bytes as f64 >= *other as f64 * scans;
        let mut hot: Vec<_> = cells.iter().take_while(is_hot).map(|(cell, ..)| *cell).collect();
        hot.sort_unstable();
        let rows: Vec<_> = hot.chunk_by(|one, next| one + 1 == *next).collect();
        if rows.len() > MOST_ROWS {
            return Vec::new();
        }
        let bounds = rows.into_iter().flat_map(|row| {
            let (lower, upper) = self.begun.stretch(&(row[0]..row[row.len() - 1] + 1));
            iter::once(lower).chain(upper)
        });
        bounds.filter(|bound| !bound.is_empty()).collect()
    }

    /// The cells in which scans began, the densest first, with scans and bytes of each; and how many of them it takes
    /// for nearly all scans.
    fn densest(&self, bytes: impl Fn(Stretch) -> u64) -> (Vec<(usize, f64, u64)>, usize) {
        let scans = |cell: &usize| self.begun.get(*cell).account.scans();
        let all = (0..self.begun.len()).map(|cell| scans(&cell)).sum::<f64>();
        let of = |cell: usize| (cell, scans(&cell), bytes(self.begun.stretch(&(cell..cell + 1))));
        let mut cells: Vec<_> = (0..self.begun.len()).filter(|cell| scans(cell) > FEW * all).map(of).collect();
        // A quotient each: products of two of them are rounded, and would be no total order. Without bytes it is
        // infinite.
        cells.sort_by(|(_, scans, bytes), (_, other, others)| {
            (other / *others as f64).total_cmp(&(scans / *bytes as f64))
        });
        let mut left = HOT * all;
        let are_left = |(_, scans, _): &&(usize, f64, u64)| {
            let are_left = left > 0.0;
            left -= scans;
            are_left
        };
        let nearly_all = cells.iter().take_while(are_left).count();
        (cells, nearly_all)
    }

    /// A range was absorbed, which cost so many nanoseconds, wholly or one place of several.
    pub(super) fn absorbed(&mut self, lower: &[u8], upper: &[u8], (cost, is_whole): (f64, bool)) {
        let cells = self.cells.within(lower, upper);
        let part = cost / cells.len() as f64;
        self.cells.row(cells).iter_mut().for_each(|cell| cell.account.adapt(part, is_whole));
    }

    /// Whether the last adaptations of a range, that is of most of its cells, have not paid, all together.
    pub(super) fn has_failed(&self, lower: &[u8], upper: &[u8]) -> bool {
        let cells = self.cells.within(lower, upper);
        let adapted = || cells.clone().filter_map(|cell| self.cells.get(cell).account.adapted());
        let is_of_most = 2 * adapted().count() > cells.len();
        is_of_most && adapted().cloned().reduce(Adapted::with).is_some_and(|all| all.has_failed())
    }

    /// A range is in tables again. Where it ends within a cell the rest of that may still be to come.
    pub(super) fn uncovered(&mut self, lower: &[u8], upper: &[u8]) {
        let mut cells = self.cells.within(lower, upper);
        let last = cells.end - 1;
        if self.cells.bounds(&(last..cells.end)).1.is_some_and(|end| upper < end) {
            cells.end = last;
        }
        self.leave(cells);
    }

    /// A range stays what it is, and is not to be judged by what it was before.
    pub(super) fn stays(&mut self, lower: &[u8], upper: &[u8]) {
        self.leave(self.cells.within(lower, upper));
    }

    fn leave(&mut self, cells: Range<usize>) {
        self.cells.row(cells).iter_mut().for_each(|cell| cell.account.leave());
    }

    /// Somebody has said what a range is to be: what was learnt of it counts no more.
    pub(super) fn forget(&mut self, lower: &[u8], upper: &[u8]) {
        let cells = self.cells.within(lower, upper);
        self.cells.row(cells).iter_mut().for_each(|cell| cell.account.forget());
    }

    /// Scans that began in a range since the last flush, with all of the cells at its ends.
    pub(super) fn lately(&self, lower: &[u8], upper: &[u8]) -> f64 {
        self.cells.within(lower, upper).map(|cell| self.cells.get(cell).account.lately()).sum()
    }

    /// A memtable is being flushed.
    pub(super) fn flushed(&mut self) {
        let all = 0..self.cells.len();
        self.cells.row(all).iter_mut().for_each(|cell| cell.account.flush());
    }

    /// What scans of a range have to lose before it is absorbed for a price.
    pub(super) fn stake(&self, lower: &[u8], upper: &[u8], (price, fixed): (f64, f64)) -> f64 {
        PATIENCE * (self.caution(self.cells.within(lower, upper)) * price + fixed)
    }

    /// Scans that began in a range, with all of the cells at its ends, and the nanoseconds that they lost; both fade.
    pub(super) fn of(&self, lower: &[u8], upper: &[u8]) -> (f64, f64) {
        let accounts = self.cells.within(lower, upper).map(|cell| &self.cells.get(cell).account);
        accounts.fold((0.0, 0.0), |(scans, waste), account| (scans + account.scans(), waste + account.waste()))
    }
}

/// Neighbours that have lost their prices.
#[derive(Debug, Default)]
struct Row {
    cells: Range<usize>,
    waste: f64,
}

impl Row {
    fn take(&mut self, cell: usize, waste: f64) {
        let start = if self.cells.is_empty() { cell } else { self.cells.start };
        *self = Row { cells: start..cell + 1, waste: self.waste + waste };
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

    /// Seconds of scans of a range, each of which loses 10 microseconds, a hundred a second.
    fn scan(heat: &mut Heat, now: &mut u64, seconds: u32, (lower, keys): (u32, u32)) {
        for second in 0..seconds {
            (0..100).for_each(|scan| {
                heat.note(&(lower + random(second * 100 + scan) % keys).to_be_bytes(), (10_000.0, 4000.0))
            });
            *now += SECOND;
            heat.tick(*now);
        }
    }

    /// So many nanoseconds for a key.
    fn price(ns: f64) -> impl FnMut(&[u8], Option<&[u8]>) -> Option<f64> {
        let number = |key: &[u8]| key.try_into().map_or(0, u32::from_be_bytes);
        move |lower, upper| Some(ns * f64::from(upper.map_or(KEYS, number) - number(lower)))
    }

    /// The first range that has lost enough.
    fn worth(heat: &Heat, fixed: f64, ns: f64) -> Option<Stretch> {
        heat.candidates(fixed, price(ns)).find(|(lower, upper)| {
            let end = upper.clone().unwrap_or_else(|| vec![0xff; 5]);
            heat.pays(lower, &end, (price(ns)(lower, upper.as_deref()).unwrap(), fixed))
        })
    }

    fn numbers((lower, upper): Stretch) -> (u32, u32) {
        let number = |key: Vec<u8>| key.try_into().map_or(0, u32::from_be_bytes);
        (number(lower), upper.map_or(KEYS, number))
    }

    #[test]
    fn a_hot_range_is_absorbed_when_it_has_lost_twice_its_price_and_not_before() {
        let (mut heat, mut now) = (Heat::default(), 0);
        scan(&mut heat, &mut now, 60, (20_000, 1000));
        assert_eq!(worth(&heat, 1000.0, 60_000.0), None, "60 ms lost of 60 ms");
        let (lower, upper) = numbers(worth(&heat, 1000.0, 20_000.0).expect("it has lost three times its price"));
        assert!((19_500..=20_200).contains(&lower) && (20_700..=21_600).contains(&upper), "{lower} {upper}");
        assert_eq!(worth(&heat, 60e6, 1000.0), None, "its beginning alone costs as much as was lost");
        assert_eq!(heat.candidates(0.0, |_, _| None).next(), None, "there is nothing to absorb");
        let (from, to) = (&20_000u32.to_be_bytes(), &21_000u32.to_be_bytes());
        assert_eq!(heat.stake(from, to, (20e6, 1000.0)), 40_002_000.0);
        // Of 60 ms lost 24 would be lost to pages.
        assert!(heat.pays(from, to, (28e6, 0.0)) && !heat.pays_for_pages(from, to, (28e6, 0.0)));
        assert!(heat.pays_for_pages(from, to, (15e6, 0.0)));
        heat.absorbed(&lower.to_be_bytes(), &upper.to_be_bytes(), (20e6, true));
        assert_eq!(worth(&heat, 1000.0, 20_000.0), None);
    }

    /// A quarter at one end that is pages already is as hot as the rest, and is not counted with all that lies beyond
    /// it.
    #[test]
    fn what_is_hot_is_resolved_where_nothing_is_lost() {
        let (mut heat, mut now) = (Heat::default(), 0);
        for second in 0..400 {
            for scan in 0..100 {
                let key = 20_000 + random(second * 100 + scan) % 1000;
                heat.note(&key.to_be_bytes(), if key < 20_250 { (0.0, 0.0) } else { (10_000.0, 0.0) });
            }
            now += SECOND;
            heat.tick(now);
        }
        let bytes = |stretch| {
            let (lower, upper) = numbers(stretch);
            u64::from(upper - lower)
        };
        let hot = heat.hot_bytes(bytes);
        assert!((900..1100).contains(&hot), "{hot}");
    }

    fn bounds(heat: &Heat) -> Vec<u32> {
        let bytes = |stretch| {
            let (lower, upper) = numbers(stretch);
            u64::from(upper - lower)
        };
        heat.hot_bounds(bytes).into_iter().map(|key| u32::from_be_bytes(key.try_into().unwrap())).collect()
    }

    #[test]
    fn what_is_hot_has_bounds_where_it_is_apart_from_the_rest() {
        let of = |ranges: &[(u32, u32)]| {
            let (mut heat, mut now) = (Heat::default(), 0);
            for _ in 0..60 {
                ranges.iter().for_each(|range| scan(&mut heat, &mut now, 1, *range));
            }
            bounds(&heat)
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
        assert_eq!(bounds(&Heat::default()), []);
    }

    #[test]
    fn several_hot_ranges_are_found_and_the_dearest_comes_first() {
        let (mut heat, mut now) = (Heat::default(), 0);
        for _ in 0..60 {
            scan(&mut heat, &mut now, 1, (50_000, 500));
            scan(&mut heat, &mut now, 2, (10_000, 500));
        }
        let candidates: Vec<_> = heat.candidates(1000.0, price(20_000.0)).map(numbers).collect();
        let &[(lower, upper), (second, _)] = &candidates[..] else { panic!("{candidates:?}") };
        assert!((9_500..10_500).contains(&lower) && upper < 11_000, "{lower} {upper}");
        assert!((49_500..50_500).contains(&second), "{second}");
        heat.absorbed(&lower.to_be_bytes(), &upper.to_be_bytes(), (1e6, true));
        let (lower, upper) = numbers(worth(&heat, 1000.0, 20_000.0).unwrap());
        assert!((49_500..50_500).contains(&lower) && upper < 51_000, "{lower} {upper}");
    }

    #[test]
    fn a_range_that_scans_have_left_for_long_is_given_up() {
        let (mut heat, mut now) = (Heat::default(), 0);
        scan(&mut heat, &mut now, 60, (20_000, 1000));
        heat.absorbed(&20_000u32.to_be_bytes(), &21_000u32.to_be_bytes(), (20e6, true));
        scan(&mut heat, &mut now, 300, (20_000, 1000));
        assert_eq!(heat.cold().next(), None);
        scan(&mut heat, &mut now, 600, (60_000, 1000));
        assert_eq!(heat.cold().next(), None, "after ten minutes it may come back");
        scan(&mut heat, &mut now, 600, (60_000, 1000));
        let (lower, upper) = numbers(heat.cold().next().expect("scans have left it"));
        assert!((lower..upper).contains(&20_500) && upper <= 22_000, "{lower} {upper}");
        heat.uncovered(&19_000u32.to_be_bytes(), &20_500u32.to_be_bytes());
        assert_eq!(numbers(heat.cold().last().unwrap()).1, upper, "not all of it");
        heat.uncovered(&19_000u32.to_be_bytes(), &upper.to_be_bytes());
        assert_eq!(heat.cold().next(), None);
    }
}
