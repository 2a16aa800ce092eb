//! One adaptive keyspace: an lsm with a page tier. Operations go to the lsm, which reads and fills the pages.
//! Checkpoints, recovery and statistics combine both.

use std::sync::Arc;

use ecotone_engine::contract::{
    Access, Admission, Capabilities, Check, Compactable, Cursor, Engine, EngineCheckpoint, Hint, Hintable, Maintained,
    Operation, Ordered, Progress, Range, RangeShape, Record, Recover, Stats, VisitValue,
};
use ecotone_lsm::keyspace::LsmKeyspace;
use ecotone_substrate::{Error, Result, Seq, memory::Component};
use ecotone_tree::Tree;

use super::{AdaptiveOptions, blob::Blob, controller::Controller, task::conversion};

/// Tags of the two parts of a keyspace in structural records.
pub(super) const TABLES: u8 = 1;
pub(super) const PAGES: u8 = 2;

/// A keyspace of an open database.
#[derive(Debug)]
pub struct AdaptiveKeyspace {
    pub(super) lsm: Arc<LsmKeyspace>,
    pub(super) tree: Arc<Tree>,
    pub(super) controller: Arc<Controller>,
    /// Its `tree` options are not used: the tree keeps its own.
    pub(super) options: AdaptiveOptions,
}

impl AdaptiveKeyspace {
    /// Checkpoints the lsm and the tree at one position of the log (adaptive-protocol.md, invariant 20).
    pub(super) fn take_checkpoint(&self) -> Result<EngineCheckpoint> {
        let ((checkpoint, structure_position), lsm, paged_ranges) =
            self.lsm.checkpoint_with(|| self.tree.begin_checkpoint());
        let tree = self.tree.end_checkpoint(checkpoint)?;
        Ok(EngineCheckpoint {
            structure_position,
            blob: Blob { options: self.options, paged_ranges, lsm, tree }.encode(),
        })
    }

    /// The memtables and tables.
    pub fn lsm(&self) -> &Arc<LsmKeyspace> {
        &self.lsm
    }

    /// The options.
    pub fn options(&self) -> &AdaptiveOptions {
        &self.options
    }
}

impl Engine for AdaptiveKeyspace {
    fn read_into(&self, key: &[u8], access: Access, value: &mut Vec<u8>) -> Result<bool> {
        self.lsm.read_into(key, access, value)
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.lsm.multi_get(keys, found)
    }

    fn throttle(&self, bytes: usize, adds: bool) -> Result<()> {
        self.lsm.throttle(bytes, adds)
    }

    fn admit(&self, operation: Operation<'_>) -> Result<Admission<'_>> {
        self.lsm.admit(operation)
    }

    fn apply(&self, admission: Admission<'_>, seq: Seq, operation: Operation<'_>) {
        self.lsm.apply(admission, seq, operation);
    }

    fn try_apply(&self, operation: Operation<'_>) -> Result<bool> {
        self.lsm.try_apply(operation)
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.lsm.first_unflushed()
    }

    fn flush(&self, below: Seq) -> Result<()> {
        self.lsm.flush(below)?;
        self.tree.flush(below)
    }

    fn checkpoint(&self) -> Result<EngineCheckpoint> {
        self.lsm.check_live()?;
        self.take_checkpoint()
    }

    fn checkpoint_is_durable(&self) {
        self.lsm.checkpoint_is_durable();
        self.tree.checkpoint_is_durable();
    }

    fn verify(&self) -> Result<Check> {
        let (mut check, pages) = (self.lsm.verify()?, self.tree.verify()?);
        check.pages += pages.pages;
        check.problems.extend(pages.problems);
        Ok(check)
    }

    fn stats(&self) -> Stats {
        let mut stats = self.lsm.stats();
        stats.extend(self.controller.stats());
        stats.extend(self.lsm.page_stats());
        stats.push(("paged_ranges", self.lsm.lsm().paged_ranges().iter().count() as u64));
        let of_pages = ["segments", "overflow_pages", "used_bytes", "reorganisations", "write_outs"];
        let is_of_pages = |name: &str| of_pages.contains(&name) || name.starts_with("forecast");
        stats.extend(self.tree.stats().into_iter().filter(|(name, _)| is_of_pages(name)));
        stats
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { compact: Some(self), hints: Some(self), maintenance: Some(self), ..Capabilities::default() }
    }

    fn mark_dropped(&self) {
        self.lsm.mark_dropped();
        self.tree.mark_dropped();
    }
}

impl Compactable for AdaptiveKeyspace {
    fn compact(&self, progress: &mut Progress<'_>) -> Result<()> {
        self.lsm.compact(progress)
    }
}

impl Maintained for AdaptiveKeyspace {
    fn begin_flush(&self, below: Seq) {
        self.lsm.begin_flush(below);
    }

    fn reclaimable_deletes(&self) -> u64 {
        u64::from(self.tree.spare_pages())
    }
}

impl Hintable for AdaptiveKeyspace {
    fn hint(&self, range: &Range, hint: Hint) -> Result<()> {
        self.lsm.check_live()?;
        self.controller.hint(self.lsm.lsm(), range, hint)
    }

    fn shapes(&self) -> Vec<RangeShape> {
        self.controller.shapes(self.lsm.lsm())
    }
}

impl Recover for AdaptiveKeyspace {
    fn replay_structure(&self, seq: Seq, body: &[u8]) -> Result<()> {
        match body.split_first() {
            Some((&TABLES, change)) => self.lsm.replay_structure(seq, change),
            Some((&PAGES, change)) => self.tree.replay_structure(seq, change),
            _ => Err(Error::corruption("the log's structural record", 0, "an adaptive keyspace has no such part")),
        }
    }

    fn structure_recovered(&self) -> Result<()> {
        self.tree.structure_recovered()?;
        self.lsm.recover(&[self.tree.file()])
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        self.lsm.replay(seq, operation)
    }

    fn recovered(&self) -> Result<()> {
        self.lsm.recovered()?;
        match conversion(self.lsm.lsm()).clear_leftovers() {
            // The leftovers do no harm. The next opening tries again.
            Err(error) if error.is_shortage() => {}
            cleared => cleared?,
        }
        self.tree.recovered()
    }
}

impl Ordered for AdaptiveKeyspace {
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor> {
        self.lsm.clone().cursor_in(range, memory)
    }

    fn bulk_load(self: Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        self.lsm.clone().bulk_load(records)
    }
}
