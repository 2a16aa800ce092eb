//! A search in a partition as a sequence of reads, which the caller does (hash.md, "Operations").

use std::sync::Arc;

use ecotone_substrate::{Result, storage::File, table::Answer};

use super::{
    partition::{Partition, Search},
    run::Run,
};

/// A search that needs to read a block. It keeps its partition and the files as they were when it began.
#[derive(Debug)]
pub struct Lookup {
    partition: Arc<Partition>,
    search: Search,
    run: Arc<Run>,
    block: u32,
}

/// The next step of a search.
#[derive(Debug)]
pub enum Step {
    /// The search has ended: whether the key has a value.
    Ended(bool),
    /// The search continues after this read.
    Reads(Lookup),
}

impl Lookup {
    /// Starts a search for a key with this hash. The first search in a partition makes its delta map, which takes some
    /// reads, and others wait for that. No pin is held.
    ///
    /// # Errors
    /// If the tags of a delta are damaged or cannot be read.
    pub fn begin(partition: Arc<Partition>, hash: u64) -> Result<Step> {
        partition.prepare()?;
        let search = partition.search(hash);
        Ok(Lookup::go_on(partition, search))
    }

    /// The next read: a file, the offset there, and the number of bytes.
    pub fn wanted(&self) -> (&Arc<dyn File>, u64, usize) {
        let extent = self.run.extent(self.block);
        (self.run.file(), extent.offset, extent.len)
    }

    /// Continues with the bytes that were read. A value is appended to `value`.
    ///
    /// # Errors
    /// If the block is damaged.
    pub fn resume(self, key: &[u8], read: &[u8], value: &mut Vec<u8>) -> Result<Step> {
        let parsed = self.run.parse(self.block, read)?;
        let answer = self.run.find_in(&parsed, self.block, self.search.hash(), key, value)?;
        let ended = answer.map(|answer| Step::Ended(answer == Answer::Value));
        Ok(ended.unwrap_or_else(|| Lookup::go_on(self.partition, self.search)))
    }

    fn go_on(partition: Arc<Partition>, mut search: Search) -> Step {
        let next = partition.next(&mut search).map(|(run, block)| (run.clone(), block));
        match next {
            Some((run, block)) => Step::Reads(Lookup { partition, search, run, block }),
            None => Step::Ended(false),
        }
    }
}
