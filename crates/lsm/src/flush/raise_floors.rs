//! Raises the floor of a paged range, `superseded_from`, when a flush adds a run. It is raised to the new run if no
//! table is visible in the range and the flushed memtable has no record of it. So however wide the tables of the run
//! are, they do not become visible there (adaptive.md, "Flush"; adaptive-protocol.md, invariant 6).

use crate::{
    cache::table_reader::TableReader,
    flush::flushed_to_pages::FlushedToPages,
    manifest::{PagedRangeEdit, RangeEditKind, RunId},
    memtable::Memtable,
    version::Version,
};

/// Most rows of adjacent paged ranges that one flush raises: each takes two keys in the log. In the others the new run
/// becomes visible.
const MAX_EDITS: usize = 64;

/// Edits that raise `superseded_from` of such ranges to the run that a flush is about to add, without the records that
/// went to pages. There is one edit for each row of adjacent paged ranges: a gap between two may have records in the
/// memtable, and may become paged before the edits are applied.
pub(crate) fn raise_floors(
    version: &Version<TableReader>,
    flushed: (&Memtable, &FlushedToPages),
    run: RunId,
) -> Vec<PagedRangeEdit> {
    let mut edits: Vec<PagedRangeEdit> = Vec::new();
    for paged_range in version.paged_ranges().iter() {
        let (lower, upper) = paged_range.bounds();
        if !version.is_pages_only(paged_range) || has_records_in(flushed, (lower, upper)) {
            continue;
        }
        match edits.last_mut().filter(|row| row.upper == lower) {
            Some(row) => row.upper = upper.to_vec(),
            None => edits.push(PagedRangeEdit {
                lower: lower.to_vec(),
                upper: upper.to_vec(),
                kind: RangeEditKind::SupersedeContained(run),
            }),
        }
    }
    edits.truncate(MAX_EDITS);
    edits
}

fn has_records_in((memtable, flushed_to_pages): (&Memtable, &FlushedToPages), (lower, upper): (&[u8], &[u8])) -> bool {
    let (mut cursor, mut key) = (memtable.cursor(), Vec::new());
    flushed_to_pages.seek(&mut cursor, lower, &mut key) && *key < *upper
}
