//! Converting a range of keys from tables to pages: the visible records of its tables are copied to the page tier, then
//! one edit supersedes the tables there. A range is converted piece by piece, with one edit each, so that a crash loses
//! little work and other jobs come between (adaptive.md, "Converting to pages"; adaptive-protocol.md, invariants 4, 6,
//! 11, 12, 15 to 17).

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use ecotone_substrate::{Error, Result};
use ecotone_sys::primitive::Mutex;

use crate::{
    cache::table_reader::TableReader,
    manifest::{Fragment, LevelId, PagedRange, PagedRangeEdit, PagedRanges, RangeEditKind, RunId, VersionEdit},
    pages::{reactivate::UnsafeInput, tier::PageTier},
    store::Lsm,
    version::{Run, Split, TableMeta, Version},
};

/// Limits of one piece: bytes of visible tables or of pages, and tables of full size, about.
const MAX_CONVERSION_BYTES: u64 = 32 << 20;
const MAX_CONVERSION_TABLES: u64 = 4;
/// The most halvings of a piece.
const HALVINGS: u32 = 20;

/// A range that is converted with one edit. The same runs and levels are visible for all its keys.
struct ConversionRange {
    lower: Vec<u8>,
    upper: Vec<u8>,
    is_paged: bool,
}

/// State that one conversion leaves to the next.
#[derive(Debug, Default)]
pub(crate) struct ConversionState {
    /// How often pieces are halved, as larger ones found too little memory or space.
    halvings: AtomicU32,
    /// The youngest run of a compaction that began with a conversion, until that compaction is done.
    begun: Mutex<Option<RunId>>,
}

impl ConversionState {
    /// The youngest run that the next compaction may take, if one has begun.
    pub(crate) fn begun(&self) -> Option<RunId> {
        *self.begun.lock()
    }

    /// The compaction is done.
    pub(crate) fn end(&self) {
        *self.begun.lock() = None;
    }

    fn begin(&self, version: &Version<TableReader>) {
        let youngest = version.runs().map(|(run_id, _)| run_id).next();
        let mut begun = self.begun.lock();
        *begun = begun.or(youngest);
    }

    /// Adapts the size of pieces to the result of the last one.
    pub(crate) fn learn<T>(&self, ended: &Result<T>) {
        let halvings = self.halvings.load(Ordering::Relaxed);
        let next = match ended {
            Ok(_) => halvings.saturating_sub(1),
            Err(error) if error.is_shortage() => (halvings + 1).min(HALVINGS),
            Err(_) => halvings,
        };
        self.halvings.store(next, Ordering::Relaxed);
    }
}

impl Lsm {
    /// Converts a range to pages: all visible records of tables, or those of the oldest visible run or level (`split`).
    /// Where the range is paged already, a little more than it may be converted. A range that was converted to tables,
    /// and whose old version is still read, stays in tables. Does nothing without a page tier.
    pub fn convert_to_pages(self: &Arc<Self>, split: Split, lower: &[u8], upper: &[u8]) -> Result<()> {
        let mut from = lower.to_vec();
        while *from < *upper {
            from = self.convert_next_to_pages(split, (&from, upper), || ())?;
        }
        Ok(())
    }

    /// Converts the first piece of a range, under a compaction lock of its own, so that more urgent jobs come between
    /// two pieces. Calls `on_start` once the lock is held. Then deletes obsolete tables. Returns the end of the piece.
    pub fn convert_next_to_pages(
        self: &Arc<Self>,
        split: Split,
        (from, upper): (&[u8], &[u8]),
        on_start: impl FnOnce(),
    ) -> Result<Vec<u8>> {
        let Some(page_tier) = self.page_tier() else { return Ok(upper.to_vec()) };
        let guard = self.compaction_lock.lock();
        on_start();
        let absorbed = self.convert_from(page_tier, split, from, upper);
        self.release_compaction_lock(guard);
        absorbed.and_then(|end| self.files.finish().map(|()| end))
    }

