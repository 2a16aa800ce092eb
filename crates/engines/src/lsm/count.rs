//! How much of a range counts in tables, and how much there is below: what an absorption would have to do (decision 14,
//! "Price").

use std::iter;

use ecotone_substrate::limits::{MAX_KEY, PAGE};

use super::{
    base::Counted,
    handle::{Handle, IndexPart},
    records::Lsm,
    structure::Cover,
    version::{Ranged, Split, Version},
};

impl Lsm {
    /// What there is of a range, about, without I/O.
    pub(crate) fn counted(&self, lower: &[u8], upper: &[u8]) -> Counted {
        let (version, mut counted) = (self.version(), Counted::default());
        parts(&version, lower, upper, |cover, part| {
            count_in(&version, (Split::Side, cover, part), &mut counted);
            self.count_below(cover, part, &mut counted);
        });
        counted
    }

    /// Bytes of it if of each part there were what the place has that has most of it, pages among them. Of pages about
    /// `most` are counted.
    pub(crate) fn largest(&self, lower: &[u8], upper: &[u8], most: u64) -> u64 {
        let (version, mut bytes) = (self.version(), 0);
        parts(&version, lower, upper, |cover, part| {
            let mut counted = Counted::default();
            count_in(&version, (Split::Side, cover, part), &mut counted);
            bytes += counted.largest.max(self.page_bytes(cover, part, most));
        });
        bytes
    }

    /// What one absorption of it reads and writes: of what is below, the parts over which something counts.
    pub(crate) fn counted_by(&self, split: Split, lower: &[u8], upper: &[u8]) -> Counted {
        let (version, mut counted) = (self.version(), Counted::default());
        parts(&version, lower, upper, |cover, part| {
            let before = counted.records;
            count_in(&version, (split, cover, part), &mut counted);
            if counted.records > before {
                self.count_below(cover, part, &mut counted);
            }
        });
        counted
    }

    /// The same of what is not covered of it.
    pub(crate) fn counted_between_covers(&self, split: Split, lower: &[u8], upper: &[u8]) -> Counted {
        let (version, mut counted) = (self.version(), Counted::default());
        parts(&version, lower, upper, |cover, part| {
            if cover.is_none() {
                count_in(&version, (split, None, part), &mut counted);
            }
        });
        counted
    }

    /// Parts of a range that are covered and that are not, by turns, and whether they are.
    pub(crate) fn by_covers(&self, lower: &[u8], upper: &[u8]) -> Vec<(Vec<u8>, Vec<u8>, bool)> {
        let (version, mut found) = (self.version(), Vec::<(_, _, bool)>::new());
        parts(&version, lower, upper, |cover, (from, end)| match found.last_mut() {
            Some((_, last, is_covered)) if *is_covered == cover.is_some() => *last = end.to_vec(),
            _ => found.push((from.to_vec(), end.to_vec(), cover.is_some())),
        });
        found
    }

    /// How many absorptions it takes until nothing of a range counts in tables, if nothing comes meanwhile.
    pub(crate) fn absorptions(&self, split: Split, lower: &[u8], upper: &[u8]) -> usize {
        let (version, mut most) = (self.version(), 1);
        if split == Split::Down {
            parts(&version, lower, upper, |cover, part| most = most.max(version.taken(Split::Side, cover, part).len()));
        }
        most
    }

    /// Counts what is below a part of a range, which needs no I/O but a walk over its segments.
    fn count_below(&self, cover: Option<&Cover>, part: (&[u8], &[u8]), counted: &mut Counted) {
        let bytes = self.page_bytes(cover, part, u64::MAX);
        counted.page_bytes += bytes;
        counted.pages += bytes / PAGE as u64;
    }

    fn page_bytes(&self, cover: Option<&Cover>, (lower, upper): (&[u8], &[u8]), most: u64) -> u64 {
        cover.and(self.base()).map_or(0, |base| base.extent(lower, upper, most).1)
    }

    /// The first key of all memtables, tables and covers, and one behind the last, if there are any.
    pub(crate) fn ends(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let view = self.present.get();
        let version = &view.version;
        let memtables: Vec<_> = view.memtables.iter().filter_map(|member| member.memtable.ends()).collect();
        let firsts =
            memtables.iter().map(|(first, _)| first.as_slice()).chain(version.tables().map(|table| table.first()));
        let lasts = memtables.iter().map(|(_, last)| last.as_slice()).chain(version.tables().map(|table| table.last()));
        let lower = firsts.chain(version.covers().bounds()).min()?.to_vec();
        let upper = lasts.map(behind).chain(version.covers().bounds().map(<[u8]>::to_vec)).max()?;
        Some((lower, upper))
    }
}

/// Counts what an absorption takes of a part of a range.
fn count_in(
    version: &Version<Handle>,
    (split, cover, part): (Split, Option<&Cover>, (&[u8], &[u8])),
    counted: &mut Counted,
) {
    let mut largest = 0;
    for (_, run) in version.taken(split, cover, part) {
        let tables = run.within(part);
        let bytes = tables.iter().map(|table| table.bytes_within(part)).sum();
        counted.bytes += bytes;
        largest = largest.max(bytes);
        counted.records +=
            tables.iter().map(|table| (table.records().0 as f64 * table.share(part)) as u64).sum::<u64>();
    }
    counted.largest += largest;
}

/// Visits the parts of a range of each of which the same places count.
fn parts(version: &Version<Handle>, lower: &[u8], upper: &[u8], mut visit: impl FnMut(Option<&Cover>, (&[u8], &[u8]))) {
    let mut from = lower;
    while from < upper {
        let stretch = version.covers().stretch_at(from);
        let end = stretch.upper.map_or(upper, |end| end.min(upper));
        visit(stretch.cover, (from, end));
        from = end;
    }
}

/// The key next above one: of the longest keys there is none, and the key itself does.
pub(crate) fn behind(key: &[u8]) -> Vec<u8> {
    if key.len() < MAX_KEY { [key, &[0]].concat() } else { key.to_vec() }
}

impl Handle {
    /// The part of its blocks that can have keys of a range, about: of one that ends within a block, half of that.
    pub(super) fn share_of_blocks(&self, (lower, upper): (&[u8], &[u8])) -> f64 {
        if self.last() < lower || upper <= self.first() {
            return 0.0;
        }
        let blocks = f64::from(self.table().blocks());
        let from = if lower <= self.first() { 0.0 } else { self.blocks_before(lower) };
        let to = if self.last() < upper { blocks } else { self.blocks_before(upper) + 0.5 };
        ((to - from) / blocks).clamp(0.0, 1.0)
    }

    /// The blocks before that of a key between the first and the last. Where the index is not in memory it is as if
    /// keys were spread evenly.
    fn blocks_before(&self, key: &[u8]) -> f64 {
        let (blocks, partitions) = (f64::from(self.table().blocks()), f64::from(self.table().partitions()));
        let about = || (blocks * fraction(self.first(), self.last(), key)).min(blocks - 1.0);
        match self.located(key) {
            Ok(candidates) => f64::from(candidates.first),
            Err(IndexPart::Whole) => about(),
            Err(IndexPart::Partition(number)) => {
                let before = |number: u32| blocks * f64::from(number) / partitions;
                about().clamp(before(number), before(number + 1))
            }
        }
    }
}

/// Where a key between two others lies, as a fraction: by eight bytes behind what all begin with.
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
