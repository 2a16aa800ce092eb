//! A full check of a run, or of what it has of one partition.

use std::{ops::Range, result};

use ecotone_substrate::{Error, Result, codec::Malformed, environment::Environment, memory::Component, storage};
use ecotone_sys::chunk::Size;

use super::{
    block::{Block, Entry},
    cursor::HashOf,
    header::RunKind,
    run::Run,
    stretch::Stretch,
    tags::{self, TAGS},
};

impl Run {
    /// Reads all of it and checks all that is left out otherwise.
    ///
    /// # Errors
    /// The first damage that is met; if there is no memory for the tags.
    pub fn check(&self, environment: &Environment, hash_of: &HashOf<'_>) -> Result<()> {
        self.tags(environment)?;
        let seen = self.check_part(environment, self.stretch(), hash_of)?;
        if seen != (self.records(), self.tombstones()) {
            return Err(Error::corruption(self.name().file(), 72, "the run has other numbers of records than its header says"));
        }
        Ok(())
    }

    /// The same for the records of a stretch, where those of others may be gone. How many it has, and how many of them are tombstones.
    ///
    /// # Errors
    /// The first damage that is met.
    pub fn check_part(&self, environment: &Environment, stretch: Stretch, hash_of: &HashOf<'_>) -> Result<(u64, u64)> {
        let lease = || environment.memory.lease_essential(Component::Frames, Size::Frame);
        let mut frame = lease()?;
        let tags = match self.kind() {
            RunKind::Base(_) => None,
            RunKind::Delta { .. } => Some(TagsOf::new(self, stretch, lease()?)?),
        };
        let mut check = Check { run: self, stretch, hash_of, tags, records: 0, tombstones: 0, last: (0, Vec::new()) };
        for block in self.blocks_of(&stretch.hashes()) {
            let parsed = self.read(block, &mut frame)?;
            parsed.check(hash_of).map_err(|malformed| self.damaged(block, malformed))?;
            check.block(block, &parsed)?;
        }
        if check.tags.is_some_and(|tags| !tags.left.is_empty()) {
            return Err(self.tags_damaged("there are more tags than records"));
        }
        Ok((check.records, check.tombstones))
    }
}

/// What a check has seen.
struct Check<'r> {
    run: &'r Run,
    stretch: Stretch,
    hash_of: &'r HashOf<'r>,
    /// `None` in a base.
    tags: Option<TagsOf<'r>>,
    records: u64,
    tombstones: u64,
    /// Hash and key of the last record.
    last: (u64, Vec<u8>),
}

impl Check<'_> {
    /// Goes on with the next block.
    fn block(&mut self, number: u32, block: &Block<'_>) -> Result<()> {
        for entry in block.entries() {
            let placed = entry.and_then(|entry| Ok((self.place(entry)?, entry)));
            let (hash, entry) = placed.map_err(|malformed| self.run.damaged(number, malformed))?;
            if self.stretch.has(hash) {
                self.record(hash, entry)?;
            }
        }
        Ok(())
    }

    /// The hash of a record, if it may be in this run and behind the last one.
    fn place(&self, entry: Entry<'_>) -> result::Result<u64, Malformed> {
        let hash = (self.hash_of)(entry.key);
        if (self.last.0, &*self.last.1) >= (hash, entry.key) {
            return Err(Malformed::new(0, "the records of the run are out of order"));
        }
        if !self.run.stretch().has(hash) || (entry.value.is_none() && self.tags.is_none()) {
            return Err(Malformed::new(0, "a record does not belong into this run"));
        }
        Ok(hash)
    }

    fn record(&mut self, hash: u64, entry: Entry<'_>) -> Result<()> {
        if let Some(tags) = &mut self.tags
            && tags.next()? != Some(tags::upper(hash))
        {
            return Err(self.run.tags_damaged("a tag is not that of its record"));
        }
        self.records += 1;
        self.tombstones += u64::from(entry.value.is_none());
        self.last = (hash, entry.key.to_vec());
        Ok(())
    }
}

/// The tags of a delta for one stretch, of which a page is in memory.
struct TagsOf<'r> {
    run: &'r Run,
    frame: storage::Block,
    page: Option<u64>,
    left: Range<u64>,
}

impl TagsOf<'_> {
    fn new(run: &Run, stretch: Stretch, frame: storage::Block) -> Result<TagsOf<'_>> {
        let mut tags = TagsOf { run, frame, page: None, left: 0..0 };
        tags.left = tags::range_of(stretch, run.records(), |number| tags.get(number))?;
        Ok(tags)
    }

    fn next(&mut self) -> Result<Option<u64>> {
        self.left.next().map(|number| self.get(number)).transpose()
    }

    /// The tag of a number, as [`Tags::get`](tags::Tags::get) gives it.
    fn get(&mut self, number: u64) -> Result<u64> {
        let page = number / TAGS;
        if self.page != Some(page) {
            self.page = None;
            self.run.read_tags(page, &mut self.frame)?;
            self.page = Some(page);
        }
        Ok(tags::decode(&self.frame, number % TAGS))
    }
}
