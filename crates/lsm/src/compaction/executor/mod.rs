//! Running a compaction. [`Compaction`] goes from the plan to the edit; `job` merges its inputs, in parts, by several
//! threads; `incremental` does so slice by slice on a nearly full disk.

pub(crate) mod cpu_time;
pub(crate) mod incremental;
pub(crate) mod job;
pub(crate) mod merge;
pub(crate) mod subtasks;

use std::sync::Arc;

use ecotone_substrate::Result;

use self::{job::MergeTask, merge::MergedTables};
use crate::{
    cache::table_reader::TableReader,
    compaction::{inputs::output_splitter::MAX_GRANDPARENT_OVERLAP, strategy::plan::CompactionPlan},
    manifest::{RunId, VersionEdit},
    pages::{conversion::Conversion, unsafe_inputs::Reactivation},
    store::Lsm,
    version::{TableMeta, Version, table_replacement::TableReplacement},
};

/// One compaction, from its plan to the edit. The compaction lock is held meanwhile, so the version keeps all inputs.
pub(crate) struct Compaction<'l> {
    lsm: &'l Arc<Lsm>,
    version: Arc<Version<TableReader>>,
    plan: CompactionPlan<TableReader>,
    /// Whether a caller waits for it. Then it is not throttled.
    is_awaited: bool,
}

impl Compaction<'_> {
    /// The compaction of a plan for this version.
    pub(crate) fn new(
        lsm: &Arc<Lsm>,
        version: Arc<Version<TableReader>>,
        plan: CompactionPlan<TableReader>,
        is_awaited: bool,
    ) -> Compaction<'_> {
        Compaction { lsm, version, plan, is_awaited }
    }

    /// Runs it, or one step of the conversion to pages that has to precede it. Returns the bytes of the inputs, or 0
    /// after such a step.
    pub(crate) fn run(self) -> Result<u64> {
        let lsm = self.lsm;
        let conversion = Conversion::of(lsm);
        let prepare = |conversion: Conversion<'_>| conversion.prepare_compaction(&self.version, &self.plan);
        let Some(reactivation) = conversion.map_or_else(|| Ok(Some(Reactivation::none())), prepare)? else {
            // One step for each hold of the lock: more urgent work runs in between.
            drop(self);
            return lsm.files.finish().map(|()| 0);
        };
        let bytes = self.plan.bytes();
        if reactivation.edits.is_empty()
            && self.plan.trivial_move().is_none()
            && let Some(most) = self.increment_bytes()?
        {
            drop(reactivation);
            self.run_incrementally(most)?;
            lsm.conversions.state.end();
            lsm.compactor.compactions.increment();
            return lsm.files.finish().map(|()| bytes);
        }
        let replaced = self.replace(&reactivation);
        if !reactivation.edits.is_empty() {
            conversion.into_iter().for_each(Conversion::set_boundaries);
        }
        if self.plan.target.is_l0() {
            // Consumed also if there was no space for the merge: compactions of levels come first then.
            lsm.compactor.read_budget.consume(bytes);
        }
        replaced?;
        if !self.plan.target.is_l0() {
            lsm.conversions.state.end();
        }
        lsm.compactor.compactions.increment();
        // A table that is still referenced cannot be deleted.
        drop((self, reactivation));
        lsm.files.finish().map(|()| bytes)
    }

    /// Moves or merges the inputs, and installs the output with the reactivations that it needs.
    fn replace(&self, reactivation: &Reactivation<TableReader>) -> Result<()> {
        let (lsm, plan, context) = (self.lsm, &self.plan, self.lsm.files.context());
        let began = context.shared.clock.now_for_log();
        let moves = plan.trivial_move().filter(|reader| self.is_trivial_move_allowed(reader));
        let MergedTables { tables, left_out } = if moves.is_some() {
            MergedTables::default()
        } else {
            MergeTask { version: &self.version, plan, slice: None, is_awaited: self.is_awaited }.run(lsm)?
        };
        let tables: Vec<_> = tables.into_iter().map(|reader| (plan.target, reader)).collect();
        let added = moves.iter().map(|reader| (plan.target, reader.file())).collect();
        let edit = VersionEdit { deleted: plan.files(), added, paged_ranges: reactivation.edits.clone() };
        let inputs: Vec<_> = plan.inputs.iter().flat_map(|(_, run)| run.tables()).cloned().collect();
        let uncached = if moves.is_none() { &inputs[..] } else { &[] };
        TableReplacement { edit, output: &tables, left_out, boundary_tables: &reactivation.boundary_tables, uncached }
            .install(lsm, &self.version)?;
        tracing::debug!(
            keyspace = context.keyspace,
            runs = plan.inputs.len(),
            read = plan.bytes(),
            written = tables.iter().map(|(_, table)| table.bytes()).sum::<u64>(),
            took = ?context.shared.clock.since(began),
            "compacted tables"
        );
        if moves.is_none() {
            inputs.iter().for_each(|reader| lsm.files.loader().read_frequency.forget(&**reader));
        }
        Ok(())
    }

    /// Whether a table that overlaps nothing in the target may be moved there without a merge: into Lmax if it has no
    /// tombstones, into other levels if it does not overlap too much of the next level.
    fn is_trivial_move_allowed(&self, reader: &TableReader) -> bool {
        if self.plan.target == RunId::LAST {
            return reader.table().tombstones() == 0;
        }
        let tuning = &self.lsm.tuning;
        let next = self.version.next_level_of(self.plan.target, tuning.l0_target);
        let below = next.map_or(&[][..], |run| run.overlapping(&(reader.first()..=reader.last())));
        below.iter().map(|table| table.bytes()).sum::<u64>() <= MAX_GRANDPARENT_OVERLAP * tuning.table
    }
}
