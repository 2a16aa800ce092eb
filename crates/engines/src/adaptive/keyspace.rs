//! One adaptive keyspace, as the database drives it: its operations are the lsm's.

use std::sync::Arc;

use ecotone_substrate::{Error, Result, Seq, memory::Component};

use super::{
    AdaptiveOptions,
    blob::Blob,
    family::{PAGES, TABLES},
    upkeep::Upkeep,
};
use crate::{
    engine::{
        Admission, Check, Cursor, Engine, Hint, Operation, Ordered, Progress, Range, RangeShape, Record, Root, Stats,
        VisitValue,
    },
    lsm::{self, keyspace::LsmKeyspace},
    tree::Tree,
};

/// A keyspace of an open database.
#[derive(Debug)]
pub(super) struct AdaptiveKeyspace {
    pub(super) lsm: Arc<LsmKeyspace>,
    pub(super) tree: Arc<Tree>,
    pub(super) upkeep: Arc<Upkeep>,
    /// Those of the pages are the tree's own.
    pub(super) options: AdaptiveOptions,
    pub(super) is_restless: bool,
}

impl AdaptiveKeyspace {
    /// Both parts at one position of the log (decision 15, invariant 20).
    pub(super) fn take_checkpoint(&self) -> Result<Root> {
        let files = self.lsm.files();
        let (checkpoint, structure, lsm, covers) = {
            let state = files.structure();
            let (checkpoint, structure) = self.tree.begin_checkpoint();
            let tables = state.structure();
            (checkpoint, structure, lsm::blob::encode(*files.options(), tables), tables.covers().as_ref().clone())
        };
        let tree = self.tree.end_checkpoint(checkpoint)?;
        Ok(Root { structure, blob: Blob { options: self.options, covers, lsm, tree }.encode() })
    }

    /// Covers, opens or uncovers what a table or a cover has, if chance will, or what lies between two.
    fn stir(&self) -> Result<()> {
        let chance = self.lsm.chance();
        let bounds = self.lsm.bounds();
        let at = |number: u64| bounds.get((number % bounds.len().max(1) as u64) as usize);
        let (Some(one), Some(other)) = (at(chance >> 8), at(chance >> 24)) else { return Ok(()) };
        let (lower, upper) = (one.min(other), one.max(other));
        let stirred = match chance % 16 {
            0..8 => self.absorb(lower, upper),
            8 => self.open(lower, upper),
            9 => self.uncover(lower, upper),
            _ => return Ok(()),
        };
        match stirred {
            // It may be dropped meanwhile.
            Err(Error::NoSpace { .. } | Error::Memory { .. } | Error::Closed { .. }) => Ok(()),
            stirred => stirred,
        }
    }

    /// Has all records of a range in pages that are in tables and count, or those of the oldest place.
    pub(super) fn absorb(&self, lower: &[u8], upper: &[u8]) -> Result<()> {
        self.lsm.lsm().absorb(self.options.split, lower, upper)
    }

    /// Has all tables count in what is covered of a range.
    pub(super) fn open(&self, lower: &[u8], upper: &[u8]) -> Result<()> {
        self.lsm.lsm().open(lower, upper)
    }

    /// Has nothing of a range in pages.
    pub(super) fn uncover(&self, lower: &[u8], upper: &[u8]) -> Result<()> {
        self.lsm.lsm().uncover(lower, upper)
    }
}

