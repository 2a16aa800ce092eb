//! The lazily made delta map of a partition. The first search that needs the map reads the tags and makes it (hash.md,
//! "Cold tier").

use std::sync::{Arc, OnceLock};

use ecotone_substrate::{
    Error, Result,
    environment::Environment,
    limits::PAGE,
    lock_rank::{self, LockRank},
};
use ecotone_sys::{
    epoch,
    primitive::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{
    delta_map::{DeltaMap, buckets_for},
    deltas::Deltas,
    hash_range::HashRange,
    run::Run,
    tag_reader::{pages_of, read_tags},
};

/// While a map is made, tags take at most one part in this many of the memory budget at a time, unless those of one
/// delta take more.
const OF_BUDGET: usize = 64;
/// After a map could not be made for lack of memory, this many searches run without it before one tries again.
const REST: u32 = 256;

/// A map that may not be made yet.
#[derive(Debug)]
pub(super) struct PartitionMap {
    /// Empty until the map is made. Holds `None` if no delta is visible.
    made: OnceLock<Option<DeltaMap>>,
    maker: Option<Maker>,
}

/// Makes a map when it is needed.
#[derive(Debug)]
struct Maker {
    environment: Environment,
    /// Estimated number of records in the map.
    records: u64,
    /// Held by the thread that makes the map, also while tags are read.
    lock: Mutex<()>,
    /// Number of searches that do not try.
    resting: AtomicU32,
}

/// The sources of a map.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ingredients<'p> {
    pub(super) hash_range: HashRange,
    pub(super) deltas: &'p Deltas,
    /// Deltas that end above this address are visible.
    pub(super) merged_until: u64,
    /// Records of the base.
    pub(super) base: u64,
}

impl PartitionMap {
    /// A map that is made. `None` if no delta is visible.
    pub(super) fn made(map: Option<DeltaMap>) -> PartitionMap {
        PartitionMap { made: OnceLock::from(map), maker: None }
    }

    /// A map that is made when needed, if any delta is visible.
    pub(super) fn to_be_made(environment: &Environment, of: Ingredients<'_>) -> PartitionMap {
        if of.counting().next().is_none() {
            return PartitionMap::made(None);
        }
        let (environment, records) = (environment.clone(), of.records());
        let maker = Maker { environment, records, lock: Mutex::new(()), resting: AtomicU32::new(0) };
        PartitionMap { made: OnceLock::new(), maker: Some(maker) }
    }

    /// A map for other deltas that is made when needed, if this one was not made.
    pub(super) fn unmade(&self, of: Ingredients<'_>) -> Option<PartitionMap> {
        let maker = self.maker.as_ref().filter(|_| self.made.get().is_none())?;
        Some(PartitionMap::to_be_made(&maker.environment, of))
    }

    /// The map, if it is made; `None` inside if no map is needed.
    #[inline]
    pub(super) fn get(&self) -> Option<Option<&DeltaMap>> {
        self.made.get().map(Option::as_ref)
    }

    /// Records of visible deltas: the slots of the map, or an estimate before it is made.
    pub(super) fn records(&self) -> u64 {
        match (self.get(), &self.maker) {
            (Some(made), _) => made.map_or(0, DeltaMap::len),
            (None, maker) => maker.as_ref().map_or(0, |maker| maker.records),
        }
    }

    /// Makes the map, if it is not made and there is memory for it.
    ///
    /// # Errors
    /// If tags are damaged or cannot be read.
    #[inline]
    pub(super) fn make(&self, of: Ingredients<'_>) -> Result<()> {
        match &self.maker {
            Some(maker) if self.made.get().is_none() => self.make_by(maker, of),
            _ => Ok(()),
        }
    }

    #[cold]
    fn make_by(&self, maker: &Maker, of: Ingredients<'_>) -> Result<()> {
        epoch::assert_unpinned();
        if maker.rests() {
            return Ok(());
        }
        // The thread that holds this lock reads and leases memory, and waits for no other thread.
        let _guard = maker.lock.lock();
        let _held = lock_rank::hold(LockRank::MapLock);
        if self.made.get().is_some() || maker.rests() {
            return Ok(());
        }
        match of.build(&maker.environment, maker.records) {
            Ok(map) => _ = self.made.set(map),
            Err(Error::Memory { .. }) => maker.resting.store(REST, Ordering::Relaxed),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Maker {
    fn rests(&self) -> bool {
        self.resting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

impl<'p> Ingredients<'p> {
    fn counting(self) -> impl Iterator<Item = (u8, &'p Arc<Run>)> {
        self.deltas.slots_above(self.merged_until)
    }

    /// Estimated records of the deltas in the hash range, since hashes are uniform.
    fn records(self) -> u64 {
        self.counting().map(|(_, run)| run.records()).sum::<u64>() >> self.hash_range.bits()
    }

    /// Buckets for as many records as deltas will have when a merge is due: half as many as the base has.
    pub(super) fn buckets(self, records: u64) -> u64 {
        buckets_for(records.max(self.base / 2))
    }

    /// Makes the map in steps: reads the tags of some deltas at a time, the oldest first.
    fn build(self, environment: &Environment, records: u64) -> Result<Option<DeltaMap>> {
        let (buckets, most) = (self.buckets(records), (environment.memory.budget() / OF_BUDGET / PAGE) as u64);
        let all = self.deltas.ages(self.merged_until);
        let (mut ages, mut map) = ([0; 256], None);
        let mut left = self.counting().peekable();
        while left.peek().is_some() {
            let (mut slots, mut runs, mut pages) = (Vec::new(), Vec::new(), 0);
            while let Some((slot, run)) =
                left.next_if(|(_, run)| pages == 0 || pages + pages_of(run, self.hash_range) <= most)
            {
                pages += pages_of(run, self.hash_range);
                slots.push(slot);
                runs.push(&**run);
                ages[usize::from(slot)] = all[usize::from(slot)];
            }
            let tags = read_tags(environment, self.hash_range, &runs)?;
            let tags: Vec<_> = slots.into_iter().zip(&tags).collect();
            map = Some(DeltaMap::build(&environment.memory, self.hash_range, buckets, &ages, map.as_ref(), &tags)?);
        }
        Ok(map)
    }
}
