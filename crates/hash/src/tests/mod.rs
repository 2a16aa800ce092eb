//! The engine in memory.

#[cfg(not(feature = "loom"))]
mod admission;
#[cfg(not(feature = "loom"))]
mod background;
#[cfg(not(feature = "loom"))]
mod batches;
#[cfg(not(feature = "loom"))]
mod budgets;
#[cfg(not(feature = "loom"))]
mod disk;
#[cfg(not(feature = "loom"))]
mod growth;
#[cfg(not(feature = "loom"))]
mod held;
#[cfg(not(feature = "loom"))]
mod merges;
#[cfg(not(feature = "loom"))]
mod model;
#[cfg(feature = "loom")]
mod orders;
#[cfg(not(feature = "loom"))]
mod removal;
#[cfg(not(feature = "loom"))]
mod sharing;
#[cfg(not(feature = "loom"))]
mod updates;
#[cfg(not(feature = "loom"))]
pub(super) mod walks;

use ecotone_engine::contract::Operation;
use ecotone_substrate::{Error, memory::Memory};

use super::{key::Key, reservations::EvictionTarget, *};

const SEED: u64 = 7;

/// An empty engine within 64 MiB.
fn engine(bucket_bits: u32, frames: usize) -> Hash {
    engine_with_copies(bucket_bits, frames, 0)
}

/// The same with `copies` frames for the read cache.
pub(super) fn engine_with_copies(bucket_bits: u32, frames: usize, copies: usize) -> Hash {
    let memory = Memory::new(64 << 20);
    Hash::new(&Domain::new(), &memory, SEED, Sizes { bucket_bits, frames, copies }).expect("there is memory")
}

/// Gives the engine of a model all frames and overflow buckets that it may have, so that no operation has to make
/// space.
#[cfg(feature = "loom")]
pub(super) fn fill_up(hash: &Hash) {
    while let Ok(block) = hash.reservations.first_frame()
        && hash.chains.log.grow(block).is_ok()
    {}
    hash.reservations.satisfy(&hash.chains, space::NeedsSpace::Bucket).expect("there is memory");
}

/// A fixture without a cold tier.
#[derive(Debug)]
struct NoDisk;

impl EvictionTarget for NoDisk {
    fn write_out(&self, _: &HotLog, _: Address) -> Result<()> {
        Err(Error::Memory { what: "hot log", budget: 0 })
    }
}

impl Hash {
    /// An empty engine that evicts nothing by itself.
    pub(super) fn new(domain: &Arc<Domain>, memory: &Arc<Memory>, seed: u64, sizes: Sizes) -> Result<Hash> {
        let log = HotLog::new(domain, Address::FIRST, sizes.frames);
        Hash::of(domain, seed, log, Runs::default(), Reservations::new(memory, Arc::new(NoDisk)), sizes)
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.put(Operation { key, value: Some(value) }).expect("there is memory");
    }

    fn remove(&self, key: &[u8]) {
        self.put(Operation { key, value: None }).expect("there is memory");
    }

    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = vec![1, 2, 3];
        let found = self.get_into(key, &mut value).expect("what there is can be read");
        assert!(found || value.is_empty());
        found.then_some(value)
    }

    /// Doubles the index's buckets, if it may have more.
    #[cfg(not(feature = "loom"))]
    fn grow(&self) {
        self.chains.index.grow(|| self.reservations.lease().ok());
    }

    /// Makes all records read-only, except for the last `pages` pages.
    #[cfg(not(feature = "loom"))]
    fn freeze(&self, pages: u64) {
        let end = self.chains.log.tail().get().saturating_sub(pages * log::PAGE);
        let end = Address::new(end - end % log::PAGE);
        if end >= Address::FIRST {
            self.chains.log.raise_read_only(end);
        }
    }
}

/// Groups of at least `least` keys that share an index entry: all such groups among the first 600,000 numbers.
pub(super) fn crowds(least: usize) -> Vec<Vec<Vec<u8>>> {
    let mut crowds = std::collections::HashMap::<u64, Vec<Vec<u8>>>::new();
    for number in 0..600_000u64 {
        let key = number.to_le_bytes();
        crowds.entry(Key::new(&key, SEED).hash >> 43).or_default().push(key.to_vec());
    }
    let mut crowds: Vec<_> = crowds.into_values().filter(|keys| keys.len() >= least).collect();
    crowds.sort();
    crowds
}
