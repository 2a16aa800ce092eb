//! Collects the records of a hash range from the cold tier.

use ecotone_substrate::{Result, memory::Component, storage::Block};
use ecotone_sys::chunk::Size;

use super::Collector;
use crate::{
    cold::{Cursor, Runs},
    log::Address,
};

/// The age of records in a partition's youngest run. All records of the hot log are newer.
const YOUNGEST: u64 = Address::FIRST.get() - 1;

impl Collector<'_> {
    /// Collects from one run after the other, since there may be hundreds, and each needs a window while it is read.
    pub(super) fn collect_runs(&mut self, runs: &Runs) -> Result<()> {
        let hash = self.hash;
        let hash_of = |key: &[u8]| hash.chains.key(key).hash;
        let mut window = None;
        for (partition, hashes) in runs.partitions_of(self.range) {
            let ages = (0..=YOUNGEST).rev();
            let there = partition.runs().zip(ages).filter(|(run, _)| !run.blocks_of(&hashes).is_empty());
            for (run, age) in there {
                let free = window.take().map_or_else(|| self.window(), Ok)?;
                let mut cursor = Cursor::new(run, hashes.clone(), free);
                while cursor.advance(&hash_of)? {
                    self.records.push(cursor.hash(), age, cursor.key(), cursor.value());
                }
                window = Some(cursor.into_window());
            }
        }
        Ok(())
    }

    /// A window for the blocks of a run, as large as there is memory for.
    fn window(&self) -> Result<Block> {
        let reservations = &self.hash.reservations;
        reservations.memory.lease(Component::Frames, Size::Slab).map_or_else(|| reservations.frame(), Ok)
    }
}
