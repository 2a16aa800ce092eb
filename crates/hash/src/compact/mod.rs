//! Compaction. Live records of the oldest part of the hot log are written into a delta; deltas are merged into the base
//! runs of partitions; and when there are many deltas, adjacent ones are merged into one (H4, H8; hash.md,
//! "Compaction"; hash-protocol.md, "Positions of an operation" and "Cold tier").

mod copy_to_tail;
mod delta;
mod dropped;
mod frames;
mod garbage;
mod install;
mod limits;
mod liveness;
mod merge_base;
mod merge_deltas;
mod record;
mod record_buffer;
mod scan;
mod shortage;
mod sorter;
mod table;
#[cfg(test)]
mod tests;
mod unpublished;

use std::{mem, sync::Arc};

use ecotone_substrate::{Result, Seq, bug, environment::Environment};
use ecotone_sys::{
    chunk::Size,
    epoch,
    primitive::{
        atomic::{AtomicBool, Ordering},
        thread,
    },
    words::WORD,
};

use self::{install::DurabilityPromise, sorter::PLACES, unpublished::UnpublishedFiles};
pub(crate) use self::{
    install::{Disk, Install},
    limits::CompactionLimits,
};
use super::{
    Compaction, Hash,
    cold::{Changing, Run, Runs, Tags},
    log::{Address, FRAME, PAGE},
    structure::ManifestEdit,
};

/// Maximum bytes of hot log that become one delta.
const MAX_COMPACTED_BYTES: u64 = PLACES * WORD as u64;
/// The parts of the memory budget for copies of records that were read from segments, and for windows of a merge.
const COPIES: usize = 16;
const WINDOWS: usize = 32;
/// During an opening, a delta is made of at most one part in this many of the memory budget: all its records are in the
/// index before it is written.
const OPENED: u64 = 64;
/// Fullness of the hot log on disk from which on it is compacted, however little of it is in memory. Writers are slowed
/// down from 0.8 on.
const TOO_MUCH_ON_DISK: f64 = 0.5;
/// Crowding of memory from which on the hot log is compacted or written out, although it has fewer bytes than its
/// limit: the first frame and those ahead of its end count whole.
const CROWDED: f64 = 0.25;

/// Does the compactions and merges of one keyspace.
#[derive(Clone, Copy)]
pub(crate) struct Compactor<'k> {
    pub(crate) hash: &'k Hash,
    pub(crate) environment: &'k Environment,
    pub(crate) install: &'k dyn Install,
    pub(crate) limits: CompactionLimits,
    /// Whether the keyspace is idle.
    pub(crate) is_idle: bool,
}

/// A part of the hot log between page boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    from: Address,
    until: Address,
}

impl Region {
    fn bytes(self) -> u64 {
        self.until.get() - self.from.get()
    }

    fn pages(self) -> impl Iterator<Item = Address> {
        (self.from.get()..self.until.get()).step_by(PAGE as usize).map(Address::new)
    }

    /// The place of an address, as the sorter takes it.
    fn place(self, address: Address) -> u64 {
        (address.get() - self.from.get()) / WORD as u64
    }

    fn address(self, place: u64) -> Address {
        self.from.plus(place * WORD as u64)
    }
}

