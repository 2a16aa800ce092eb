//! Tests of the record cache as a whole.

mod admission;
mod check;
mod eviction;
mod memory;
mod model;
#[cfg(feature = "loom")]
mod orders;
mod threads;

use std::sync::Arc;

use ecotone_engine::superseded::SupersededReports;
use ecotone_substrate::{Seq, memory::Memory};

use super::{Applied, Cache, CacheKeyspace, KeySpan, Purpose, RecordLookup};
use crate::dirty::DirtyRecords;

/// A small generator (xorshift*), so that a seed is enough to replay a failure.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True once in `n`.
    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn unit(&mut self) -> f64 {
        (self.next() % (1 << 40)) as f64 / (1u64 << 40) as f64
    }
}

fn cache(mib: usize) -> (Arc<Memory>, Arc<Cache>) {
    let memory = Memory::new(mib << 20);
    let cache = Cache::new(memory.clone(), 7, LOG);
    (memory, cache)
}

/// Bytes of the log, so few that a window has one sequence.
const LOG: u64 = 32;

/// A logged keyspace.
fn space(number: u16) -> CacheKeyspace {
    CacheKeyspace { number, logged: true }
}

/// All keys.
fn all() -> KeySpan {
    KeySpan::default()
}

/// Puts or deletes; false if there is no memory.
fn put(cache: &Cache, key: &[u8], value: Option<&[u8]>, seq: Seq) -> bool {
    let Some(token) = cache.reserve(space(0), key, value.map_or(0, <[u8]>::len)) else { return false };
    apply(cache, token, space(0), key, value, seq);
    true
}

/// Applies a write to a keyspace that was not dropped.
fn apply(cache: &Cache, token: u64, space: CacheKeyspace, key: &[u8], value: Option<&[u8]>, seq: Seq) {
    cache.apply(token, space, Applied { key, value, seq, reports: &SupersededReports::default() }, &|| false);
}

/// Replaces a dirty record in place; false if nothing was done.
fn overwrite(cache: &Cache, space: CacheKeyspace, key: &[u8], value: Option<&[u8]>) -> bool {
    cache.overwrite(space, Applied { key, value, seq: 0, reports: &SupersededReports::default() })
}

/// Takes all dirty records for writing.
fn begin_write(cache: &Cache) -> DirtyRecords {
    cache.begin_write(space(0), &all(), usize::MAX).0
}

/// Reads through: a miss is admitted with `value`. Returns whether it was a hit.
fn read(cache: &Cache, key: &[u8], value: &[u8]) -> bool {
    match cache.get(0, key, Purpose::Read, <[u8]>::to_vec) {
        RecordLookup::Value(found) => {
            assert_eq!(found, value);
            true
        }
        RecordLookup::Tombstone => panic!("nothing was deleted"),
        RecordLookup::Missing(ticket) => {
            cache.admit_clean(0, key, value, &ticket);
            false
        }
    }
}

/// Whether a key is cached, without changing its priority.
fn has(cache: &Cache, key: &[u8]) -> bool {
    let hash = cache.hash(0, key);
    cache.shard(hash).find(hash, 0, key).is_some()
}

fn write_out(cache: &Cache) -> usize {
    let written = begin_write(cache).len();
    cache.end_write(space(0), &all(), true);
    written
}
