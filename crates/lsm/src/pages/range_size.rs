//! Estimates of the size of a range: bytes of visible tables and of pages, without I/O. They are the cost of a
//! conversion (adaptive.md, "Cost model").

use std::{iter, sync::Arc};

use ecotone_substrate::limits::{MAX_KEY, PAGE};

use crate::{
    cache::table_reader::{IndexSection, TableReader},
    manifest::PagedRange,
    manifest::Visibility,
    pages::tier::{PageTier, RangeSize},
    version::{Split, TableMeta, Version},
};

/// The ranges of one version, measured without I/O. It keeps the version: who holds it keeps dropped tables from being
/// deleted.
#[derive(Debug)]
pub struct RangeSizes {
    version: Arc<Version<TableReader>>,
    page_tier: Option<Arc<dyn PageTier>>,
}

impl RangeSizes {
    /// The ranges of a version, whose paged ranges lie in `page_tier`.
    pub(crate) fn new(version: Arc<Version<TableReader>>, page_tier: Option<Arc<dyn PageTier>>) -> RangeSizes {
        RangeSizes { version, page_tier }
    }

    /// Estimated size of all visible records of a range.
    pub fn range_size(&self, lower: &[u8], upper: &[u8]) -> RangeSize {
        let mut range_size = RangeSize::default();
        for fragment in self.version.fragments_within((lower, upper)) {
            self.add_tables(Split::Side, fragment, &mut range_size);
            self.add_pages(fragment, &mut range_size);
        }
        range_size
    }

    /// Estimated size of a range if it were merged: the sum over its fragments of the largest run or level, or of the
    /// pages if they are larger. Pages are counted up to about `most` bytes.
    pub fn merged_size(&self, lower: &[u8], upper: &[u8], most: u64) -> u64 {
        let merged = |fragment| {
            let mut range_size = RangeSize::default();
            self.add_tables(Split::Side, fragment, &mut range_size);
            range_size.largest_run.max(self.page_bytes(fragment, most))
        };
        self.version.fragments_within((lower, upper)).map(merged).sum()
    }

    /// What one conversion of a range reads and writes. Pages are counted only in fragments from which tables are
    /// converted.
    pub fn conversion_size(&self, split: Split, lower: &[u8], upper: &[u8]) -> RangeSize {
        let mut range_size = RangeSize::default();
        for fragment in self.version.fragments_within((lower, upper)) {
            let before = range_size.records;
            self.add_tables(split, fragment, &mut range_size);
            if range_size.records > before {
                self.add_pages(fragment, &mut range_size);
            }
        }
        range_size
    }

    /// The same for the parts of the range that are not paged.
    pub fn unpaged_conversion_size(&self, split: Split, lower: &[u8], upper: &[u8]) -> RangeSize {
        let mut range_size = RangeSize::default();
        let fragments = self.version.fragments_within((lower, upper));
        fragments
            .filter(|(visibility, _)| !visibility.has_pages)
            .for_each(|fragment| self.add_tables(split, fragment, &mut range_size));
        range_size
    }

    /// The bounds of paged ranges whose tables have more tombstones than values: the pages below have little left.
    pub fn mostly_deleted(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bounds = self.version.paged_ranges().iter().map(PagedRange::bounds);
        bounds.filter(|bounds| self.version.is_mostly_deleted(*bounds))
    }

    /// Cuts a range into parts that are paged and not paged, by turns.
    pub fn split_by_paged_ranges(&self, lower: &[u8], upper: &[u8]) -> Vec<(Vec<u8>, Vec<u8>, bool)> {
        let mut found = Vec::<(_, _, bool)>::new();
        for (Visibility { has_pages, .. }, (from, end)) in self.version.fragments_within((lower, upper)) {
            match found.last_mut() {
                Some((_, last, is_paged)) if *is_paged == has_pages => *last = end.to_vec(),
                _ => found.push((from.to_vec(), end.to_vec(), has_pages)),
            }
        }
        found
    }

    /// How many conversions it takes until no table is visible in a range, if no records come meanwhile.
    pub fn conversion_steps(&self, split: Split, lower: &[u8], upper: &[u8]) -> usize {
        let steps = |(visibility, part)| match split {
            Split::Side => 1,
            Split::Down => self.version.conversion_inputs(Split::Side, visibility, part).len(),
        };
        self.version.fragments_within((lower, upper)).map(steps).fold(1, usize::max)
    }

