//! What is done while nobody uses a keyspace.

use std::time::Duration;

use super::{
    upkeep::{is_pages, layered, range, shapes},
    world::{key, step},
};
use crate::{
    adaptive::{AdaptiveOptions, Insert},
    engine::{Engine, Hint, Ordered},
};

const KEYS: u32 = 4000;
const SECOND: Duration = Duration::from_secs(1);

/// A burst of writes over what was pages, once it is over and nobody is in the way, however little scans have lost to
/// it. Where no scan came it stays as it is.
#[test]
fn a_burst_is_merged_when_nobody_uses_the_keyspace() {
    for is_scanned in [true, false] {
        let (mut world, mut model) = layered(AdaptiveOptions { insert: Insert::Batch, ..AdaptiveOptions::default() });
        world.keyspace.hint(&range(1000, 1400), Hint::ReadMostly).unwrap();
        world.pass(SECOND);
        world.keyspace.hint(&range(1000, 1400), Hint::Auto).unwrap();
        // One run, which is not compacted by itself.
        world.keyspace.compact(&mut |_, _| ()).unwrap();
        (1000..1100).for_each(|number| world.put(&mut model, number, Some(&[7; 100])));
        world.flush();
        if is_scanned {
            assert!(step(&mut *world.keyspace.clone().cursor(range(1100, 1200)), false).is_some());
        }
        world.pass(SECOND);
        assert!(!is_pages(&world, 1000, 1400), "{:?}", world.keyspace.shapes());
        (0..30).for_each(|_| world.tick());
        assert_eq!(is_pages(&world, 1000, 1400), is_scanned, "{:?}", world.keyspace.shapes());
        assert_eq!(shapes(&world).contains(&("pages", "idle")), is_scanned);
        world.expect(&model);
    }
}

#[test]
fn what_was_deleted_above_pages_ends_when_nobody_uses_the_keyspace() {
    let (mut world, mut model) = layered(AdaptiveOptions { insert: Insert::Batch, ..AdaptiveOptions::default() });
    world.keyspace.hint(&range(0, KEYS), Hint::ReadMostly).unwrap();
    world.pass(SECOND);
    world.keyspace.hint(&range(0, KEYS), Hint::Auto).unwrap();
    assert!(is_pages(&world, 0, KEYS), "{:?}", world.keyspace.shapes());
    let pages = world.keyspace.lsm.lsm().counted(&key(0), &key(KEYS)).pages;
    (0..KEYS).filter(|number| number % 50 > 0).for_each(|number| world.put(&mut model, number, None));
    world.flush();
    (0..60).for_each(|_| world.tick());
    let left = world.keyspace.lsm.lsm().counted(&key(0), &key(KEYS));
    assert!(left.bytes == 0 && 4 * left.pages < pages, "{left:?} of {pages}");
    assert!(world.keyspace.litter() > 0, "a checkpoint gives their space back");
    world.expect(&model);
}
