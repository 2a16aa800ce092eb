//! One partition: its base run, its visible deltas, and the delta map that says which of them may have a key. It is an
//! immutable value, replaced as a whole (hash-protocol.md, "Cold tier").

use std::{
    ops::Range,
    ptr,
    sync::{Arc, Weak},
};

use ecotone_substrate::{Result, environment::Environment, memory::Memory, storage::Block, table::Answer};

use super::{
    delta_map::{DeltaMap, Matches},
    deltas::Deltas,
    hash_range::HashRange,
    partition_map::{Ingredients, PartitionMap},
    run::Run,
    tags::Tags,
};

/// One partition.
#[derive(Debug)]
pub struct Partition {
    hash_range: HashRange,
    /// `None` if the partition has no records in a base.
    base: Option<Arc<Run>>,
    deltas: Arc<Deltas>,
    /// Deltas that end above this address are visible.
    merged_until: u64,
    /// Shared by versions of the partition with the same visible deltas.
    map: Arc<PartitionMap>,
    /// Shared by all versions of the partition since it was last merged.
    readers: Arc<()>,
}

/// A search for the newest record of a key. It holds no reference to the partition.
#[derive(Debug, Clone)]
pub struct Search {
    hash: u64,
    stage: Stage,
    /// Blocks of the current run that are still to be read.
    blocks: Range<u32>,
}

#[derive(Debug, Clone)]
enum Stage {
    /// The delta with this number in slots, and the matches after it.
    Delta(u8, Matches),
    /// A delta by its position, without a map: any may have the key.
    Any(usize),
    Base,
}

impl Search {
    /// The hash of the key.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }
}

impl Partition {
    /// A partition with this base and no deltas. Deltas that end at or below address `merged_until` will not be
    /// visible.
    ///
    /// # Panics
    /// If the base has another hash range.
    pub fn new(hash_range: HashRange, base: Option<Arc<Run>>, merged_until: u64) -> Partition {
        assert!(
            base.as_ref().is_none_or(|base| base.hash_range() == hash_range),
            "a base belongs to another partition"
        );
        let map = Arc::new(PartitionMap::made(None));
        Partition { hash_range, base, deltas: Arc::default(), merged_until, map, readers: Arc::default() }
    }

    /// The partition with these deltas, all of them new to it. The first search makes its map.
    pub(super) fn over(self, environment: &Environment, deltas: Arc<Deltas>) -> Partition {
        let next = Partition { deltas, ..self };
        let map = Arc::new(PartitionMap::to_be_made(environment, next.ingredients()));
        Partition { map, ..next }
    }

    /// The partition with other deltas. `tags` are those of the new deltas, by their numbers in slots. If the map of
    /// this version was not made, the next version makes its own when needed.
    ///
    /// # Errors
    /// If there is no memory for the map.
    ///
    /// # Panics
    /// If tags are missing, since records would be lost.
    pub fn with_deltas(&self, memory: &Memory, deltas: Arc<Deltas>, tags: &[(u8, &Tags)]) -> Result<Partition> {
        let mut next = self.sharing(deltas);
        let map = match self.map.unmade(next.ingredients()) {
            Some(unmade) => unmade,
            None => PartitionMap::made(self.next_map(memory, &next, tags)?),
        };
        next.map = Arc::new(map);
        Ok(next)
    }

    /// The map of the next version, made from the map of this one and from tags.
    fn next_map(&self, memory: &Memory, next: &Partition, tags: &[(u8, &Tags)]) -> Result<Option<DeltaMap>> {
        let ages = next.deltas.ages(self.merged_until);
        let counts = |slot: u8| ages[usize::from(slot)] > 0;
        let known = |slot, run: &Arc<Run>| self.deltas.get(slot).is_some_and(|known| Arc::ptr_eq(known, run));
        let given = |slot| tags.iter().any(|(given, _)| *given == slot);
        assert!(
            next.deltas.slots().all(|(slot, run)| !counts(slot) || known(slot, run) || given(slot)),
            "a delta is in no map"
        );
        if ages.iter().all(|age| *age == 0) {
            return Ok(None);
        }
        let tags: Vec<_> = tags.iter().copied().filter(|(slot, _)| counts(*slot)).collect();
        let before = self.map();
        let coming = || tags.iter().map(|(_, tags)| tags.count_of(self.hash_range)).sum();
        let buckets = before.map_or_else(|| self.ingredients().buckets(coming()), DeltaMap::buckets);
        DeltaMap::build(memory, self.hash_range, buckets, &ages, before, &tags).map(Some)
    }

