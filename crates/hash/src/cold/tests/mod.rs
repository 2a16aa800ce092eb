mod damage;
mod failures;
mod fences;
mod golden;
mod lazy;
mod maps;
mod memory;
mod runs;

use std::{collections::BTreeMap, sync::Arc};

use ecotone_substrate::{
    Result,
    environment::Environment,
    memory::{Component, Memory},
    storage,
};
use ecotone_sys::chunk::Size;
use ecotone_testkit::sim::SimStorage;
use rand::{Rng, RngExt, rngs::SmallRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::*;

const DATABASE: u64 = 7;
const NAME: FileIdentity = FileIdentity { database: DATABASE, keyspace: 3, number: 9, birth: 41 };
const DELTA: RunKind = RunKind::Delta { from: 4096, until: 8192 };

/// The expected records of a run, by hash and key; no value is a tombstone.
type Records = BTreeMap<(u64, Vec<u8>), Option<Vec<u8>>>;

fn hash(key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, DATABASE)
}

fn environment(disk: &SimStorage) -> Environment {
    disk.environment(DATABASE, 64 << 20)
}

fn frame(environment: &Environment) -> storage::Block {
    environment.memory.lease_essential(Component::Frames, Size::Frame).unwrap()
}

/// Writes a run of those records that its kind may have.
fn write(
    environment: &Environment,
    name: FileIdentity,
    kind: RunKind,
    block: usize,
    records: &Records,
) -> Result<Option<(Run, Tags)>> {
    let mut writer = RunWriter::create(environment, name, kind, block)?;
    for ((hash, key), value) in records.iter().filter(|((hash, _), _)| kind.hash_range().has(*hash)) {
        writer.push(*hash, key, value.as_deref())?;
    }
    writer.finish()
}

fn bytes(random: &mut SmallRng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill_bytes(&mut bytes);
    bytes
}

/// A record of `size` bytes with a key of random length.
fn sized(random: &mut SmallRng, size: usize, tombstone: bool) -> (Vec<u8>, Option<Vec<u8>>) {
    let longest = size.min(1024);
    let length = if random.random_bool(0.5) { random.random_range(1..=longest) } else { longest.min(12) };
    (bytes(random, length), (!tombstone).then(|| bytes(random, size - length)))
}

/// `count` records of 8 + 100 bytes.
fn usual(count: u64, from: u64) -> Records {
    let record = |number: u64| {
        let key = number.to_be_bytes().to_vec();
        let value = key.repeat(13)[..100].to_vec();
        ((hash(&key), key), Some(value))
    };
    (from..from + count).map(record).collect()
}

/// The answer of a run for a key; the outer `None` means that it does not have the key.
fn ask(run: &Run, hash: u64, key: &[u8], frame: &mut storage::Block) -> Result<Option<Option<Vec<u8>>>> {
    let mut value = Vec::new();
    Ok(run.find(hash, key, frame, &mut value)?.map(|answer| (answer == Answer::Value).then_some(value)))
}
