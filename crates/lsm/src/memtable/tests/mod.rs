//! Tests of the memtable as a whole.

#[cfg(not(feature = "loom"))]
mod model;
#[cfg(feature = "loom")]
mod orders;

use std::sync::Arc;

use ecotone_sys::chunk::{Arena, CHUNK_BYTES, Size};
#[cfg(not(feature = "loom"))]
use xxhash_rust::xxh3::xxh3_64;

use crate::memtable::{slab_reserve::size_of_next, *};

/// A memtable, and memory for its slabs.
struct Fixture {
    memory: Arc<Arena>,
    memtable: Memtable,
}

impl Fixture {
    fn new(prefix: &[u8]) -> Fixture {
        Fixture { memory: Arena::new(32 * CHUNK_BYTES), memtable: Memtable::new(prefix) }
    }

    fn write(&self, hash: u64, key: &[u8], value: Option<&[u8]>, seq: Seq) {
        let size = if cfg!(feature = "loom") { Size::Frame } else { size_of_next(self.memtable.bytes()) };
        let ready = &mut || Words::new(self.memory.lease(size, 0).expect("the tests need little"));
        self.memtable.apply(hash, key, value, seq, ready, &SupersededReports::default());
    }

    /// Writes a key in place, if that is possible.
    #[cfg(not(feature = "loom"))]
    fn overwrite(&self, key: &[u8], value: Option<&[u8]>, seq: Seq) -> bool {
        self.memtable.overwrite(xxh3_64(key), key, value, seq, &SupersededReports::default())
    }

    /// What the memtable has for a key. The outer `None` means that it does not have the key.
    fn get(&self, hash: u64, key: &[u8]) -> Option<(Option<Vec<u8>>, Seq)> {
        let mut value = vec![1, 2, 3];
        let (answer, seq) = self.memtable.get(hash, key, &mut value)?;
        Some(((answer == Answer::Value).then_some(value), seq))
    }

    /// All keys, in the order of a walk.
    fn keys(&self) -> Vec<Vec<u8>> {
        let (mut cursor, mut keys) = (self.memtable.cursor(), Vec::new());
        while cursor.advance() {
            let mut key = Vec::new();
            cursor.read_key(&mut key);
            keys.push(key);
        }
        keys
    }
}
