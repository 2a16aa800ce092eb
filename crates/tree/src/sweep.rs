//! A sweep over the dirty records of one tree: hands them out batch by batch to one or two workers that write them out.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use ecotone_substrate::{Result, Seq};
use ecotone_sys::primitive::Mutex;

use super::{cache::KeySpan, write_out::WriteOut};

/// A pass over the dirty records of one tree in key order, with its position.
#[derive(Debug)]
pub(crate) struct Sweep {
    write_out: Arc<WriteOut>,
    /// The ranges that are left.
    rest: Mutex<VecDeque<KeySpan>>,
    /// The sweep covers records that became dirty at sequences below this, and may include others.
    below: Seq,
    /// Pages of a batch.
    batch: usize,
    /// Whether this is a background round, which stops when enough is clean. The next round continues there.
    round: bool,
    /// Where the sweep began, and whether it has wrapped around the end of all keys since.
    origin: Vec<u8>,
    is_around: AtomicBool,
    taken: AtomicUsize,
    progress: AtomicBool,
    /// Helpers that have begun and not ended.
    helpers: AtomicUsize,
}

impl Sweep {
    /// A background round over all dirty records, which may stop early.
    pub(crate) fn of_round(write_out: &Arc<WriteOut>) -> Self {
        Self::new(write_out, write_out.round(), Seq::MAX, true)
    }

    /// A sweep over the records that became dirty below this sequence.
    pub(crate) fn of_all(write_out: &Arc<WriteOut>, below: Seq) -> Self {
        Self::new(write_out, vec![KeySpan::default()], below, false)
    }

    fn new(write_out: &Arc<WriteOut>, rest: Vec<KeySpan>, below: Seq, round: bool) -> Self {
        let [taken, helpers] = std::array::from_fn(|_| AtomicUsize::new(0));
        let [is_around, progress] = std::array::from_fn(|_| AtomicBool::new(false));
        let (batch, origin) = (write_out.writer.batch_pages(), rest[0].lower.clone());
        let write_out = write_out.clone();
        Sweep {
            write_out,
            rest: Mutex::new(rest.into()),
            below,
            batch,
            round,
            origin,
            is_around,
            taken,
            progress,
            helpers,
        }
    }

    pub(crate) fn is_round(&self) -> bool {
        self.round
    }

    /// Whether a thread waits for the tree's job lock to sweep.
    pub(crate) fn is_wanted(&self) -> bool {
        self.write_out.sweeping.has_waiters()
    }

    /// The number of the keyspace.
    pub(crate) fn keyspace(&self) -> u32 {
        self.write_out.keyspace
    }

    /// Pages of the batches that were taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes the next batch: one dirty key of each of some segments. `None` when nothing is left.
    pub(crate) fn next_batch(&self) -> Option<Vec<Vec<u8>>> {
        let (mut rest, mut keys, mut pages) = (self.rest.lock(), Vec::new(), 0);
        while pages < self.batch
            && let Some(span) = rest.front_mut()
        {
            let Some(key) = self.write_out.cache.next_dirty(span, self.below) else {
                rest.pop_front();
                continue;
            };
            let at = self.write_out.store.locate(&key);
            pages += self.write_out.cache.dirty_pages(&at);
            match at.upper {
                Some(upper) if span.upper.as_ref().is_none_or(|end| upper < *end) => span.lower = upper,
                _ => drop(rest.pop_front()),
            }
            keys.push(key);
        }
        if keys.last().is_none_or(|key| *key < self.origin)
            && self.round
            && !self.is_around.swap(true, Ordering::Relaxed)
        {
            self.write_out.end_round();
        }
        self.taken.fetch_add(pages, Ordering::Relaxed);
        (!keys.is_empty()).then_some(keys)
    }

    /// Writes a batch out. Records of the batch that were not taken come next.
    pub(crate) fn write(&self, batch: &[Vec<u8>]) -> Result<()> {
        let progress = self.write_out.write_segments(batch)?;
        if progress.is_any {
            self.progress.store(true, Ordering::Relaxed);
        }
        let mut rest = self.rest.lock();
        progress.left.into_iter().rev().for_each(|left| rest.push_front(left));
        let next = rest.front().map(|span| span.lower.clone()).unwrap_or_default();
        drop(rest);
        if self.round {
            self.write_out.note_sweep_position(&next);
        }
        Ok(())
    }

    /// Ends the sweep: later sweeps take what is left.
    pub(crate) fn stop(&self) {
        self.rest.lock().clear();
    }

    /// Whether there may be more to take.
    pub(crate) fn has_more(&self) -> bool {
        !self.rest.lock().is_empty()
    }

    /// Whether anything was written.
    pub(crate) fn has_progress(&self) -> bool {
        self.progress.load(Ordering::Relaxed)
    }

    /// Registers a helper until the result is dropped; `None` if nothing is left.
    pub(crate) fn help(&self) -> Option<Helping<'_>> {
        self.helpers.fetch_add(1, Ordering::SeqCst);
        let helping = Helping(self);
        self.has_more().then_some(helping)
    }

    /// Whether a helper is working.
    pub(crate) fn is_helped(&self) -> bool {
        self.helpers.load(Ordering::SeqCst) > 0
    }
}

/// A helper's registration at a sweep, until it is dropped.
#[derive(Debug)]
pub(crate) struct Helping<'a>(&'a Sweep);

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        self.0.helpers.fetch_sub(1, Ordering::SeqCst);
    }
}
