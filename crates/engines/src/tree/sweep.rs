//! Pages that are to be written out, batch by batch, by one or two workers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use ecotone_substrate::Result;

use super::Tree;

/// Pages of one tree in the order in which they are written, and how far that is.
#[derive(Debug)]
pub(crate) struct Sweep {
    tree: Arc<Tree>,
    pages: Vec<u32>,
    batch: usize,
    /// Whether it is the elevator's, which stops where enough is clean and goes on from there.
    round: bool,
    next: AtomicUsize,
    progress: AtomicBool,
    /// Helpers that have begun and not ended.
    helpers: AtomicUsize,
}

impl Sweep {
    /// A sweep that may stop early.
    pub(crate) fn of_round(tree: &Arc<Tree>, pages: Vec<u32>) -> Self {
        Self::new(tree, pages, true)
    }

    /// A sweep over all of the pages.
    pub(crate) fn of_all(tree: &Arc<Tree>, pages: Vec<u32>) -> Self {
        Self::new(tree, pages, false)
    }

    fn new(tree: &Arc<Tree>, pages: Vec<u32>, round: bool) -> Self {
        let (next, helpers) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Sweep { tree: tree.clone(), pages, batch: tree.batch_pages(), round, next, progress: AtomicBool::new(false), helpers }
    }

    pub(crate) fn is_round(&self) -> bool {
        self.round
    }

    /// Whether the tree has more dirty records than its segments can do with.
    pub(crate) fn is_crowded(&self) -> bool {
        self.tree.is_crowded()
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
        self.pages.len().min(self.next.load(Ordering::Relaxed).saturating_mul(self.batch))
    }

    /// Batches in all.
    pub(crate) fn batches(&self) -> usize {
        self.pages.len().div_ceil(self.batch)
    }

    /// Takes the next batch; none when all are taken.
    pub(crate) fn next_batch(&self) -> Option<&[u32]> {
        self.pages.chunks(self.batch).nth(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes a batch out.
    pub(crate) fn write(&self, batch: &[u32]) -> Result<()> {
        if self.tree.write_pages(batch)? {
            self.progress.store(true, Ordering::Relaxed);
        }
        if let (true, Some(last)) = (self.round, batch.last()) {
            self.tree.elevator_reached(*last);
        }
        Ok(())
    }

    /// Leaves the batches that are not taken to later sweeps.
    pub(crate) fn stop(&self) {
        self.next.store(self.batches(), Ordering::SeqCst);
    }

    /// Whether anything was written.
    pub(crate) fn has_progress(&self) -> bool {
        self.progress.load(Ordering::Relaxed)
    }

    /// Begins to help, until the result is dropped; none if no batch is left.
    pub(crate) fn help(&self) -> Option<Helping<'_>> {
        self.helpers.fetch_add(1, Ordering::SeqCst);
        let helping = Helping(self);
        (self.next.load(Ordering::SeqCst) < self.batches()).then_some(helping)
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
