//! Reads of a keyspace with paged ranges. There is no page tier below, so superseded records are simply absent.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use ecotone_engine::contract::{Engine, Get, Ordered, Range};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::{
    flush::{flushed_to_pages::FlushedToPages, raise_floors::raise_floors},
    manifest::{PagedRangeEdit, PagedRanges, RangeEditKind, RunId, VersionEdit},
    table::{Cursor, IndexKind},
    tests::fixture::{ALL, Fixture, Model, collect, expected, step},
    version::TableMeta,
};

const KEYS: u32 = 600;

fn key(number: u32) -> Vec<u8> {
    [&b"key "[..], &number.to_be_bytes()].concat()
}

/// Writes two fifths of the keys. Their values go into `said`; `None` is a tombstone.
fn write(fixture: &Fixture, said: &mut BTreeMap<Vec<u8>, Option<Vec<u8>>>, random: &mut SmallRng) {
    for number in (0..KEYS).filter(|_| random.random_bool(0.4)).collect::<Vec<_>>() {
        let value = random.random_bool(0.8).then(|| vec![random.random(); random.random_range(0..150)]);
        fixture.write(&key(number), value.as_deref());
        said.insert(key(number), value);
    }
}

/// A keyspace with records in a level and in L0 runs.
fn layered(seed: u64, random: &mut SmallRng) -> Fixture {
    let fixture = Fixture::new(seed, IndexKind::ALL[seed as usize % 3]);
    for round in 0..13 {
        write(&fixture, &mut BTreeMap::new(), random);
        fixture.flush();
        while round == 8 && fixture.environment.scheduler.run_one() {}
    }
    fixture
}

fn edit(fixture: &Fixture, lower: u32, upper: u32, kind: RangeEditKind) {
    let lsm = fixture.keyspace.lsm();
    let _guard = lsm.compactor.lock.lock();
    let edits = vec![PagedRangeEdit { lower: key(lower), upper: key(upper), kind }];
    let version = lsm.current.get().version;
    let mut paged_ranges = PagedRanges::clone(version.paged_ranges());
    paged_ranges.apply(&edits).unwrap();
    let deleted = version.fully_superseded(&paged_ranges).map(|table| table.file()).collect();
    let change = VersionEdit { deleted, paged_ranges: edits, ..VersionEdit::default() };
    lsm.install(&change, &[], |version| lsm.current.install_version(version)).unwrap();
}

/// Adds some paged ranges, each superseded from one of the runs; some of them are reactivated.
fn paged_range(fixture: &Fixture, random: &mut SmallRng) -> Vec<(u32, u32)> {
    let version = fixture.keyspace.lsm().current.get().version;
    let places: Vec<RunId> = version.runs().map(|(run_id, _)| run_id).collect();
    assert!(places.iter().filter(|run_id| run_id.is_l0()).count() > 2 && places.iter().any(|run_id| !run_id.is_l0()));
    let bounds: Vec<u32> =
        (0..20).map(|_| random.random_range(0..KEYS + 20)).collect::<BTreeSet<_>>().into_iter().collect();
    // Some ranges are adjacent.
    let ranges: Vec<_> = bounds.windows(2).map(|pair| (pair[0], pair[1])).filter(|_| random.random_bool(0.6)).collect();
    for &(lower, upper) in &ranges {
        edit(fixture, lower, upper, RangeEditKind::Add(places[random.random_range(0..places.len())]));
        if random.random_bool(0.2) {
            edit(fixture, lower, upper, RangeEditKind::Reactivate);
        }
    }
    ranges
}

