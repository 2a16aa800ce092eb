//! Measures the benefit of forecasting on a model of pages without records or disk.

use super::*;

/// Records of a page.
const PAGE: usize = 53;
/// Pages that a reorganisation includes on each side.
const REACH: usize = 5;
const FULL: u8 = 90;

/// Single pages, each with at most one overflow page, by their lower fence.
struct Pages<'a> {
    forecast: &'a Forecast,
    pages: BTreeMap<u64, Vec<u64>>,
    reorganisations: usize,
}

impl Pages<'_> {
    /// Writes keys in ascending order, page by page, and reorganises overfull pages.
    fn write_out(&mut self, keys: &[u64]) {
        let mut rest = keys;
        while let [first, ..] = rest {
            let lower = *self.pages.range(..=*first).next_back().expect("the first page begins at 0").0;
            let next = self.pages.range(lower + 1..).next().map_or(u64::MAX, |(next, _)| *next);
            let (chain, behind) = rest.split_at(rest.partition_point(|key| *key < next));
            let digits: Vec<[u8; 8]> = chain.iter().map(|key| key.to_be_bytes()).collect();
            self.forecast.observe(digits.iter().map(|key| &key[..]), 0);
            let page = self.pages.get_mut(&lower).expect("it was just found");
            page.extend_from_slice(chain);
            if page.len() > 2 * PAGE {
                self.reorganise(lower);
            }
            rest = behind;
        }
        self.forecast.round();
    }

    fn reorganise(&mut self, centre: u64) {
        let overflows = |(_, keys): &(&u64, &Vec<u64>)| keys.len() > PAGE;
        let mut unit: Vec<u64> =
            self.pages.range(..centre).rev().take(REACH).take_while(overflows).map(|(lower, _)| *lower).collect();
        unit.reverse();
        unit.push(centre);
        unit.extend(self.pages.range(centre + 1..).take(REACH).take_while(overflows).map(|(lower, _)| *lower));
        let lower = unit[0];
        let population = self.records() as u64;
        let mut keys: Vec<u64> =
            unit.iter().flat_map(|lower| self.pages.remove(lower).expect("it is in the hood")).collect();
        keys.sort_unstable();
        let last = keys[keys.len() - 1].to_be_bytes();
        let fill = self.forecast.fill(&keys[0].to_be_bytes(), &last, keys.len(), population, FULL);
        self.lay_out(lower, &keys, fill);
        self.reorganisations += 1;
    }

    /// Spreads keys evenly over pages that are filled to at most `fill` percent.
    fn lay_out(&mut self, lower: u64, keys: &[u64], fill: u8) {
        let pages = keys.len().div_ceil(PAGE * usize::from(fill) / 100);
        for page in 0..pages {
            let keys = &keys[keys.len() * page / pages..keys.len() * (page + 1) / pages];
            self.pages.insert(if page == 0 { lower } else { keys[0] }, keys.to_vec());
        }
    }

    fn records(&self) -> usize {
        self.pages.values().map(Vec::len).sum()
    }

    /// Number of pages, overflow pages included.
    fn count(&self) -> usize {
        self.pages.values().map(|keys| keys.len().div_ceil(PAGE).max(1)).sum()
    }
}

/// Keys like taxi pick-ups: some places are hotter than others, at different hours of a day of 12,000 inserts.
fn pickups(random: &mut SmallRng, count: usize) -> Vec<u64> {
    let places: Vec<(u64, f64)> = (0..500).map(|_| (random.random(), random.random_range(0.0..1.0))).collect();
    let mut keys = Vec::new();
    while keys.len() < count {
        // The n-th place is drawn about 1/n as often as the first.
        let rank = (places.len() as f64).powf(random.random_range(0.0..1.0));
        let (place, hour) = places[rank as usize - 1];
        let busy = 1.0 + 0.8 * ((keys.len() as f64 / 12_000.0 - hour) * std::f64::consts::TAU).cos();
        if random.random_range(0.0..1.8) < busy {
            keys.push(place ^ random.random_range(0..1 << 36));
        }
    }
    keys
}

/// Loads a fifth of the stream and inserts the rest. Returns the number of reorganisations and the final number of
/// pages.
fn run(kind: ForecastKind) -> (usize, usize) {
    let forecast = Forecast::new(Memory::new(16 << 20), kind, EpochSchedule { epoch: 4000, horizon: 100 }, 1);
    let keys = pickups(&mut SmallRng::seed_from_u64(9), 200_000);
    let (loaded, inserted) = keys.split_at(40_000);
    let mut pages = Pages { forecast: &forecast, pages: BTreeMap::new(), reorganisations: 0 };
    let mut sorted = loaded.to_vec();
    sorted.sort_unstable();
    pages.lay_out(0, &sorted, FULL);
    for round in inserted.chunks(2000) {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        pages.write_out(&sorted);
    }
    assert_eq!(pages.records(), keys.len());
    (pages.reorganisations, pages.count())
}

#[test]
fn forecasting_saves_most_reorganisations() {
    let (off, off_pages) = run(ForecastKind::Off);
    for kind in [ForecastKind::Trend, ForecastKind::Seasonal, ForecastKind::Auto] {
        let (on, pages) = run(kind);
        eprintln!("{}: {on} of {off} reorganisations, {pages} of {off_pages} pages", kind.name());
        assert!(on * 100 <= off * 45, "{}: {on} of {off} reorganisations", kind.name());
        assert!(pages * 100 <= off_pages * 105, "{}: {pages} of {off_pages} pages", kind.name());
    }
}
