//! All runs of a keyspace: its partitions by hash range, each with its base, and the deltas that they share. It is an
//! immutable value, replaced as a whole.

use std::{
    iter,
    ops::{Deref, Range, RangeInclusive},
    sync::Arc,
};

use ecotone_substrate::{Error, Result, bug, environment::Environment, memory::Memory, table::FileIdentity};

use super::{cursor::HashOf, deltas::Deltas, hash_range::HashRange, partition::Partition, run::Run, tags::Tags};

/// A hash range, and the base that has its records, if there are any.
pub type PartitionSpec<B> = (HashRange, Option<B>);

/// All runs of a keyspace.
#[derive(Debug, Clone)]
pub struct Runs {
    /// Number of common bits of the smallest partitions.
    bits: u8,
    /// The partition of each prefix of `bits` bits. A partition with fewer bits is listed more than once.
    directory: Box<[Arc<Partition>]>,
    deltas: Arc<Deltas>,
}

impl Default for Runs {
    /// No runs, in one partition.
    fn default() -> Runs {
        Runs::of(vec![Arc::new(Partition::new(HashRange::ALL, None, 0))], Arc::default())
    }
}

impl Runs {
    /// Opens the runs of a keyspace and reads headers and fences: its deltas, oldest first, and for each partition its
    /// base and the address up to which it is merged. The partitions have all hashes, in order.
    ///
    /// # Errors
    /// If a run is damaged where it is read or cannot be read, or memory is lacking.
    ///
    /// # Panics
    /// If deltas or partitions do not follow each other.
    pub fn open(
        environment: &Environment,
        deltas: &[FileIdentity],
        partitions: &[(PartitionSpec<FileIdentity>, u64)],
    ) -> Result<Runs> {
        let open = |name: &FileIdentity| Run::open(environment, *name).map(Arc::new);
        let runs: Result<Vec<_>> = deltas.iter().map(open).collect();
        let deltas = Arc::new(runs?.into_iter().fold(Deltas::default(), |deltas, run| deltas.with(run).0));
        let partition = |((hash_range, base), merged_until): &(PartitionSpec<FileIdentity>, u64)| {
            let base = base.as_ref().map(open).transpose()?;
            Ok(Arc::new(Partition::new(*hash_range, base, *merged_until).over(environment, deltas.clone())))
        };
        let partitions: Result<Vec<_>> = partitions.iter().map(partition).collect();
        Ok(Runs::of(partitions?, deltas))
    }

