//! The merge loop of compactions and conversions: reads sorted inputs, keeps the newest visible record of each key, and
//! writes new tables (lsm.md, "Compaction").

use std::sync::Arc;

use ecotone_engine::{
    remaining_range::{Direction, RemainingRange},
    superseded::LeftOut,
};
use ecotone_substrate::{Result, bug};

use crate::{
    cache::table_reader::TableReader,
    compaction::inputs::retention::Retention,
    flush::run_builder::RunBuilder,
    manifest::RunId,
    pages::{pending_frees::KeySpan, tier::PageCursor},
    read::{
        merging_iterator::{MergingIterator, RecordIterator},
        run_iterator::{ReadMode, RunIterator},
        sorted_run_iterator::SortedRunIterator,
    },
    table::common_prefix_len,
    version::{Run, TableMeta, Version},
};

/// A sorted run that a merge reads.
pub(crate) enum MergeInput<'m> {
    /// Tables of a run or level.
    Tables(RunId, &'m Run<TableReader>),
    /// The pages of a range, the upper bound excluded, and a cursor on their first record.
    Pages(PageCursor, &'m KeySpan),
}

impl<'m> MergeInput<'m> {
    /// The inputs of a merge of tables alone.
    pub(crate) fn of_tables(runs: &'m [(RunId, Run<TableReader>)]) -> Vec<MergeInput<'m>> {
        runs.iter().map(|(run_id, run)| MergeInput::Tables(*run_id, run)).collect()
    }

    /// Two keys between which all of its keys are, if it has any.
    fn ends(&self) -> Option<(&[u8], &[u8])> {
        match self {
            MergeInput::Tables(_, run) => Some((run.tables().first()?.first(), run.tables().last()?.last())),
            MergeInput::Pages(_, (lower, upper)) => Some((lower, upper)),
        }
    }
}

/// The iterator over an input.
struct InputIterator {
    /// Its run; `None` for the pages, of which all records are visible.
    run_id: Option<RunId>,
    records: SortedRunIterator,
}

impl InputIterator {
    /// An iterator on the first record that is in the range.
    fn begin(input: MergeInput<'_>, range: &RemainingRange) -> Result<InputIterator> {
        let way = (Direction::Up, ReadMode::Sequential);
        Ok(match input {
            MergeInput::Tables(run_id, run) => InputIterator {
                run_id: Some(run_id),
                records: SortedRunIterator::Tables(RunIterator::begin(run, range, way)?),
            },
            MergeInput::Pages(cursor, _) => InputIterator { run_id: None, records: SortedRunIterator::Pages(cursor) },
        })
    }
}

impl RecordIterator for InputIterator {
    fn key(&self) -> Option<&[u8]> {
        self.records.key()
    }

    fn step(&mut self) -> Result<()> {
        self.records.step()
    }
}

/// The inputs of a merge, and its callbacks.
pub(crate) struct CompactionMerge<'m> {
    /// The version that has the inputs.
    pub(crate) version: &'m Version<TableReader>,
    /// From young to old.
    pub(crate) inputs: Vec<MergeInput<'m>>,
    /// The keys of which records are written. The result for a key does not depend on the range (compaction-pace.md,
    /// invariant 6).
    pub(crate) range: &'m RemainingRange,
    /// Hashes a key.
    pub(crate) hash_of: &'m dyn Fn(&[u8]) -> u64,
    /// An empty buffer for the versions that the merge leaves out.
    pub(crate) left_out: LeftOut,
    /// Called after each MiB of records, with the bytes of records since the last call. An error stops the merge.
    pub(crate) on_progress: &'m mut dyn FnMut(u64) -> Result<()>,
}

/// The result of a merge. It is not installed yet.
#[derive(Debug, Default)]
pub(crate) struct MergedTables {
    pub(crate) tables: Vec<Arc<TableReader>>,
    /// Versions that the inputs have and the tables do not.
    pub(crate) left_out: LeftOut,
}

/// Bytes of records between two calls of `on_progress`.
const LOOK: u64 = 1 << 20;

/// Writes the newest record of each key of a range, except superseded records and tombstones that hide nothing.
///
/// # Errors
/// If an input is damaged or cannot be read, if memory or disk space is lacking, or if `on_progress` returns an error.
/// Then there are no files.
pub(crate) fn merge(work: CompactionMerge<'_>, mut output: RunBuilder<'_>) -> Result<MergedTables> {
    let CompactionMerge { version, inputs, range, hash_of, mut left_out, on_progress } = work;
    let (mut retention, skip) = (retention(version, &inputs), shared(&inputs));
    let sources = inputs.into_iter().map(|input| InputIterator::begin(input, range)).collect::<Result<_>>()?;
    let mut merged = MergingIterator::new(sources, Direction::Up, skip);
    let mut passed = 0;
    while let Some(InputIterator { run_id, records }) = merged.first()
        && let Some((key, value)) = records.record()
        && range.is_below_high(key)
    {
        passed += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        if run_id.is_none_or(|run_id| retention.is_visible(run_id, key)) {
            if value.is_some() || !run_id.is_some_and(|run_id| retention.can_drop_tombstone(run_id, key)) {
                output.push(hash_of(key), key, value, records.sequences())?;
                if records.is_cached() {
                    output.note_cached();
                }
            }
            left_out.newest(value);
            merged.pass_with(|older| hide(older, &mut retention, &mut left_out))?;
        } else {
            // All older table records of the key are superseded too, but the record in the pages is visible.
            merged.skip()?;
        }
        if passed >= LOOK {
            on_progress(passed)?;
            passed = 0;
        }
    }
    Ok(MergedTables { tables: output.finish()?, left_out })
}

/// Adds a record that a younger one hides to what is left out, if it is visible (superseded.md, invariant 3).
#[inline]
fn hide(older: &InputIterator, retention: &mut Retention<TableReader>, left_out: &mut LeftOut) {
    if left_out.is_wanted()
        && let Some((key, value)) = older.records.record()
        && older.run_id.is_none_or(|run_id| retention.is_visible(run_id, key))
        && !bug!(SilentMerge)
    {
        left_out.hidden(key, value);
    }
}

/// What decides which records the merge of these inputs drops.
fn retention(version: &Version<TableReader>, inputs: &[MergeInput<'_>]) -> Retention<TableReader> {
    let (mut files, mut pages) = (Vec::new(), None);
    for input in inputs {
        match input {
            MergeInput::Tables(_, run) => files.extend(run.files()),
            MergeInput::Pages(_, span) => pages = Some((*span).clone()),
        }
    }
    Retention::of(version, &files, pages)
}

/// Length of the prefix that all keys have in common.
fn shared(inputs: &[MergeInput<'_>]) -> usize {
    let first = inputs.iter().filter_map(MergeInput::ends).map(|(first, _)| first).min();
    let last = inputs.iter().filter_map(MergeInput::ends).map(|(_, last)| last).max();
    first.zip(last).map_or(0, |(first, last)| common_prefix_len(first, last))
}
