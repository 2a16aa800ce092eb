//! All runs of a keyspace: the partitions of the hashes, each with its base, and the deltas that they share. An
//! immutable value, replaced as a whole.

use std::{
    iter,
    ops::{Deref, Range, RangeInclusive},
    sync::Arc,
};

use ecotone_substrate::{Error, Result, bug, environment::Environment, memory::Memory, table::Name};

use super::{cursor::HashOf, deltas::Deltas, partition::Partition, run::Run, stretch::Stretch, tags::Tags};

/// A stretch of the hashes, and the base that has its records, if there are any.
pub type Part<B> = (Stretch, Option<B>);

/// All runs of a keyspace.
#[derive(Debug, Clone)]
pub struct Runs {
    /// Of the smallest partitions.
    bits: u8,
    /// The partition of each number that so many bits can be. One with fewer bits of its own stands here more than
    /// once.
    directory: Box<[Arc<Partition>]>,
    deltas: Arc<Deltas>,
}

impl Default for Runs {
    /// No runs, in one partition.
    fn default() -> Runs {
        Runs::of(vec![Arc::new(Partition::new(Stretch::ALL, None, 0))], Arc::default())
    }
}

impl Runs {
    /// Opens the runs of a keyspace, of which headers and fences are read: its deltas, oldest first, and for each
    /// partition its base and the address up to which it is folded. The partitions have all hashes, in order.
    ///
    /// # Errors
    /// If a run is damaged where that is looked at or cannot be read, or memory is wanting.
    ///
    /// # Panics
    /// If deltas or partitions do not follow each other.
    pub fn open(environment: &Environment, deltas: &[Name], partitions: &[(Part<Name>, u64)]) -> Result<Runs> {
        let open = |name: &Name| Run::open(environment, *name).map(Arc::new);
        let runs: Result<Vec<_>> = deltas.iter().map(open).collect();
        let deltas = Arc::new(runs?.into_iter().fold(Deltas::default(), |deltas, run| deltas.with(run).0));
        let partition = |((stretch, base), folded): &(Part<Name>, u64)| {
            let base = base.as_ref().map(open).transpose()?;
            Ok(Arc::new(Partition::new(*stretch, base, *folded).over(environment, deltas.clone())))
        };
        let partitions: Result<Vec<_>> = partitions.iter().map(partition).collect();
        Ok(Runs::of(partitions?, deltas))
    }

    /// # Panics
    /// If the partitions are not in order, or not all of them.
    fn of(partitions: Vec<Arc<Partition>>, deltas: Arc<Deltas>) -> Runs {
        let bits = partitions.iter().map(|partition| partition.stretch().bits()).max().unwrap_or(0);
        let mut directory = Vec::with_capacity(1 << bits);
        for partition in partitions {
            let stretch = partition.stretch();
            let times = 1 << (bits - stretch.bits());
            assert_eq!(directory.len(), usize::from(stretch.number()) * times, "the partitions follow each other");
            directory.extend(iter::repeat_n(partition, times));
        }
        assert_eq!(directory.len(), 1 << bits, "the partitions have all hashes");
        Runs { bits, directory: directory.into(), deltas }
    }

    /// The partition that has a hash.
    #[inline]
    pub fn partition(&self, hash: u64) -> &Arc<Partition> {
        &self.directory[hash.checked_shr(u64::BITS - u32::from(self.bits)).unwrap_or(0) as usize]
    }

    /// All partitions, in the order of their hashes.
    pub fn partitions(&self) -> impl Iterator<Item = &Arc<Partition>> {
        let mut at = 0;
        iter::from_fn(move || {
            let partition = self.directory.get(at)?;
            at += 1 << (self.bits - partition.stretch().bits());
            Some(partition)
        })
    }

    /// The partitions that have some of these hashes, in their order, each with those that it has.
    pub fn partitions_of(
        &self,
        hashes: &RangeInclusive<u64>,
    ) -> impl Iterator<Item = (&Arc<Partition>, RangeInclusive<u64>)> {
        self.partitions().filter_map(|partition| {
            let its = partition.stretch().hashes();
            let (first, last) = (*its.start().max(hashes.start()), *its.end().min(hashes.end()));
            (first <= last).then_some((partition, first..=last))
        })
    }

    /// Blocks that runs have of these hashes, less one for each run, since the outer ones have others too.
    pub fn blocks_of(&self, hashes: &RangeInclusive<u64>) -> usize {
        let blocks = |(partition, hashes): (&Arc<Partition>, RangeInclusive<u64>)| -> usize {
            partition.runs().map(|run| run.blocks_of(&hashes).len().saturating_sub(1)).sum()
        };
        self.partitions_of(hashes).map(blocks).sum()
    }