impl Compactor<'_> {
    /// Whether the hot log exceeds its limit, in sum, in memory or on disk, or has garbage whose compaction frees space
    /// when space is short. This becomes true before writers are slowed down for the same reason, or soon after.
    pub(crate) fn compaction_is_due(&self) -> bool {
        let is_large = self.hot_bytes() >= self.hot() + self.limits.hot_disk || self.fullness() >= TOO_MUCH_ON_DISK;
        is_large || self.is_crowded() && self.limits.hot_disk == 0 || self.may_save_space() || self.log_is_littered()
    }

    /// Whether frames of the hot log should leave memory.
    fn is_crowded(&self) -> bool {
        self.crowding() >= CROWDED
    }

    /// Bytes of the hot log.
    fn hot_bytes(&self) -> u64 {
        self.hash.chains.log.bytes()
    }

    /// Bytes of hot log on disk beyond `hot_disk`, as a fraction of those at which writers wait.
    pub(crate) fn fullness(&self) -> f64 {
        let bounds = self.hash.chains.log.bounds();
        let too_much = bounds.head().get().saturating_sub(bounds.begin().get() + self.limits.hot_disk);
        too_much as f64 / self.limits.behind(&self.hash.cold.runs()) as f64
    }

    /// How far the hot log in memory is on the way from the size at which it is compacted to the size at which frames
    /// have to be evicted, as a fraction.
    pub(crate) fn crowding(&self) -> f64 {
        let (most, hot) = (self.hash.chains.memory_share.hot() * FRAME, self.hot());
        let in_memory = self.hash.chains.log.frames_in_memory() * FRAME;
        in_memory.saturating_sub(hot) as f64 / most.saturating_sub(hot).max(FRAME) as f64
    }

    /// Whether the oldest frames should be written out, so that writers need not do that. Only in keyspaces with
    /// `hot_disk`, which do not compact from memory.
    pub(crate) fn write_out_is_due(&self) -> bool {
        let (head, tail) = (self.hash.chains.log.bounds().head(), self.hash.chains.log.tail());
        self.limits.hot_disk > 0
            && head.frame() < tail.frame()
            && (tail.get() - head.get() >= self.hot() || self.is_crowded())
    }

    /// Writes out as many frames as one delta has, if the hot log exceeds its limit in memory. Returns whether it did.
    ///
    /// # Errors
    /// If disk space is lacking, or I/O fails.
    pub(crate) fn write_out_if_due(&self) -> Result<bool> {
        let due = self.write_out_is_due();
        if due {
            let log = &self.hash.chains.log;
            let (head, last) = (log.bounds().head().frame(), log.tail().frame());
            let until = Address::of_frame(last.min(head + self.limits.delta(self.hot()).div_ceil(FRAME)));
            self.hash.reservations.evict_below(log, until)?;
        }
        Ok(due)
    }

    /// Bytes at which the hot log is compacted.
    fn hot(&self) -> u64 {
        self.limits.hot(self.hash.chains.memory_share.hot() * FRAME)
    }

    /// Compacts one delta, if the hot log exceeds its limits. Returns whether it did.
    ///
    /// # Errors
    /// As for [`compact`](Self::compact).
    pub(crate) fn compact_if_due(&self) -> Result<bool> {
        if !self.compaction_is_due() {
            return Ok(false);
        }
        let log = &self.hash.chains.log;
        let from = log.bounds().begin();
        let until = from.plus(self.limits.delta(self.hot()).min(self.hot_bytes()) / PAGE * PAGE);
        if until == from {
            // Less than a page: an idle keyspace.
            return Ok(false);
        }
        log.freeze(until);
        // Records of an idle keyspace get no second chance.
        let for_memory = self.hot_bytes() >= self.hot() && !self.is_idle;
        if for_memory && from >= Address::of_frame(log.bounds().head().frame()) {
            self.copy_updated_to_tail(Region { from, until });
        }
        Ok(self.compact(until)? > from)
    }

    /// Compacts as many deltas as fit below page boundary `until`, which is not above SAFE, during an opening.
    ///
    /// # Errors
    /// As for [`compact`](Self::compact). Then fewer were compacted.
    pub(crate) fn compact_below(&self, until: Address) -> Result<()> {
        let most = self.environment.memory.budget() as u64 / OPENED;
        let delta = (self.limits.delta(self.hot()).min(most) / PAGE * PAGE).max(PAGE);
        let next = || Some(self.hash.chains.log.bounds().begin().plus(delta)).filter(|next| *next <= until);
        while let Some(next) = next() {
            self.compact(next)?;
        }
        Ok(())
    }

    /// Compacts the hot log down to what a close may leave, from memory where possible, since the next opening has to
    /// link all records that a flush writes out of it.
    ///
    /// # Errors
    /// As for [`compact`](Self::compact). Then less was compacted.
    pub(crate) fn compact_for_close(&self) -> Result<()> {
        let left = (self.limits.hot_disk + self.limits.left_at_close).max(PAGE);
        loop {
            // Read once, since the background may compact too.
            let from = self.hash.chains.log.bounds().begin();
            let there = self.hash.chains.log.tail().get() - from.get();
            if there <= left {
                return Ok(());
            }
            let delta = self.limits.delta(self.hot()).min(there) / PAGE * PAGE;
            let until = from.plus(delta.max(PAGE));
            self.hash.chains.log.freeze(until);
            self.compact(until)?;
        }
    }

    /// Writes the live records at the beginning of the hot log into a delta, and truncates the log: up to page boundary
    /// `until`, which is not above SAFE, or as far as one delta goes. Returns the new BEGIN. Records in segments are
    /// older than those only in memory, and do not come into one delta with them.
    ///
    /// # Errors
    /// If memory or disk space is lacking, or I/O fails. Then nothing has changed, unless writing has stopped.
    pub(crate) fn compact(&self, until: Address) -> Result<Address> {
        epoch::assert_unpinned();
        let _guard = self.hash.cold.compaction_lock();
        let bounds = self.hash.chains.log.bounds();
        self.hash.deletes.mark(bounds.begin().get(), self.hash.chains.log.tail().get());
        assert!(until.in_page() == 0 && until <= bounds.safe(), "what may still change is not compacted");
        let (from, in_memory) = (bounds.begin(), Address::of_frame(bounds.head().frame()));
        if until <= from {
            return Ok(from);
        }
        while self.hash.cold.runs().deltas().len() >= self.limits.merge_at {
            self.merge()?;
        }
        let until = until.min(from.plus(MAX_COMPACTED_BYTES));
        let region = Region { from, until: if from < in_memory { until.min(in_memory) } else { until } };
        let mut living = match self.limits.compaction {
            Compaction::Scan => self.live_by_scan(region)?,
            Compaction::Lookup if from < in_memory => self.live_on_disk(region)?,
            Compaction::Lookup => self.live_in_memory(region)?,
        };
        let until = living.region.until;
        self.hash.chains.memory_share.tuner.took(living.region.bytes(), living.bytes as u64);
        let mut unpublished = UnpublishedFiles::new(self.environment);
        let (dropped, mut left_out) = (mem::take(&mut living.dropped), self.hash.chains.reports.left_out());
        let delta = self.write_delta(living, &mut unpublished, &mut left_out)?;
        unpublished.sync()?;
        // A record may have been dropped for a newer one that is in no file yet (invariant 35).
        self.install.sync_log()?;
        if bug!(BeginBeforeRun) {
            drop(self.hash.chains.log.truncate(until, drop));
        }
        let report = || {
            self.report_dropped(&dropped, until);
            self.hash.chains.reports.report_all(&left_out);
        };
        let record = self.install_delta(delta, unpublished, until, &report)?;
        drop(self.hash.chains.log.truncate(until, drop));
        self.hash.chains.clear_entries(until);
        self.hash.counts.compactions.increment();
        self.install.finish(record)?;
        Ok(until)
    }

    fn install_delta(
        &self,
        delta: Option<(Run, Tags)>,
        unpublished: UnpublishedFiles<'_>,
        begin: Address,
        report: &dyn Fn(),
    ) -> Result<Seq> {
        let changing = self.hash.cold.change();
        let before = changing.runs();
        let added = delta.as_ref().map(|(run, _)| run.name().into());
        let durable = self.hash.chains.log.bounds().durable().max(begin);
        let change = ManifestEdit::Compact { added, begin, durable, index_bits: self.install.index_bits() };
        let next = delta.map(|(run, tags)| before.with_delta(&self.environment.memory, Arc::new(run), tags));
        self.publish(&change, changing, next.transpose()?, unpublished, report)
    }

    /// Installs a change: its files are named by the structure, and `runs`, if any, become visible to all threads.
    /// `report` tells of the versions that go, just before. Returns the sequence of the change's log record.
    fn publish(
        &self,
        change: &ManifestEdit,
        changing: Changing<'_>,
        mut runs: Option<Runs>,
        mut unpublished: UnpublishedFiles<'_>,
        report: &dyn Fn(),
    ) -> Result<Seq> {
        let record = self.install.install(change, &mut || {
            unpublished.published();
            report();
            runs.take().into_iter().for_each(|runs| changing.publish(runs));
        })?;
        drop(changing);
        self.wait_for_readers();
        Ok(record)
    }

    /// The records that a compaction starting now may not lose.
    fn promised(&self) -> DurabilityPromise {
        DurabilityPromise { floor: self.install.durable_floor(), durable: self.hash.chains.log.bounds().durable() }
    }

    /// Waits until all pins are released that may still reach replaced runs, so that these are dropped here and not on
    /// a reader's thread.
    fn wait_for_readers(&self) {
        let gone = Arc::new(AtomicBool::new(false));
        let domain = &self.hash.chains.domain;
        domain.bump({
            let gone = gone.clone();
            move || gone.store(true, Ordering::Release)
        });
        while !gone.load(Ordering::Acquire) {
            thread::yield_now();
            domain.drain();
        }
    }

    /// Bytes of copied records at which a delta is full.
    fn most_copies(&self) -> usize {
        // One more window may exceed the limit by two slabs.
        (self.environment.memory.budget() / COPIES).min(MAX_COMPACTED_BYTES as usize - 2 * Size::Slab.bytes())
    }
}