/// The visible records, from a pass over all records of each run, from young to old.
fn readable(fixture: &Fixture, mut said: BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Model {
    let version = fixture.keyspace.lsm().current.get().version;
    for (run_id, run) in version.runs() {
        for reader in run.tables() {
            let memory = reader.table().memory_for_a_block(&fixture.environment).unwrap();
            let mut cursor = Cursor::forward(reader.table().clone(), 0..reader.table().blocks(), memory);
            while cursor.advance().unwrap() {
                if version.visibility_at(cursor.key()).is_visible(run_id) {
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

/// Reads from both ends in random order.
fn from_both_ends(fixture: &Fixture, range: Range, random: &mut SmallRng) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = fixture.keyspace.clone().cursor(range);
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
        let fixture = layered(seed, &mut random);
        let all = readable(&fixture, BTreeMap::new());
        paged_range(&fixture, &mut random);
        let mut said = BTreeMap::new();
        if seed % 2 == 1 {
            write(&fixture, &mut said, &mut random);
        }
        let model = readable(&fixture, said);
        assert!(all.keys().filter(|key| !model.contains_key(*key)).count() > 20, "seed {seed}");
        for number in 0..KEYS {
            let (key, mut value) = (key(number), Vec::new());
            let found = fixture.keyspace.get_into(&key, &mut value).unwrap();
            assert_eq!(found.then_some(&value), model.get(&key), "seed {seed}: {number}");
        }
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        let (keys, mut asked) = (keys.iter().map(Vec::as_slice).collect::<Vec<_>>(), 0);
        let found = &mut |number: usize, value: Option<&[u8]>| {
            asked += 1;
            assert_eq!(value, model.get(keys[number]).map(Vec::as_slice), "seed {seed}: {number}");
        };
        fixture.keyspace.multi_get(&keys, found).unwrap();
        assert_eq!(asked, KEYS);
        fixture.expect(&model);
        for _ in 0..40 {
            let range = (bound(&mut random), bound(&mut random));
            let mut wanted = expected(&model, &range);
            assert_eq!(collect(&fixture.keyspace, range.clone(), false), wanted, "seed {seed}: {range:?}");
            assert_eq!(from_both_ends(&fixture, range.clone(), &mut random), wanted, "seed {seed}: {range:?}");
            wanted.reverse();
            assert_eq!(collect(&fixture.keyspace, range.clone(), true), wanted, "seed {seed}: {range:?}");
        }
    }
}

/// Ranges are superseded and reactivated while a scan is between two records.
#[test]
fn a_scan_goes_on_where_paged_ranges_change() {
    for seed in 0..20 {
        let mut random = SmallRng::seed_from_u64(seed);
        let fixture = layered(seed, &mut random);
        let ranges = paged_range(&fixture, &mut random);
        let mut said = BTreeMap::new();
        write(&fixture, &mut said, &mut random);
        let mut models = vec![readable(&fixture, said.clone())];
        let (mut cursor, mut given, reverse) = (fixture.keyspace.clone().cursor(ALL), Vec::new(), seed % 2 == 0);
        while let Some(record) = step(&mut *cursor, reverse).unwrap() {
            given.push(record);
            if random.random_bool(0.1) {
                let (lower, upper) = ranges[random.random_range(0..ranges.len())];
                let youngest = fixture.keyspace.lsm().current.get().version.runs().next().unwrap().0;
                edit(
                    &fixture,
                    lower,
                    upper,
                    if random.random() { RangeEditKind::Reactivate } else { RangeEditKind::Supersede(youngest) },
                );
                models.push(readable(&fixture, said.clone()));
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

/// A job may convert a range between two paged ranges, which has records in the memtable, before a flush applies its
/// edits. So these edits must not span such a range.
#[test]
fn a_flush_raises_free_floors_and_nothing_between_them() {
    let fixture = Fixture::new(3, IndexKind::ALL[0]);
    (0..KEYS).for_each(|number| fixture.write(&key(number), Some(&[1; 50])));
    fixture.flush();
    let oldest = fixture.keyspace.lsm().version().runs().map(|(run_id, _)| run_id).next_back().expect("it has a run");
    for (lower, upper, superseded_from) in
        [(100, 150, oldest), (150, 200, RunId::at_depth(12)), (300, 400, oldest), (500, 550, oldest)]
    {
        edit(&fixture, lower, upper, RangeEditKind::Add(superseded_from));
    }
    fixture.write(&key(250), Some(b"between"));
    fixture.write(&key(520), None);
    let lsm = fixture.keyspace.lsm();
    let (run, memtable) = (RunId::L0(9), lsm.current.get().memtables[0].clone());
    let lifted = |lower, upper| PagedRangeEdit {
        lower: key(lower),
        upper: key(upper),
        kind: RangeEditKind::SupersedeContained(run),
    };
    let edits = raise_floors(&lsm.version(), (&memtable.memtable, &FlushedToPages::default()), run);
    // All runs are visible in the second range.
    assert_eq!(edits, [lifted(100, 150), lifted(300, 400)]);
    edit(&fixture, 150, 200, RangeEditKind::Supersede(oldest));
    assert_eq!(
        raise_floors(&lsm.version(), (&memtable.memtable, &FlushedToPages::default()), run),
        [lifted(100, 200), lifted(300, 400)]
    );
}
