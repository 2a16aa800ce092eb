//! How many pages a range has while it grows (A9; decision 14, "Page fill").

use std::ops::Range;

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::world::{Records, World};
use crate::tree::{PageFill, TreeOptions};

const RECORDS: u32 = 8000;
/// What comes in a round.
const TENTH: u32 = RECORDS / 10;
const ROUNDS: u32 = 30;
/// Rounds until pages are no more as they were planned first.
const SETTLED: usize = 10;

/// Records of 148 bytes, whose keys are in no order.
fn records(numbers: Range<u32>) -> Records {
    let key = |number| [&SmallRng::seed_from_u64(number).random::<u64>().to_be_bytes()[..], b"of 20 bytes "].concat();
    numbers.map(|number| (key(number.into()), Some(vec![7; 128]))).collect()
}

fn pages(world: &World) -> u64 {
    let base: u64 =
        world.tree.store.index.snapshot().ascend(&[]).map(|(_, segment)| u64::from(segment.base_count())).sum();
    base + world.tree.store.overflow_pages()
}

/// Pages for 1000 records, the mean of the rounds in which a range gets a tenth of what it had, in so many steps, and
/// what the worst has above it.
fn waves(page_fill: PageFill, steps: u32) -> (f64, f64) {
    let world = World::filled(1, TreeOptions::default(), page_fill);
    world.absorb(&records(0..RECORDS)).unwrap();
    let step = TENTH / steps;
    let mut rounds = Vec::new();
    for records_before in (RECORDS..).step_by(TENTH as usize).take(ROUNDS as usize) {
        let numbers = |number| records_before + number * step..records_before + (number + 1) * step;
        (0..steps).for_each(|number| assert_eq!(world.absorb(&records(numbers(number))).unwrap(), u64::from(step)));
        rounds.push(pages(&world) as f64 * 1000.0 / f64::from(records_before + TENTH));
    }
    let rounds = &rounds[SETTLED..];
    let (mean, worst) = (
        rounds.iter().sum::<f64>() / rounds.len() as f64,
        rounds.iter().fold(0.0, |most: f64, pages| most.max(*pages)),
    );
    (mean, worst / mean - 1.0)
}

/// Whole segments are planned again, or records go into their pages, and into overflow pages until those are full.
/// Neither comes in waves, so spread pages are nothing but more of them.
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

/// Nothing but what is in pages says how full they are.
#[test]
fn the_same_records_make_the_same_spread_pages() {
    let fences = |seed| {
        let world = World::filled(seed, TreeOptions::default(), PageFill::Spread);
        world.absorb(&records(0..RECORDS)).unwrap();
        world.fences()
    };
    assert_eq!(fences(1), fences(2));
}
