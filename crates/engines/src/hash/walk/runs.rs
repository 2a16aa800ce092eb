//! What the cold tier has of a stretch.

use ecotone_substrate::{Result, memory::Component, storage::Block};
use ecotone_sys::chunk::Size;

use super::{Hashes, records::Records};
use crate::hash::{
    Hash,
    cold::{Cursor, Runs},
    log::Address,
};

/// The age of what a partition's youngest run has: all that is in the hot log is newer.
const YOUNGEST: u64 = Address::FIRST.get() - 1;

impl Hash {
    /// Collects it from one run after the other, since there may be hundreds, and each wants a window while it is read.
    pub(super) fn collect_runs(&self, runs: &Runs, stretch: &Hashes, records: &mut Records) -> Result<()> {
        let hash_of = |key: &[u8]| self.key(key).hash;
        let mut window = None;
        for (partition, hashes) in runs.partitions_of(stretch) {
            let ages = (0..=YOUNGEST).rev();
            let there = partition.runs().zip(ages).filter(|(run, _)| !run.blocks_of(&hashes).is_empty());
            for (run, age) in there {
                let free = window.take().map_or_else(|| self.window(), Ok)?;
                let mut cursor = Cursor::new(run, hashes.clone(), free);
                while cursor.advance(&hash_of)? {
                    records.push(cursor.hash(), age, cursor.key(), cursor.value());
                }
                window = Some(cursor.into_window());
            }
        }
        Ok(())
    }

    /// A window for the blocks of a run, as large as there is memory for.
    fn window(&self) -> Result<Block> {
        self.room.memory.lease(Component::Frames, Size::Slab).map_or_else(|| self.room.frame(), Ok)
    }
}
