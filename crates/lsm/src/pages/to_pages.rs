//! Converting a range of keys from tables to pages: the visible records of its tables are copied to the page tier, then
//! one edit supersedes the tables there. A range is converted piece by piece, with one edit each, so that a crash loses
//! little work and other jobs come between (adaptive.md, "Converting to pages"; adaptive-protocol.md, invariants 4, 6,
//! 11, 12, 15 to 17).

use std::sync::Arc;

use ecotone_engine::superseded::LeftOut;
use ecotone_substrate::{Error, Result};

use crate::{
    cache::table_reader::TableReader,
    manifest::{LevelId, PagedRange, PagedRangeEdit, PagedRanges, RangeEditKind, RunId, VersionEdit, Visibility},
    pages::{conversion::Conversion, unsafe_inputs::UnsafeInput},
    version::{Run, SortedRun, Split, TableMeta, Version},
};

/// A range that is converted with one edit. The same runs and levels are visible for all its keys.
struct ConversionRange {
    lower: Vec<u8>,
    upper: Vec<u8>,
    visibility: Visibility,
}

impl Conversion<'_> {
    /// Converts the piece that begins at a key. Returns its end.
    pub(super) fn convert_to_pages_from(self, split: Split, from: &[u8], upper: &[u8]) -> Result<Vec<u8>> {
        self.free_converted_pages()?;
        let left = self.lsm.files.unfreed();
        let upper = match left.iter().filter(|(_, end)| end.as_slice() > from).min() {
            Some((lower, end)) if lower.as_slice() <= from => return Ok(end.clone()),
            Some((lower, _)) => upper.min(lower),
            None => upper,
        };
        let version = self.lsm.version();
        let piece = self.piece(&version, from, upper)?;
        let end = piece.upper.clone();
        self.convert_piece(&version, split, piece).map(|()| end)
    }

    /// Converts a piece of the records that a compaction would move to where they are superseded. The tables change by
    /// that, and there may be more such records.
    pub(super) fn convert_unsafe_inputs(
        self,
        version: &Version<TableReader>,
        unsafe_inputs: &UnsafeInput<'_>,
    ) -> Result<()> {
        self.lsm.conversions.state.begin(version);
        let piece = self.piece(version, unsafe_inputs.from, &unsafe_inputs.upper)?;
        self.convert_piece(version, Split::Side, piece)
    }

    /// The piece that begins at a key and ends at `upper` at the latest. In a paged range both ends are rounded outward
    /// to boundaries.
    fn piece(self, version: &Version<TableReader>, from: &[u8], upper: &[u8]) -> Result<ConversionRange> {
        let (paged_ranges, fragment) = (version.paged_ranges(), version.paged_ranges().fragment_at(from));
        let end = fragment.upper.map_or(upper, |end| end.min(upper));
        let cut = paged_ranges
            .can_split()
            .then(|| cut(version, fragment.visibility, (from, end), self.max_bytes()))
            .flatten();
        let end = cut.unwrap_or(end);
        let (lower, upper) = match fragment.paged_bounds() {
            None => (from.to_vec(), end.to_vec()),
            Some(bounds) => {
                self.first_pages(paged_ranges, self.round_to_boundaries(paged_ranges, bounds, (from, end))?)?
            }
        };
        Ok(ConversionRange { lower, upper, visibility: fragment.visibility })
    }

    fn convert_piece(self, version: &Version<TableReader>, split: Split, piece: ConversionRange) -> Result<()> {
        let (context, before) = (self.lsm.files.context(), self.lsm.converted_bytes());
        let began = context.shared.clock.now_for_log();
        let converted = self.write_pages(version, split, piece);
        self.lsm.conversions.state.learn(&converted);
        if converted.is_ok() {
            tracing::debug!(
                keyspace = context.keyspace,
                written = self.lsm.converted_bytes().saturating_sub(before),
                took = ?context.shared.clock.since(began),
                "converted tables of a range to pages"
            );
        }
        // Boundaries disappear with paged ranges that are joined, and with a range that was cleared in vain.
        self.set_boundaries();
        converted
    }

    fn write_pages(self, version: &Version<TableReader>, split: Split, piece: ConversionRange) -> Result<()> {
        let ConversionRange { lower, upper, visibility } = piece;
        let is_paged = visibility.has_pages;
        let taken = version.conversion_inputs(split, visibility, (&lower, &upper));
        if is_paged && taken.is_empty() {
            return Ok(());
        }
        if !is_paged {
            version.paged_ranges().check_can_split()?;
        }
        let superseded_from = superseded_from(version, &taken, (visibility, &lower, &upper));
        let runs: Vec<_> = taken.into_iter().map(|(_, run)| run.clone()).collect();
        let kind =
            if is_paged { RangeEditKind::Supersede(superseded_from) } else { RangeEditKind::Add(superseded_from) };
        let mut paged_ranges = PagedRanges::clone(version.paged_ranges());
        let edits = vec![PagedRangeEdit { lower: lower.clone(), upper: upper.clone(), kind }];
        paged_ranges
            .apply(&edits)
            .map_err(|what| Error::Invalid(format!("a range of keys cannot be covered: {what}")))?;
        let fully_superseded: Vec<_> = version.fully_superseded(&paged_ranges).collect();
        let change = VersionEdit {
            deleted: fully_superseded.iter().map(|table| table.file()).collect(),
            paged_ranges: edits,
            ..VersionEdit::default()
        };
        let (lsm, page_tier) = (self.lsm, self.page_tier);
        let copied = self.copy_to_pages(runs, (&lower, &upper), is_paged);
        let install = |left_out: LeftOut| {
            lsm.install(&change, &[], |version| {
                lsm.reports().report_all(&left_out);
                lsm.current.install_version(version);
            })
        };
        copied.and_then(install).inspect_err(|_| {
            // The copied records are not visible and take space. If clearing fails too, the next conversion of the
            // range clears it, or the next opening.
            let _ = if is_paged { Ok(()) } else { page_tier.clear_range(&lower, Some(&upper)) };
        })?;
        fully_superseded.into_iter().for_each(|table| lsm.files.release(table));
        // Pages have a cache of their own.
        lsm.files.loader().cache().blocks().trim();
        Ok(())
    }
}

