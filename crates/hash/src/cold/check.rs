//! A full check of a run, or of its records in one partition.

use std::{ops::Range, result};

use ecotone_substrate::{Error, Result, codec::Malformed, environment::Environment, memory::Component};
use ecotone_sys::chunk::Size;

use super::{
    block::{Block, Entry},
    cursor::HashOf,
    hash_range::HashRange,
    header::RunKind,
    run::Run,
    tags::{self, Tags},
};

impl Run {
    /// Reads the whole run and checks everything that a search does not.
    ///
    /// # Errors
    /// The first damage that is found; if there is no memory for the tags.
    pub fn check(&self, environment: &Environment, hash_of: &HashOf<'_>) -> Result<()> {
        let tags = self.tags(environment)?;
        let looks_at = |block, hash| self.candidates(hash).contains(&block);
        let seen = self.check_part(environment, self.hash_range(), Some(&tags), hash_of, &looks_at)?;
        if seen == (self.records(), self.tombstones()) { Ok(()) } else { Err(self.miscounted()) }
    }

    /// Checks the records of a hash range, since blocks of other ranges may have been punched. `tags`, if known, are
    /// the tags of all records. `looks_at` tells whether a search for a hash reaches a block. Returns the number of
    /// records and of tombstones.
    ///
    /// # Errors
    /// The first damage that is met.
    pub fn check_part(
        &self,
        environment: &Environment,
        hash_range: HashRange,
        tags: Option<&Tags>,
        hash_of: &HashOf<'_>,
        looks_at: &dyn Fn(u32, u64) -> bool,
    ) -> Result<(u64, u64)> {
        let mut frame = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
        let tags = tags.filter(|_| self.is_delta()).map(|tags| (tags, tags.of(hash_range)));
        let mut check =
            Check { run: self, hash_range, hash_of, looks_at, tags, records: 0, tombstones: 0, last: (0, Vec::new()) };
        for block in self.blocks_of(&hash_range.hashes()) {
            let parsed = self.read(block, &mut frame)?;
            parsed
                .check(hash_of)
                .and_then(|()| check.block(block, &parsed))
                .map_err(|malformed| self.damaged(block, malformed))?;
        }
        if check.tags.is_some_and(|(_, left)| !left.is_empty()) {
            return Err(self.miscounted());
        }
        Ok((check.records, check.tombstones))
    }

    fn is_delta(&self) -> bool {
        matches!(self.kind(), RunKind::Delta { .. })
    }

    fn miscounted(&self) -> Error {
        Error::corruption(self.name().file(), 72, "the run has other numbers of records than its header says")
    }
}

/// The state of a check.
struct Check<'r> {
    run: &'r Run,
    hash_range: HashRange,
    hash_of: &'r HashOf<'r>,
    looks_at: &'r dyn Fn(u32, u64) -> bool,
    /// The tags of a delta, and the range of those of records to come.
    tags: Option<(&'r Tags, Range<u64>)>,
    records: u64,
    tombstones: u64,
    /// Hash and key of the last record.
    last: (u64, Vec<u8>),
}

impl Check<'_> {
    /// Checks the next block.
    fn block(&mut self, number: u32, block: &Block<'_>) -> result::Result<(), Malformed> {
        block.entries().try_for_each(|entry| self.entry(number, entry?))
    }

    fn entry(&mut self, block: u32, entry: Entry<'_>) -> result::Result<(), Malformed> {
        let fail = |what| Err(Malformed::new(0, what));
        let hash = (self.hash_of)(entry.key);
        if (self.last.0, &*self.last.1) >= (hash, entry.key) {
            return fail("the records of the run are out of order");
        }
        if !self.run.hash_range().has(hash) || (entry.value.is_none() && !self.run.is_delta()) {
            return fail("a record does not belong into this run");
        }
        if !self.hash_range.has(hash) {
            return Ok(());
        }
        if let Some((tags, left)) = &mut self.tags
            && left.next().is_none_or(|number| tags.get(number) != tags::upper(hash))
        {
            return fail("a tag is not that of its record");
        }
        if !(self.looks_at)(block, hash) {
            return fail("no search comes to a record: what the index in memory says of its hash is wrong");
        }
        self.records += 1;
        self.tombstones += u64::from(entry.value.is_none());
        self.last = (hash, entry.key.to_vec());
        Ok(())
    }
}
