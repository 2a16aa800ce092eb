//! The cache as a whole.

mod admission;
mod check;
mod eviction;
mod memory;
mod model;
#[cfg(feature = "loom")]
mod orders;
mod threads;

use std::sync::Arc;

use ecotone_substrate::{Seq, memory::Memory};

use super::{Cache, Found, Purpose};

/// A small generator (xorshift*), so that a seed is all that a failure needs.
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
    let cache = Cache::new(memory.clone(), 7);
    (memory, cache)
}

/// Puts or deletes, all keys on one page; false if there is no room.
fn put(cache: &Cache, key: &[u8], value: Option<&[u8]>, seq: Seq) -> bool {
    let Some(token) = cache.reserve(0, key, value.map_or(0, <[u8]>::len)) else { return false };
    cache.apply(token, 0, key, value, seq, &mut |_| 1);
    true
}

/// Reads through: what is missing is admitted with `value`. Whether it was a hit.
fn read(cache: &Cache, key: &[u8], value: &[u8]) -> bool {
    match cache.get(0, key, Purpose::Read, <[u8]>::to_vec) {
        Found::Value(found) => {
            assert_eq!(found, value);
            true
        }
        Found::Tombstone => panic!("nothing was deleted"),
        Found::Missing(ticket) => {
            cache.admit_clean(0, key, value, &ticket);
            false
        }
    }
}

/// Whether the cache has a key, without changing its priority.
fn has(cache: &Cache, key: &[u8]) -> bool {
    let hash = cache.hash(0, key);
    cache.shard(hash).find(hash, 0, key).is_some()
}

fn write_out(cache: &Cache, page: u32) -> usize {
    let written = cache.begin_write(0, page, usize::MAX).len();
    cache.end_write(0, page, true);
    written
}
