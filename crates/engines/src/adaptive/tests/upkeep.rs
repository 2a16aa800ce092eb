//! Ranges that become pages, and tables again, by themselves and by hints.

use std::{ops::Bound, sync::Arc, time::Duration};

use ecotone_substrate::{Error, limits::MAX_KEY};

use super::world::{ALL, Model, World, key, step};
use crate::{
    adaptive::AdaptiveOptions,
    engine::{Engine, Hint, Ordered, Range},
    lsm::Split,
};

const KEYS: u32 = 4000;
const SECOND: Duration = Duration::from_secs(1);

/// Keys in several runs and levels.
pub(super) fn layered(options: AdaptiveOptions) -> (World, Model) {
    let (mut world, mut model) = (World::new(4, options), Model::new());
    for round in 0..3u8 {
        for number in (0..KEYS).filter(|number| number % 3 == u32::from(round) || round == 0) {
            world.put(&mut model, number, Some(&[round; 100]));
        }
        world.flush();
        world.pass(Duration::ZERO);
    }
    (world, model)
}

pub(super) fn range(lower: u32, upper: u32) -> Range {
    (Bound::Included(key(lower)), Bound::Excluded(key(upper)))
}

/// A hundred scans of twenty records a second, which begin in a range, and a look each tenth of a second.
pub(super) fn scan(world: &World, range: (u32, u32), seconds: u32) {
    scan_by_tenths(world, range, 10 * seconds, 10);
}

/// So many scans each tenth of a second.
fn scan_by_tenths(world: &World, (lower, upper): (u32, u32), tenths: u32, scans: u32) {
    for number in 0..scans * tenths {
        let from = lower + number.wrapping_mul(2_654_435_761) % (upper - lower);
        let mut cursor = world.keyspace.clone().cursor((Bound::Included(key(from)), Bound::Unbounded));
        (0..20).for_each(|_| assert!(step(&mut *cursor, false).is_some()));
        drop(cursor);
        // As if there were more data than memory.
        world.keyspace.lsm.forget_blocks();
        if number % scans == scans - 1 {
            world.pass(SECOND / 10);
        }
    }
}

/// One scan a second, for long.
fn scan_seldom(world: &World, (lower, upper): (u32, u32), seconds: u32) {
    for second in 0..seconds {
        assert!(
            step(&mut *world.keyspace.clone().cursor(range(lower + second % (upper - lower), KEYS)), false).is_some()
        );
        world.pass(SECOND);
    }
}

/// Whether nothing counts of a range but pages.
pub(super) fn is_pages(world: &World, lower: u32, upper: u32) -> bool {
    let counted = world.keyspace.lsm.lsm().counted(&key(lower), &key(upper));
    counted.bytes == 0 && counted.pages > 0
}

pub(super) fn shapes(world: &World) -> Vec<(&'static str, &'static str)> {
    world.keyspace.shapes().into_iter().map(|shape| (shape.shape, shape.reason)).collect()
}

#[test]
fn a_range_that_is_scanned_becomes_pages_and_the_rest_stays_tables() {
    let (mut world, model) = layered(AdaptiveOptions::default());
    scan(&world, (1000, 1400), 1);
    assert!(shapes(&world).is_empty(), "it has not paid yet");
    scan(&world, (1000, 1400), 60);
    assert!(is_pages(&world, 1150, 1350), "{:?}", world.keyspace.shapes());
    assert!(world.stat("absorbed_pieces") >= 1);
    let counted = |lower, upper| world.keyspace.lsm.lsm().counted(&key(lower), &key(upper));
    assert_eq!((counted(0, 800).pages, counted(1800, KEYS).pages), (0, 0), "{:?}", world.keyspace.shapes());
    assert!(shapes(&world).iter().all(|shape| *shape == ("pages", "scans")));
    world.expect(&model);
    world.reopen();
    assert!(is_pages(&world, 1150, 1350));
    world.expect(&model);
}

/// The last records, asked for again and again from the end of all keys.
#[test]
fn a_range_that_is_scanned_down_becomes_pages() {
    let (world, model) = layered(AdaptiveOptions::default());
    for number in 0..6000 {
        let mut cursor = world.keyspace.clone().cursor(ALL);
        (0..20).for_each(|_| assert!(step(&mut *cursor, true).is_some()));
        drop(cursor);
        world.keyspace.lsm.forget_blocks();
        if number % 10 == 9 {
            world.pass(SECOND / 10);
        }
    }
    assert!(is_pages(&world, KEYS - 20, KEYS) && !is_pages(&world, 0, 1000), "{:?}", world.keyspace.shapes());
    world.expect(&model);
}

