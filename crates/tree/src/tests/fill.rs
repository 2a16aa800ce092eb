//! The number of pages of a range while it grows (A9; adaptive.md, "Converting to pages").

use std::ops::Range;

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::fixture::{Fixture, Records};
use crate::{PageFill, TreeOptions};

const RECORDS: u32 = 8000;
/// Records added in a round.
const TENTH: u32 = RECORDS / 10;
const ROUNDS: u32 = 30;
/// Rounds until no page is as it was first planned.
const SETTLED: usize = 10;

/// Records of 148 bytes with keys in random order.
fn records(numbers: Range<u32>) -> Records {
    let key = |number| [&SmallRng::seed_from_u64(number).random::<u64>().to_be_bytes()[..], b"of 20 bytes "].concat();
    numbers.map(|number| (key(number.into()), Some(vec![7; 128]))).collect()
}

fn pages(fixture: &Fixture) -> u64 {
    let base: u64 =
        fixture.tree.store.index.snapshot().ascend(&[]).map(|(_, segment)| u64::from(segment.base_count())).sum();
    base + fixture.tree.store.overflow_pages()
}

/// Pages for 1000 records while a range grows by a tenth of its first size in each round, in so many steps: the mean
/// over the rounds, and the relative excess of the worst round.
fn waves(page_fill: PageFill, steps: u32) -> (f64, f64) {
    let fixture = Fixture::filled(1, TreeOptions::default(), page_fill);
    fixture.ingest(&records(0..RECORDS)).unwrap();
    let step = TENTH / steps;
    let mut rounds = Vec::new();
    for records_before in (RECORDS..).step_by(TENTH as usize).take(ROUNDS as usize) {
        let numbers = |number| records_before + number * step..records_before + (number + 1) * step;
        (0..steps).for_each(|number| assert_eq!(fixture.ingest(&records(numbers(number))).unwrap(), u64::from(step)));
        rounds.push(pages(&fixture) as f64 * 1000.0 / f64::from(records_before + TENTH));
    }
    let rounds = &rounds[SETTLED..];
    let (mean, worst) = (
        rounds.iter().sum::<f64>() / rounds.len() as f64,
        rounds.iter().fold(0.0, |most: f64, pages| most.max(*pages)),
    );
    (mean, worst / mean - 1.0)
}

/// Whole segments are rebuilt, or records go into their pages, and into overflow pages until those are full. Neither
/// makes the number of pages oscillate, so spreading only adds pages.
#[test]
fn pages_of_a_range_that_grows_do_not_come_in_waves() {
    for (steps, most) in [(1, 0.02), (20, 0.05)] {
        let [even, spread] = [PageFill::Even, PageFill::Spread].map(|page_fill| waves(page_fill, steps));
        println!("{steps} steps: even {even:?}, spread {spread:?}");
        assert!(even.1 < most && spread.1 < most, "{steps} steps: {even:?} and {spread:?}");
        let more = spread.0 / even.0;
        assert!((1.05..1.35).contains(&more), "{steps} steps: {even:?} and {spread:?}");
    }
}

/// The fill of pages depends only on their content.
#[test]
fn the_same_records_make_the_same_spread_pages() {
    let fences = |seed| {
        let fixture = Fixture::filled(seed, TreeOptions::default(), PageFill::Spread);
        fixture.ingest(&records(0..RECORDS)).unwrap();
        fixture.fences()
    };
    assert_eq!(fences(1), fences(2));
}