impl Engine for AdaptiveKeyspace {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.lsm.get(key)
    }

    fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.lsm.get_into(key, value)
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut VisitValue<'_>) -> Result<()> {
        self.lsm.multi_get(keys, found)
    }

    fn pace(&self, bytes: usize, adds: bool) -> Result<()> {
        self.lsm.pace(bytes, adds)
    }

    fn admit(&self, operation: Operation<'_>) -> Result<Admission> {
        self.lsm.admit(operation)
    }

    fn apply(&self, admission: Admission, seq: Seq, operation: Operation<'_>) {
        self.lsm.apply(admission, seq, operation);
    }

    fn overwrite(&self, operation: Operation<'_>) -> bool {
        self.lsm.overwrite(operation)
    }

    fn cancel(&self, admission: Admission) {
        self.lsm.cancel(admission);
    }

    fn first_unflushed(&self) -> Option<Seq> {
        self.lsm.first_unflushed()
    }

    fn begin_flush(&self, below: Seq) {
        self.lsm.begin_flush(below);
    }

    fn flush(&self, below: Seq) -> Result<()> {
        self.lsm.flush(below)?;
        self.tree.flush(below)?;
        if self.is_restless { self.stir() } else { Ok(()) }
    }

    fn litter(&self) -> u64 {
        u64::from(self.tree.spare_pages())
    }

    fn checkpoint(&self) -> Result<Root> {
        self.lsm.check_live()?;
        self.take_checkpoint()
    }

    fn checkpoint_is_durable(&self) {
        self.lsm.checkpoint_is_durable();
        self.tree.checkpoint_is_durable();
    }

    fn replay_structure(&self, seq: Seq, body: &[u8]) -> Result<()> {
        match body.split_first() {
            Some((&TABLES, change)) => self.lsm.replay_structure(seq, change),
            Some((&PAGES, change)) => self.tree.replay_structure(seq, change),
            _ => Err(Error::corruption("the log's structural record", 0, "an adaptive keyspace has no such part")),
        }
    }

    fn structure_recovered(&self) -> Result<()> {
        self.tree.structure_recovered()?;
        self.lsm.recover(&[self.tree.file()])?;
        let version = self.lsm.lsm().version();
        // What is carved beside a bound that is none would take a part of the cover along.
        if !version.covers().bounds().all(|bound| self.tree.has_fence(bound)) {
            return Err(self.lsm.files().misfit("a range that pages cover ends within a segment"));
        }
        self.tree.set_walls(version.covers().bounds());
        Ok(())
    }

    fn replay(&self, seq: Seq, operation: Operation<'_>) -> Result<()> {
        self.lsm.replay(seq, operation)
    }

    fn recovered(&self) -> Result<()> {
        self.lsm.recovered()?;
        match self.lsm.lsm().clear_rests() {
            // They are in nobody's way: the next opening tries it again.
            Err(error) if error.is_shortage() => {}
            cleared => cleared?,
        }
        self.tree.recovered()
    }

    fn compact(&self, progress: &mut Progress<'_>) -> Result<bool> {
        self.lsm.compact(progress)
    }

    fn verify(&self) -> Result<Check> {
        let (mut check, pages) = (self.lsm.verify()?, self.tree.verify()?);
        check.pages += pages.pages;
        check.problems.extend(pages.problems);
        let version = self.lsm.lsm().version();
        for cover in version.covers().iter() {
            let (lower, upper) = cover.bounds();
            if ![lower, upper].into_iter().all(|bound| self.tree.has_fence(bound)) {
                check
                    .problems
                    .push(format!("a range of keyspace {} that pages cover ends within a segment", self.lsm.number()));
            }
        }
        Ok(check)
    }

    fn stats(&self) -> Stats {
        let mut stats = self.lsm.stats();
        stats.extend(self.upkeep.stats());
        stats.extend(self.lsm.lsm().stats_of_base());
        stats.push(("covers", self.lsm.lsm().version().covers().iter().count() as u64));
        let of_pages = ["segments", "overflow_pages", "used_bytes", "reorganisations", "write_outs"];
        let is_of_pages = |name: &str| of_pages.contains(&name) || name.starts_with("forecast");
        stats.extend(self.tree.stats().into_iter().filter(|(name, _)| is_of_pages(name)));
        stats
    }

    fn retire(&self) {
        self.lsm.retire();
        self.tree.retire();
    }
}

impl Ordered for AdaptiveKeyspace {
    fn cursor_in(self: Arc<Self>, range: Range, memory: Component) -> Box<dyn Cursor> {
        self.lsm.clone().cursor_in(range, memory)
    }

    fn bulk_load(self: Arc<Self>, records: &mut dyn Iterator<Item = Result<Record>>) -> Result<u64> {
        self.lsm.clone().bulk_load(records)
    }

    fn hint(&self, range: &Range, hint: Hint) -> Result<()> {
        self.lsm.check_live()?;
        self.upkeep.hint(self.lsm.lsm(), range, hint)
    }

    fn shapes(&self) -> Vec<RangeShape> {
        self.upkeep.shapes(self.lsm.lsm())
    }
}