/// Nineteen tenths of a second are enough, and what was written before it and is still in memory becomes pages with the
/// rest.
#[test]
fn a_short_phase_is_noticed() {
    let (mut world, mut model) = layered(AdaptiveOptions::default());
    (1000..1400).step_by(3).for_each(|number| world.put(&mut model, number, Some(&[9; 100])));
    scan_by_tenths(&world, (1000, 1400), 19, 100);
    assert!(is_pages(&world, 1050, 1350), "{:?}", world.keyspace.shapes());
    assert_eq!((world.keyspace.first_unflushed(), world.stat("memtable_bytes")), (None, 0));
    world.expect(&model);
}

/// What was in three places, fits into memory as one run and would not as pages, and is one run since scans came.
fn merged(split: Split) -> (World, Model) {
    let options = AdaptiveOptions { split, ..AdaptiveOptions::default() };
    let (mut world, mut model) = (World::with_memory(6, options, 14 << 20), Model::new());
    for round in 0..3u8 {
        for number in (0..KEYS).filter(|number| number % 3 == u32::from(round) || round == 0) {
            world.put(&mut model, number, Some(&[round; 1500]));
        }
        world.flush();
        world.pass(Duration::ZERO);
    }
    assert!(!is_one_run(&world));
    scan(&world, (0, KEYS - 20), 200);
    assert!(world.stat("merged_pieces") > 0 && world.stat("absorbed_pieces") == 0, "{:?}", world.keyspace.stats());
    assert!(is_one_run(&world) && shapes(&world).is_empty());
    world.expect(&model);
    (world, model)
}

/// But for a little that is left in each place.
fn is_one_run(world: &World) -> bool {
    let counted = world.keyspace.lsm.lsm().counted(&key(0), &key(KEYS));
    counted.bytes - counted.largest < counted.largest / 12
}

/// For a thirtieth all is not written again, whatever scans lose; for a sixth it is, and not more than three times.
#[test]
#[ignore = "long"]
fn what_was_merged_is_merged_again_for_enough() {
    let (mut world, mut model) = merged(Split::Side);
    for (part, is_enough) in [(30, false), (6, true)] {
        for number in (0..KEYS).step_by(part) {
            world.put(&mut model, number, Some(&[7; 1500]));
        }
        world.flush();
        let stats = || (world.stat("merged_pieces"), world.stat("adapted_bytes"));
        let before = stats();
        scan(&world, (0, KEYS - 20), 200);
        assert_eq!(stats().0 > before.0, is_enough);
        let most = 3 * world.keyspace.lsm.lsm().largest(&key(0), &key(KEYS), u64::MAX);
        assert!(stats().1 - before.1 <= most);
    }
    assert!(is_one_run(&world));
    world.expect(&model);
}

#[test]
#[ignore = "long"]
fn what_is_as_large_as_memory_is_merged_where_places_become_pages_one_by_one() {
    merged(Split::Down);
}

#[test]
#[ignore = "long"]
fn what_is_as_large_as_memory_is_merged() {
    let (mut world, mut model) = merged(Split::Side);
    // A tenth of it is found room for as pages.
    (0..KEYS / 10).step_by(3).for_each(|number| world.put(&mut model, number, Some(&[9; 1500])));
    world.flush();
    scan_seldom(&world, (0, KEYS / 10), 6000);
    scan(&world, (0, KEYS / 10), 120);
    assert!(is_pages(&world, 70, KEYS / 10 - 50), "{:?}", world.keyspace.shapes());
    world.expect(&model);
}

/// What is pages of it stays that, what is not one run.
#[test]
#[ignore = "long"]
fn what_is_as_large_as_memory_is_merged_beside_a_part_that_is_pages() {
    let (mut world, mut model) = merged(Split::Side);
    world.keyspace.hint(&range(0, KEYS / 10), Hint::ReadMostly).unwrap();
    world.pass(SECOND);
    world.keyspace.hint(&range(0, KEYS / 10), Hint::Auto).unwrap();
    assert!(is_pages(&world, 0, KEYS / 10));
    let stats = |world: &World| (world.stat("merged_pieces"), world.stat("adapted_bytes"));
    let before = stats(&world);
    (0..KEYS).step_by(3).for_each(|number| world.put(&mut model, number, Some(&[8; 1500])));
    world.flush();
    let counted = |lower, upper| world.keyspace.lsm.lsm().counted(&key(lower), &key(upper));
    assert!(counted(0, KEYS / 10).bytes > 0, "the flush went into its pages");
    scan(&world, (0, KEYS - 20), 400);
    assert!(stats(&world).0 > before.0 && is_pages(&world, 0, KEYS / 10), "{:?}", world.keyspace.shapes());
    let rest = counted(KEYS / 10, KEYS);
    assert!(rest.pages == 0 && rest.bytes - rest.largest < rest.largest / 8, "{rest:?} {:?}", world.keyspace.shapes());
    assert!(stats(&world).1 - before.1 <= 3 * rest.largest);
    world.expect(&model);
}

