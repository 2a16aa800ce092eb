//! One merge of tables, split by key range into subtasks that run on several threads. [`CompactionJob`] is the state
//! that the subtasks share. This file also decides how many helper threads a job may have (compaction-pace.md,
//! "Subcompactions").

use std::sync::Arc;

use ecotone_engine::{contract::Range, remaining_range::RemainingRange};
use ecotone_substrate::{Error, Result};
use ecotone_sys::chunk::Size;

use crate::{
    cache::table_reader::TableReader,
    compaction::{
        executor::{
            merge::{CompactionMerge, MergeInput, MergedTables, merge},
            subtasks::{ParallelJob, Subtasks},
        },
        inputs::output_splitter::OutputSplitter,
        strategy::plan::CompactionPlan,
        throttle::compaction_throttle::CompactionThrottle,
    },
    flush::run_builder::{self, RunBuilder},
    manifest::RunId,
    store::Lsm,
    table::Options,
    version::{Run, Version},
};

/// Estimated memory of a subtask: bytes for each run that it reads, for its output, and for each record of a table.
const A_RUN: usize = 2 * Size::Slab.bytes();
const AN_OUTPUT: usize = 4 * Size::Slab.bytes();
const A_RECORD: u64 = 9;

/// The inputs of a job. They do not change once it is split into subtasks (compaction-pace.md, invariant 4).
pub(crate) struct CompactionJob {
    lsm: Arc<Lsm>,
    version: Arc<Version<TableReader>>,
    plan: CompactionPlan<TableReader>,
    options: Options,
    cuts: OutputSplitter<TableReader>,
    ranges: Vec<Range>,
    /// Whether a caller waits for the job; then it is not throttled.
    is_awaited: bool,
}

impl ParallelJob for CompactionJob {
    type Output = MergedTables;

    fn run_part(&self, part: usize, goes_on: &dyn Fn() -> bool) -> Result<MergedTables> {
        self.lsm.files.context().begin_session()?;
        let (files, name) = (&self.lsm.files, &mut || self.lsm.files.new_table_name());
        let (low, high) = self.ranges[part].clone();
        let mut throttle = (!self.is_awaited).then(|| CompactionThrottle::begin(&self.lsm));
        let work = CompactionMerge {
            version: &self.version,
            inputs: MergeInput::of_tables(&self.plan.inputs),
            range: &RemainingRange::new((low, high)),
            hash_of: &|key| self.lsm.hash(key),
            left_out: self.lsm.reports().left_out(),
            on_progress: &mut |passed| {
                self.lsm.throttle.stall.pass(passed);
                self.lsm.update_debt();
                if let Some(throttle) = &mut throttle {
                    throttle.pause();
                }
                if goes_on() { Ok(()) } else { Err(Error::Closed { what: "the compaction" }) }
            },
        };
        let output = RunBuilder::new(files.loader(), self.options, self.cuts.clone(), name);
        self.lsm.compactor.cpu_time.make(|| merge(work, output))
    }
}

/// What a compaction merges at once: the inputs of a plan, or the records of them in a slice.
pub(super) struct MergeTask<'m> {
    pub(super) version: &'m Arc<Version<TableReader>>,
    pub(super) plan: &'m CompactionPlan<TableReader>,
    pub(super) slice: Option<Range>,
    pub(super) is_awaited: bool,
}

impl MergeTask<'_> {
    /// Merges the inputs. Helpers take part if a caller waits or the compaction debt is high. The output is not
    /// installed yet.
    pub(super) fn run(self, lsm: &Arc<Lsm>) -> Result<MergedTables> {
        let MergeTask { version, plan, slice, is_awaited } = self;
        let mean = mean(plan.inputs.iter().flat_map(|(_, run)| run.tables()));
        let is_shared = slice.is_none() && (is_awaited || lsm.throttle.stall.debt_ratio() >= lsm.tuning.late);
        let helpers = if is_shared { lsm.helpers(plan.inputs.len(), mean) } else { 0 };
        let readers = plan.inputs.iter().flat_map(|(_, run)| run.tables()).map(|reader| &**reader);
        let options = lsm.table_options(plan.target, mean as usize, readers, version);
        let is_whole_job = slice.is_none();
        let ranges = slice.map_or_else(|| plan.ranges(1 + helpers, lsm.tuning.part), |slice| vec![slice]);
        let (count, plan) = (ranges.len(), plan.clone());
        let is_whole = |(run_id, run): &&(RunId, Run<TableReader>)| {
            run_id.is_l0() && version.run(*run_id).is_some_and(|whole| whole.tables().len() == run.tables().len())
        };
        let runs = if is_whole_job {
            plan.inputs.iter().filter(is_whole).count() - usize::from(plan.target.is_l0())
        } else {
            0
        };
        lsm.throttle.stall.begin_job(runs as u64, plan.bytes());
        let (version, cuts) = (version.clone(), lsm.output_splitter(plan.target, version));
        let job = CompactionJob { lsm: lsm.clone(), version, plan, options, cuts, ranges, is_awaited };
        let parts = Subtasks::new(job, count);
        lsm.compactor.parts.add(count as u64);
        lsm.call_helpers("compact a part of tables", &parts, helpers.min(count - 1));
        let ended = parts.run_all();
        lsm.throttle.stall.end_job();
        let join = |made: Vec<MergedTables>| {
            let (tables, left_out): (Vec<_>, Vec<_>) =
                made.into_iter().map(|made| (made.tables, made.left_out)).unzip();
            MergedTables { tables: tables.into_iter().flatten().collect(), left_out: left_out.into_iter().collect() }
        };
        ended.map(join).map_err(|(error, made)| {
            lsm.update_debt();
            run_builder::remove(lsm.files.environment(), &join(made).tables);
            error
        })
    }
}

/// How many helpers fit into `memory` bytes if each reads `runs` runs and a table has `records` records.
pub(crate) fn affordable_helpers(memory: usize, runs: usize, records: u64) -> usize {
    memory / (runs * A_RUN + AN_OUTPUT + (A_RECORD * records) as usize)
}

/// Average bytes of a record in these tables.
pub(crate) fn mean<'h>(readers: impl Iterator<Item = &'h Arc<TableReader>>) -> u64 {
    let sums = readers
        .fold((0, 0), |(bytes, records), reader| (bytes + reader.table().bytes(), records + reader.table().records()));
    sums.0 / sums.1.max(1)
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::tuning::HELPERS_PART;

    #[test]
    fn small_budgets_ask_for_no_help() {
        let of = |budget: usize, runs| affordable_helpers((budget << 20) / HELPERS_PART, runs, (8 << 20) / 108);
        assert_eq!([of(16, 2), of(16, 5), of(64, 2), of(220, 5), of(220, 16)], [0, 0, 1, 4, 2]);
    }
}
