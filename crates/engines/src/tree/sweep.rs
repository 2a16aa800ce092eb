//! What is to be written out, batch by batch, by one or two workers.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use ecotone_substrate::{Result, Seq};
use ecotone_sys::primitive::Mutex;

use super::{Tree, cache::Stretch};

/// The dirty records of one tree, in key order, and how far that is.
#[derive(Debug)]
pub(crate) struct Sweep {
    tree: Arc<Tree>,
    /// What is left of it.
    rest: Mutex<VecDeque<Stretch>>,
    /// It goes over what is dirty since sequences below this, and may take others along.
    below: Seq,
    /// Pages of a batch.
    batch: usize,
    /// Whether it is the elevator's, which stops where enough is clean and goes on from there.
    round: bool,
    /// Where it began, and whether it has come to the end of all keys since.
    origin: Vec<u8>,
    is_around: AtomicBool,
    taken: AtomicUsize,
    progress: AtomicBool,
    /// Helpers that have begun and not ended.
    helpers: AtomicUsize,
}

impl Sweep {
    /// A sweep over all that is dirty, which may stop early.
    pub(crate) fn of_round(tree: &Arc<Tree>) -> Self {
        Self::new(tree, tree.round(), Seq::MAX, true)
    }

    /// A sweep over what is dirty since a sequence below this one.
    pub(crate) fn of_all(tree: &Arc<Tree>, below: Seq) -> Self {
        Self::new(tree, vec![Stretch::default()], below, false)
    }

    fn new(tree: &Arc<Tree>, rest: Vec<Stretch>, below: Seq, round: bool) -> Self {
        let [taken, helpers] = std::array::from_fn(|_| AtomicUsize::new(0));
        let [is_around, progress] = std::array::from_fn(|_| AtomicBool::new(false));
        let (tree, batch, origin) = (tree.clone(), tree.batch_pages(), rest[0].lower.clone());
        Sweep { tree, rest: Mutex::new(rest.into()), below, batch, round, origin, is_around, taken, progress, helpers }
    }

    pub(crate) fn is_round(&self) -> bool {
        self.round
    }

    /// Whether somebody waits for the turn to sweep over the tree.
    pub(crate) fn is_wanted(&self) -> bool {
        self.tree.sweeping.is_wanted()
    }

    /// The number of the keyspace.
    pub(crate) fn keyspace(&self) -> u32 {
        self.tree.context.keyspace
    }

    /// Pages of the batches that were taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes the next batch: a dirty key of each of some segments. None when all are taken.
    pub(crate) fn next_batch(&self) -> Option<Vec<Vec<u8>>> {
        let (mut rest, mut keys, mut pages) = (self.rest.lock(), Vec::new(), 0);
        while pages < self.batch
            && let Some(stretch) = rest.front_mut()
        {
            let Some(key) = self.tree.cache.next_dirty(self.tree.space(), stretch, self.below) else {
                rest.pop_front();
                continue;
            };
            let at = self.tree.store.locate(&key);
            pages += self.tree.dirty_pages(&at);
            match at.upper {
                Some(upper) if stretch.upper.as_ref().is_none_or(|end| upper < *end) => stretch.lower = upper,
                _ => drop(rest.pop_front()),
            }
            keys.push(key);
        }
        if keys.last().is_none_or(|key| *key < self.origin)
            && self.round
            && !self.is_around.swap(true, Ordering::Relaxed)
        {
            self.tree.all_has_come();
        }
        self.taken.fetch_add(pages, Ordering::Relaxed);
        (!keys.is_empty()).then_some(keys)
    }

    /// Writes a batch out. What was left of it comes next.
    pub(crate) fn write(&self, batch: &[Vec<u8>]) -> Result<()> {
        let progress = self.tree.write_segments(batch)?;
        if progress.is_any {
            self.progress.store(true, Ordering::Relaxed);
        }
        let mut rest = self.rest.lock();
        progress.left.into_iter().rev().for_each(|left| rest.push_front(left));
        let next = rest.front().map(|stretch| stretch.lower.clone()).unwrap_or_default();
        drop(rest);
        if self.round {
            self.tree.elevator_reached(&next);
        }
        Ok(())
    }

    /// Leaves what is not taken to later sweeps.
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

    /// Begins to help, until the result is dropped; none if nothing is left.
    pub(crate) fn help(&self) -> Option<Helping<'_>> {
        self.helpers.fetch_add(1, Ordering::SeqCst);
        let helping = Helping(self);
        self.has_more().then_some(helping)
    }

    /// Whether a helper is at work.
    pub(crate) fn is_helped(&self) -> bool {
        self.helpers.load(Ordering::SeqCst) > 0
    }
}

/// Help with a sweep, until it is dropped.
#[derive(Debug)]
pub(crate) struct Helping<'a>(&'a Sweep);

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        self.0.helpers.fetch_sub(1, Ordering::SeqCst);
    }
}
