//! What of a range is adapted by itself (decision 14, "Merging").

use std::cmp::Reverse;

use super::price;
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
    /// Parts of a range of which something counts in tables, that with the most of it first. Where what scans read most `fits` into memory as one run, what is pages and what
    /// is not are parts of their own: a few pages would else have all that lies beside them become pages. Where it does not the range is one part.
    pub(super) fn of(lsm: &Lsm, split: Split, fits: bool, (lower, upper): (Vec<u8>, Vec<u8>)) -> Vec<Part> {
        let bounds = if fits { lsm.by_covers(&lower, &upper) } else { vec![(lower, upper, true)] };
        let counted = bounds.into_iter().map(|(lower, upper, is_pages)| {
            let counted = lsm.counted_by(split, &lower, &upper);
            Part { lower, upper, counted, may_be_run: !is_pages }
        });
        let mut parts: Vec<_> = counted.filter(|part| part.counted.bytes > 0).collect();
        parts.sort_by_key(|part| Reverse(part.counted.bytes));
        parts
    }

    /// Bytes that its absorption reads and writes, about.
    pub(super) fn touched(&self) -> f64 {
        price::touched(&self.counted)
    }
}
