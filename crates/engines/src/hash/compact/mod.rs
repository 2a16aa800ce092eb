//! Compaction: what lives of the oldest part of the hot log goes into a delta, deltas go into the bases of partitions
//! by folds, and many deltas become one by merges (H4, H8; decision 9, "Compaction"; decision 10, "Positions of an
//! operation" and "Cold tier").

mod alive;
mod copies;
mod delta;
mod fold;
mod frames;
mod goals;
mod install;
mod keep;
mod litter;
mod merge;
mod record;
mod scan;
mod shortage;
mod sorter;
mod table;
#[cfg(test)]
mod tests;
mod unnamed;

use std::sync::Arc;

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

pub(crate) use self::{
    goals::Goals,
    install::{Disk, Install},
};
use self::{install::Promised, sorter::PLACES, unnamed::Unnamed};
use super::{
    Compaction, Hash,
    cold::{Changing, Run, Runs, Tags},
    log::{Address, FRAME, PAGE},
    structure::Change,
};

/// The most that one delta is made of.
const MOST: u64 = PLACES * WORD as u64;
/// The part of the budget that copies of what was read from segments take, and windows for what is folded.
const COPIES: usize = 16;
const WINDOWS: usize = 32;
/// The part of the budget that one delta is made of at most while a keyspace is opened: its records are all in the
/// index before it is written.
const OPENED: u64 = 64;
/// How full of what the hot log may have on disk it is where that is compacted, however little there is in memory. Who
/// writes is slowed down for it from 0.8 on.
const TOO_MUCH_ON_DISK: f64 = 0.5;
/// How crowded memory is where the hot log leaves it, although it has fewer bytes than it should: the first frame and
/// those ahead of its end count whole.
const CROWDED: f64 = 0.25;

/// What works on one keyspace in the background.
#[derive(Clone, Copy)]
pub(crate) struct Compactor<'k> {
    pub(crate) hash: &'k Hash,
    pub(crate) environment: &'k Environment,
    pub(crate) install: &'k dyn Install,
    pub(crate) goals: Goals,
    /// Whether nobody uses the keyspace.
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

    /// A number for an address, as the sorter takes it.
    fn place(self, address: Address) -> u64 {
        (address.get() - self.from.get()) / WORD as u64
    }

    fn address(self, place: u64) -> Address {
        self.from.plus(place * WORD as u64)
    }
}

