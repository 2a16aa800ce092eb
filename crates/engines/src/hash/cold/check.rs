//! A full check of a run, or of what it has of one partition.

use std::{ops::Range, result};

use ecotone_substrate::{Error, Result, codec::Malformed, environment::Environment, memory::Component};
use ecotone_sys::chunk::Size;

use super::{
    block::{Block, Entry},
    cursor::HashOf,
    header::RunKind,
    run::Run,
    stretch::Stretch,
    tags::{self, Tags},
};

impl Run {
    /// Reads all of it and checks all that is left out otherwise.
    ///
    /// # Errors
    /// The first damage that is met; if there is no memory for the tags.
    pub fn check(&self, environment: &Environment, hash_of: &HashOf<'_>) -> Result<()> {
        let tags = self.tags(environment)?;
        let looks_at = |block, hash| self.candidates(hash).contains(&block);
        let seen = self.check_part(environment, self.stretch(), Some(&tags), hash_of, &looks_at)?;
        if seen == (self.records(), self.tombstones()) { Ok(()) } else { Err(self.miscounted()) }
    }

    /// The same for the records of a stretch, where those of others may be gone, beside the tags of all if these are
    /// known. `looks_at` tells whether a search for a hash comes to a block. How many records it has, and how many of
    /// them are tombstones.
    ///
    /// # Errors
    /// The first damage that is met.
    pub fn check_part(
        &self,
        environment: &Environment,
        stretch: Stretch,
        tags: Option<&Tags>,
        hash_of: &HashOf<'_>,
        looks_at: &dyn Fn(u32, u64) -> bool,
    ) -> Result<(u64, u64)> {
        let mut frame = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
        let tags = tags.filter(|_| self.is_delta()).map(|tags| (tags, tags.of(stretch)));
        let mut check =
            Check { run: self, stretch, hash_of, looks_at, tags, records: 0, tombstones: 0, last: (0, Vec::new()) };
        for block in self.blocks_of(&stretch.hashes()) {
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

/// What a check has seen.
struct Check<'r> {
    run: &'r Run,
    stretch: Stretch,
    hash_of: &'r HashOf<'r>,
    looks_at: &'r dyn Fn(u32, u64) -> bool,
    /// Those of a delta, and which of them are of records to come.
    tags: Option<(&'r Tags, Range<u64>)>,
    records: u64,
    tombstones: u64,
    /// Hash and key of the last record.
    last: (u64, Vec<u8>),
}

impl Check<'_> {
    /// Goes on with the next block.
    fn block(&mut self, number: u32, block: &Block<'_>) -> result::Result<(), Malformed> {
        block.entries().try_for_each(|entry| self.entry(number, entry?))
    }

    fn entry(&mut self, block: u32, entry: Entry<'_>) -> result::Result<(), Malformed> {
        let fail = |what| Err(Malformed::new(0, what));
        let hash = (self.hash_of)(entry.key);
        if (self.last.0, &*self.last.1) >= (hash, entry.key) {
            return fail("the records of the run are out of order");
        }
        if !self.run.stretch().has(hash) || (entry.value.is_none() && !self.run.is_delta()) {
            return fail("a record does not belong into this run");
        }
        if !self.stretch.has(hash) {
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
