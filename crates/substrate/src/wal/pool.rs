//! The segments of a log: those that hold the log, in order, and spare ones.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use super::{
    Wal,
    segment::{self, Segment},
};
use crate::{
    Error, Result, Seq,
    storage::{File, FileId},
};

/// A spare segment file.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) file: Arc<dyn File>,
    pub(super) bytes: u64,
}

impl Spare {
    /// Log bytes in it.
    pub(super) fn payload(&self) -> u64 {
        self.bytes - segment::HEADER_BYTES
    }
}

#[derive(Debug, Default)]
pub(super) struct Pool {
    /// The segments that hold the log. Each begins at the end of the one before or, after an open, at the end that the
    /// log had then.
    pub(super) chain: VecDeque<Segment>,
    /// Files without needed data, in the order in which the log will use them. They still contain headers and records
    /// of former use.
    pub(super) spare: VecDeque<Spare>,
    /// Files without needed data whose lengths no segment has, by number. They are removed when the session begins.
    pub(super) odd: Vec<(u32, Arc<dyn File>)>,
    /// The number of the next file.
    pub(super) next: u32,
}

impl Pool {
    /// Whether a replay from `from`, a synced position, may begin in a segment of the chain. The segment must be
    /// durable: something of it is synced, or it is the first one of its session.
    fn may_begin(&self, number: usize, from: Seq) -> bool {
        let before = number.checked_sub(1).and_then(|before| self.chain.get(before));
        self.chain.get(number).is_some_and(|Segment { header, .. }| {
            let is_first = before.is_none_or(|before| before.header.incarnation < header.incarnation);
            header.first_record <= from && (header.start < from || is_first)
        })
    }

    /// Removes from the chain the segments without a record at or above `below`. The last one stays. So does one after
    /// which nothing is durable, since the header of the next one may not be.
    fn unneeded(&mut self, below: Seq) -> Vec<Segment> {
        let mut out = Vec::new();
        while self.chain.len() > 1 && self.may_begin(1, below) {
            out.extend(self.chain.pop_front());
        }
        if bug!(RecycleLogEarly) && self.chain.len() > 1 {
            out.extend(self.chain.pop_front());
        }
        out
    }
}

impl Wal {
    /// The number of the segment in which a replay from `from`, a synced position, begins.
    pub fn segment_at(&self, from: Seq) -> Option<u32> {
        let pool = self.pool.lock();
        let last = (0..pool.chain.len()).rev().find(|number| pool.may_begin(*number, from));
        pool.chain.get(last.unwrap_or(0)).map(Segment::number)
    }

    /// Makes one more spare segment file that can hold a record of `record` bytes among others. The only call that
    /// fails with `NoSpace`.
    pub(super) fn add_segment(&self, record: u64) -> Result<()> {
        let (id, bytes) = (self.next_file()?, self.options.next_bytes(self.used() + record));
        let made = segment::make(&*self.storage, id, bytes);
        let file = made.map_err(|error| self.health.poison(error))?;
        self.add_spare(&mut self.pool.lock(), Spare { file, bytes });
        Ok(())
    }

    fn add_spare(&self, pool: &mut Pool, spare: Spare) {
        self.append.lock().add_segment(spare.payload());
        pool.spare.push_back(spare);
    }

    fn next_file(&self) -> Result<FileId> {
        let mut pool = self.pool.lock();
        let id = FileId::Log(pool.next);
        pool.next = pool
            .next
            .checked_add(1)
            .ok_or_else(|| Error::corruption(id, 0, "no log segment can have a higher number"))?;
        Ok(id)
    }

    /// Truncates the log at `below`: no replay will begin below it. Call it when the manifest that says so is durable
    /// in both copies. Writers that wait for log space go on.
    pub fn truncate(&self, below: Seq) {
        self.recount_distinct(below);
        let used = self.used();
        self.kept_from.fetch_max(below, Ordering::SeqCst);
        self.recycle(below, used).into_iter().for_each(|file| self.remove_surplus(file));
        self.reclaim.truncated(self.weight() <= self.options.limit_bytes / 2);
        self.scheduler.notify();
    }

    /// Removes all spare segments but the next, for a log that is idle for some time.
    pub fn shrink(&self) {
        let surplus = || {
            let mut pool = self.pool.lock();
            let may_go = self.append.lock().remove_segment();
            pool.spare.pop_back_if(|_| may_go)
        };
        while let Some(Spare { file, .. }) = surplus() {
            self.remove_surplus(file);
        }
    }

    fn remove_surplus(&self, file: Arc<dyn File>) {
        let id = file.id();
        drop(file);
        // If a removal fails, the next open finds the file, which is a spare one then.
        if let Err(error) = self.storage.remove(id) {
            tracing::warn!(%error, "a surplus log segment was not removed");
        }
    }

    /// Moves segments that are not needed to the spare ones. `used` is the log's length until now. Returns the files
    /// that are not kept.
    fn recycle(&self, below: Seq, used: u64) -> Vec<Arc<dyn File>> {
        let mut surplus = Vec::new();
        let mut pool = self.pool.lock();
        for Segment { file, header, .. } in pool.unneeded(below) {
            let spare_bytes = pool.spare.iter().map(|spare| spare.bytes).sum();
            if self.options.keeps(header.bytes, used, spare_bytes) {
                self.add_spare(&mut pool, Spare { file, bytes: header.bytes });
            } else {
                surplus.push(file);
            }
        }
        surplus
    }
}
