//! Splits a candidate range into parts that the policy converts separately (adaptive.md, "Merging to one run").

use ecotone_lsm::{Split, pages::tier::RangeSize, store::Lsm};

/// A part of a range.
#[derive(Debug)]
pub(super) struct RangePart {
    pub(super) lower: Vec<u8>,
    pub(super) upper: Vec<u8>,
    /// Size of one conversion of this part, without the sub-ranges that are parts of their own.
    pub(super) range_size: RangeSize,
    /// Whether the part may become one run of tables.
    pub(super) may_be_run: bool,
}

impl RangePart {
    /// The parts of a range that have visible table records. If the hot set `fits` into memory as one run, each paged
    /// sub-range is a part, and all unpaged sub-ranges together are one part: otherwise a few pages would pull all
    /// their neighbours into pages. Paged parts come first, because a merge skips records that pages already have. If
    /// the hot set does not fit, the range is one part.
    pub(super) fn of(
        lsm: &Lsm,
        split: Split,
        fits: &impl Fn() -> bool,
        (lower, upper): (Vec<u8>, Vec<u8>),
    ) -> Vec<RangePart> {
        let bounds = lsm.range_sizes().split_by_paged_ranges(&lower, &upper);
        let mut unpaged = bounds.iter().filter(|(.., is_paged)| !is_paged);
        let first = unpaged.next().filter(|_| fits());
        let rest = first.map(|first| (first.0.clone(), unpaged.next_back().unwrap_or(first).1.clone()));
        let Some((from, to)) = rest else {
            let range_size = lsm.range_sizes().conversion_size(split, &lower, &upper);
            return non_empty(RangePart { lower, upper, range_size, may_be_run: false }).collect();
        };
        let covered = bounds.into_iter().filter(|(.., is_paged)| *is_paged).flat_map(|(lower, upper, _)| {
            let range_size = lsm.range_sizes().conversion_size(split, &lower, &upper);
            non_empty(RangePart { lower, upper, range_size, may_be_run: false })
        });
        let range_size = lsm.range_sizes().unpaged_conversion_size(split, &from, &to);
        covered.chain(non_empty(RangePart { lower: from, upper: to, range_size, may_be_run: true })).collect()
    }
}

fn non_empty(part: RangePart) -> impl Iterator<Item = RangePart> {
    (part.range_size.bytes > 0).then_some(part).into_iter()
}