/// Whether a table of the run that was flushed last has keys on both sides of one.
fn is_over(world: &World, key: &[u8]) -> bool {
    let version = world.keyspace.lsm.lsm().version();
    let (_, run) = version.runs().next().expect("something was flushed");
    let (before, behind) = (run.within((&[], key)).last(), run.within((key, &[0xff; MAX_KEY])).first());
    before.zip(behind).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
}

/// Where scans go nothing of level 0 lies in a table with what is beside it, so that it goes down alone.
#[test]
fn what_is_flushed_is_cut_where_scans_begin_to_go() {
    let (mut world, mut model) = layered(AdaptiveOptions::default());
    let mut flush = |world: &mut World| {
        (0..KEYS).step_by(100).for_each(|number| world.put(&mut model, number, Some(&[9; 50])));
        world.flush();
    };
    flush(&mut world);
    assert!(is_over(&world, &key(1000)) && is_over(&world, &key(1400)));
    scan(&world, (1000, 1400), 20);
    let guards = world.keyspace.upkeep.guards();
    let is_about =
        |number: usize, expected: u32| key(expected - 50) < guards[number] && guards[number] < key(expected + 50);
    assert!(guards.len() == 2 && is_about(0, 1000) && is_about(1, 1400), "{guards:?}");
    flush(&mut world);
    assert!(guards.iter().all(|guard| !is_over(&world, guard)));
    world.expect(&model);
}

#[test]
fn two_hot_ranges_become_pages() {
    let (world, model) = layered(AdaptiveOptions::default());
    for _ in 0..40 {
        scan(&world, (500, 700), 1);
        scan(&world, (3000, 3200), 1);
    }
    assert!(is_pages(&world, 550, 680) && is_pages(&world, 3100, 3180), "{:?}", world.keyspace.shapes());
    assert!(!is_pages(&world, 1500, 2500), "{:?}", world.keyspace.shapes());
    world.expect(&model);
}

#[test]
fn nothing_is_adapted_where_nobody_wants_it() {
    let (world, model) = layered(AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() });
    scan(&world, (1000, 1400), 60);
    assert_eq!((shapes(&world), world.stat("covers")), (vec![], 0));
    world.expect(&model);
}

#[test]
fn points_and_scans_of_one_source_pay_for_nothing() {
    let (mut world, mut model) = (World::new(5, AdaptiveOptions::default()), Model::new());
    (0..KEYS).for_each(|number| world.put(&mut model, number, Some(&[1; 100])));
    world.flush();
    world.keyspace.compact(&mut |_, _| ()).unwrap();
    scan(&world, (1000, 1400), 60);
    (0..20_000).for_each(|number| assert!(world.keyspace.get(&key(number % KEYS)).unwrap().is_some()));
    scan(&world, (1000, 1400), 10);
    assert_eq!(world.stat("covers"), 0);
    world.expect(&model);
}

#[test]
fn a_range_that_scans_have_left_becomes_tables_again() {
    let (world, model) = layered(AdaptiveOptions::default());
    scan(&world, (1000, 1400), 80);
    assert!(is_pages(&world, 1150, 1350));
    scan_seldom(&world, (3000, 3010), 2400);
    assert!(!is_pages(&world, 1150, 1350) && world.stat("uncovered_pieces") > 0, "{:?}", world.keyspace.shapes());
    world.expect(&model);
}

/// From one evening to the next, while others write and look up.
#[test]
fn a_range_that_nobody_scans_is_not_left() {
    let (mut world, mut model) = layered(AdaptiveOptions::default());
    scan(&world, (1000, 1400), 80);
    assert!(is_pages(&world, 1150, 1350));
    for round in 0..20 {
        world.put(&mut model, 3000 + round, Some(b"by day"));
        world.flush();
        assert!(world.keyspace.get(&key(1200)).unwrap().is_some());
        world.pass(3600 * SECOND);
        (0..12).for_each(|_| world.tick());
    }
    scan(&world, (1150, 1200), 1);
    assert!(is_pages(&world, 1150, 1350) && world.stat("uncovered_pieces") == 0, "{:?}", world.keyspace.shapes());
    world.expect(&model);
}