    /// Converts the piece that begins at a key. Returns its end.
    fn convert_from(
        self: &Arc<Self>,
        page_tier: &Arc<dyn PageTier>,
        split: Split,
        from: &[u8],
        upper: &[u8],
    ) -> Result<Vec<u8>> {
        self.free_converted_pages()?;
        let left = self.files.unfreed();
        let upper = match left.iter().filter(|(_, end)| end.as_slice() > from).min() {
            Some((lower, end)) if lower.as_slice() <= from => return Ok(end.clone()),
            Some((lower, _)) => upper.min(lower),
            None => upper,
        };
        let version = self.version();
        let piece = self.piece(page_tier, &version, from, upper)?;
        let end = piece.upper.clone();
        self.convert_piece(page_tier, &version, split, piece).map(|()| end)
    }

    /// Clears pages of ranges that are not paged: leftovers of interrupted conversions (adaptive-protocol.md, invariant
    /// 17).
    pub fn clear_leftovers(self: &Arc<Self>) -> Result<()> {
        let Some(page_tier) = self.page_tier() else { return Ok(()) };
        let is_rest = |gap: &Fragment<'_>| !page_tier.is_cleared(gap.lower, gap.upper);
        if !self.version().paged_ranges().gaps().any(|gap| is_rest(&gap)) {
            return Ok(());
        }
        let guard = self.compaction_lock.lock();
        let version = self.version();
        let mut rests = version.paged_ranges().gaps().filter(is_rest);
        let cleared = rests.try_for_each(|gap| page_tier.clear_range(gap.lower, gap.upper));
        self.set_boundaries();
        self.release_compaction_lock(guard);
        cleared
    }

    /// Converts a piece of the records that a compaction would move to where they are superseded. The tables change by
    /// that, and there may be more such records. The caller holds the compaction lock.
    pub(crate) fn convert_unsafe_inputs(
        self: &Arc<Self>,
        page_tier: &Arc<dyn PageTier>,
        version: &Version<TableReader>,
        unsafe_inputs: &UnsafeInput<'_>,
    ) -> Result<()> {
        self.conversion.begin(version);
        let piece = self.piece(page_tier, version, unsafe_inputs.from, &unsafe_inputs.upper)?;
        self.convert_piece(page_tier, version, Split::Side, piece)
    }

    /// Bytes of one piece, in either direction of a conversion, about.
    pub(crate) fn max_conversion_bytes(&self) -> u64 {
        (MAX_CONVERSION_TABLES * self.tuning.table).min(MAX_CONVERSION_BYTES)
            >> self.conversion.halvings.load(Ordering::Relaxed)
    }

    /// The piece that begins at a key and ends at `upper` at the latest. In a paged range both ends are rounded outward
    /// to boundaries.
    fn piece(
        &self,
        page_tier: &Arc<dyn PageTier>,
        version: &Version<TableReader>,
        from: &[u8],
        upper: &[u8],
    ) -> Result<ConversionRange> {
        let (paged_ranges, fragment) = (version.paged_ranges(), version.paged_ranges().fragment_at(from));
        let end = fragment.upper.map_or(upper, |end| end.min(upper));
        let cut = paged_ranges
            .can_split()
            .then(|| cut(version, fragment.paged_range, (from, end), self.max_conversion_bytes()))
            .flatten();
        let end = cut.unwrap_or(end);
        let (lower, upper) = match fragment.paged_range {
            None => (from.to_vec(), end.to_vec()),
            Some(paged_range) => self.first_conversion(
                page_tier,
                paged_ranges,
                self.round_to_boundaries(page_tier, paged_ranges, paged_range, (from, end))?,
            )?,
        };
        Ok(ConversionRange { lower, upper, is_paged: fragment.paged_range.is_some() })
    }

