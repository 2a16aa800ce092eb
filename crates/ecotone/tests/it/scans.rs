//! Scans of a tree from both ends: compared with a map, over pages that change meanwhile, and their cost.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use ecotone::{
    Database, Engine, Iter, Keyspace, KeyspaceOptions, Result,
    internal::{Components, tree::TreeFamily},
    limits,
};
use ecotone_testkit::sim::{SimClock, SimStorage};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Record = (Vec<u8>, Vec<u8>);

fn open(disk: &SimStorage) -> Database {
    let families = vec![Arc::new(TreeFamily::default()) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers: 0, families };
    Database::builder("simulated").memory_budget(limits::MIN_BUDGET).open_parts(parts).unwrap()
}

fn keyspace(database: &Database) -> Keyspace {
    database.keyspace("k", KeyspaceOptions::default().engine(Engine::Tree)).unwrap()
}

fn key(i: u32) -> Vec<u8> {
    format!("key {i:06}").into_bytes()
}

fn value(i: u32) -> Vec<u8> {
    i.to_be_bytes().repeat(20)
}

/// A tree whose pages were just loaded and lie in order.
fn loaded(records: u32) -> (Database, Keyspace, Map) {
    let database = open(&SimStorage::new(3));
    let keyspace = keyspace(&database);
    let map: Map = (0..records).map(|i| (key(i), value(i))).collect();
    keyspace.bulk_load(&map).unwrap();
    (database, keyspace, map)
}

fn expect(records: impl Iterator<Item = Result<Record>>, expected: &Map) {
    let found: Vec<Record> = records.map(|record| record.unwrap()).collect();
    let expected: Vec<Record> = expected.clone().into_iter().collect();
    let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
    assert!(found == expected, "{} records of {}, differing first at {differs:?}", found.len(), expected.len());
}

/// The next record from either end, owned or borrowed.
fn draw(random: &mut SmallRng, iter: &mut Iter, backwards: bool) -> Option<Record> {
    let own = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
    match (random.random(), backwards) {
        (true, false) => iter.next_ref().unwrap().map(own),
        (true, true) => iter.next_back_ref().unwrap().map(own),
        (false, false) => iter.next().transpose().unwrap(),
        (false, true) => iter.next_back().transpose().unwrap(),
    }
}

fn bound(random: &mut SmallRng, shape: u32) -> Bound<Vec<u8>> {
    let key = shaped(random, shape);
    match random.random_range(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

/// Keys of one of several shapes, so that pages hold from two records to hundreds and their prefixes from nothing to
/// most of a key.
fn shaped(random: &mut SmallRng, shape: u32) -> Vec<u8> {
    match shape {
        0 => vec![random.random(), random.random()],
        1 => key(random.random_range(0..3_000)),
        2 => [vec![b'p'; 300], random.random_range(0..900u32).to_be_bytes().to_vec()].concat(),
        _ => vec![b"ab"[random.random_range(0..2)]; random.random_range(1..200)],
    }
}

fn change(random: &mut SmallRng, keyspace: &Keyspace, map: &mut Map, shape: u32) {
    let key = shaped(random, shape);
    if random.random_range(0..4) == 0 {
        keyspace.remove(&key).unwrap();
        map.remove(&key);
    } else {
        let longest = if random.random_range(0..20) == 0 { 1_500 } else { 60 };
        let value = vec![random.random(); random.random_range(0..longest)];
        keyspace.insert(&key, &value).unwrap();
        map.insert(key, value);
    }
}

fn scan(random: &mut SmallRng, keyspace: &Keyspace, map: &Map, shape: u32) {
    let range = (bound(random, shape), bound(random, shape));
    let mut iter = keyspace.range::<Vec<u8>>(range.clone());
    let mut expected: VecDeque<_> = map.iter().filter(|(key, _)| range.contains(*key)).collect();
    let turn = random.random_range(0..=10);
    loop {
        let backwards = random.random_range(0..10) < turn;
        let wanted = if backwards { expected.pop_back() } else { expected.pop_front() };
        let found = draw(random, &mut iter, backwards);
        assert_eq!(found.as_ref().map(|(key, value)| (key, value)), wanted, "backwards: {backwards}, in {range:?}");
        if wanted.is_none() {
            break;
        }
    }
    assert!(
        draw(random, &mut iter, true).is_none() && draw(random, &mut iter, false).is_none(),
        "it has ended at both ends"
    );
}

#[test]
fn both_ends_together_give_each_record_once() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut random = SmallRng::seed_from_u64(seed);
        let shape = seed as u32 % 4;
        let database = open(&SimStorage::new(seed));
        let (keyspace, mut map) = (keyspace(&database), Map::new());
        for _ in 0..12 {
            for _ in 0..random.random_range(1..900) {
                change(&mut random, &keyspace, &mut map, shape);
            }
            if random.random() {
                database.flush().unwrap();
            }
            (0..8).for_each(|_| scan(&mut random, &keyspace, &map, shape));
        }
        expect(keyspace.iter(), &map);
    }
}

