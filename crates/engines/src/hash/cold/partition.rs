//! What there is of one partition: its base, the deltas that count, and the map that says which of them may have a key. An immutable value, replaced as a whole
//! (decision 10, "Cold tier").

use std::{ops::Range, sync::Arc};

use ecotone_substrate::{Result, memory::Memory, storage::Block};

use super::{
    delta_map::{Ages, DeltaMap, Matches, buckets_for},
    header::RunKind,
    run::{Answer, Run},
    stretch::Stretch,
    tags::Tags,
};

/// Deltas that a keyspace can have at a time.
const MAX_DELTAS: usize = 255;

/// A delta by the number that it has in the slots of delta maps.
#[derive(Debug, Clone)]
struct Delta {
    slot: u8,
    run: Arc<Run>,
    until: u64,
}

/// The deltas of a keyspace, oldest first. All partitions share them.
#[derive(Debug, Clone, Default)]
pub struct Deltas {
    list: Vec<Delta>,
}

impl Deltas {
    /// These and a younger one, and the number of that in slots.
    ///
    /// # Panics
    /// If the run is no delta, or there are 255 already.
    pub fn with(&self, run: Arc<Run>) -> (Deltas, u8) {
        let RunKind::Delta { from, until } = run.kind() else { panic!("a base is no delta") };
        let newest = self.list.last();
        assert!(newest.is_none_or(|newest| newest.until <= from), "deltas follow each other");
        assert!(self.list.len() < MAX_DELTAS, "there are too many deltas");
        let mut slot = newest.map_or(0, |newest| newest.slot.wrapping_add(1));
        while self.get(slot).is_some() {
            slot = slot.wrapping_add(1);
        }
        let mut list = self.list.clone();
        list.push(Delta { slot, run, until });
        (Deltas { list }, slot)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn get(&self, slot: u8) -> Option<&Delta> {
        self.list.iter().find(|delta| delta.slot == slot)
    }

    /// The ages of those with records above address `folded`.
    fn ages(&self, folded: u64) -> Ages {
        let mut ages = [0; 256];
        for (age, delta) in (1..=u8::MAX).zip(&self.list).filter(|(_, delta)| delta.until > folded) {
            ages[usize::from(delta.slot)] = age;
        }
        ages
    }
}

/// One partition.
#[derive(Debug)]
pub struct Partition {
    stretch: Stretch,
    /// None, one, or one for each half.
    bases: Vec<Arc<Run>>,
    deltas: Arc<Deltas>,
    /// Deltas that end above this address count.
    folded: u64,
    /// `None` if no delta counts.
    map: Option<DeltaMap>,
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

impl Partition {
    /// With these bases, and no deltas yet.
    ///
    /// # Panics
    /// If a base is of another stretch.
    pub fn new(stretch: Stretch, bases: Vec<Arc<Run>>, folded: u64) -> Partition {
        let within = |base: &Arc<Run>| stretch.has(base.stretch().first()) && stretch.has(base.stretch().last());
        assert!(bases.iter().all(within), "a base belongs to another partition");
        Partition { stretch, bases, deltas: Arc::default(), folded, map: None }
    }

    /// This one with other deltas: `tags` are of those that it has not had, by their numbers in slots.
    ///
    /// # Errors
    /// If there is no memory for the map.
    pub fn with_deltas(&self, memory: &Memory, deltas: Arc<Deltas>, tags: &[(u8, &Tags)]) -> Result<Partition> {
        let (bases, before) = (self.bases.clone(), self.map.as_ref());
        Self::make(memory, Partition { stretch: self.stretch, bases, deltas, folded: self.folded, map: None }, before, tags)
    }

    /// This one after a fold: with new bases, which have all of the deltas that end at or below address `folded`.
    ///
    /// # Errors
    /// If there is no memory for the map.
    ///
    /// # Panics
    /// If a base is of another stretch.
    pub fn after_fold(&self, memory: &Memory, bases: Vec<Arc<Run>>, folded: u64) -> Result<Partition> {
        let next = Partition { deltas: self.deltas.clone(), ..Self::new(self.stretch, bases, folded) };
        Self::make(memory, next, self.map.as_ref(), &[])
    }

