//! Merges of tables, compared with merges of maps.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    iter,
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use ecotone_engine::{contract::Range, remaining_range::RemainingRange, superseded::LeftOut};
use ecotone_substrate::table::FileIdentity;
use ecotone_sys::epoch::Domain;
use ecotone_testkit::sim::SimStorage;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    cache::{
        table_cache::TableCache,
        table_reader::{TableLoader, TableReader},
    },
    compaction::{
        executor::merge::{CompactionMerge, MergeInput, merge},
        inputs::output_splitter::OutputSplitter,
    },
    flush::run_builder::RunBuilder,
    manifest::{LevelManifest, PagedRangeEdit, RangeEditKind, RunId, VersionEdit},
    table::{Compression, IndexKind, IndexOptions, Options},
    version::{Run, TableMeta, Version},
};

/// The prefix of all keys.
const COMMON: &[u8] = b"a common prefix ";

/// `None` is a tombstone.
type Records = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A keyspace's tables on a simulated disk.
struct Fixture {
    loader: Arc<TableLoader>,
    number: u32,
    manifest: LevelManifest,
    version: Version<TableReader>,
}

/// Calls `write` with a run builder that names its tables by `number`.
fn output<T>(loader: &Arc<TableLoader>, number: &mut u32, write: impl FnOnce(RunBuilder<'_>) -> T) -> T {
    let options = Options {
        block: 4096,
        filter_bits: 10,
        compression: Compression::None,
        index: IndexOptions::of(IndexKind::Linear, 2000),
    };
    let mut name = || {
        *number += 1;
        FileIdentity { database: 7, keyspace: 3, number: *number, birth: u64::from(*number) << 32 }
    };
    write(RunBuilder::new(loader, options, OutputSplitter::new(12 << 10, None), &mut name))
}

impl Fixture {
    fn new(seed: u64) -> Fixture {
        Fixture::on(&SimStorage::new(seed))
    }

    fn on(disk: &SimStorage) -> Fixture {
        let environment = disk.environment(7, 64 << 20);
        let cache = TableCache::new(&environment.memory, &Domain::new(), usize::MAX);
        Fixture {
            loader: TableLoader::new(&environment, &cache),
            number: 0,
            manifest: LevelManifest::default(),
            version: Version::empty(),
        }
    }

    fn put(&mut self, run_id: RunId, records: &Records) {
        let tables = output(&self.loader, &mut self.number, |mut output| {
            for (key, value) in records {
                output.push(xxh3_64(key), key, value.as_deref(), (1, 9)).unwrap();
            }
            output.finish().unwrap()
        });
        let added = tables.iter().map(|reader| (run_id, reader.file())).collect();
        self.manifest.apply(&VersionEdit { added, ..VersionEdit::default() }).unwrap();
        self.version = self.version.after(&self.manifest, &tables).unwrap();
    }

    /// Applies an edit of a paged range. The bounds are the bytes behind the common prefix.
    fn paged_range(&mut self, lower: u8, upper: u8, kind: RangeEditKind) {
        let [lower, upper] = [lower, upper].map(|byte| [COMMON, &[byte]].concat());
        let paged_ranges = vec![PagedRangeEdit { lower, upper, kind }];
        self.manifest.apply(&VersionEdit { paged_ranges, ..VersionEdit::default() }).unwrap();
        self.version = self.version.after(&self.manifest, &[]).unwrap();
    }

    /// Merges some runs, at once and in one merge for each range between the cuts. Both have to give the same records.
    fn merged(&mut self, places: &[RunId], cuts: &[Vec<u8>]) -> Records {
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

    fn merged_within(&mut self, places: &[RunId], range: Range) -> Records {
        let input = |run_id: &RunId| Some((*run_id, self.version.run(*run_id)?.clone()));
        let inputs: Vec<(RunId, Run<TableReader>)> = places.iter().filter_map(input).collect();
        let (environment, range) = (self.loader.environment().clone(), RemainingRange::new(range));
        let (version, inputs) = (&self.version, MergeInput::of_tables(&inputs));
        let work = CompactionMerge {
            version,
            inputs,
            range: &range,
            hash_of: &xxh3_64,
            left_out: LeftOut::default(),
            on_progress: &mut |_| Ok(()),
        };
        let tables = output(&self.loader, &mut self.number, |output| merge(work, output).map(|merged| merged.tables));
        let mut records = Records::new();
        for reader in tables.unwrap() {
            reader.table().check(&environment, &xxh3_64).unwrap();
            assert_eq!(reader.table().sequences(), (1, 9));
            let memory = reader.table().memory_for_a_block(&environment).unwrap();
            let mut cursor = crate::table::Cursor::forward(reader.table().clone(), 0..reader.table().blocks(), memory);
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

/// Records of some maps, in which later maps replace earlier ones.
fn over<'r>(maps: impl Iterator<Item = &'r Records>) -> Records {
    maps.flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Ascending keys to cut at: some of these, some that no table has, one twice, and one below all.
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
        let (mut fixture, mut random) = (Fixture::new(seed), SmallRng::seed_from_u64(seed));
        // From old to young.
        let places = [RunId::LAST, RunId::at_depth(2), RunId::L0(0), RunId::L0(1), RunId::L0(2)];
        let maps: Vec<Records> = (0..places.len()).map(|age| records(&mut random, 1500 >> age)).collect();
        places.iter().zip(&maps).for_each(|(run_id, records)| fixture.put(*run_id, records));
        let mut all = over(maps.iter());
        all.retain(|_, value| value.is_some());
        let young_to_old: Vec<_> = places.iter().rev().copied().collect();
        let keys: Vec<_> = maps.iter().flat_map(|records| records.keys()).collect();
        assert_eq!(fixture.merged(&young_to_old, &cuts(&mut random, &keys)), all);
        // In a merge above the last level, tombstones stay where a table of that level has the key in its range.
        let upper = over(maps[1..].iter());
        let merged = fixture.merged(&young_to_old[..4], &cuts(&mut random, &keys));
        let level = fixture.version.run(RunId::LAST).unwrap().clone();
        let expected: Records =
            upper.into_iter().filter(|(key, value)| value.is_some() || level.table_for(key).is_some()).collect();
        assert!(expected.values().any(Option::is_none));
        assert_eq!(merged, expected);
    }
}

/// Trap 9: a tombstone may hide a record in pages, which the merge does not read. So it stays in a paged range.
#[test]
fn trap_09_what_does_not_count_ends_and_tombstones_stay_in_paged_ranges() {
    for seed in 0..8 {
        let (mut fixture, mut random) = (Fixture::new(seed), SmallRng::seed_from_u64(seed));
        let places = [RunId::L0(2), RunId::L0(1), RunId::L0(0), RunId::at_depth(2), RunId::LAST];
        let maps: Vec<Records> = (0..places.len()).map(|age| records(&mut random, 300 << age)).collect();
        places.iter().zip(&maps).rev().for_each(|(run_id, records)| fixture.put(*run_id, records));
        (0..).step_by(40).zip(places).for_each(|(lower, superseded_from)| {
            fixture.paged_range(lower, lower + 20, RangeEditKind::Add(superseded_from))
        });
        fixture.paged_range(200, 250, RangeEditKind::Add(places[0]));
        fixture.paged_range(200, 250, RangeEditKind::Reactivate);
        let level = fixture.version.run(RunId::LAST).unwrap().clone();
        let keys: Vec<_> = maps.iter().flat_map(|records| records.keys()).collect();
        for inputs in [&places[..], &places[..4], &places[2..4]] {
            let (mut newest, mut expected) = (BTreeMap::new(), Records::new());
            for (run_id, records) in places.iter().zip(&maps).filter(|(run_id, _)| inputs.contains(run_id)) {
                records.iter().for_each(|(key, value)| _ = newest.entry(key).or_insert((*run_id, value)));
            }
            let (mut hidden, mut kept) = (0, 0);
            for (key, (run_id, value)) in newest {
                let visibility = fixture.version.visibility_at(key);
                let has_older = visibility.has_pages || (inputs.len() < 5 && level.table_for(key).is_some());
                let is_visible = visibility.is_visible(run_id);
                hidden += u32::from(!is_visible);
                kept += u32::from(is_visible && value.is_none() && visibility.has_pages);
                if is_visible && (value.is_some() || has_older) {
                    expected.insert(key.clone(), value.clone());
                }
            }
            assert!(hidden > 20 && kept > 20, "seed {seed}: {hidden} and {kept}");
            // Paged ranges begin at multiples of 40 and have a width of 20.
            let ends = (0..200).step_by(20).map(|end| [COMMON, &[end]].concat());
            for cuts in [cuts(&mut random, &keys), ends.collect()] {
                assert_eq!(fixture.merged(inputs, &cuts), expected, "seed {seed}");
            }
        }
    }
}

#[test]
fn what_fails_leaves_no_file() {
    // Merges, and fails the I/O with this number, if there is one. Returns the number of I/Os.
    let merges = |failure: Option<u64>| {
        let disk = SimStorage::new(1);
        let mut fixture = Fixture::on(&disk);
        let mut random = SmallRng::seed_from_u64(1);
        [RunId::LAST, RunId::L0(0)].iter().for_each(|run_id| fixture.put(*run_id, &records(&mut random, 300)));
        let inputs: Vec<_> = fixture.version.runs().map(|(run_id, run)| (run_id, run.clone())).collect();
        let all = RemainingRange::new((Bound::Unbounded, Bound::Unbounded));
        let (tables, first) = (disk.files().len(), disk.io_index());
        failure.into_iter().for_each(|ahead| disk.fail_at(first + ahead, ErrorKind::Other));
        let (version, inputs) = (&fixture.version, MergeInput::of_tables(&inputs));
        let work = CompactionMerge {
            version,
            inputs,
            range: &all,
            hash_of: &xxh3_64,
            left_out: LeftOut::default(),
            on_progress: &mut |_| Ok(()),
        };
        let merged = output(&fixture.loader.clone(), &mut fixture.number, |output| {
            merge(work, output).map(|merged| merged.tables)
        });
        assert_eq!(merged.is_err(), failure.is_some());
        assert_eq!(disk.files().len() == tables, failure.is_some(), "{failure:?}");
        disk.io_index() - first
    };
    let all = merges(None);
    assert!(all > 20);
    (0..all).for_each(|failure| _ = merges(Some(failure)));
}
