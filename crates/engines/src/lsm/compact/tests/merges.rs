//! Merged tables against merged maps.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    iter,
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use ecotone_substrate::table::Name;
use ecotone_sys::epoch::Domain;
use ecotone_testkit::sim::SimStorage;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    engine::Range,
    lsm::{
        compact::{
            cuts::Cuts,
            drops::Drops,
            merge::{Merge, merge},
        },
        handle::{Handle, Loader},
        output::Output,
        structure::{Become, Change, CoverEdit, Place, Structure},
        table::{Compression, Kind, Options, Wanted},
        table_cache::TableCache,
        version::{Ranged, Run, Version},
    },
    rest::Rest,
};

/// What all keys have in common.
const COMMON: &[u8] = b"a common prefix ";

/// No value is a tombstone.
type Records = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Tables on a disk.
struct Ground {
    loader: Arc<Loader>,
    number: u32,
    structure: Structure,
    version: Version<Handle>,
}

/// With a name for the next table.
fn output<T>(loader: &Arc<Loader>, number: &mut u32, write: impl FnOnce(Output<'_>) -> T) -> T {
    let options =
        Options { block: 4096, filter_bits: 10, compression: Compression::None, index: Wanted::of(Kind::Linear, 2000) };
    let mut name = || {
        *number += 1;
        Name { database: 7, keyspace: 3, number: *number, birth: u64::from(*number) << 32 }
    };
    write(Output::new(loader, options, Cuts::new(12 << 10, None), &mut name))
}

impl Ground {
    fn new(seed: u64) -> Ground {
        Ground::on(&SimStorage::new(seed))
    }

    fn on(disk: &SimStorage) -> Ground {
        let environment = disk.environment(7, 64 << 20);
        let cache = TableCache::new(&environment.memory, &Domain::new(), usize::MAX);
        Ground {
            loader: Loader::new(&environment, &cache),
            number: 0,
            structure: Structure::default(),
            version: Version::empty(),
        }
    }

    fn put(&mut self, place: Place, records: &Records) {
        let tables = output(&self.loader, &mut self.number, |mut output| {
            for (key, value) in records {
                output.push(xxh3_64(key), key, value.as_deref(), (1, 9)).unwrap();
            }
            output.finish().unwrap()
        });
        let comes = tables.iter().map(|handle| (place, handle.file())).collect();
        self.structure.apply(&Change { comes, ..Change::default() }).unwrap();
        self.version = self.version.after(&self.structure, &tables).unwrap();
    }

    /// Makes an edit of a range, by the bytes behind what all keys have in common.
    fn cover(&mut self, lower: u8, upper: u8, becomes: Become) {
        let [lower, upper] = [lower, upper].map(|byte| [COMMON, &[byte]].concat());
        let covers = vec![CoverEdit { lower, upper, becomes }];
        self.structure.apply(&Change { covers, ..Change::default() }).unwrap();
        self.version = self.version.after(&self.structure, &[]).unwrap();
    }

    /// What the runs at some places become in one merge, and in one for each range between these cuts.
    fn merged(&mut self, places: &[Place], cuts: &[Vec<u8>]) -> Records {
        let (whole, mut parts) = (self.merged_within(places, (Bound::Unbounded, Bound::Unbounded)), Records::new());
        let lows = iter::once(Bound::Unbounded).chain(cuts.iter().cloned().map(Bound::Included));
        let highs = cuts.iter().cloned().map(Bound::Excluded).chain([Bound::Unbounded]);
        for range in lows.zip(highs) {
            let part = self.merged_within(places, range.clone());
            assert!(part.keys().all(|key| range.contains(key)));
            parts.extend(part);
        }
        assert_eq!(parts, whole, "{cuts:?}");
        whole
    }

    fn merged_within(&mut self, places: &[Place], range: Range) -> Records {
        let input = |place: &Place| Some((*place, self.version.run(*place)?.clone()));
        let inputs: Vec<(Place, Run<Handle>)> = places.iter().filter_map(input).collect();
        let files: Vec<_> = inputs.iter().flat_map(|(_, run)| run.files()).collect();
        let drops = Drops::of(&self.version, &files);
        let (environment, range) = (self.loader.environment().clone(), Rest::new(range));
        let (inputs, range, hash_of, looks) = (&inputs[..], &range, &xxh3_64, &mut |_| Ok(()));
        let work = Merge { inputs, below: None, range, hash_of, looks };
        let tables = output(&self.loader, &mut self.number, |output| merge(work, drops, output));
        let mut records = Records::new();
        for handle in tables.unwrap() {
            handle.table().check(&environment, &xxh3_64).unwrap();
            assert_eq!(handle.table().sequences(), (1, 9));
            let memory = handle.table().memory_for_a_block(&environment).unwrap();
            let mut cursor =
                crate::lsm::table::Cursor::forward(handle.table().clone(), 0..handle.table().blocks(), memory);
            while cursor.advance().unwrap() {
                assert!(records.last_key_value().is_none_or(|(last, _)| **last < *cursor.key()));
                records.insert(cursor.key().to_vec(), cursor.value().map(<[u8]>::to_vec));
            }
        }
        records
    }
}

fn records(random: &mut SmallRng, count: usize) -> Records {
    let record = |_| {
        let number = random.random_range(0..1500_u32);
        let key =
            [COMMON, &number.wrapping_mul(0x9E37_79B9).to_be_bytes(), &[b'k'; 30][..number as usize % 30]].concat();
        (key, (!random.random_bool(0.3)).then(|| vec![random.random(); random.random_range(0..200)]))
    };
    (0..count).map(record).collect()
}

/// Records of some maps, of which the last one counts.
fn over<'r>(maps: impl Iterator<Item = &'r Records>) -> Records {
    maps.flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Ascending keys to cut at: some of these, some that nobody has, one twice, and one below all.
fn cuts(random: &mut SmallRng, keys: &[&Vec<u8>]) -> Vec<Vec<u8>> {
    let mut cuts = vec![Vec::new()];
    for _ in 0..random.random_range(0..4) {
        let key = keys[random.random_range(0..keys.len())];
        cuts.push(key.clone());
        cuts.push([&**key, b"\0"].concat());
        cuts.push([COMMON, &[random.random()]].concat());
    }
    cuts.push(cuts[cuts.len() - 1].clone());
    cuts.sort();
    cuts
}

#[test]
fn tables_are_merged_as_maps_are_and_tombstones_end_above_nothing() {
    for seed in 0..8 {
        let (mut ground, mut random) = (Ground::new(seed), SmallRng::seed_from_u64(seed));
        // From old to young.
        let places = [Place::Level(1), Place::Level(2), Place::Run(0), Place::Run(1), Place::Run(2)];
        let maps: Vec<Records> = (0..places.len()).map(|age| records(&mut random, 1500 >> age)).collect();
        places.iter().zip(&maps).for_each(|(place, records)| ground.put(*place, records));
        let mut all = over(maps.iter());
        all.retain(|_, value| value.is_some());
        let young_to_old: Vec<_> = places.iter().rev().copied().collect();
        let keys: Vec<_> = maps.iter().flat_map(|records| records.keys()).collect();
        assert_eq!(ground.merged(&young_to_old, &cuts(&mut random, &keys)), all);
        // Above the last level, whose tables cover nearly all keys, tombstones stay where these do.
        let upper = over(maps[1..].iter());
        let merged = ground.merged(&young_to_old[..4], &cuts(&mut random, &keys));
        let level = ground.version.run(Place::Level(1)).unwrap().clone();
        let expected: Records =
            upper.into_iter().filter(|(key, value)| value.is_some() || level.covering(key).is_some()).collect();
        assert!(expected.values().any(Option::is_none));
        assert_eq!(merged, expected);
    }
}

/// Trap 9: what a tombstone hides may be in pages, of which the job knows nothing.
#[test]
fn trap_09_what_does_not_count_ends_and_tombstones_stay_in_covers() {
    for seed in 0..8 {
        let (mut ground, mut random) = (Ground::new(seed), SmallRng::seed_from_u64(seed));
        let places = [Place::Run(2), Place::Run(1), Place::Run(0), Place::Level(2), Place::Level(1)];
        let maps: Vec<Records> = (0..places.len()).map(|age| records(&mut random, 300 << age)).collect();
        places.iter().zip(&maps).rev().for_each(|(place, records)| ground.put(*place, records));
        (0..)
            .step_by(40)
            .zip(places)
            .for_each(|(lower, floor)| ground.cover(lower, lower + 20, Become::Covered(floor)));
        ground.cover(200, 250, Become::Covered(places[0]));
        ground.cover(200, 250, Become::Open);
        let level = ground.version.run(Place::Level(1)).unwrap().clone();
        let keys: Vec<_> = maps.iter().flat_map(|records| records.keys()).collect();
        for inputs in [&places[..], &places[..4], &places[2..4]] {
            let (mut newest, mut expected) = (BTreeMap::new(), Records::new());
            for (place, records) in places.iter().zip(&maps).filter(|(place, _)| inputs.contains(place)) {
                records.iter().for_each(|(key, value)| _ = newest.entry(key).or_insert((*place, value)));
            }
            let (mut hidden, mut kept) = (0, 0);
            for (key, (place, value)) in newest {
                let cover = ground.version.covers().at(key);
                let has_older = cover.is_some() || (inputs.len() < 5 && level.covering(key).is_some());
                let counts = cover.is_none_or(|cover| cover.counts(place));
                hidden += u32::from(!counts);
                kept += u32::from(counts && value.is_none() && cover.is_some());
                if counts && (value.is_some() || has_older) {
                    expected.insert(key.clone(), value.clone());
                }
            }
            assert!(hidden > 20 && kept > 20, "seed {seed}: {hidden} and {kept}");
            // Covers begin at multiples of 40, and end 20 behind.
            let ends = (0..200).step_by(20).map(|end| [COMMON, &[end]].concat());
            for cuts in [cuts(&mut random, &keys), ends.collect()] {
                assert_eq!(ground.merged(inputs, &cuts), expected, "seed {seed}");
            }
        }
    }
}

#[test]
fn what_fails_leaves_no_file() {
    // Merges after so many I/Os without a failure, if there is one. Gives the number of I/Os.
    let merges = |failure: Option<u64>| {
        let disk = SimStorage::new(1);
        let mut ground = Ground::on(&disk);
        let mut random = SmallRng::seed_from_u64(1);
        [Place::Level(1), Place::Run(0)].iter().for_each(|place| ground.put(*place, &records(&mut random, 300)));
        let inputs: Vec<_> = ground.version.runs().map(|(place, run)| (place, run.clone())).collect();
        let drops = Drops::of(&ground.version, &[]);
        let all = Rest::new((Bound::Unbounded, Bound::Unbounded));
        let (tables, first) = (disk.files().len(), disk.io_index());
        failure.into_iter().for_each(|ahead| disk.fail_at(first + ahead, ErrorKind::Other));
        let (inputs, range, hash_of, looks) = (&inputs[..], &all, &xxh3_64, &mut |_| Ok(()));
        let work = Merge { inputs, below: None, range, hash_of, looks };
        let merged = output(&ground.loader.clone(), &mut ground.number, |output| merge(work, drops, output));
        assert_eq!(merged.is_err(), failure.is_some());
        assert_eq!(disk.files().len() == tables, failure.is_some(), "{failure:?}");
        disk.io_index() - first
    };
    let all = merges(None);
    assert!(all > 20);
    (0..all).for_each(|failure| _ = merges(Some(failure)));
}
