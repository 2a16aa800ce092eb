//! Runs that are written and read: a key is found in the youngest that has it.

use std::{collections::BTreeMap, io, sync::Arc};

use ecotone_substrate::{
    Result, Seq,
    storage::{FileKind, Storage},
    table::{Answer, Name},
};
use ecotone_sys::epoch::Domain;
use ecotone_testkit::sim::SimStorage;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use xxhash_rust::xxh3::xxh3_64;

use crate::lsm::{
    compact::cuts::Cuts,
    handle::{Handle, Loader},
    output::Output,
    structure::{Change, Place, Structure},
    table::{Compression, Kind, Options, Wanted},
    table_cache::TableCache,
    version::{Ranged, Version},
};

/// No value is a tombstone.
type Records = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

const BLOCK: usize = 4096;
/// Blocks of a full table.
const BLOCKS: u64 = 4;

fn options(kind: Kind) -> Options {
    Options { block: BLOCK, filter_bits: 10, compression: Compression::None, index: Wanted::of(kind, 2000) }
}

/// A disk, and names for files on it.
struct Ground {
    disk: SimStorage,
    loader: Arc<Loader>,
    number: u32,
}

impl Ground {
    fn new(seed: u64) -> Ground {
        let disk = SimStorage::new(seed);
        let environment = disk.environment(7, 64 << 20);
        let cache = TableCache::new(&environment.memory, &Domain::new(), usize::MAX);
        Ground { disk, loader: Loader::new(&environment, &cache), number: 0 }
    }

    fn write(&mut self, kind: Kind, records: &Records, first: Seq) -> Result<Vec<Arc<Handle>>> {
        let mut name = || {
            self.number += 1;
            Name { database: 7, keyspace: 3, number: self.number, birth: u64::from(self.number) << 32 }
        };
        let mut output = Output::new(&self.loader, options(kind), Cuts::new(BLOCKS * BLOCK as u64, None), &mut name);
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

fn find(version: &Version<Handle>, key: &[u8]) -> Option<Option<Vec<u8>>> {
    let (mut value, mut found) = (Vec::new(), None);
    let look = |handle: &Handle, value: &mut Vec<u8>| {
        found = handle.find((xxh3_64(key), key), &mut None, value)?;
        Ok(found)
    };
    version.search(key, &mut value, look, |_| Ok(false)).expect("it can be read");
    found.map(|answer| (answer == Answer::Value).then_some(value))
}

#[test]
fn a_run_is_cut_into_tables_that_follow_each_other_and_tell_their_sequences() {
    let (mut ground, mut random) = (Ground::new(1), SmallRng::seed_from_u64(1));
    let records = records(&mut random, 1500);
    let tables = ground.write(Kind::Linear, &records, 100).unwrap();
    assert!(tables.len() > 3 && tables.len() == ground.tables());
    let mut next = 100;
    for (number, handle) in tables.iter().enumerate() {
        let table = handle.table();
        assert_eq!(table.sequences(), (next, next + table.records() - 1));
        assert!(number + 1 == tables.len() || u64::from(table.blocks()) == BLOCKS, "{}", table.blocks());
        next += table.records();
    }
    assert_eq!(next, 100 + records.len() as u64);
    assert!(tables.windows(2).all(|pair| pair[0].last() < pair[1].first()));
    assert!(ground.write(Kind::Linear, &Records::new(), 1).unwrap().is_empty());
}

/// Runs and levels that overlap as they like, against maps put over each other.
#[test]
fn the_youngest_record_of_a_key_is_found_wherever_it_is() {
    for (seed, kind) in (0..).zip(Kind::ALL) {
        let (mut ground, mut random) = (Ground::new(seed), SmallRng::seed_from_u64(seed));
        let (mut structure, mut version) = (Structure::default(), Version::empty());
        let mut model = Records::new();
        for (age, place) in
            [Place::Level(1), Place::Level(2), Place::Run(0), Place::Run(1), Place::Run(2)].into_iter().enumerate()
        {
            let records = records(&mut random, 1200 >> age);
            let tables = ground.write(kind, &records, 1).unwrap();
            let comes = tables.iter().map(|handle| (place, handle.file())).collect();
            structure.apply(&Change { comes, ..Change::default() }).unwrap();
            version = version.after(&structure, &tables).unwrap();
            model.extend(records);
        }
        for (key, value) in &model {
            assert_eq!(find(&version, key).as_ref(), Some(value));
        }
        assert!(model.values().filter(|value| value.is_none()).count() > 50);
        [&b""[..], b"user", b"zebra", b"user\0\0\0\0\0"].iter().for_each(|key| assert_eq!(find(&version, key), None));
    }
}

/// A key that a filter lets pass takes one read of a block, and none where all filters say no.
#[test]
fn a_key_is_found_by_one_read_whatever_lies_above_it() {
    let (mut ground, mut structure, mut version) = (Ground::new(1), Structure::default(), Version::empty());
    let keys = |odd: u32| (0..800_u32).map(move |number| (number * 2 + odd).to_be_bytes().to_vec());
    for (place, odd) in [(Place::Level(1), 0), (Place::Run(0), 1)] {
        let tables = ground.write(Kind::Linear, &keys(odd).map(|key| (key.clone(), Some(key))).collect(), 1).unwrap();
        structure
            .apply(&Change { comes: tables.iter().map(|handle| (place, handle.file())).collect(), ..Change::default() })
            .unwrap();
        version = version.after(&structure, &tables).unwrap();
    }
    // Indexes and filters are loaded.
    keys(0).chain(keys(1)).for_each(|key| assert_eq!(find(&version, &key), Some(Some(key.clone()))));
    let reads = |ground: &Ground| ground.disk.counters_of(FileKind::Table).reads;
    let before = reads(&ground);
    keys(0).for_each(|key| assert!(find(&version, &key).is_some()));
    let taken = reads(&ground) - before;
    assert!((800..=830).contains(&taken), "{taken} reads of 800 keys below another run");
}

#[test]
fn a_full_disk_leaves_no_file_and_no_harm() {
    let records = records(&mut SmallRng::seed_from_u64(1), 1500);
    let mut ground = Ground::new(1);
    // A table reserves a mebibyte, of which it keeps what it fills.
    ground.disk.space_limit((1 << 20) + 3 * (BLOCKS + 4) * BLOCK as u64);
    assert!(ground.write(Kind::Linear, &records, 1).unwrap_err().is_no_space());
    assert!(ground.disk.files().is_empty() && ground.number > 2 && ground.loader.environment().health.check().is_ok());
    ground.disk.space_limit(16 << 20);
    assert!(ground.write(Kind::Linear, &records, 1).unwrap().len() > 3);
}

#[test]
fn whatever_fails_leaves_no_file() {
    let records = records(&mut SmallRng::seed_from_u64(1), 300);
    let mut whole = Ground::new(1);
    assert!(whole.write(Kind::Linear, &records, 1).unwrap().len() > 1);
    for index in 0..whole.disk.io_index() {
        let mut ground = Ground::new(1);
        ground.disk.fail_at(index, io::ErrorKind::Other);
        assert!(ground.write(Kind::Linear, &records, 1).is_err(), "I/O {index}");
        assert!(ground.disk.files().is_empty(), "I/O {index}");
    }
}