/// Also one that was pages before, and one beside which scans come no more either but somebody wants pages.
#[test]
fn a_range_of_an_earlier_life_that_scans_have_left_becomes_tables_again() {
    let (mut world, model) = layered(AdaptiveOptions::default());
    world.keyspace.hint(&range(1000, 1400), Hint::ReadMostly).unwrap();
    world.keyspace.hint(&range(2000, 2400), Hint::ReadMostly).unwrap();
    world.pass(SECOND);
    world.reopen();
    assert!(is_pages(&world, 1000, 1400) && is_pages(&world, 2000, 2400));
    world.keyspace.hint(&range(1000, 1400), Hint::ReadMostly).unwrap();
    scan(&world, (1000, 2400), 40);
    scan_seldom(&world, (3000, 3010), 2400);
    assert!(is_pages(&world, 1000, 1400) && !is_pages(&world, 2150, 2350), "{:?}", world.keyspace.shapes());
    world.expect(&model);
}

/// A part of what is cold cannot become tables: it stays, and is not tried again and again.
#[test]
fn a_cold_range_that_has_no_space_to_become_tables_stays_pages() {
    let (mut world, model) = layered(AdaptiveOptions::default());
    world.keyspace.hint(&range(1000, 2400), Hint::ReadMostly).unwrap();
    world.pass(SECOND);
    world.reopen();
    world.keyspace.hint(&range(1700, 2000), Hint::ReadMostly).unwrap();
    scan(&world, (1000, 2400), 10);
    world.disk.space_limit(world.disk.space_used());
    scan_seldom(&world, (3000, 3010), 2400);
    assert!(world.stat("adaptations_given_up") > 0 && is_pages(&world, 1000, 2400), "{:?}", world.keyspace.shapes());
    world.disk.space_limit(u64::MAX);
    world.expect(&model);
}

/// What was asked for and is the contrary of what somebody says now is not done any more.
#[test]
fn the_last_hint_counts() {
    let (world, model) = layered(AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() });
    for _ in 0..100 {
        world.keyspace.hint(&range(200, 900), Hint::ReadMostly).unwrap();
        world.keyspace.hint(&range(200, 900), Hint::WriteMostly).unwrap();
    }
    assert_eq!(shapes(&world), [("to be tables", "hint")]);
    world.keyspace.hint(&(Bound::Unbounded, Bound::Unbounded), Hint::Auto).unwrap();
    assert_eq!(shapes(&world), []);
    world.pass(SECOND);
    assert_eq!(world.stat("absorbed_pieces"), 0);
    world.expect(&model);
}

#[test]
fn hints_are_followed_at_once_and_forgotten() {
    let (mut world, model) = layered(AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() });
    world.keyspace.hint(&range(200, 900), Hint::ReadMostly).unwrap();
    assert_eq!(shapes(&world), [("to be pages", "hint")]);
    world.pass(SECOND);
    assert!(is_pages(&world, 200, 900) && shapes(&world) == [("pages", "hint")]);
    world.keyspace.hint(&range(200, 900), Hint::WriteMostly).unwrap();
    world.pass(SECOND);
    assert!(!is_pages(&world, 200, 900) && world.stat("covers") == 0, "{:?}", world.keyspace.shapes());
    world.keyspace.hint(&(Bound::Unbounded, Bound::Unbounded), Hint::ReadMostly).unwrap();
    world.pass(SECOND);
    assert_eq!((world.stat("tables"), world.stat("covers")), (0, 1));
    world.keyspace.hint(&(Bound::Unbounded, Bound::Unbounded), Hint::Auto).unwrap();
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

/// What is in a memtable alone is flushed into the pages that are made for it; and a range without keys is none.
#[test]
fn a_hint_is_followed_before_anything_is_flushed() {
    let (mut world, mut model) =
        (World::new(9, AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() }), Model::new());
    (0..100).for_each(|number| world.put(&mut model, number, Some(&[1; 50])));
    world.keyspace.hint(&range(50, 20), Hint::WriteMostly).unwrap();
    world.keyspace.hint(&(Bound::Unbounded, Bound::Unbounded), Hint::ReadMostly).unwrap();
    world.pass(SECOND);
    assert_eq!((world.stat("covers"), world.stat("tables"), world.stat("flushes")), (1, 0, 0));
    world.flush();
    assert!(is_pages(&world, 0, 100), "{:?}", world.keyspace.shapes());
    world.expect(&model);
}

