//! Iterates over all records in the order of their hashes, a range of hashes at a time (hash.md, "Walks").

mod chains;
mod records;
mod runs;

use std::{ops::RangeInclusive, sync::Arc};

use ecotone_engine::contract::{self, RecordRef};
use ecotone_substrate::{Error, Result, memory::Component};
use ecotone_sys::chunk::{Block, Size};

use self::records::Records;
use super::Hash;

/// Hashes whose records are collected together.
type Hashes = RangeInclusive<u64>;

/// The most that a range of more than one hash covers: buckets of the index, and blocks that the runs have of it.
#[derive(Debug, Clone, Copy)]
struct Extent {
    buckets: u64,
    blocks: usize,
}

/// The extents with and without memory for a large range.
const LARGE: Extent = Extent { buckets: 16, blocks: 128 };
const SMALL: Extent = Extent { buckets: 1, blocks: 8 };
/// Slabs for the records of a large range, about.
const SLABS: usize = 8;

/// An iteration over all records.
#[derive(Debug)]
pub(crate) struct HashCursor {
    hash: Arc<Hash>,
    /// First hash of the next range, if there is one.
    next: Option<u64>,
    /// The records of the present range, and how many of them were given.
    records: Records,
    given: usize,
    /// The share of the windows' memory that stands for the records of a large range. All walks together have no more
    /// than that (`docs/design/waiting.md`, rule 4).
    leased: Vec<Block>,
}

impl HashCursor {
    /// Begins before the first record.
    pub(crate) fn new(hash: Arc<Hash>) -> HashCursor {
        HashCursor { hash, next: Some(0), records: Records::default(), given: 0, leased: Vec::new() }
    }

    /// The most that the next range may cover.
    fn extent(&mut self) -> Extent {
        while self.leased.len() < SLABS {
            match self.hash.reservations.memory.lease(Component::Windows, Size::Slab) {
                Some(slab) => self.leased.push(slab),
                None => {
                    self.leased.clear();
                    self.records.give_back();
                    return SMALL;
                }
            }
        }
        LARGE
    }

    /// The range that begins with a hash: some buckets, or a part of them if the runs have many blocks there.
    fn range(&self, first: u64, Extent { buckets, blocks }: Extent) -> Hashes {
        let mut last = self.hash.chains.index.last_of(first, buckets, &self.hash.chains.domain.pin());
        let runs = self.hash.cold.runs();
        while last > first && runs.blocks_of(&(first..=last)) > blocks {
            last = first + (last - first) / 2;
        }
        first..=last
    }

    fn load(&mut self, first: u64) -> Result<()> {
        self.given = 0;
        let extent = self.extent();
        let range = self.range(first, extent);
        let mut collector = Collector { hash: &self.hash, range: &range, records: &mut self.records };
        while !collector.collect()? {}
        self.next = range.end().checked_add(1);
        self.records.keep_newest();
        Ok(())
    }
}

impl contract::UnorderedCursor for HashCursor {
    fn prepare(&mut self) -> Result<()> {
        while self.given == self.records.len()
            && let Some(first) = self.next.take()
        {
            self.load(first).inspect_err(|error| {
                self.records.clear();
                // After other errors there is no next range.
                self.next = Some(first).filter(|_| matches!(error, Error::Memory { .. }));
            })?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RecordRef<'_>>> {
        self.prepare()?;
        if self.given == self.records.len() {
            self.leased.clear();
            return Ok(None);
        }
        self.given += 1;
        Ok(Some(self.records.get(self.given - 1)))
    }
}

/// Collects the records of a range.
struct Collector<'c> {
    hash: &'c Hash,
    range: &'c Hashes,
    records: &'c mut Records,
}

impl Collector<'_> {
    /// Collects the records of the range. False if a truncation has passed some of it.
    fn collect(&mut self) -> Result<bool> {
        self.records.clear();
        let whole = self.collect_chains()?;
        if whole {
            // Read after the BEGIN of the chains: records that had left the log before that are in these runs
            // (invariant 22).
            self.collect_runs(&self.hash.cold.runs())?;
        }
        Ok(whole)
    }
}