    /// The deltas, of which not all may count everywhere.
    pub fn deltas(&self) -> &Deltas {
        &self.deltas
    }

    /// Bytes of the blocks of all bases.
    pub fn base_bytes(&self) -> u64 {
        self.partitions().filter_map(|partition| partition.base()).map(|base| base.bytes()).sum()
    }

    /// Records of all bases.
    pub fn base_records(&self) -> u64 {
        self.partitions().filter_map(|partition| partition.base()).map(|base| base.records()).sum()
    }

    /// Records of all deltas, where they count.
    pub fn delta_records(&self) -> u64 {
        self.partitions().map(|partition| partition.delta_records()).sum()
    }

    /// Tombstones of all deltas, where they count, about.
    pub fn delta_tombstones(&self) -> u64 {
        let of_records = self.share_of_deltas(Run::tombstones);
        of_records(self.delta_records())
    }

    /// Bytes of memory that tell where the records of all runs are.
    pub fn index_bytes(&self) -> u64 {
        let deltas: u64 = self.deltas.runs().map(|run| run.index_bytes()).sum();
        deltas + self.partitions().map(|partition| partition.index_bytes()).sum::<u64>()
    }

    /// Bytes of the blocks of all deltas, where they count: as many of their records as are in maps.
    pub fn delta_bytes(&self) -> u64 {
        let bytes_of = self.bytes_of_deltas();
        bytes_of(self.delta_records())
    }

    /// How many bytes a number of records of deltas have of blocks.
    fn bytes_of_deltas(&self) -> impl Fn(u64) -> u64 + use<> {
        self.share_of_deltas(Run::bytes)
    }

    /// How much a number of records of deltas have of what all of them have.
    fn share_of_deltas(&self, of: fn(&Run) -> u64) -> impl Fn(u64) -> u64 + use<> {
        let sum = |number: fn(&Run) -> u64| self.deltas.runs().map(|run| number(run)).sum::<u64>();
        let (all, records) = (u128::from(sum(of)), u128::from(sum(Run::records).max(1)));
        move |count| (all * u128::from(count) / records) as u64
    }

    /// Bytes of blocks that the fold of any partition writes at most.
    pub fn largest_fold(&self) -> u64 {
        let bytes_of = self.bytes_of_deltas();
        let base = |partition: &Partition| partition.base().map_or(0, |base| base.bytes());
        self.partitions().map(|partition| base(partition) + bytes_of(partition.delta_records())).max().unwrap_or(0)
    }