    fn ingredients(&self) -> Ingredients<'_> {
        let base = self.base.as_ref().map_or(0, |base| base.records());
        Ingredients { hash_range: self.hash_range, deltas: &self.deltas, merged_until: self.merged_until, base }
    }

    /// The map, if it was made and any delta is visible.
    fn map(&self) -> Option<&DeltaMap> {
        self.map.get().flatten()
    }

    /// Makes the map, if that was not done yet and there is memory for it. Without a map a search reads all deltas.
    ///
    /// # Errors
    /// If tags of a delta are damaged or cannot be read.
    #[inline]
    pub fn prepare(&self) -> Result<()> {
        self.map.make(self.ingredients())
    }

    /// The partition with a list of deltas that contains all visible ones.
    pub(super) fn sharing(&self, deltas: Arc<Deltas>) -> Partition {
        let (base, map, readers) = (self.base.clone(), self.map.clone(), self.readers.clone());
        Partition { hash_range: self.hash_range, base, deltas, merged_until: self.merged_until, map, readers }
    }

    /// The hash range of the partition.
    pub fn hash_range(&self) -> HashRange {
        self.hash_range
    }

    /// The base.
    pub fn base(&self) -> Option<&Arc<Run>> {
        self.base.as_ref()
    }

    /// The address up to which the partition is merged.
    pub fn merged_until(&self) -> u64 {
        self.merged_until
    }

    /// The visible runs, from the youngest delta to the base.
    pub fn runs(&self) -> impl Iterator<Item = Arc<Run>> {
        let deltas: Vec<_> = self.deltas.above(self.merged_until).runs().rev().cloned().collect();
        deltas.into_iter().chain(self.base.clone())
    }

    /// Records of visible deltas: the slots of the map, or an estimate as long as it is not made.
    pub fn delta_records(&self) -> u64 {
        self.map.records()
    }

    /// Bytes of memory of the map and of the fences of the base.
    pub fn index_bytes(&self) -> u64 {
        self.map().map_or(0, DeltaMap::bytes) + self.base.as_ref().map_or(0, |base| base.index_bytes())
    }

    /// Alive as long as a reader may read runs that the next merge replaces.
    pub(super) fn readers(&self) -> Weak<()> {
        Arc::downgrade(&self.readers)
    }

    /// Starts a search. Without a map it reads all deltas.
    pub fn search(&self, hash: u64) -> Search {
        let blocks = 0..0;
        let any = Search { hash, stage: Stage::Any(self.deltas.len()), blocks: blocks.clone() };
        let Some(made) = self.map.get() else { return any };
        let Some(map) = made else { return self.in_base(hash) };
        let mut matches = map.matches(hash);
        match map.next(&mut matches) {
            _ if matches == Matches::All => any,
            None => self.in_base(hash),
            Some(slot) => Search { hash, blocks: self.blocks_of(slot, hash), stage: Stage::Delta(slot, matches) },
        }
    }

    /// The next block to read; `None` if the key is not here.
    pub fn next(&self, search: &mut Search) -> Option<(&Arc<Run>, u32)> {
        loop {
            if let Some(block) = search.blocks.next_back() {
                return Some((self.run(search)?, block));
            }
            *search = self.next_run(search)?;
        }
    }

    /// Whether a search for a hash that finds nothing earlier reaches this block of a run.
    pub(super) fn looks_at(&self, run: &Run, block: u32, hash: u64) -> bool {
        let mut search = self.search(hash);
        while let Some((next, number)) = self.next(&mut search) {
            if number == block && ptr::eq(&**next, run) {
                return true;
            }
        }
        false
    }

    /// Searches for a key. A value is appended to `value`; `false` if there is none.
    ///
    /// # Errors
    /// If a block, or a tag that the map is made of, is damaged or cannot be read.
    pub fn find(&self, hash: u64, key: &[u8], frame: &mut Block, value: &mut Vec<u8>) -> Result<bool> {
        self.prepare()?;
        let mut search = self.search(hash);
        while let Some((run, block)) = self.next(&mut search) {
            let parsed = run.read(block, frame)?;
            if let Some(answer) = run.find_in(&parsed, block, hash, key, value)? {
                return Ok(answer == Answer::Value);
            }
        }
        Ok(false)
    }

    /// The current run of a search.
    fn run(&self, search: &Search) -> Option<&Arc<Run>> {
        match search.stage {
            Stage::Delta(slot, _) => self.deltas.get(slot),
            Stage::Any(position) => self.deltas.at(position),
            Stage::Base => self.base.as_ref(),
        }
    }

    /// The search at the beginning of the next run. `None` after the base.
    fn next_run(&self, search: &Search) -> Option<Search> {
        let hash = search.hash;
        match (&search.stage, self.map()) {
            (Stage::Delta(_, matches), Some(map)) => {
                let mut matches = matches.clone();
                let next = map.next(&mut matches);
                Some(next.map_or_else(
                    || self.in_base(hash),
                    |slot| Search { hash, blocks: self.blocks_of(slot, hash), stage: Stage::Delta(slot, matches) },
                ))
            }
            (Stage::Any(position), _) => {
                let next = self.deltas.before(*position, self.merged_until);
                Some(next.map_or_else(
                    || self.in_base(hash),
                    |(next, run)| Search { hash, blocks: run.candidates(hash), stage: Stage::Any(next) },
                ))
            }
            _ => None,
        }
    }

    fn in_base(&self, hash: u64) -> Search {
        Search { hash, stage: Stage::Base, blocks: self.base.as_ref().map_or(0..0, |base| base.candidates(hash)) }
    }

    fn blocks_of(&self, slot: u8, hash: u64) -> Range<u32> {
        self.deltas.get(slot).map_or(0..0, |run| run.candidates(hash))
    }
}
