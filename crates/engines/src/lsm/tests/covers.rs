//! Reads of a keyspace of which some ranges are covered. There is nothing below its tables, so what does not count is
//! not there.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::world::{ALL, Model, World, collect, expected, step};
use crate::{
    engine::{Engine, Ordered, Range},
    lsm::{
        divert::Diverted,
        lift::lifts,
        structure::{Become, Change, CoverEdit, Covers, Place},
        table::{Cursor, Kind},
        version::Ranged,
    },
};

const KEYS: u32 = 600;

fn key(number: u32) -> Vec<u8> {
    [&b"key "[..], &number.to_be_bytes()].concat()
}

/// Writes about half of the keys. What they say is put into `said`; no value is a tombstone.
fn write(world: &World, said: &mut BTreeMap<Vec<u8>, Option<Vec<u8>>>, random: &mut SmallRng) {
    for number in (0..KEYS).filter(|_| random.random_bool(0.4)).collect::<Vec<_>>() {
        let value = random.random_bool(0.8).then(|| vec![random.random(); random.random_range(0..150)]);
        world.write(&key(number), value.as_deref());
        said.insert(key(number), value);
    }
}

/// A keyspace with records in a level and in runs.
fn layered(seed: u64, random: &mut SmallRng) -> World {
    let world = World::new(seed, Kind::ALL[seed as usize % 3]);
    for round in 0..13 {
        write(&world, &mut BTreeMap::new(), random);
        world.flush();
        while round == 8 && world.environment.scheduler.run_one() {}
    }
    world
}

fn edit(world: &World, lower: u32, upper: u32, becomes: Become) {
    let lsm = world.keyspace.lsm();
    let _turn = lsm.compacting.lock();
    let edits = vec![CoverEdit { lower: key(lower), upper: key(upper), becomes }];
    let version = lsm.present.get().version;
    let mut covers = Covers::clone(version.covers());
    covers.apply(&edits).unwrap();
    let goes = version.spent(&covers).map(|table| table.file()).collect();
    let change = Change { goes, covers: edits, ..Change::default() };
    lsm.install(&change, &[], |version| lsm.present.installed(version)).unwrap();
}

/// Covers some ranges, each with a floor that is one of the places or all, or without one.
fn cover(world: &World, random: &mut SmallRng) -> Vec<(u32, u32)> {
    let version = world.keyspace.lsm().present.get().version;
    let places: Vec<Place> = version.runs().map(|(place, _)| place).collect();
    assert!(places.iter().filter(|place| place.is_run()).count() > 2 && places.iter().any(|place| !place.is_run()));
    let bounds: Vec<u32> =
        (0..20).map(|_| random.random_range(0..KEYS + 20)).collect::<BTreeSet<_>>().into_iter().collect();
    // Some touch.
    let ranges: Vec<_> = bounds.windows(2).map(|pair| (pair[0], pair[1])).filter(|_| random.random_bool(0.6)).collect();
    for &(lower, upper) in &ranges {
        edit(world, lower, upper, Become::Covered(places[random.random_range(0..places.len())]));
        if random.random_bool(0.2) {
            edit(world, lower, upper, Become::Open);
        }
    }
    ranges
}