    /// # Panics
    /// If the partitions are not in order, or not all of them.
    fn of(partitions: Vec<Arc<Partition>>, deltas: Arc<Deltas>) -> Runs {
        let bits = partitions.iter().map(|partition| partition.hash_range().bits()).max().unwrap_or(0);
        let mut directory = Vec::with_capacity(1 << bits);
        for partition in partitions {
            let hash_range = partition.hash_range();
            let times = 1 << (bits - hash_range.bits());
            assert_eq!(directory.len(), usize::from(hash_range.number()) * times, "the partitions follow each other");
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
            at += 1 << (self.bits - partition.hash_range().bits());
            Some(partition)
        })
    }

    /// The partitions that overlap a range of hashes, in order, each with its part of the range.
    pub fn partitions_of(
        &self,
        hashes: &RangeInclusive<u64>,
    ) -> impl Iterator<Item = (&Arc<Partition>, RangeInclusive<u64>)> {
        self.partitions().filter_map(|partition| {
            let its = partition.hash_range().hashes();
            let (first, last) = (*its.start().max(hashes.start()), *its.end().min(hashes.end()));
            (first <= last).then_some((partition, first..=last))
        })
    }

    /// Blocks of these hashes in all runs, less one for each run, since the outer blocks have other hashes too.
    pub fn blocks_of(&self, hashes: &RangeInclusive<u64>) -> usize {
        let blocks = |(partition, hashes): (&Arc<Partition>, RangeInclusive<u64>)| -> usize {
            partition.runs().map(|run| run.blocks_of(&hashes).len().saturating_sub(1)).sum()
        };
        self.partitions_of(hashes).map(blocks).sum()
    }

    /// The deltas. Not all are visible in every partition.
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

    /// Records of all deltas where they are visible.
    pub fn delta_records(&self) -> u64 {
        self.partitions().map(|partition| partition.delta_records()).sum()
    }

    /// Estimated tombstones of all deltas where they are visible.
    pub fn delta_tombstones(&self) -> u64 {
        let of_records = self.share_of_deltas(Run::tombstones);
        of_records(self.delta_records())
    }

    /// Bytes of memory of the index of all runs.
    pub fn index_bytes(&self) -> u64 {
        let deltas: u64 = self.deltas.runs().map(|run| run.index_bytes()).sum();
        deltas + self.partitions().map(|partition| partition.index_bytes()).sum::<u64>()
    }

    /// Bytes of the blocks of all deltas where they are visible: in proportion to their records in maps.
    pub fn delta_bytes(&self) -> u64 {
        let bytes_of = self.bytes_of_deltas();
        bytes_of(self.delta_records())
    }

    /// Converts a number of delta records into bytes of blocks.
    fn bytes_of_deltas(&self) -> impl Fn(u64) -> u64 + use<> {
        self.share_of_deltas(Run::bytes)
    }

    /// Converts a number of delta records into their share of a sum over all deltas.
    fn share_of_deltas(&self, of: fn(&Run) -> u64) -> impl Fn(u64) -> u64 + use<> {
        let sum = |number: fn(&Run) -> u64| self.deltas.runs().map(|run| number(run)).sum::<u64>();
        let (all, records) = (u128::from(sum(of)), u128::from(sum(Run::records).max(1)));
        move |count| (all * u128::from(count) / records) as u64
    }

    /// Maximum bytes of blocks that a merge of one partition into its base writes.
    pub fn largest_base_merge(&self) -> u64 {
        let bytes_of = self.bytes_of_deltas();
        let base = |partition: &Partition| partition.base().map_or(0, |base| base.bytes());
        self.partitions().map(|partition| base(partition) + bytes_of(partition.delta_records())).max().unwrap_or(0)
    }

    /// Reads all visible data and passes every failure to `failed`, then continues with the next run. `present` is
    /// called before each run for the current runs, so that runs replaced meanwhile are not kept for long. Returns the
    /// number of blocks read.
    ///
    /// # Errors
    /// Errors of `failed`.
    pub fn check<R: Deref<Target = Runs>>(
        present: impl Fn() -> R,
        environment: &Environment,
        hash_of: &HashOf<'_>,
        failed: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<u64> {
        let (mut blocks, mut first, mut merged_until) = (0, Some(0), 0);
        while let Some(hash) = first {
            let runs = present();
            let partition = runs.partition(hash);
            if let Some(base) = partition.base() {
                blocks += u64::from(base.blocks());
                report(base.check(environment, hash_of), failed)?;
            }
            first = partition.hash_range().hashes().end().checked_add(1);
        }
        loop {
            let runs = present();
            let Some((until, delta)) = runs.deltas.ends().find(|(until, _)| *until > merged_until) else {
                return Ok(blocks);
            };
            blocks += runs.check_delta(delta, environment, hash_of, failed)?;
            merged_until = until;
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
            let hash_range = partition.hash_range();
            let looks_at = |block, hash| partition.looks_at(delta, block, hash);
            blocks += delta.blocks_of(&hash_range.hashes()).len() as u64;
            report(delta.check_part(environment, hash_range, tags.as_ref(), hash_of, &looks_at), failed)?;
        }
        Ok(blocks)
    }

    /// The deltas that are superseded in a hash range, and their blocks that no search for other hashes reads any more.
    pub(super) fn superseded(&self, hash_range: HashRange) -> Vec<(Arc<Run>, Range<u32>)> {
        let hashes = hash_range.hashes();
        let merged_until = self.partition(*hashes.start()).merged_until();
        let (before, others): (Vec<_>, Vec<_>) =
            self.partitions().partition(|partition| partition.hash_range().first() < *hashes.start());
        let behind: Vec<_> =
            others.into_iter().filter(|partition| !hash_range.has(partition.hash_range().first())).collect();
        let mut superseded = Vec::new();
        for (until, run) in self.deltas.ends().take_while(|(until, _)| *until <= merged_until) {
            let needs = |partition: &&&Arc<Partition>| partition.merged_until() < until && !bug!(PunchNeighbour);
            let blocks_of = |partition: &&Arc<Partition>| run.blocks_of(&partition.hash_range().hashes());
            let mut blocks = run.blocks_of(&hashes);
            // Fences are not exact, so adjacent partitions have blocks in common, and small partitions may lie in one
            // block.
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

    /// The runs with a younger delta.
    ///
    /// # Errors
    /// If there is no memory for the maps.
    pub fn with_delta(&self, memory: &Memory, run: Arc<Run>, tags: Tags) -> Result<Runs> {
        let (deltas, slot) = self.deltas.with(run);
        self.with_deltas(memory, deltas, &[(slot, tags)])
    }

    /// The runs with one delta in place of those at some positions, or with none in their place.
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

    /// The runs after a merge of one partition into its base, which becomes one partition or two: the new bases have
    /// the records of all its deltas that end at or below address `merged_until`. Deltas that no partition needs any
    /// more are left out.
    pub fn with_merged_base(
        &self,
        environment: &Environment,
        parts: &[PartitionSpec<Arc<Run>>],
        merged_until: u64,
    ) -> Runs {
        let comes = |hash_range: &HashRange| parts.iter().any(|(part, _)| hash_range.has(part.first()));
        let mut partitions: Vec<_> =
            self.partitions().filter(|partition| !comes(&partition.hash_range())).cloned().collect();
        for (hash_range, base) in parts {
            let fresh = Partition::new(*hash_range, base.clone(), merged_until);
            partitions.push(Arc::new(fresh.over(environment, self.deltas.clone())));
        }
        partitions.sort_by_key(|partition| partition.hash_range().first());
        Runs::of(partitions, self.deltas.clone()).without_obsolete_deltas()
    }

    /// The runs without the deltas that are visible nowhere.
    fn without_obsolete_deltas(self) -> Runs {
        let oldest = self.partitions().map(|partition| partition.merged_until()).min().unwrap_or(0);
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

/// The result, if it succeeded; an error is passed to `failed`.
fn report<T>(checked: Result<T>, failed: &mut dyn FnMut(Error) -> Result<()>) -> Result<Option<T>> {
    checked.map(Some).or_else(|error| failed(error).map(|()| None))
}
