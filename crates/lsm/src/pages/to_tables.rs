//! Converting a paged range back to tables: its pages are merged with the tables of the last level, then one edit ends
//! the paged range. Its pages are freed once no reader uses an older version. A range is converted piece by piece
//! (adaptive.md, "Converting to tables"; adaptive-protocol.md, invariants 10, 13 and 15).

use std::{ops::Bound, sync::Arc};

use ecotone_engine::remaining_range::{Direction, RemainingRange};
use ecotone_substrate::{Result, memory::Component, table::FileRef};

use crate::{
    cache::table_reader::TableReader,
    compaction::{
        executor::{
            job::mean,
            merge::{MergeInput, MergedTables},
        },
        inputs::output_splitter::OutputSplitter,
    },
    manifest::{PagedRangeEdit, RangeEditKind, RunId, VersionEdit},
    pages::{conversion::Conversion, pending_frees::KeySpan, tier::PageCursor},
    version::{
        Run, TableMeta, Version,
        table_replacement::{TableReplacement, merge_all},
    },
};

/// The target of the merge: no run or level is older.
const LAST: RunId = RunId::LAST;

impl Conversion<'_> {
    /// Clears the pages of converted ranges that no reader uses any more. If memory or space is short, the next holder
    /// of the lock tries again, or the next opening.
    pub(crate) fn free_converted_pages(self) -> Result<()> {
        self.lsm.current.drain();
        let freeable = self.lsm.files.freeable();
        for span in &freeable {
            match self.page_tier.clear_range(&span.0, Some(&span.1)) {
                Err(error) if error.is_shortage() => break,
                cleared => cleared?,
            }
            self.lsm.files.freed(span);
        }
        if !freeable.is_empty() {
            self.set_boundaries();
        }
        Ok(())
    }

    /// Whether a converted range has pages that no reader uses any more.
    pub(crate) fn has_freeable(self) -> bool {
        let is_left = !self.lsm.files.unfreed().is_empty();
        if is_left {
            self.lsm.current.drain();
        }
        is_left && !self.lsm.files.freeable().is_empty()
    }

    /// Converts the piece that contains a key. Returns its end.
    pub(super) fn convert_to_tables_from(self, from: &[u8], upper: &[u8]) -> Result<Vec<u8>> {
        let version = self.lsm.version();
        let (paged_ranges, fragment) = (version.paged_ranges(), version.paged_ranges().fragment_at(from));
        let Some(bounds) = fragment.paged_bounds() else { return Ok(fragment.upper.unwrap_or(upper).to_vec()) };
        let part = self.round_to_boundaries(paged_ranges, bounds, (from, upper))?;
        let piece = self.first_pages(paged_ranges, part)?;
        let end = piece.1.clone();
        self.lsm.conversions.converting.begin(&self.lsm.flusher.lock, &piece);
        self.lsm.schedule_flush_if_needed();
        let converted = self.convert_piece_to_tables(&version, piece);
        self.lsm.conversions.converting.end();
        converted.map(|()| end)
    }

    fn convert_piece_to_tables(self, version: &Version<TableReader>, piece: KeySpan) -> Result<()> {
        let (lsm, context) = (self.lsm, self.lsm.files.context());
        let began = context.shared.clock.now_for_log();
        let (lower, upper) = &piece;
        let tables = version.run(LAST).map_or(&[][..], |run| run.within((lower, upper)));
        let files: Vec<FileRef> = tables.iter().map(|table| table.file()).collect();
        let paged_ranges =
            vec![PagedRangeEdit { lower: lower.clone(), upper: upper.clone(), kind: RangeEditKind::Remove }];
        let boundary_tables = version.boundary_tables((lower, upper), &files);
        let MergedTables { tables: merged, left_out } = self.merge_with_pages(version, tables, &piece)?;
        let merged: Vec<_> = merged.into_iter().map(|reader| (LAST, reader)).collect();
        TableReplacement {
            edit: VersionEdit { deleted: files, paged_ranges, ..VersionEdit::default() },
            output: &merged,
            left_out,
            boundary_tables: &boundary_tables,
            uncached: &[],
        }
        .install(lsm, version)?;
        let written = merged.iter().map(|(_, reader)| reader.bytes()).sum();
        lsm.conversions.bytes.add(written);
        tracing::debug!(
            keyspace = context.keyspace,
            written,
            took = ?context.shared.clock.since(began),
            "converted pages of a range to tables"
        );
        tables.iter().for_each(|table| lsm.files.release(table));
        Ok(())
    }

    /// Merges tables of the last level with the pages of a range of keys.
    fn merge_with_pages(
        self,
        version: &Version<TableReader>,
        tables: &[Arc<TableReader>],
        span: &KeySpan,
    ) -> Result<MergedTables> {
        let (lower, upper) = span;
        let rest = RemainingRange::new((Bound::Included(lower.clone()), Bound::Excluded(upper.clone())));
        let page_source = PageCursor::begin(self.page_tier, &rest, Direction::Up, Component::Frames)?;
        let a_record = match (tables, page_source.record()) {
            ([], None) => return Ok(MergedTables::default()),
            ([], Some((key, value))) => key.len() + value.len(),
            (tables, _) => mean(tables.iter()) as usize,
        };
        let readers = tables.iter().map(|table| &**table);
        let options = self.lsm.table_options(LAST, a_record, readers, version);
        let run = Run::part(tables.to_vec());
        let of_level = (!tables.is_empty()).then_some(MergeInput::Tables(LAST, &run));
        let inputs = of_level.into_iter().chain([MergeInput::Pages(page_source, span)]).collect();
        let splitter = OutputSplitter::new(self.lsm.tuning.table, None);
        self.lsm.compactor.cpu_time.make(|| merge_all(self.lsm, version, inputs, (options, splitter)))
    }
}
