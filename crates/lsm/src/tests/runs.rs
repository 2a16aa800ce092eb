//! Runs that are written and read: a key is found in the youngest run that has it.

use std::{collections::BTreeMap, io, sync::Arc};

use ecotone_substrate::{
    Result, Seq,
    storage::{FileKind, Storage},
    table::{Answer, FileIdentity},
};
use ecotone_sys::epoch::Domain;
use ecotone_testkit::sim::SimStorage;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    cache::{
        table_cache::TableCache,
        table_reader::{TableLoader, TableReader},
    },
    compaction::inputs::output_splitter::OutputSplitter,
    flush::run_builder::RunBuilder,
    manifest::{LevelManifest, RunId, VersionEdit},
    table::{Compression, IndexKind, IndexOptions, Options},
    version::{TableMeta, Version},
};

/// A value of `None` is a tombstone.
type Records = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

const BLOCK: usize = 4096;
/// Blocks of a full table.
const BLOCKS: u64 = 4;

fn options(kind: IndexKind) -> Options {
    Options { block: BLOCK, filter_bits: 10, compression: Compression::None, index: IndexOptions::of(kind, 2000) }
}

/// A disk, and names for files on it.
struct Fixture {
    disk: SimStorage,
    loader: Arc<TableLoader>,
    number: u32,
}

impl Fixture {
    fn new(seed: u64) -> Fixture {
        let disk = SimStorage::new(seed);
        let environment = disk.environment(7, 64 << 20);
        let cache = TableCache::new(&environment.memory, &Domain::new(), usize::MAX);
        Fixture { disk, loader: TableLoader::new(&environment, &cache), number: 0 }
    }

    fn write(&mut self, kind: IndexKind, records: &Records, first: Seq) -> Result<Vec<Arc<TableReader>>> {
        let mut name = || {
            self.number += 1;
            FileIdentity { database: 7, keyspace: 3, number: self.number, birth: u64::from(self.number) << 32 }
        };
        let mut output =
            RunBuilder::new(&self.loader, options(kind), OutputSplitter::new(BLOCKS * BLOCK as u64, None), &mut name);
        for (seq, (key, value)) in (first..).zip(records) {
            output.push(xxh3_64(key), key, value.as_deref(), (seq, seq))?;
        }
        output.finish()
    }

    fn tables(&self) -> usize {
        self.disk.files().len()
    }
}

fn records(random: &mut SmallRng, count: usize) -> Records {
    let record = |_| {
        let number = random.random_range(0..2000_u32);
        let key = [&b"user"[..], &number.wrapping_mul(0x9E37_79B9).to_be_bytes(), &[b'k'; 40][..number as usize % 40]]
            .concat();
        let value = (!random.random_bool(0.2)).then(|| vec![random.random(); random.random_range(0..200)]);
        (key, value)
    };
    (0..count).map(record).collect()
}

fn find(version: &Version<TableReader>, key: &[u8]) -> Option<Option<Vec<u8>>> {
    let (mut value, mut found) = (Vec::new(), None);
    let look = |reader: &TableReader, value: &mut Vec<u8>| {
        found = reader.find((xxh3_64(key), key), &mut None, value)?;
        Ok(found)
    };
    version.search(key, &mut value, look, |_| Ok(false)).expect("it can be read");
    found.map(|answer| (answer == Answer::Value).then_some(value))
}

#[test]
fn a_run_is_cut_into_tables_that_follow_each_other_and_tell_their_sequences() {
    let (mut fixture, mut random) = (Fixture::new(1), SmallRng::seed_from_u64(1));
    let records = records(&mut random, 1500);
    let tables = fixture.write(IndexKind::Linear, &records, 100).unwrap();
    assert!(tables.len() > 3 && tables.len() == fixture.tables());
    let mut next = 100;
    for (number, reader) in tables.iter().enumerate() {
        let table = reader.table();
        assert_eq!(table.sequences(), (next, next + table.records() - 1));
        assert!(number + 1 == tables.len() || u64::from(table.blocks()) == BLOCKS, "{}", table.blocks());
        next += table.records();
    }
    assert_eq!(next, 100 + records.len() as u64);
    assert!(tables.windows(2).all(|pair| pair[0].last() < pair[1].first()));
    assert!(fixture.write(IndexKind::Linear, &Records::new(), 1).unwrap().is_empty());
}