/// Trap 2 of the field list: a scan reads the page, a dirty record is written to the page, and the scan asks the cache
/// too late.
#[test]
fn trap_02_what_leaves_the_cache_after_the_page_was_read_is_not_missed() {
    for backwards in [false, true] {
        let (database, keyspace, mut map) = loaded(20_000);
        for i in (0..20_000).step_by(7) {
            let fresh = [&key(i)[..], b"+"].concat();
            keyspace.insert(&fresh, "new").unwrap();
            map.insert(fresh, b"new".to_vec());
            keyspace.remove(key(i + 3)).unwrap();
            map.remove(&key(i + 3));
            keyspace.insert(key(i + 5), "changed").unwrap();
            map.insert(key(i + 5), b"changed".to_vec());
        }
        let mut iter = keyspace.iter();
        let mut step = || if backwards { iter.next_back() } else { iter.next() };
        // So far that more reads are under way.
        let mut found: Vec<_> = (0..2_000).map(|_| step().unwrap().unwrap()).collect();
        database.flush().unwrap();
        found.extend(std::iter::from_fn(step).map(|record| record.unwrap()));
        if backwards {
            found.reverse();
        }
        expect(found.into_iter().map(Ok), &map);
    }
}

/// The other half of trap 2: of N stored records fewer than N remain after the deletes in the cache.
#[test]
fn trap_02_deleted_records_do_not_count() {
    let (_database, keyspace, mut map) = loaded(6_000);
    for i in 1_000..5_000 {
        keyspace.remove(key(i)).unwrap();
        map.remove(&key(i));
    }
    let up: Vec<_> = keyspace.range(key(990)..).take(50).map(|record| record.unwrap().0).collect();
    assert_eq!(up, (990..1_000).chain(5_000..5_040).map(key).collect::<Vec<_>>());
    let down: Vec<_> = keyspace.range(..key(5_010)).rev().take(50).map(|record| record.unwrap().0).collect();
    assert_eq!(down, (960..1_000).chain(5_000..5_010).rev().map(key).collect::<Vec<_>>());
    expect(keyspace.iter(), &map);
}

/// The read-ahead holds pages that were freed and reused by others meanwhile.
#[test]
fn pages_that_change_hands_under_a_scan_are_looked_up_again() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = SmallRng::seed_from_u64(seed);
        let (database, keyspace, map) = loaded(8_000);
        let backwards = seed % 2 == 1;
        let mut iter = keyspace.iter();
        let mut found = Vec::new();
        for round in 0u32.. {
            let steps = random.random_range(1..1_200);
            let step = |_| if backwards { iter.next_back() } else { iter.next() };
            let records: Vec<Record> = (0..steps).map_while(step).map(|record| record.unwrap()).collect();
            let over = records.len() < steps;
            // The keys of the beginning never change.
            found.extend(records.into_iter().filter(|(key, _)| map.contains_key(key)));
            if over {
                break;
            }
            for _ in 0..random.random_range(0..1_500) {
                let i = random.random_range(0..8_000);
                keyspace.insert([&key(i)[..], &round.to_be_bytes()].concat(), value(i)).unwrap();
            }
            database.flush().unwrap();
        }
        if backwards {
            found.reverse();
        }
        expect(found.into_iter().map(Ok), &map);
    }
}

/// Requests and bytes of device reads during `read`.
fn cost(database: &Database, read: impl FnOnce()) -> (u64, u64) {
    let before = database.stats().io;
    read();
    let after = database.stats().io;
    (after.reads - before.reads, after.read_bytes - before.read_bytes)
}

