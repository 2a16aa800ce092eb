//! What of a range is adapted by itself (decision 14, "Merging").

use std::cmp::Reverse;

use crate::lsm::{Split, base::Counted, records::Lsm};

/// A part of a range.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) lower: Vec<u8>,
    pub(super) upper: Vec<u8>,
    /// What one absorption of it takes.
    pub(super) counted: Counted,
    /// Whether it may be one run of tables.
    pub(super) may_be_run: bool,
}

impl Part {
    /// Parts of a range of which something counts in tables. Where what scans read most `fits` into memory as one run, what is pages and what is not are parts of their own: a
    /// few pages would else have all that lies beside them become pages. Those come first, since a merge beside them passes what they have got already, then that with the most
    /// to do. Where it does not fit the range is one part.
    pub(super) fn of(lsm: &Lsm, split: Split, fits: &impl Fn() -> bool, (lower, upper): (Vec<u8>, Vec<u8>)) -> Vec<Part> {
        let bounds = lsm.by_covers(&lower, &upper);
        let may_be_runs = bounds.iter().any(|(.., is_covered)| !is_covered) && fits();
        let bounds = if may_be_runs { bounds } else { vec![(lower, upper, true)] };
        let counted = bounds.into_iter().map(|(lower, upper, is_pages)| {
            let counted = lsm.counted_by(split, &lower, &upper);
            Part { lower, upper, counted, may_be_run: !is_pages }
        });
        let mut parts: Vec<_> = counted.filter(|part| part.counted.bytes > 0).collect();
        parts.sort_by_key(|part| (part.may_be_run, Reverse(part.counted.bytes)));
        parts
    }
}
