//! How much of a range counts in tables, and how much there is below: what an absorption would have to do (decision 14, "Price").

use ecotone_substrate::limits::{MAX_KEY, PAGE};

use super::{
    base::Counted,
    handle::Handle,
    records::Lsm,
    structure::Cover,
    version::{Ranged, Split, Version},
};

impl Lsm {
    /// What there is of a range, about. Without I/O: where an index is not in memory, a half of its table counts.
    pub(crate) fn counted(&self, lower: &[u8], upper: &[u8]) -> Counted {
        let (version, mut counted) = (self.version(), Counted::default());
        parts(&version, lower, upper, |cover, part| {
            count_in(&version, (Split::Side, cover, part), &mut counted);
            self.count_below(cover, part, &mut counted);
        });
        counted
    }

    /// Bytes of it if of each part there were what the place has that has most of it, pages among them. Of pages about `most` are counted.
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
        let firsts = memtables.iter().map(|(first, _)| first.as_slice()).chain(version.tables().map(|table| table.first()));
        let lasts = memtables.iter().map(|(_, last)| last.as_slice()).chain(version.tables().map(|table| table.last()));
        let lower = firsts.chain(version.covers().bounds()).min()?.to_vec();
        let upper = lasts.map(behind).chain(version.covers().bounds().map(<[u8]>::to_vec)).max()?;
        Some((lower, upper))
    }
}

/// Counts what an absorption takes of a part of a range.
fn count_in(version: &Version<Handle>, (split, cover, part): (Split, Option<&Cover>, (&[u8], &[u8])), counted: &mut Counted) {
    let mut largest = 0;
    for (_, run) in version.taken(split, cover, part) {
        let shares = || run.within(part).iter().map(|table| (table, table.share(part)));
        let bytes = shares().map(|(table, share)| (table.bytes() as f64 * share) as u64).sum();
        counted.bytes += bytes;
        largest = largest.max(bytes);
        counted.records += shares().map(|(table, share)| (table.records().0 as f64 * share) as u64).sum::<u64>();
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
    /// The part of its blocks that can have keys of a range, about.
    fn share(&self, (lower, upper): (&[u8], &[u8])) -> f64 {
        let blocks = f64::from(self.table().blocks());
        let at = |key: &[u8]| self.located(key).ok().map(|blocks| f64::from(blocks.first));
        let from = if lower <= self.first() { Some(0.0) } else { at(lower) };
        let to = if self.last() < upper { Some(blocks) } else { at(upper).map(|block| block + 0.5) };
        match from.zip(to) {
            Some((from, to)) => ((to - from) / blocks).clamp(0.0, 1.0),
            None => 0.5,
        }
    }
}
