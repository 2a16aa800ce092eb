//! What of a range is adapted by itself (decision 14, "Merging").

use crate::lsm::{Split, base::Counted, records::Lsm};

/// A part of a range.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) lower: Vec<u8>,
    pub(super) upper: Vec<u8>,
    /// What one absorption of it takes, of what is no part of its own.
    pub(super) counted: Counted,
    /// Whether it may be one run of tables.
    pub(super) may_be_run: bool,
}

impl Part {
    /// Parts of a range of which something counts in tables. Where what scans read most `fits` into memory as one run,
    /// what is covered and all that is not are parts of their own: a few pages would else have all that lies beside
    /// them become pages. What is covered comes first, since a merge passes what pages have got already. Where it does
    /// not fit the range is one part.
    pub(super) fn of(
        lsm: &Lsm,
        split: Split,
        fits: &impl Fn() -> bool,
        (lower, upper): (Vec<u8>, Vec<u8>),
    ) -> Vec<Part> {
        let bounds = lsm.by_covers(&lower, &upper);
        let mut uncovered = bounds.iter().filter(|(.., is_covered)| !is_covered);
        let first = uncovered.next().filter(|_| fits());
        let rest = first.map(|first| (first.0.clone(), uncovered.next_back().unwrap_or(first).1.clone()));
        let Some((from, to)) = rest else {
            let counted = lsm.counted_by(split, &lower, &upper);
            return some(Part { lower, upper, counted, may_be_run: false }).collect();
        };
        let covered = bounds.into_iter().filter(|(.., is_covered)| *is_covered).flat_map(|(lower, upper, _)| {
            let counted = lsm.counted_by(split, &lower, &upper);
            some(Part { lower, upper, counted, may_be_run: false })
        });
        let counted = lsm.counted_between_covers(split, &from, &to);
        covered.chain(some(Part { lower: from, upper: to, counted, may_be_run: true })).collect()
    }
}

fn some(part: Part) -> impl Iterator<Item = Part> {
    (part.counted.bytes > 0).then_some(part).into_iter()
}