    /// Counts the tables that a conversion takes in a fragment.
    fn add_tables(&self, split: Split, (visibility, part): (Visibility, (&[u8], &[u8])), range_size: &mut RangeSize) {
        let mut largest_run = 0;
        for (_, run) in self.version.conversion_inputs(split, visibility, part) {
            let tables = run.within(part);
            let bytes = tables.iter().map(|table| table.bytes_within(part)).sum();
            range_size.bytes += bytes;
            largest_run = largest_run.max(bytes);
            range_size.records +=
                tables.iter().map(|table| (table.records().0 as f64 * table.fraction_in(part)) as u64).sum::<u64>();
        }
        range_size.largest_run += largest_run;
    }

    /// Counts the pages of a fragment. This needs no I/O, only a walk over its segments.
    fn add_pages(&self, fragment: (Visibility, (&[u8], &[u8])), range_size: &mut RangeSize) {
        let bytes = self.page_bytes(fragment, u64::MAX);
        range_size.page_bytes += bytes;
        range_size.pages += bytes / PAGE as u64;
    }

    fn page_bytes(&self, (visibility, (lower, upper)): (Visibility, (&[u8], &[u8])), most: u64) -> u64 {
        let page_tier = self.page_tier.as_ref().filter(|_| visibility.has_pages);
        page_tier.map_or(0, |page_tier| page_tier.extent(lower, upper, most).1)
    }
}

/// The smallest key above a key. A key of the greatest length is returned as it is.
pub fn key_after(key: &[u8]) -> Vec<u8> {
    if key.len() < MAX_KEY { [key, &[0]].concat() } else { key.to_vec() }
}

impl TableReader {
    /// The fraction of the table's blocks that can have keys of a range, about. Where the range ends within a block,
    /// half of that block is counted.
    pub(crate) fn fraction_of_blocks(&self, (lower, upper): (&[u8], &[u8])) -> f64 {
        if self.last() < lower || upper <= self.first() {
            return 0.0;
        }
        let blocks = f64::from(self.table().blocks());
        let from = if lower <= self.first() { 0.0 } else { self.blocks_before(lower) };
        let to = if self.last() < upper { blocks } else { self.blocks_before(upper) + 0.5 };
        ((to - from) / blocks).clamp(0.0, 1.0)
    }

    /// The number of blocks before that of a key, which is between the first and the last key. Where the index is not
    /// in memory, keys are assumed to be spread evenly.
    fn blocks_before(&self, key: &[u8]) -> f64 {
        let (blocks, partitions) = (f64::from(self.table().blocks()), f64::from(self.table().partitions()));
        let about = || (blocks * fraction(self.first(), self.last(), key)).min(blocks - 1.0);
        match self.located(key) {
            Ok(candidates) => f64::from(candidates.first),
            Err(IndexSection::Top) => about(),
            Err(IndexSection::Partition(number)) => {
                let before = |number: u32| blocks * f64::from(number) / partitions;
                about().clamp(before(number), before(number + 1))
            }
        }
    }
}

/// Where a key lies between two others, as a fraction: by the eight bytes behind their common prefix.
fn fraction(first: &[u8], last: &[u8], key: &[u8]) -> f64 {
    let common = first.iter().zip(last).take_while(|(one, other)| one == other).count();
    let number = |key: &[u8]| {
        let bytes = key.iter().skip(common).copied().chain(iter::repeat(0)).take(8);
        bytes.fold(0.0, |number, byte| number * 256.0 + f64::from(byte))
    };
    let (first, last) = (number(first), number(last));
    (number(key) - first) / (last - first).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_key_lies_is_told_by_what_others_do_not_begin_with() {
        let at = |key: &str| (1000.0 * fraction(b"user:1000", b"user:1999", key.as_bytes())).round();
        assert_eq!(["user:1000", "user:1500", "user:15", "user:1999"].map(at), [0.0, 553.0, 533.0, 1000.0]);
        let of_numbers = |key: u64| fraction(&[0; 8], &u64::MAX.to_be_bytes(), &key.to_be_bytes());
        assert_eq!([0, 1 << 62, u64::MAX].map(of_numbers), [0.0, 0.25, 1.0]);
        let long = |end: &[u8]| [&[7; 500][..], end].concat();
        assert_eq!(fraction(&long(&[]), &long(&[0x80]), &long(&[0x40])), 0.5);
        assert_eq!(
            (fraction(b"a", b"a", b"a"), fraction(b"a", b"a\0", b"a\0")),
            (0.0, 0.0),
            "nothing lies between them"
        );
    }
}