/// Pages need the memory that the blocks of their records had.
#[test]
fn what_becomes_pages_leaves_the_block_cache() {
    let (world, model) = layered(AdaptiveOptions::default());
    for number in (0..KEYS).step_by(20) {
        let mut cursor = world.keyspace.clone().cursor((Bound::Included(key(number)), Bound::Unbounded));
        assert!(step(&mut *cursor, false).is_some());
    }
    assert!(world.stat("block_cache_pages") > 50);
    let bytes = world.stat("block_cache_bytes");
    world.keyspace.hint(&(Bound::Unbounded, Bound::Unbounded), Hint::ReadMostly).unwrap();
    world.pass(SECOND);
    assert_eq!((world.stat("tables"), world.stat("block_cache_pages")), (0, 0));
    assert!(world.stat("block_cache_bytes") < bytes, "slabs without pages go back to the budget");
    world.expect(&model);
}

#[test]
fn what_is_hinted_to_be_written_is_not_adapted_however_it_is_scanned() {
    let (mut world, mut model) = layered(AdaptiveOptions::default());
    world.keyspace.hint(&range(900, 1500), Hint::WriteMostly).unwrap();
    scan(&world, (1000, 1400), 60);
    assert_eq!(world.stat("covers"), 0);
    // Another layer, should compaction have left one alone.
    (900..1500).step_by(3).for_each(|number| world.put(&mut model, number, Some(&[7; 100])));
    world.flush();
    world.keyspace.hint(&range(900, 1500), Hint::Auto).unwrap();
    scan(&world, (1000, 1400), 120);
    assert!(is_pages(&world, 1200, 1350), "{:?}", world.keyspace.shapes());
    world.expect(&model);
}

/// Nothing is done by itself, and what somebody asked for found the disk full, which it is no more.
fn put_off() -> (World, Model) {
    let options = AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() };
    let (mut world, mut model) = (World::with_tables(6, options, 1 << 20), Model::new());
    // The page file has a MiB to begin with, and would need three.
    (0..KEYS).for_each(|number| world.put(&mut model, number, Some(&[number as u8; 800])));
    world.flush();
    world.disk.space_limit(world.disk.space_used());
    world.keyspace.hint(&range(200, 3800), Hint::ReadMostly).unwrap();
    world.pass(SECOND);
    assert!(world.stat("adaptations_given_up") > 0 && !is_pages(&world, 200, 3800));
    world.disk.space_limit(u64::MAX);
    (world, model)
}

/// On a full disk nothing is adapted, nothing is lost, and what somebody asked for is tried again a minute later.
#[test]
fn a_full_disk_puts_it_off() {
    let (mut world, mut model) = put_off();
    let given_up = world.stat("adaptations_given_up");
    assert!(shapes(&world).contains(&("to be pages", "hint")), "{:?}", world.keyspace.shapes());
    world.environment.health.check().unwrap();
    let flush = |world: &mut World, model: &mut Model| {
        world.put(model, 1, Some(b"1"));
        world.flush();
    };
    flush(&mut world, &mut model);
    world.pass(SECOND);
    assert!(!is_pages(&world, 200, 3800), "it is not tried again and again");
    world.pass(60 * SECOND);
    flush(&mut world, &mut model);
    world.pass(SECOND);
    assert!(
        is_pages(&world, 200, 3800) && world.stat("adaptations_given_up") == given_up,
        "{:?}",
        world.keyspace.shapes()
    );
    world.expect(&model);
}

/// What was said last counts, also where what was said before could not be done till then.
#[test]
fn a_hint_does_not_come_before_one_that_is_put_off() {
    let (world, model) = put_off();
    world.keyspace.hint(&range(1000, 1400), Hint::WriteMostly).unwrap();
    world.pass(SECOND);
    world.pass(60 * SECOND);
    // Points alone come.
    assert!(world.keyspace.get(&key(1200)).unwrap().is_some());
    world.tick();
    assert!(is_pages(&world, 200, 900) && is_pages(&world, 1500, 3800), "{:?}", world.keyspace.shapes());
    assert_eq!(world.keyspace.lsm.lsm().counted(&key(1050), &key(1350)).pages, 0, "{:?}", world.keyspace.shapes());
    world.expect(&model);
}