    /// Reads all that counts and gives every failure to `failed`, after which it goes on with the next run. `present`
    /// is asked before each for what there is then, so that nothing is kept for long that folds and merges replace
    /// meanwhile. The number of blocks that were read.
    ///
    /// # Errors
    /// What `failed` gives back.
    pub fn check<R: Deref<Target = Runs>>(
        present: impl Fn() -> R,
        environment: &Environment,
        hash_of: &HashOf<'_>,
        failed: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<u64> {
        let (mut blocks, mut first, mut folded) = (0, Some(0), 0);
        while let Some(hash) = first {
            let runs = present();
            let partition = runs.partition(hash);
            if let Some(base) = partition.base() {
                blocks += u64::from(base.blocks());
                report(base.check(environment, hash_of), failed)?;
            }
            first = partition.stretch().hashes().end().checked_add(1);
        }
        loop {
            let runs = present();
            let Some((until, delta)) = runs.deltas.ends().find(|(until, _)| *until > folded) else { return Ok(blocks) };
            blocks += runs.check_delta(delta, environment, hash_of, failed)?;
            folded = until;
        }
    }

    fn check_delta(
        &self,
        delta: &Arc<Run>,
        environment: &Environment,
        hash_of: &HashOf<'_>,
        failed: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<u64> {
        let (mut blocks, tags) = (0, report(delta.tags(environment), failed)?);
        let counts = |partition: &&Arc<Partition>| partition.runs().any(|run| Arc::ptr_eq(&run, delta));
        for partition in self.partitions().filter(counts) {
            let stretch = partition.stretch();
            let looks_at = |block, hash| partition.looks_at(delta, block, hash);
            blocks += delta.blocks_of(&stretch.hashes()).len() as u64;
            report(delta.check_part(environment, stretch, tags.as_ref(), hash_of, &looks_at), failed)?;
        }
        Ok(blocks)
    }

    /// The deltas that are there for the hashes of a stretch no longer, and their blocks that nobody looks at any more
    /// who looks for hashes of other stretches.
    pub(super) fn superseded(&self, stretch: Stretch) -> Vec<(Arc<Run>, Range<u32>)> {
        let hashes = stretch.hashes();
        let folded = self.partition(*hashes.start()).folded();
        let (before, others): (Vec<_>, Vec<_>) =
            self.partitions().partition(|partition| partition.stretch().first() < *hashes.start());
        let behind: Vec<_> = others.into_iter().filter(|partition| !stretch.has(partition.stretch().first())).collect();
        let mut superseded = Vec::new();
        for (until, run) in self.deltas.ends().take_while(|(until, _)| *until <= folded) {
            let needs = |partition: &&&Arc<Partition>| partition.folded() < until && !bug!(PunchNeighbour);
            let blocks_of = |partition: &&Arc<Partition>| run.blocks_of(&partition.stretch().hashes());
            let mut blocks = run.blocks_of(&hashes);
            // Fences tell a little more than they need to, so partitions have blocks in common, and small ones lie in
            // one.
            if let Some(before) = before.iter().rev().find(needs) {
                blocks.start = blocks.start.max(blocks_of(before).end);
            }
            if let Some(behind) = behind.iter().find(needs) {
                blocks.end = blocks.end.min(blocks_of(behind).start);
            }
            superseded.push((run.clone(), blocks));
        }
        superseded
    }

    /// These with a younger delta.
    ///
    /// # Errors
    /// If there is no memory for the maps.
    pub fn with_delta(&self, memory: &Memory, run: Arc<Run>, tags: Tags) -> Result<Runs> {
        let (deltas, slot) = self.deltas.with(run);
        self.with_deltas(memory, deltas, &[(slot, tags)])
    }

    /// These with one delta for those at some positions, or with none for them.
    ///
    /// # Errors
    /// If there is no memory for the maps.
    pub fn with_merged(
        &self,
        memory: &Memory,
        positions: Range<usize>,
        merged: Option<(Arc<Run>, Tags)>,
    ) -> Result<Runs> {
        let (run, tags) = merged.unzip();
        let (deltas, slot) = self.deltas.merged(positions, run);
        let tags: Vec<_> = slot.zip(tags).into_iter().collect();
        self.with_deltas(memory, deltas, &tags)
    }

    /// These when one partition was folded, which becomes one or two: they have all of its deltas that end at or below
    /// address `folded`. Deltas that no partition needs any more are left out.
    pub fn with_folded(&self, environment: &Environment, parts: &[Part<Arc<Run>>], folded: u64) -> Runs {
        let comes = |stretch: &Stretch| parts.iter().any(|(part, _)| stretch.has(part.first()));
        let mut partitions: Vec<_> =
            self.partitions().filter(|partition| !comes(&partition.stretch())).cloned().collect();
        for (stretch, base) in parts {
            let fresh = Partition::new(*stretch, base.clone(), folded);
            partitions.push(Arc::new(fresh.over(environment, self.deltas.clone())));
        }
        partitions.sort_by_key(|partition| partition.stretch().first());
        Runs::of(partitions, self.deltas.clone()).without_folded()
    }

    /// These without the deltas that count nowhere.
    fn without_folded(self) -> Runs {
        let oldest = self.partitions().map(|partition| partition.folded()).min().unwrap_or(0);
        let needed = self.deltas.above(oldest);
        if needed.len() == self.deltas.len() {
            return self;
        }
        let deltas = Arc::new(needed);
        let partitions = self.partitions().map(|partition| Arc::new(partition.sharing(deltas.clone()))).collect();
        Runs::of(partitions, deltas)
    }

    fn with_deltas(&self, memory: &Memory, deltas: Deltas, tags: &[(u8, Tags)]) -> Result<Runs> {
        let (deltas, tags) = (Arc::new(deltas), tags.iter().map(|(slot, tags)| (*slot, tags)).collect::<Vec<_>>());
        let next = |partition: &Arc<Partition>| Ok(Arc::new(partition.with_deltas(memory, deltas.clone(), &tags)?));
        let partitions: Result<Vec<_>> = self.partitions().map(next).collect();
        Ok(Runs::of(partitions?, deltas.clone()))
    }
}

/// What succeeded; a failure is given away.
fn report<T>(checked: Result<T>, failed: &mut dyn FnMut(Error) -> Result<()>) -> Result<Option<T>> {
    checked.map(Some).or_else(|error| failed(error).map(|()| None))
}
