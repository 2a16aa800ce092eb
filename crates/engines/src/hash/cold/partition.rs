//! What there is of one partition: its base, the deltas that count, and the map that says which of them may have a key.
//! An immutable value, replaced as a whole (decision 10, "Cold tier").

use std::{
    ops::Range,
    ptr,
    sync::{Arc, Weak},
};

use ecotone_substrate::{Result, environment::Environment, memory::Memory, storage::Block, table::Answer};

use super::{
    delta_map::{DeltaMap, Matches},
    deltas::Deltas,
    partition_map::{Ingredients, PartitionMap},
    run::Run,
    stretch::Stretch,
    tags::Tags,
};

/// One partition.
#[derive(Debug)]
pub struct Partition {
    stretch: Stretch,
    /// `None` where no record was left.
    base: Option<Arc<Run>>,
    deltas: Arc<Deltas>,
    /// Deltas that end above this address count.
    folded: u64,
    /// Shared by values to which the same deltas count.
    map: Arc<PartitionMap>,
    /// Shared by all values of the partition since it was folded.
    readers: Arc<()>,
}

/// A search for the newest record of a key. It holds nothing of the partition.
#[derive(Debug, Clone)]
pub struct Search {
    hash: u64,
    stage: Stage,
    /// Blocks of the present run that are still to be looked at.
    blocks: Range<u32>,
}

#[derive(Debug, Clone)]
enum Stage {
    /// The delta with this number in slots, and who comes after it.
    Delta(u8, Matches),
    /// One by its position, since any may have the key.
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
    /// With this base, and no deltas yet: those that end at or below address `folded` will not count.
    ///
    /// # Panics
    /// If the base is of another stretch.
    pub fn new(stretch: Stretch, base: Option<Arc<Run>>, folded: u64) -> Partition {
        assert!(base.as_ref().is_none_or(|base| base.stretch() == stretch), "a base belongs to another partition");
        let map = Arc::new(PartitionMap::made(None));
        Partition { stretch, base, deltas: Arc::default(), folded, map, readers: Arc::default() }
    }

    /// This one with these deltas, of which it has had none. Its map is made by the first search.
    pub(super) fn over(self, environment: &Environment, deltas: Arc<Deltas>) -> Partition {
        let next = Partition { deltas, ..self };
        let map = Arc::new(PartitionMap::to_be_made(environment, next.ingredients()));
        Partition { map, ..next }
    }

    /// This one with other deltas: `tags` are of those that it has not had, by their numbers in slots. If its map was
    /// not made, that of the next one is not.
    ///
    /// # Errors
    /// If there is no memory for the map.
    ///
    /// # Panics
    /// If tags are missing: records would be.
    pub fn with_deltas(&self, memory: &Memory, deltas: Arc<Deltas>, tags: &[(u8, &Tags)]) -> Result<Partition> {
        let mut next = self.sharing(deltas);
        let map = match self.map.unmade(next.ingredients()) {
            Some(unmade) => unmade,
            None => PartitionMap::made(self.next_map(memory, &next, tags)?),
        };
        next.map = Arc::new(map);
        Ok(next)
    }

    /// The map of this partition with other deltas, made of that which this one has and of tags.
    fn next_map(&self, memory: &Memory, next: &Partition, tags: &[(u8, &Tags)]) -> Result<Option<DeltaMap>> {
        let ages = next.deltas.ages(self.folded);
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
        let coming = || tags.iter().map(|(_, tags)| tags.count_of(self.stretch)).sum();
        let buckets = before.map_or_else(|| self.ingredients().buckets(coming()), DeltaMap::buckets);
        DeltaMap::build(memory, self.stretch, buckets, &ages, before, &tags).map(Some)
    }

    fn ingredients(&self) -> Ingredients<'_> {
        let base = self.base.as_ref().map_or(0, |base| base.records());
        Ingredients { stretch: self.stretch, deltas: &self.deltas, folded: self.folded, base }
    }

    /// The map, if it was made and any delta counts.
    fn map(&self) -> Option<&DeltaMap> {
        self.map.get().flatten()
    }

    /// Makes the map, if that was not done yet and there is memory for it. Without it a search looks at all deltas.
    ///
    /// # Errors
    /// If tags of a delta are damaged or cannot be read.
    #[inline]
    pub fn prepare(&self) -> Result<()> {
        self.map.make(self.ingredients())
    }

    /// This one with a list of deltas from which none is missing that counts here.
    pub(super) fn sharing(&self, deltas: Arc<Deltas>) -> Partition {
        let (base, map, readers) = (self.base.clone(), self.map.clone(), self.readers.clone());
        Partition { stretch: self.stretch, base, deltas, folded: self.folded, map, readers }
    }

    /// The hashes of its keys.
    pub fn stretch(&self) -> Stretch {
        self.stretch
    }

    /// Its base.
    pub fn base(&self) -> Option<&Arc<Run>> {
        self.base.as_ref()
    }

    /// The address up to which it is folded.
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Its runs that count, from the youngest delta to the base.
    pub fn runs(&self) -> impl Iterator<Item = Arc<Run>> {
        let deltas: Vec<_> = self.deltas.above(self.folded).runs().rev().cloned().collect();
        deltas.into_iter().chain(self.base.clone())
    }

    /// Records of deltas that count: the slots of its map, or how many it should have, as long as it is not made.
    pub fn delta_records(&self) -> u64 {
        self.map.records()
    }

    /// Bytes of memory of its map, and of the fences of its base.
    pub fn index_bytes(&self) -> u64 {
        self.map().map_or(0, DeltaMap::bytes) + self.base.as_ref().map_or(0, |base| base.index_bytes())
    }

    /// Alive as long as somebody may read what was to be read before the next fold.
    pub(super) fn readers(&self) -> Weak<()> {
        Arc::downgrade(&self.readers)
    }

    /// Begins a search. Without a map it will look at all deltas.
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

    /// The next block to look at; `None` if the key is not here.
    pub fn next(&self, search: &mut Search) -> Option<(&Arc<Run>, u32)> {
        loop {
            if let Some(block) = search.blocks.next_back() {
                return Some((self.run(search)?, block));
            }
            *search = self.next_run(search)?;
        }
    }

    /// Whether a search for a hash that finds nothing before comes to this block of a run.
    pub(super) fn looks_at(&self, run: &Run, block: u32, hash: u64) -> bool {
        let mut search = self.search(hash);
        while let Some((next, number)) = self.next(&mut search) {
            if number == block && ptr::eq(&**next, run) {
                return true;
            }
        }
        false
    }

    /// Looks for a key. A value is appended to `value`; `false` if there is none.
    ///
    /// # Errors
    /// If a block, or what the map is made of, is damaged or cannot be read.
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

    /// The run that a search is in.
    fn run(&self, search: &Search) -> Option<&Arc<Run>> {
        match search.stage {
            Stage::Delta(slot, _) => self.deltas.get(slot),
            Stage::Any(position) => self.deltas.at(position),
            Stage::Base => self.base.as_ref(),
        }
    }

    /// The search as it begins with the next run. `None` after the base.
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
                let next = self.deltas.before(*position, self.folded);
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