/// What is to be read, by a look at all records of each place, from young to old.
fn readable(world: &World, mut said: BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Model {
    let version = world.keyspace.lsm().present.get().version;
    for (place, run) in version.runs() {
        for handle in run.tables() {
            let memory = handle.table().memory_for_a_block(&world.environment).unwrap();
            let mut cursor = Cursor::forward(handle.table().clone(), 0..handle.table().blocks(), memory);
            while cursor.advance().unwrap() {
                if version.covers().at(cursor.key()).is_none_or(|cover| cover.counts(place)) {
                    said.entry(cursor.key().to_vec()).or_insert_with(|| cursor.value().map(<[u8]>::to_vec));
                }
            }
        }
    }
    said.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn bound(random: &mut SmallRng) -> Bound<Vec<u8>> {
    let key = key(random.random_range(0..KEYS + 10));
    match random.random_range(0..5) {
        0..2 => Bound::Included(key),
        2..4 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    }
}

/// Both ends together, in an order of chance.
fn from_both_ends(world: &World, range: Range, random: &mut SmallRng) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = world.keyspace.clone().cursor(range);
    let (mut front, mut back) = (Vec::new(), Vec::new());
    loop {
        let reverse = random.random();
        let Some(record) = step(&mut *cursor, reverse).unwrap() else { break };
        if reverse { back.push(record) } else { front.push(record) }
    }
    back.reverse();
    front.extend(back);
    front
}

#[test]
fn what_does_not_count_is_not_read() {
    for seed in 0..20 {
        let mut random = SmallRng::seed_from_u64(seed);
        let world = layered(seed, &mut random);
        let all = readable(&world, BTreeMap::new());
        cover(&world, &mut random);
        let mut said = BTreeMap::new();
        if seed % 2 == 1 {
            write(&world, &mut said, &mut random);
        }
        let model = readable(&world, said);
        assert!(all.keys().filter(|key| !model.contains_key(*key)).count() > 20, "seed {seed}");
        for number in 0..KEYS {
            let (key, mut value) = (key(number), Vec::new());
            let found = world.keyspace.get_into(&key, &mut value).unwrap();
            assert_eq!(found.then_some(&value), model.get(&key), "seed {seed}: {number}");
        }
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        let (keys, mut asked) = (keys.iter().map(Vec::as_slice).collect::<Vec<_>>(), 0);
        let found = &mut |number: usize, value: Option<&[u8]>| {
            asked += 1;
            assert_eq!(value, model.get(keys[number]).map(Vec::as_slice), "seed {seed}: {number}");
        };
        world.keyspace.multi_get(&keys, found).unwrap();
        assert_eq!(asked, KEYS);
        world.expect(&model);
        for _ in 0..40 {
            let range = (bound(&mut random), bound(&mut random));
            let mut wanted = expected(&model, &range);
            assert_eq!(collect(&world.keyspace, range.clone(), false), wanted, "seed {seed}: {range:?}");
            assert_eq!(from_both_ends(&world, range.clone(), &mut random), wanted, "seed {seed}: {range:?}");
            wanted.reverse();
            assert_eq!(collect(&world.keyspace, range.clone(), true), wanted, "seed {seed}: {range:?}");
        }
    }
}

/// Floors rise and go while a scan is between two records.
#[test]
fn a_scan_goes_on_where_covers_change() {
    for seed in 0..20 {
        let mut random = SmallRng::seed_from_u64(seed);
        let world = layered(seed, &mut random);
        let ranges = cover(&world, &mut random);
        let mut said = BTreeMap::new();
        write(&world, &mut said, &mut random);
        let mut models = vec![readable(&world, said.clone())];
        let (mut cursor, mut given, reverse) = (world.keyspace.clone().cursor(ALL), Vec::new(), seed % 2 == 0);
        while let Some(record) = step(&mut *cursor, reverse).unwrap() {
            given.push(record);
            if random.random_bool(0.1) {
                let (lower, upper) = ranges[random.random_range(0..ranges.len())];
                let youngest = world.keyspace.lsm().present.get().version.runs().next().unwrap().0;
                edit(&world, lower, upper, if random.random() { Become::Open } else { Become::Raised(youngest) });
                models.push(readable(&world, said.clone()));
            }
        }
        if reverse {
            given.reverse();
        }
        assert!(models.len() > 10 && given.is_sorted_by(|a, b| a.0 < b.0), "seed {seed}");
        for (key, value) in &given {
            assert!(models.iter().any(|model| model.get(key) == Some(value)), "seed {seed}: {key:?}");
        }
        let given: BTreeSet<_> = given.into_iter().map(|(key, _)| key).collect();
        let always = models[0].keys().filter(|key| models.iter().all(|model| model.contains_key(*key)));
        assert!(always.clone().count() > 50 && always.into_iter().all(|key| given.contains(key)), "seed {seed}");
    }
}

/// A range between two covers may have records in the memtable, and be covered by a job before a flush makes its edits:
/// these go over no such range.
#[test]
fn a_flush_lifts_free_covers_and_nothing_between_them() {
    let world = World::new(3, Kind::ALL[0]);
    (0..KEYS).for_each(|number| world.write(&key(number), Some(&[1; 50])));
    world.flush();
    let oldest = world.keyspace.lsm().version().runs().map(|(place, _)| place).next_back().expect("it has a run");
    for (lower, upper, floor) in
        [(100, 150, oldest), (150, 200, Place::Level(12)), (300, 400, oldest), (500, 550, oldest)]
    {
        edit(&world, lower, upper, Become::Covered(floor));
    }
    world.write(&key(250), Some(b"between"));
    world.write(&key(520), None);
    let lsm = world.keyspace.lsm();
    let (run, memtable) = (Place::Run(9), lsm.present.get().memtables[0].clone());
    let lifted = |lower, upper| CoverEdit { lower: key(lower), upper: key(upper), becomes: Become::Lifted(run) };
    let edits = lifts(&lsm.version(), (&memtable.memtable, &Diverted::default()), run);
    // Of the second one all runs count.
    assert_eq!(edits, [lifted(100, 150), lifted(300, 400)]);
    edit(&world, 150, 200, Become::Raised(oldest));
    assert_eq!(
        lifts(&lsm.version(), (&memtable.memtable, &Diverted::default()), run),
        [lifted(100, 200), lifted(300, 400)]
    );
}
