mod blocks;
mod cursors;
mod damage;
mod failures;
mod golden;
mod packed;
mod tables;

use std::collections::BTreeMap;

use ecotone_substrate::{Result, environment::Environment, memory::Memory, storage, table::FileIdentity};
use ecotone_testkit::sim::SimStorage;
use rand::{Rng, RngExt, rngs::SmallRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::table::*;

const DATABASE: u64 = 7;
const NAME: FileIdentity = FileIdentity { database: DATABASE, keyspace: 3, number: 9, birth: 41 };
const SEQUENCES: (u64, u64) = (100, 900);

/// The records that a table should have; a value of `None` is a tombstone.
type Records = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn hash(key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, DATABASE)
}

impl Table {
    /// The kind of its index.
    pub(crate) fn index_kind(&self) -> IndexKind {
        self.header.kind
    }
}

fn environment(disk: &SimStorage) -> Environment {
    disk.environment(DATABASE, 64 << 20)
}

fn options(kind: IndexKind, block: usize) -> Options {
    Options { block, filter_bits: 10, compression: Compression::None, index: IndexOptions::of(kind, 2000) }
}

fn write(environment: &Environment, name: FileIdentity, options: Options, records: &Records) -> Result<Option<Table>> {
    let mut writer = TableWriter::create(environment, name, options)?;
    for (key, value) in records {
        writer.push(hash(key), key, value.as_deref())?;
    }
    writer.finish(SEQUENCES)
}

fn bytes(random: &mut SmallRng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill_bytes(&mut bytes);
    bytes
}

/// Records of some bytes with keys of random lengths, some of them deleted.
fn sized(random: &mut SmallRng, count: usize, size: usize) -> Records {
    let record = |_| {
        let longest = size.min(1024);
        let length = if random.random_bool(0.3) { random.random_range(1..=longest) } else { longest.min(12) };
        let mut key = bytes(random, length);
        // Some keys share a prefix of random length.
        let shared = if random.random_bool(0.5) { random.random_range(0..length) } else { 0 };
        key[..shared].fill(0x55);
        let value = (!random.random_bool(0.1)).then(|| bytes(random, size - length));
        (key, value)
    };
    (0..count).map(record).collect()
}

/// `count` records of 8 + 100 bytes.
fn usual(count: u64) -> Records {
    let record = |number: u64| {
        let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec();
        let value = key.repeat(13)[..100].to_vec();
        (key, Some(value))
    };
    (0..count).map(record).collect()
}

/// Records of which two fill a block. The last record of each block shares 900 bytes with the first of the next one, so
/// that separators are long.
fn long(count: u8) -> Records {
    let record = |number: u8| ([&[b'A' + number.div_ceil(2); 900][..], &[number]].concat(), Some(vec![number; 900]));
    (0..count).map(record).collect()
}

/// Leases frames for any part of a table.
fn frames(environment: &Environment) -> impl Fn() -> Result<storage::Block> + '_ {
    || environment.memory.lease_essential(Component::Other, Size::Frame)
}

fn index_of(table: &Table, environment: &Environment) -> Result<WholeIndex> {
    table.whole_index(environment, &frames(environment))
}

/// The answer of a table for a key. The outer `None` means that the table has no record of the key.
fn ask(table: &Table, index: &WholeIndex, key: &[u8], memory: &mut storage::Block) -> Result<Option<Option<Vec<u8>>>> {
    let mut value = Vec::new();
    Ok(table
        .find(table.locate(index, key), key, memory, &mut value)?
        .map(|answer| (answer == Answer::Value).then_some(value)))
}
