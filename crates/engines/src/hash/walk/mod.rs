//! Goes through all records in the order of their hashes, a stretch of them at a time (decision 9, "Reading many at
//! once, iteration").

mod chains;
mod records;
mod runs;

use std::{ops::RangeInclusive, sync::Arc};

use ecotone_substrate::{Error, Result, memory::Component};
use ecotone_sys::chunk::{Block, Size};

use self::records::Records;
use super::Hash;
use crate::engine::{self, RecordRef};

/// Hashes whose records are collected together.
type Hashes = RangeInclusive<u64>;

/// How large a stretch is at most: buckets of the index, and blocks that the runs have of it, as long as it has more
/// than one hash.
#[derive(Debug, Clone, Copy)]
struct Extent {
    buckets: u64,
    blocks: usize,
}

/// With memory for what it has, and without.
const LARGE: Extent = Extent { buckets: 16, blocks: 128 };
const SMALL: Extent = Extent { buckets: 1, blocks: 8 };
/// Slabs for the records of a large stretch, about.
const SLABS: usize = 8;

/// One way through all records.
#[derive(Debug)]
pub(crate) struct Walk {
    hash: Arc<Hash>,
    /// Where the stretch that comes next begins, if there is one.
    next: Option<u64>,
    /// The records of the present one, and how many of them were given.
    records: Records,
    given: usize,
    /// The part of the windows' memory that stands for the records of a large stretch: all walks together have no more
    /// than that (`docs/design/waiting.md`, rule 4).
    leased: Vec<Block>,
}

impl Walk {
    /// Begins before the first record.
    pub(crate) fn new(hash: Arc<Hash>) -> Walk {
        Walk { hash, next: Some(0), records: Records::default(), given: 0, leased: Vec::new() }
    }

    /// How large the next stretch may be.
    fn extent(&mut self) -> Extent {
        while self.leased.len() < SLABS {
            match self.hash.room.memory.lease(Component::Windows, Size::Slab) {
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

    fn load(&mut self, first: u64) -> Result<()> {
        self.given = 0;
        let extent = self.extent();
        let stretch = self.hash.stretch(first, extent);
        while !self.hash.collect(&stretch, &mut self.records)? {}
        self.next = stretch.end().checked_add(1);
        self.records.keep_newest();
        Ok(())
    }
}

impl engine::Walk for Walk {
    fn prepare(&mut self) -> Result<()> {
        while self.given == self.records.len()
            && let Some(first) = self.next.take()
        {
            self.load(first).inspect_err(|error| {
                self.records.clear();
                // After other errors there is no next one.
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

impl Hash {
    /// The stretch that begins with a hash: some buckets, or a part of them if the runs have much there.
    fn stretch(&self, first: u64, Extent { buckets, blocks }: Extent) -> Hashes {
        let mut last = self.table.last_of(first, buckets, &self.domain.pin());
        let runs = self.cold.runs();
        while last > first && runs.blocks_of(&(first..=last)) > blocks {
            last = first + (last - first) / 2;
        }
        first..=last
    }

    /// Collects what there is of a stretch. False if a truncation has passed some of it.
    fn collect(&self, stretch: &Hashes, records: &mut Records) -> Result<bool> {
        records.clear();
        let whole = self.collect_chains(stretch, records)?;
        if whole {
            // Later than BEGIN of the chains: what has left the log before that is here (invariant 22).
            self.collect_runs(&self.cold.runs(), stretch, records)?;
        }
        Ok(whole)
    }
}