/// The `superseded_from` of a range of which these runs and levels were converted: the youngest of them if a younger
/// one is visible there, else the youngest of all.
fn superseded_from(
    version: &Version<TableReader>,
    taken: &[(RunId, &Run<TableReader>)],
    (visibility, lower, upper): (Visibility, &[u8], &[u8]),
) -> RunId {
    let is_left = version.conversion_inputs(Split::Side, visibility, (lower, upper)).len() > taken.len();
    taken.first().filter(|_| is_left).map_or_else(|| youngest(version), |(run_id, _)| *run_id)
}

/// The youngest run that exists or that a paged range has as `superseded_from`. So neighbours get equal values even
/// though the youngest run disappears with the first of them. Whatever comes later is younger. Without runs, the first
/// level stands for all levels (invariant 7).
fn youngest(version: &Version<TableReader>) -> RunId {
    let marks = version.paged_ranges().iter().filter_map(PagedRange::superseded_from);
    let runs = version.runs().map(|(run_id, _)| run_id).chain(marks).filter(|run_id| run_id.is_l0());
    runs.min().unwrap_or(RunId::Level(LevelId::FIRST))
}

/// Where to cut a range: the first key of a visible table such that the visible tables that begin before it in the
/// range have `most` bytes.
fn cut<'v>(
    version: &'v Version<TableReader>,
    visibility: Visibility,
    (from, end): (&[u8], &[u8]),
    most: u64,
) -> Option<&'v [u8]> {
    let runs = version.sorted_runs(visibility).filter_map(SortedRun::tables);
    let visible = runs.flat_map(|(_, run)| run.tables());
    let mut tables: Vec<_> = visible.filter(|table| (from..end).contains(&table.first())).collect();
    tables.sort_unstable_by(|one, other| one.first().cmp(other.first()));
    let mut bytes = 0;
    let is_full = |table: &&&Arc<TableReader>| {
        let before = bytes;
        bytes += table.bytes();
        before >= most.max(1) && table.first() > from
    };
    tables.iter().find(is_full).map(|table| table.first())
}
