//! The merge loop of compactions and conversions: reads sorted inputs, keeps the newest visible record of each key, and
//! writes new tables (lsm.md, "Compaction").

use std::sync::Arc;

use ecotone_engine::remaining_range::{Direction, RemainingRange};
use ecotone_substrate::Result;

use crate::{
    cache::table_reader::TableReader,
    compaction::inputs::retention::Retention,
    flush::run_builder::RunBuilder,
    manifest::RunId,
    pages::tier::PageCursor,
    read::{
        level_iterator::LevelIterator,
        merging_iterator::{MergingIterator, RecordIterator},
        run_iterator::{ReadMode, RunIterator},
    },
    table::common_prefix_len,
    version::{Run, TableMeta},
};

/// One input of a merge.
struct InputIterator {
    /// Its run; `None` for the page tier, of which all records are visible.
    run_id: Option<RunId>,
    layer: LevelIterator,
}

impl RecordIterator for InputIterator {
    fn key(&self) -> Option<&[u8]> {
        self.layer.key()
    }

    fn step(&mut self) -> Result<()> {
        self.layer.step()
    }
}

/// The inputs of a merge, and its callbacks.
pub(crate) struct CompactionMerge<'m> {
    /// From young to old.
    pub(crate) inputs: &'m [(RunId, Run<TableReader>)],
    /// The records of the page tier, if they are merged as well.
    pub(crate) page_source: Option<PageCursor>,
    /// The keys of which records are written. The result for a key does not depend on the range (compaction-pace.md,
    /// invariant 3).
    pub(crate) range: &'m RemainingRange,
    /// Hashes a key.
    pub(crate) hash_of: &'m dyn Fn(&[u8]) -> u64,
    /// Called after each MiB of records, with the bytes of records since the last call. An error stops the merge.
    pub(crate) on_progress: &'m mut dyn FnMut(u64) -> Result<()>,
}

/// Bytes of records between two calls of `on_progress`.
const LOOK: u64 = 1 << 20;

/// Writes the newest record of each key of a range, except superseded records and tombstones that hide nothing.
///
/// # Errors
/// If an input is damaged or cannot be read, if memory or disk space is lacking, or if `on_progress` returns an error.
/// Then there are no files.
pub(crate) fn merge(
    work: CompactionMerge<'_>,
    mut retention: Retention<TableReader>,
    mut output: RunBuilder<'_>,
) -> Result<Vec<Arc<TableReader>>> {
    let CompactionMerge { inputs, page_source, range, hash_of, on_progress } = work;
    let way = (Direction::Up, ReadMode::Sequential);
    let layer = |run: &Run<TableReader>| RunIterator::begin(run, range, way.clone()).map(LevelIterator::Tables);
    let input = |(run_id, run): &(RunId, _)| Ok(InputIterator { run_id: Some(*run_id), layer: layer(run)? });
    let mut sources = inputs.iter().map(input).collect::<Result<Vec<_>>>()?;
    let skip = if page_source.is_some() { 0 } else { shared(inputs) };
    sources.extend(page_source.map(|based| InputIterator { run_id: None, layer: LevelIterator::Pages(based) }));
    let mut merged = MergingIterator::new(sources, Direction::Up, skip);
    let mut passed = 0;
    while let Some(InputIterator { run_id, layer }) = merged.first()
        && let Some((key, value)) = layer.record()
        && range.is_below_high(key)
    {
        passed += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        if run_id.is_none_or(|run_id| retention.is_visible(run_id, key)) {
            if value.is_some() || !run_id.is_some_and(|run_id| retention.can_drop_tombstone(run_id, key)) {
                output.push(hash_of(key), key, value, layer.sequences())?;
                if layer.is_cached() {
                    output.note_cached();
                }
            }
            merged.pass()?;
        } else {
            // All older table records of the key are superseded too, but the record in the page tier is visible.
            merged.skip()?;
        }
        if passed >= LOOK {
            on_progress(passed)?;
            passed = 0;
        }
    }
    output.finish()
}

/// Length of the prefix that all keys have in common.
fn shared(inputs: &[(RunId, Run<TableReader>)]) -> usize {
    let first = inputs.iter().filter_map(|(_, run)| run.tables().first()).map(|table| table.first()).min();
    let last = inputs.iter().filter_map(|(_, run)| run.tables().last()).map(|table| table.last()).max();
    first.zip(last).map_or(0, |(first, last)| common_prefix_len(first, last))
}