impl Compactor<'_> {
    /// Whether the hot log has more than it should, in all, in memory or on disk, or what gives space back where that
    /// is short. It is, before writers are slowed down for any of it, or soon after.
    pub(crate) fn compaction_is_due(&self) -> bool {
        let is_large = self.hot_bytes() >= self.hot() + self.goals.hot_disk || self.fullness() >= TOO_MUCH_ON_DISK;
        is_large || self.is_crowded() && self.goals.hot_disk == 0 || self.may_save_space() || self.log_is_littered()
    }

    /// Whether frames of the hot log should leave memory.
    fn is_crowded(&self) -> bool {
        self.crowding() >= CROWDED
    }

    /// Bytes of the hot log.
    fn hot_bytes(&self) -> u64 {
        self.hash.log.bytes()
    }

    /// What the hot log has on disk beyond what it keeps there on purpose, as a part of that at which writers wait.
    pub(crate) fn fullness(&self) -> f64 {
        let bounds = self.hash.log.bounds();
        let too_much = bounds.head().get().saturating_sub(bounds.begin().get() + self.goals.hot_disk);
        too_much as f64 / self.goals.behind(&self.hash.cold.runs()) as f64
    }

    /// How far the hot log in memory is from where it is compacted to where frames have to be written out to make room,
    /// as a part.
    pub(crate) fn crowding(&self) -> f64 {
        let (most, hot) = (self.hash.part.hot() * FRAME, self.hot());
        let in_memory = self.hash.frames_in_memory() * FRAME;
        in_memory.saturating_sub(hot) as f64 / most.saturating_sub(hot).max(FRAME) as f64
    }

    /// Whether the oldest frames are to leave memory, so that nobody who writes has to see to that: where they are not
    /// compacted from there.
    pub(crate) fn write_out_is_due(&self) -> bool {
        let (head, tail) = (self.hash.log.bounds().head(), self.hash.log.tail());
        self.goals.hot_disk > 0
            && head.frame() < tail.frame()
            && (tail.get() - head.get() >= self.hot() || self.is_crowded())
    }

    /// Writes out as many frames as one delta would have, if the hot log has more in memory than it should. Whether it
    /// had.
    ///
    /// # Errors
    /// If space on the disk is wanting, or I/O fails.
    pub(crate) fn write_out_if_due(&self) -> Result<bool> {
        let due = self.write_out_is_due();
        if due {
            let (head, last) = (self.hash.log.bounds().head().frame(), self.hash.log.tail().frame());
            self.hash.spill(Address::of_frame(last.min(head + self.goals.delta(self.hot()).div_ceil(FRAME))))?;
        }
        Ok(due)
    }

    /// Bytes at which the hot log is compacted.
    fn hot(&self) -> u64 {
        self.goals.hot(self.hash.part.hot() * FRAME)
    }

    /// Compacts one delta, if the hot log has more than it should. Whether it had.
    ///
    /// # Errors
    /// As for [`compact`](Self::compact).
    pub(crate) fn compact_if_due(&self) -> Result<bool> {
        if !self.compaction_is_due() {
            return Ok(false);
        }
        let log = &self.hash.log;
        let from = log.bounds().begin();
        let until = from.plus(self.goals.delta(self.hot()).min(self.hot_bytes()) / PAGE * PAGE);
        if until == from {
            // Less than a page, since nobody uses it.
            return Ok(false);
        }
        log.freeze(until);
        // What nobody uses goes.
        let for_memory = self.hot_bytes() >= self.hot() && !self.is_idle;
        if for_memory && from >= Address::of_frame(log.bounds().head().frame()) {
            self.keep_used(Region { from, until });
        }
        Ok(self.compact(until)? > from)
    }

    /// Compacts as many deltas as there are below page boundary `until`, which is not above SAFE, of what is linked
    /// while a keyspace is opened.
    ///
    /// # Errors
    /// As for [`compact`](Self::compact). Then fewer were compacted.
    pub(crate) fn compact_below(&self, until: Address) -> Result<()> {
        let most = self.environment.memory.budget() as u64 / OPENED;
        let delta = (self.goals.delta(self.hot()).min(most) / PAGE * PAGE).max(PAGE);
        let next = || Some(self.hash.log.bounds().begin().plus(delta)).filter(|next| *next <= until);
        while let Some(next) = next() {
            self.compact(next)?;
        }
        Ok(())
    }

    /// Compacts what the hot log has beyond a little, from memory where that has it still, since the next opening would
    /// have to link all that a flush writes out of it.
    ///
    /// # Errors
    /// As for [`compact`](Self::compact). Then less was compacted.
    pub(crate) fn compact_for_close(&self) -> Result<()> {
        let left = (self.goals.hot_disk + self.goals.left_at_close).max(PAGE);
        loop {
            // Once, since the background may compact too.
            let from = self.hash.log.bounds().begin();
            let there = self.hash.log.tail().get() - from.get();
            if there <= left {
                return Ok(());
            }
            let delta = self.goals.delta(self.hot()).min(there) / PAGE * PAGE;
            let until = from.plus(delta.max(PAGE));
            self.hash.log.freeze(until);
            self.compact(until)?;
        }
    }

    /// Puts what lives at the beginning of the hot log into a delta, and truncates the log: up to page boundary
    /// `until`, which is not above SAFE, or as far as one delta goes. BEGIN of then. What is in segments is older than
    /// what is in memory alone, and does not come into one delta with it.
    ///
    /// # Errors
    /// If memory or space on the disk is wanting, or I/O fails. Then nothing has changed, unless writing has stopped.
    pub(crate) fn compact(&self, until: Address) -> Result<Address> {
        epoch::assert_unpinned();
        let _turn = self.hash.cold.compaction_turn();
        let bounds = self.hash.log.bounds();
        self.hash.deletes.mark(bounds.begin().get(), self.hash.log.tail().get());
        assert!(until.in_page() == 0 && until <= bounds.safe(), "what may still change is not compacted");
        let (from, in_memory) = (bounds.begin(), Address::of_frame(bounds.head().frame()));
        if until <= from {
            return Ok(from);
        }
        while self.hash.cold.runs().deltas().len() >= self.goals.merge_at {
            self.merge()?;
        }
        let until = until.min(from.plus(MOST));
        let region = Region { from, until: if from < in_memory { until.min(in_memory) } else { until } };
        let living = match self.goals.compaction {
            Compaction::Scan => self.living_by_scan(region)?,
            Compaction::Lookup if from < in_memory => self.living_on_disk(region)?,
            Compaction::Lookup => self.living_in_memory(region)?,
        };
        let until = living.region.until;
        self.hash.split.took(living.region.bytes(), living.bytes as u64);
        let mut unnamed = Unnamed::new(self.environment);
        let delta = self.write_delta(living, &mut unnamed)?;
        unnamed.sync()?;
        // A record may have been left behind for one that is in no file yet (invariant 35).
        self.install.settle()?;
        if bug!(BeginBeforeRun) {
            drop(self.hash.log.truncate(until, drop));
        }
        let record = self.install_delta(delta, unnamed, until)?;
        drop(self.hash.log.truncate(until, drop));
        self.hash.clear_entries(until);
        self.hash.counts.compactions.increment();
        self.install.conclude(record)?;
        Ok(until)
    }

    fn install_delta(&self, delta: Option<(Run, Tags)>, unnamed: Unnamed<'_>, begin: Address) -> Result<Seq> {
        let changing = self.hash.cold.change();
        let before = changing.runs();
        let comes = delta.as_ref().map(|(run, _)| run.name().into());
        let durable = self.hash.log.bounds().durable().max(begin);
        let change = Change::Compact { comes, begin, durable, index_bits: self.install.index_bits() };
        let next = delta.map(|(run, tags)| before.with_delta(&self.environment.memory, Arc::new(run), tags));
        self.publish(&change, changing, next.transpose()?, unnamed)
    }

    /// Makes a change: its files have names that are in the structure, and everybody sees the runs that come, if these
    /// are others. Its record.
    fn publish(
        &self,
        change: &Change,
        changing: Changing<'_>,
        mut runs: Option<Runs>,
        mut unnamed: Unnamed<'_>,
    ) -> Result<Seq> {
        let record = self.install.install(change, &mut || {
            unnamed.named();
            runs.take().into_iter().for_each(|runs| changing.publish(runs));
        })?;
        drop(changing);
        self.wait_for_readers();
        Ok(record)
    }

    /// What a compaction that begins now may not lose.
    fn promised(&self) -> Promised {
        Promised { floor: self.install.floor(), durable: self.hash.log.bounds().durable() }
    }

    /// Waits until everybody is unpinned who may still come to runs that were replaced, so that what is left of them
    /// goes here and not on a reader's thread.
    fn wait_for_readers(&self) {
        let gone = Arc::new(AtomicBool::new(false));
        let domain = &self.hash.domain;
        domain.bump({
            let gone = gone.clone();
            move || gone.store(true, Ordering::Release)
        });
        while !gone.load(Ordering::Acquire) {
            thread::yield_now();
            domain.drain();
        }
    }

    /// Bytes of copies with which a delta is full.
    fn most_copies(&self) -> usize {
        // One window more may go two slabs beyond.
        (self.environment.memory.budget() / COPIES).min(MOST as usize - 2 * Size::Slab.bytes())
    }
}