#[test]
fn a_short_scan_is_a_request_or_two() {
    let (database, keyspace, _) = loaded(20_000);
    let starts = (0..19_900).step_by(199);
    let scans = starts.len() as u64;
    for backwards in [false, true] {
        let (requests, bytes) = cost(&database, || {
            for start in starts.clone() {
                let taken = match backwards {
                    false => keyspace.range(key(start)..).take(50).count(),
                    true => keyspace.range(..key(start + 100)).rev().take(50).count(),
                };
                assert_eq!(taken, 50);
            }
        });
        println!("backwards: {backwards}, requests: {requests}, pages: {}, scans: {scans}", bytes / 4096);
        assert!(requests * 10 <= scans * 12, "{requests} requests for {scans} scans");
        assert!(bytes <= scans * 5 * limits::PAGE as u64, "{bytes} bytes for {scans} scans");
    }
}

#[test]
fn scans_of_a_known_length_read_what_they_need() {
    let (database, keyspace, _) = loaded(20_000);
    let scan = |number: u32| assert_eq!(keyspace.range(key(number * 7919 % 19_900)..).take(5).count(), 5);
    let (_, before) = cost(&database, || (0..100).for_each(scan));
    (100..1_100).for_each(scan);
    let (requests, after) = cost(&database, || (1_100..1_200).for_each(scan));
    println!("{requests} requests, {} pages, {} before", after / 4096, before / 4096);
    assert!(requests <= 120 && after <= 220 * limits::PAGE as u64 && before > 300 * limits::PAGE as u64);
}

#[test]
fn a_long_scan_reads_each_page_once_and_many_in_one_request() {
    let (database, keyspace, map) = loaded(40_000);
    let pages =
        keyspace.stats().counters.iter().find(|(name, _)| *name == "used_bytes").unwrap().1 / limits::PAGE as u64;
    for backwards in [false, true] {
        let (requests, bytes) = cost(&database, || {
            let count = if backwards { keyspace.iter().rev().count() } else { keyspace.iter().count() };
            assert_eq!(count, map.len());
        });
        println!("backwards: {backwards}, requests: {requests}, pages read: {}, pages: {pages}", bytes / 4096);
        assert!(requests <= pages / 12, "{requests} requests for {pages} pages");
        assert!(bytes <= pages * limits::PAGE as u64, "{bytes} bytes for {pages} pages");
    }
}

/// A page may have any number of dirty records until they are written out. An iterator copies a part of them at a time.
#[test]
fn a_page_with_many_dirty_records_is_gone_through_in_pieces() {
    let mut random = SmallRng::seed_from_u64(11);
    for shape in 0..3 {
        let (_database, keyspace, mut map) = loaded(60);
        for _ in 0..6_000 {
            let key = if shape == 2 {
                shaped(&mut random, 2)
            } else {
                [key(random.random_range(0..60)), shaped(&mut random, shape)].concat()
            };
            if random.random_range(0..4) == 0 {
                keyspace.remove(&key).unwrap();
                map.remove(&key);
            } else {
                keyspace.insert(&key, [shape as u8; 40]).unwrap();
                map.insert(key, vec![shape as u8; 40]);
            }
        }
        expect(keyspace.iter(), &map);
        let mut reversed: Vec<_> = keyspace.iter().rev().collect();
        reversed.reverse();
        expect(reversed.into_iter(), &map);
        for _ in 0..20 {
            let (low, high) = (bound(&mut random, 1), bound(&mut random, 1));
            let ends = [&low, &high].map(|bound| match bound {
                Bound::Included(key) | Bound::Excluded(key) => Some(key),
                Bound::Unbounded => None,
            });
            let is_empty = matches!(ends, [Some(low), Some(high)] if low >= high);
            if is_empty {
                continue;
            }
            let mut left: VecDeque<Record> =
                map.range((low.clone(), high.clone())).map(|(key, value)| (key.clone(), value.clone())).collect();
            let mut iter = keyspace.range((low, high));
            // Long runs from either end, until the two meet.
            let mut backwards = false;
            while !left.is_empty() {
                backwards = if random.random_range(0..300) == 0 { !backwards } else { backwards };
                let expected = if backwards { left.pop_back() } else { left.pop_front() };
                assert_eq!(draw(&mut random, &mut iter, backwards), expected);
            }
            assert_eq!(draw(&mut random, &mut iter, backwards), None);
        }
    }
}