/// Keys at which covers begin and end have a limit together. What is beyond it is not adapted, and nothing is stopped
/// by that.
#[test]
fn more_ranges_than_a_root_has_room_for_are_put_off() {
    let (mut world, mut model) =
        (World::new(8, AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() }), Model::new());
    let long = |number: u32| [&key(number)[..], &[b'k'; MAX_KEY - 8]].concat();
    for number in 0..1200 {
        world.write(&long(number), Some(b"value"));
        model.insert(long(number), b"value".to_vec());
    }
    world.flush();
    let refused = (0..600).find_map(|number| world.keyspace.absorb(&long(2 * number), &long(2 * number + 1)).err());
    assert!(matches!(refused, Some(Error::Limit { limit: 1_048_576, .. })), "{refused:?}");
    let covers = world.stat("covers");
    assert!((500..512).contains(&covers), "{covers}");
    world.keyspace.hint(&(Bound::Included(long(1150)), Bound::Excluded(long(1160))), Hint::ReadMostly).unwrap();
    world.pass(SECOND);
    assert_eq!((world.stat("covers"), world.stat("adaptations_given_up")), (covers, 1));
    world.environment.health.check().unwrap();
    world.write(&long(1155), None);
    model.remove(&long(1155));
    world.expect(&model);
    world.reopen();
    world.expect(&model);
}

/// What nobody writes any more is flushed while it is scanned, so that it can become pages.
#[test]
fn a_memtable_that_rests_is_flushed() {
    let (mut world, mut model) = layered(AdaptiveOptions::default());
    (1000..1400).step_by(9).for_each(|number| world.put(&mut model, number, Some(&[9; 100])));
    assert!(world.keyspace.first_unflushed().is_some());
    scan(&world, (1000, 1400), 1);
    scan(&world, (1000, 1400), 2);
    assert!(world.keyspace.first_unflushed().is_none());
    world.expect(&model);
}

/// Pieces come one after the other, faster than writes.
#[test]
fn a_memtable_does_not_rest_since_nobody_writes_between_two_pieces() {
    let (mut world, mut model) = layered(AdaptiveOptions::default());
    world.put(&mut model, 1234, Some(&[9; 100]));
    world.keyspace.hint(&range(200, 3800), Hint::ReadMostly).unwrap();
    world.pass(Duration::from_millis(500));
    assert!(world.stat("absorbed_pieces") > 1);
    assert!(world.keyspace.first_unflushed().is_some());
    world.expect(&model);
}

/// Compaction of what nobody uses is not made beside scans and points that come to pages, nor beside writes in place.
#[test]
fn who_reads_pages_or_writes_in_place_uses_the_keyspace() {
    let (mut world, mut model) = layered(AdaptiveOptions { adapt: 0, ..AdaptiveOptions::default() });
    world.keyspace.hint(&range(0, 2000), Hint::ReadMostly).unwrap();
    world.pass(SECOND);
    world.keyspace.compact(&mut |_, _| ()).unwrap();
    for round in 0..2u8 {
        (3000..3050).for_each(|number| world.put(&mut model, number, Some(&[round; 50])));
        world.flush();
    }
    assert!(is_pages(&world, 0, 2000) && world.stat("runs") == 2);
    for number in 0..15 {
        assert!(step(&mut *world.keyspace.clone().cursor(range(number, 1000)), false).is_some());
        world.tick();
    }
    for number in 0..15 {
        assert!(world.keyspace.get(&key(number)).unwrap().is_some());
        world.tick();
    }
    // A value that is known and stays as long is written in place.
    for round in 0..15 {
        world.put(&mut model, 3000, Some(&[round; 50]));
        world.tick();
    }
    assert_eq!(world.stat("runs"), 2);
    (0..11).for_each(|_| world.tick());
    assert_eq!(world.stat("runs"), 0);
    world.expect(&model);
}

/// What scans have paid for and was not adapted before they ended is adapted then.
#[test]
fn what_is_worth_adapting_is_adapted_when_nobody_uses_the_keyspace() {
    let (world, model) = layered(AdaptiveOptions::default());
    for number in 0..6000 {
        assert!(step(&mut *world.keyspace.clone().cursor(range(1000 + number % 400, 2000)), false).is_some());
        world.keyspace.lsm.forget_blocks();
    }
    assert_eq!(world.stat("absorbed_pieces"), 0);
    (0..12).for_each(|_| world.tick());
    assert!(is_pages(&world, 1000, 1400), "{:?}", world.keyspace.shapes());
    world.expect(&model);
}