    fn convert_piece(
        self: &Arc<Self>,
        page_tier: &Arc<dyn PageTier>,
        version: &Version<TableReader>,
        split: Split,
        piece: ConversionRange,
    ) -> Result<()> {
        let (context, before) = (self.files.context(), self.converted_bytes());
        let began = context.shared.clock.now_for_log();
        let absorbed = self.write_pages(page_tier, version, split, piece);
        self.conversion.learn(&absorbed);
        if absorbed.is_ok() {
            tracing::debug!(
                keyspace = context.keyspace,
                written = self.converted_bytes().saturating_sub(before),
                took = ?context.shared.clock.since(began),
                "converted tables of a range to pages"
            );
        }
        // Boundaries disappear with paged ranges that are joined, and with a range that was cleared in vain.
        self.set_boundaries();
        absorbed
    }

    fn write_pages(
        self: &Arc<Self>,
        page_tier: &Arc<dyn PageTier>,
        version: &Version<TableReader>,
        split: Split,
        piece: ConversionRange,
    ) -> Result<()> {
        let ConversionRange { lower, upper, is_paged } = piece;
        let paged_range = version.paged_ranges().fragment_at(&lower).paged_range;
        let taken = version.conversion_inputs(split, paged_range, (&lower, &upper));
        if is_paged && taken.is_empty() {
            return Ok(());
        }
        if !is_paged {
            version.paged_ranges().check_can_split()?;
        }
        let superseded_from = superseded_from(version, &taken, (paged_range, &lower, &upper));
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
        let moved = self.copy_to_pages(page_tier, runs, (&lower, &upper), is_paged);
        moved.and_then(|()| self.install(&change, &[], |version| self.current.install_version(version))).inspect_err(
            |_| {
                // The copied records are not visible and take space. If clearing fails too, the next conversion of the
                // range clears it, or the next opening.
                let _ = if is_paged { Ok(()) } else { page_tier.clear_range(&lower, Some(&upper)) };
            },
        )?;
        fully_superseded.into_iter().for_each(|table| self.release_table(table));
        // Pages have a cache of their own.
        self.files.loader().cache().blocks().trim();
        Ok(())
    }
}

/// The `superseded_from` of a range of which these runs and levels were converted: the youngest of them if a younger
/// one is visible there, else the youngest of all.
fn superseded_from(
    version: &Version<TableReader>,
    taken: &[(RunId, &Run<TableReader>)],
    (paged_range, lower, upper): (Option<&PagedRange>, &[u8], &[u8]),
) -> RunId {
    let is_left = version.conversion_inputs(Split::Side, paged_range, (lower, upper)).len() > taken.len();
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
    paged_range: Option<&'v PagedRange>,
    (from, end): (&[u8], &[u8]),
    most: u64,
) -> Option<&'v [u8]> {
    let counting = version.visible_runs_in(paged_range).flat_map(|(_, run)| run.tables());
    let mut tables: Vec<_> = counting.filter(|table| (from..end).contains(&table.first())).collect();
    tables.sort_unstable_by(|one, other| one.first().cmp(other.first()));
    let mut bytes = 0;
    let is_full = |table: &&&Arc<TableReader>| {
        let before = bytes;
        bytes += table.bytes();
        before >= most.max(1) && table.first() > from
    };
    tables.iter().find(is_full).map(|table| table.first())
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_halved_while_space_or_memory_is_wanting_and_grow_again() {
        let conversion = ConversionState::default();
        let memory = || Err(Error::Memory { what: "frames", budget: 1 });
        let halvings = |ended: Result<()>| {
            conversion.learn(&ended);
            conversion.halvings.load(Ordering::Relaxed)
        };
        assert_eq!(
            [memory(), memory(), Ok(()), Err(Error::Closed { what: "the keyspace" }), Ok(()), Ok(())].map(halvings),
            [1, 2, 1, 1, 0, 0]
        );
        assert!((0..100).all(|_| halvings(memory()) <= HALVINGS));
    }
}