    fn make(memory: &Memory, mut next: Partition, before: Option<&DeltaMap>, tags: &[(u8, &Tags)]) -> Result<Partition> {
        let ages = next.deltas.ages(next.folded);
        if ages.iter().all(|age| *age == 0) {
            return Ok(next);
        }
        let tags: Vec<_> = tags.iter().copied().filter(|(slot, _)| ages[usize::from(*slot)] > 0).collect();
        let coming = || tags.iter().map(|(_, tags)| tags.count_of(next.stretch)).sum::<u64>();
        // A fold is due when deltas have half as much as the base.
        let expected = || coming().max(next.bases.iter().map(|base| base.records() / 2).sum());
        let buckets = before.map_or_else(|| buckets_for(expected()), DeltaMap::buckets);
        next.map = Some(DeltaMap::build(memory, next.stretch, buckets, &ages, before, &tags)?);
        Ok(next)
    }

    /// The hashes of its keys.
    pub fn stretch(&self) -> Stretch {
        self.stretch
    }

    /// Its bases.
    pub fn bases(&self) -> &[Arc<Run>] {
        &self.bases
    }

    /// Records of deltas that count: the slots of its map.
    pub fn delta_records(&self) -> u64 {
        self.map.as_ref().map_or(0, DeltaMap::len)
    }

    /// Begins a search.
    pub fn search(&self, hash: u64) -> Search {
        let blocks = 0..0;
        let Some(map) = &self.map else { return self.in_base(hash) };
        let mut matches = map.matches(hash);
        match map.next(&mut matches) {
            _ if matches == Matches::All => Search { hash, stage: Stage::Any(self.deltas.len()), blocks },
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

    /// Looks for a key. A value is appended to `value`; `false` if there is none.
    ///
    /// # Errors
    /// If a block is damaged or cannot be read.
    pub fn find(&self, hash: u64, key: &[u8], frame: &mut Block, value: &mut Vec<u8>) -> Result<bool> {
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
            Stage::Delta(slot, _) => self.deltas.get(slot).map(|delta| &delta.run),
            Stage::Any(position) => self.deltas.list.get(position).map(|delta| &delta.run),
            Stage::Base => self.base(search.hash),
        }
    }

    /// The search as it begins with the next run. `None` after the base.
    fn next_run(&self, search: &Search) -> Option<Search> {
        let hash = search.hash;
        match (&search.stage, &self.map) {
            (Stage::Delta(_, matches), Some(map)) => {
                let mut matches = matches.clone();
                let next = map.next(&mut matches);
                Some(next.map_or_else(
                    || self.in_base(hash),
                    |slot| Search { hash, blocks: self.blocks_of(slot, hash), stage: Stage::Delta(slot, matches) },
                ))
            }
            (Stage::Any(position), Some(_)) => {
                let counting = |position: &usize| self.deltas.list[*position].until > self.folded;
                let next = (0..*position).rev().find(counting);
                Some(next.map_or_else(
                    || self.in_base(hash),
                    |next| Search { hash, blocks: self.deltas.list[next].run.candidates(hash), stage: Stage::Any(next) },
                ))
            }
            _ => None,
        }
    }

    fn in_base(&self, hash: u64) -> Search {
        Search { hash, stage: Stage::Base, blocks: self.base(hash).map_or(0..0, |base| base.candidates(hash)) }
    }

    fn base(&self, hash: u64) -> Option<&Arc<Run>> {
        self.bases.iter().find(|base| base.stretch().has(hash))
    }

    fn blocks_of(&self, slot: u8, hash: u64) -> Range<u32> {
        self.deltas.get(slot).map_or(0..0, |delta| delta.run.candidates(hash))
    }
}
