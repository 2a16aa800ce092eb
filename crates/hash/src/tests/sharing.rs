//! Memory of keyspaces beside other components that need some.

use std::ops::Range;

use ecotone_engine::contract::{Engine, Get};
use ecotone_substrate::{
    environment::Environment,
    memory::{CacheComponents, Component},
};
use ecotone_sys::chunk::{Block, Size};
use ecotone_testkit::{engine::stat, sim::SimStorage};

use super::{removal::files, *};
use crate::{compact::CompactionLimits, keyspace::HashKeyspace, log::FRAME};

/// More keys than fit into memory.
const KEYS: u64 = 50_000;

fn value(number: u64) -> Vec<u8> {
    [number as u8; 900].to_vec()
}

/// A keyspace with all keys. It has read as many as fit into memory.
fn keyspace() -> (Environment, HashKeyspace) {
    let files = Arc::new(files(&SimStorage::new(1)));
    let environment = files.environment().clone();
    let most = environment.memory.budget() / FRAME as usize;
    let limits = CompactionLimits { most_hot: 4 << 20, ..CompactionLimits::TINY };
    let keyspace = HashKeyspace::create(files, Sizes { bucket_bits: 10, frames: most, copies: most }, limits).unwrap();
    write(&environment, &keyspace, 0..KEYS);
    read(&environment, &keyspace);
    (environment, keyspace)
}

fn write(environment: &Environment, keyspace: &HashKeyspace, keys: Range<u64>) {
    for number in keys {
        keyspace.try_apply(Operation { key: &number.to_le_bytes(), value: Some(&value(number)) }).unwrap();
        while environment.scheduler.run_one() {}
    }
}

fn read(environment: &Environment, keyspace: &HashKeyspace) {
    for number in 0..KEYS {
        assert_eq!(keyspace.get(&number.to_le_bytes()).unwrap(), Some(value(number)));
        while environment.scheduler.run_one() {}
    }
}

#[test]
fn copies_take_what_is_free_and_give_it_back_to_work_that_must_go_on() {
    let (environment, keyspace) = keyspace();
    let memory = &environment.memory;
    let before = stat(&keyspace.stats(), "read_cache_bytes");
    assert!(before > 8 << 20, "{before} bytes of copies");
    let work: Vec<Block> =
        (0..224).map(|_| memory.lease_essential(Component::Other, Size::Slab).expect("copies give it back")).collect();
    let after = stat(&keyspace.stats(), "read_cache_bytes");
    assert!(after + (4 << 20) < before, "{after} of {before} bytes of copies are left");
    read(&environment, &keyspace);
    assert!(memory.held() <= memory.budget());
    drop(work);
    let limit = stat(&keyspace.stats(), "read_cache_limit_bytes");
    assert!(limit + (2 << 20) < before, "what work needed once it may need again");
}

#[test]
fn a_cache_with_more_demand_gets_its_part_from_copies() {
    let (environment, keyspace) = keyspace();
    let memory = &environment.memory;
    let other = memory.join(CacheComponents::Components(&[Component::Memtable]), Box::new(|_| 0));
    other.count(1 << 20);
    let mut blocks = Vec::new();
    while blocks.len() < 96 {
        match memory.lease(Component::Memtable, Size::Slab) {
            Some(block) => blocks.push(block),
            None => assert!(other.reclaim(Size::Slab.bytes()), "after {} slabs", blocks.len()),
        }
    }
    read(&environment, &keyspace);
    let stats = keyspace.stats();
    for (held, limit) in
        [("read_cache_bytes", "read_cache_limit_bytes"), ("hot_log_memory_bytes", "hot_log_limit_bytes")]
    {
        let (held, limit) = (stat(&stats, held), stat(&stats, limit));
        assert!(held <= limit + FRAME, "{held} bytes where {limit} may be");
    }
}

/// The hot log gets its share, however much memory the read cache took before.
#[test]
fn a_hot_log_that_grows_takes_its_part_from_copies() {
    let (environment, keyspace) = keyspace();
    let evictions = stat(&keyspace.stats(), "forced_evictions");
    write(&environment, &keyspace, KEYS..KEYS + 10_000);
    assert_eq!(stat(&keyspace.stats(), "forced_evictions"), evictions, "nothing was written out for want of memory");
    read(&environment, &keyspace);
}

/// Compaction keeps less of the hot log in memory than its share.
#[test]
fn what_the_hot_log_does_not_use_of_its_part_is_for_copies() {
    let (environment, keyspace) = keyspace();
    (0..8).for_each(|_| read(&environment, &keyspace));
    let stats = keyspace.stats();
    let [copies, hot, limit] =
        ["read_cache_bytes", "hot_log_memory_bytes", "hot_log_limit_bytes"].map(|name| stat(&stats, name));
    assert!(hot < limit / 2, "{hot} of {limit} bytes are in use");
    let all = copies + limit;
    let budget = environment.memory.budget() as u64;
    assert!(
        all > budget,
        "{copies} bytes of copies, where the hot log has {hot} of {limit} bytes, and the budget {budget}"
    );
}
