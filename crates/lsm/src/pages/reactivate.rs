//! Reactivating tables: all tables become visible again in a paged range. Two jobs need this. A compaction that would
//! move visible records to a superseded run or level, where they would be lost; and a conversion of pages to tables.
//! Tables with superseded records at the boundary of the range are rewritten without them, and one edit installs all
//! ([`TableReplacement`]; adaptive.md, "Reactivation and merge-on-read"; adaptive-protocol.md, invariants 11 and 13).

use ecotone_engine::superseded::LeftOut;
use ecotone_substrate::{Result, bug, table::FileRef};

use crate::{
    cache::table_reader::TableReader,
    compaction::strategy::plan::CompactionPlan,
    manifest::{PagedRange, VersionEdit},
    pages::{
        conversion::Conversion,
        unsafe_inputs::{Reactivation, Span, UnsafeInput, unsafe_inputs},
    },
    version::{Version, table_replacement::TableReplacement},
};

impl Conversion<'_> {
    /// Makes all tables visible in the paged ranges of a range of keys, rounded outward.
    pub(super) fn reactivate(self, lower: &[u8], upper: &[u8]) -> Result<()> {
        let version = self.lsm.version();
        let with_floor = version.paged_ranges().iter().filter(|range| range.superseded_from().is_some());
        let overlapping = with_floor.map(PagedRange::bounds).filter(|(from, end)| *from < upper && *end > lower);
        let parts = overlapping.map(|bounds| (bounds, (lower.max(bounds.0), upper)));
        let reactivation = self.reactivation(&version, parts, &[])?;
        if reactivation.edits.is_empty() {
            return Ok(());
        }
        TableReplacement {
            edit: VersionEdit { paged_ranges: reactivation.edits, ..VersionEdit::default() },
            output: &[],
            left_out: LeftOut::default(),
            boundary_tables: &reactivation.boundary_tables,
            uncached: &[],
        }
        .install(self.lsm, &version)
    }

    /// Makes a compaction safe: it must not move visible records to where they are superseded. There are two ways, and
    /// the one that writes fewer bytes is taken. Either the compaction reactivates tables: that work is returned. Or a
    /// piece is converted to pages at once, and `None` is returned: the tables have changed then, and the compaction is
    /// to be picked again.
    pub(crate) fn prepare_compaction(
        self,
        version: &Version<TableReader>,
        plan: &CompactionPlan<TableReader>,
    ) -> Result<Option<Reactivation<TableReader>>> {
        if bug!(MoveBelowSuperseded) {
            return Ok(Some(Reactivation::none()));
        }
        let unsafe_inputs = unsafe_inputs(version, plan);
        let Some(first) = unsafe_inputs.parts.first() else { return Ok(Some(Reactivation::none())) };
        let files = plan.files();
        let reactivate = || self.reactivation(version, unsafe_inputs.parts.iter().map(UnsafeInput::part), &files);
        let reactivation = reactivate()?;
        // A large paged range is converted one piece per job, so its pages are counted only as far as the comparison
        // needs.
        let bytes = reactivation.bytes() + unsafe_inputs.bytes;
        let pages: u64 =
            reactivation.edits.iter().map(|edit| self.page_tier.extent(&edit.lower, &edit.upper, bytes + 1).1).sum();
        if bytes < pages {
            return Ok(Some(reactivation));
        }
        match self.convert_unsafe_inputs(version, first) {
            // The conversion was given up. A reactivation writes less before it frees anything. The boundaries that the
            // first estimate pinned are unpinned by now, so it is made again.
            Err(error) if error.is_no_space() => reactivate().map(Some),
            converted => converted.map(|()| None),
        }
    }

    /// The work to reactivate parts of paged ranges, in a compaction that replaces these tables anyway.
    fn reactivation<'p>(
        self,
        version: &Version<TableReader>,
        parts: impl Iterator<Item = (Span<'p>, Span<'p>)>,
        replaced: &[FileRef],
    ) -> Result<Reactivation<TableReader>> {
        let paged_ranges = version.paged_ranges();
        let round = |bounds: Span<'_>, part: Span<'_>| self.round_to_boundaries(paged_ranges, bounds, part);
        Reactivation::of(version, parts, replaced, round)
    }
}
