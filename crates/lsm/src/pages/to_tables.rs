//! Converting a paged range back to tables: its pages are merged with the tables of the last level, then one edit ends
//! the paged range. Its pages are freed once no reader uses an older version. A range is converted piece by piece
//! (adaptive.md, "Converting to tables"; adaptive-protocol.md, invariants 10, 13 and 15).

use std::{ops::Bound, sync::Arc};

use ecotone_engine::remaining_range::{Direction, RemainingRange};
use ecotone_substrate::{Result, memory::Component, table::FileRef};

use crate::{
    cache::table_reader::TableReader,
    compaction::{
        executor::job::mean,
        inputs::{output_splitter::OutputSplitter, retention::Retention},
    },
    manifest::{PagedRangeEdit, RangeEditKind, RunId, VersionEdit},
    pages::{
        pending_frees::KeySpan,
        tier::{PageCursor, PageTier},
    },
    store::Lsm,
    version::{Run, TableMeta, Version},
};

/// The target of the merge: no run or level is older.
const LAST: RunId = RunId::LAST;

impl Lsm {
    /// Converts the paged ranges of a range of keys, rounded outward, to tables. The pages are freed when no reader
    /// uses them any more.
    pub fn convert_to_tables(self: &Arc<Self>, lower: &[u8], upper: &[u8]) -> Result<()> {
        let mut from = lower.to_vec();
        while *from < *upper {
            from = self.convert_next_to_tables(&from, upper, || ())?;
        }
        let guard = self.compaction_lock.lock();
        let cleared = self.free_converted_pages();
        self.release_compaction_lock(guard);
        cleared
    }

    /// Converts the first paged piece of a range, under a compaction lock of its own, and calls `on_start` once the
    /// lock is held. Returns the end of the piece. Its pages are freed by a later holder of the lock, when no reader
    /// uses them any more.
    pub fn convert_next_to_tables(
        self: &Arc<Self>,
        from: &[u8],
        upper: &[u8],
        on_start: impl FnOnce(),
    ) -> Result<Vec<u8>> {
        let Some(page_tier) = self.page_tier() else { return Ok(upper.to_vec()) };
        let guard = self.compaction_lock.lock();
        on_start();
        let uncovered = self.convert_to_tables_from(page_tier, from, upper);
        self.conversion.learn(&uncovered);
        self.set_boundaries();
        self.release_compaction_lock(guard);
        uncovered.and_then(|end| self.files.finish().map(|()| end))
    }

    /// Clears the pages of converted ranges that no reader uses any more. If memory or space is short, the next holder
    /// of the lock tries again, or the next opening. The caller holds the compaction lock.
    pub(crate) fn free_converted_pages(&self) -> Result<()> {
        let Some(page_tier) = self.page_tier() else { return Ok(()) };
        self.current.drain();
        let freeable = self.files.freeable();
        for span in &freeable {
            match page_tier.clear_range(&span.0, Some(&span.1)) {
                Err(error) if error.is_shortage() => break,
                carved => carved?,
            }
            self.files.freed(span);
        }
        if !freeable.is_empty() {
            self.set_boundaries();
        }
        Ok(())
    }

    /// Whether a converted range has pages that no reader uses any more.
    pub(crate) fn has_freeable(&self) -> bool {
        let is_left = !self.files.unfreed().is_empty();
        if is_left {
            self.current.drain();
        }
        is_left && !self.files.freeable().is_empty()
    }

    /// Converts the piece that contains a key. Returns its end.
    fn convert_to_tables_from(
        self: &Arc<Self>,
        page_tier: &Arc<dyn PageTier>,
        from: &[u8],
        upper: &[u8],
    ) -> Result<Vec<u8>> {
        let version = self.version();
        let (paged_ranges, fragment) = (version.paged_ranges(), version.paged_ranges().fragment_at(from));
        let Some(paged_range) = fragment.paged_range else { return Ok(fragment.upper.unwrap_or(upper).to_vec()) };
        let piece = self.first_conversion(
            page_tier,
            paged_ranges,
            self.round_to_boundaries(page_tier, paged_ranges, paged_range, (from, upper))?,
        )?;
        let end = piece.1.clone();
        self.converting.begin(&self.flush_lock, &piece);
        self.schedule_flush_if_needed();
        let uncovered = self.convert_piece_to_tables(page_tier, &version, piece);
        self.converting.end();
        uncovered.map(|()| end)
    }

    fn convert_piece_to_tables(
        &self,
        page_tier: &Arc<dyn PageTier>,
        version: &Version<TableReader>,
        piece: KeySpan,
    ) -> Result<()> {
        let context = self.files.context();
        let began = context.shared.clock.now_for_log();
        let (lower, upper) = &piece;
        let tables = version.run(LAST).map_or(&[][..], |run| run.within((lower, upper)));
        let files: Vec<FileRef> = tables.iter().map(|table| table.file()).collect();
        let boundary_tables = version.boundary_tables(&piece, &files);
        let merged = self.merge_with_pages(page_tier, version, tables, &piece)?;
        let merged: Vec<_> = merged.into_iter().map(|reader| (LAST, reader)).collect();
        let rewritten = self.rewrite_without_hidden(version, &boundary_tables).inspect_err(|_| self.remove(&merged))?;
        let paged_ranges =
            vec![PagedRangeEdit { lower: lower.clone(), upper: upper.clone(), kind: RangeEditKind::Remove }];
        self.install_with_rewritten(
            VersionEdit { deleted: files, paged_ranges, ..VersionEdit::default() },
            &merged,
            &boundary_tables,
            &rewritten,
        )?;
        let written = merged.iter().map(|(_, reader)| reader.bytes()).sum();
        self.conversion_bytes.add(written);
        tracing::debug!(
            keyspace = context.keyspace,
            written,
            took = ?context.shared.clock.since(began),
            "converted pages of a range to tables"
        );
        tables.iter().for_each(|table| self.release_table(table));
        Ok(())
    }

    /// Merges tables of the last level with the pages of a range of keys.
    fn merge_with_pages(
        &self,
        page_tier: &Arc<dyn PageTier>,
        version: &Version<TableReader>,
        tables: &[Arc<TableReader>],
        (lower, upper): &KeySpan,
    ) -> Result<Vec<Arc<TableReader>>> {
        let rest = RemainingRange::new((Bound::Included(lower.clone()), Bound::Excluded(upper.clone())));
        let page_source = PageCursor::begin(page_tier, rest, Direction::Up, Component::Frames)?;
        let a_record = match (tables, page_source.record()) {
            ([], None) => return Ok(Vec::new()),
            ([], Some((key, value))) => key.len() + value.len(),
            (tables, _) => mean(tables.iter()) as usize,
        };
        let readers = tables.iter().map(|table| &**table);
        let options = self.table_options(LAST, a_record, readers, version);
        let inputs = [(LAST, Run::part(tables.to_vec()))];
        let replaced: Vec<FileRef> = tables.iter().map(|table| table.file()).collect();
        let retention = Retention::of(version, &replaced).with_pages_of((lower.clone(), upper.clone()));
        let inputs: &[_] = if tables.is_empty() { &[] } else { &inputs };
        self.cpu_time.make(|| {
            self.merge_all(
                inputs,
                Some(page_source),
                retention,
                (options, OutputSplitter::new(self.tuning.table, None)),
            )
        })
    }
}