/// Runs and levels that overlap at random, compared with maps laid over each other.
#[test]
fn the_youngest_record_of_a_key_is_found_wherever_it_is() {
    for (seed, kind) in (0..).zip(IndexKind::ALL) {
        let (mut fixture, mut random) = (Fixture::new(seed), SmallRng::seed_from_u64(seed));
        let (mut manifest, mut version) = (LevelManifest::default(), Version::empty());
        let mut model = Records::new();
        for (age, run_id) in
            [RunId::LAST, RunId::at_depth(2), RunId::L0(0), RunId::L0(1), RunId::L0(2)].into_iter().enumerate()
        {
            let records = records(&mut random, 1200 >> age);
            let tables = fixture.write(kind, &records, 1).unwrap();
            let added = tables.iter().map(|reader| (run_id, reader.file())).collect();
            manifest.apply(&VersionEdit { added, ..VersionEdit::default() }).unwrap();
            version = version.after(&manifest, &tables).unwrap();
            model.extend(records);
        }
        for (key, value) in &model {
            assert_eq!(find(&version, key).as_ref(), Some(value));
        }
        assert!(model.values().filter(|value| value.is_none()).count() > 50);
        [&b""[..], b"user", b"zebra", b"user\0\0\0\0\0"].iter().for_each(|key| assert_eq!(find(&version, key), None));
    }
}

/// A key that a filter lets pass costs one read of a block; a key that all filters reject costs none.
#[test]
fn a_key_is_found_by_one_read_whatever_lies_above_it() {
    let (mut fixture, mut manifest, mut version) = (Fixture::new(1), LevelManifest::default(), Version::empty());
    let keys = |odd: u32| (0..800_u32).map(move |number| (number * 2 + odd).to_be_bytes().to_vec());
    for (run_id, odd) in [(RunId::LAST, 0), (RunId::L0(0), 1)] {
        let tables =
            fixture.write(IndexKind::Linear, &keys(odd).map(|key| (key.clone(), Some(key))).collect(), 1).unwrap();
        manifest
            .apply(&VersionEdit {
                added: tables.iter().map(|reader| (run_id, reader.file())).collect(),
                ..VersionEdit::default()
            })
            .unwrap();
        version = version.after(&manifest, &tables).unwrap();
    }
    // These reads load indexes and filters.
    keys(0).chain(keys(1)).for_each(|key| assert_eq!(find(&version, &key), Some(Some(key.clone()))));
    let reads = |fixture: &Fixture| fixture.disk.counters_of(FileKind::Table).reads;
    let before = reads(&fixture);
    keys(0).for_each(|key| assert!(find(&version, &key).is_some()));
    let taken = reads(&fixture) - before;
    assert!((800..=830).contains(&taken), "{taken} reads of 800 keys below another run");
}

#[test]
fn a_full_disk_leaves_no_file_and_no_harm() {
    let records = records(&mut SmallRng::seed_from_u64(1), 1500);
    let mut fixture = Fixture::new(1);
    // A table reserves a mebibyte, of which it keeps what it fills.
    fixture.disk.space_limit((1 << 20) + 3 * (BLOCKS + 4) * BLOCK as u64);
    assert!(fixture.write(IndexKind::Linear, &records, 1).unwrap_err().is_no_space());
    assert!(
        fixture.disk.files().is_empty() && fixture.number > 2 && fixture.loader.environment().health.check().is_ok()
    );
    fixture.disk.space_limit(16 << 20);
    assert!(fixture.write(IndexKind::Linear, &records, 1).unwrap().len() > 3);
}

#[test]
fn whatever_fails_leaves_no_file() {
    let records = records(&mut SmallRng::seed_from_u64(1), 300);
    let mut whole = Fixture::new(1);
    assert!(whole.write(IndexKind::Linear, &records, 1).unwrap().len() > 1);
    for index in 0..whole.disk.io_index() {
        let mut fixture = Fixture::new(1);
        fixture.disk.fail_at(index, io::ErrorKind::Other);
        assert!(fixture.write(IndexKind::Linear, &records, 1).is_err(), "I/O {index}");
        assert!(fixture.disk.files().is_empty(), "I/O {index}");
    }
}
