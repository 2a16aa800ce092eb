//! Builds a delta map from the previous map and from tags, in one pass in hash order.

use std::{cmp::Reverse, ops::Range};

use ecotone_substrate::{
    Result,
    limits::PAGE,
    memory::{Component, Memory},
    table::Pages,
};

use super::{Ages, BUCKETS, DeltaMap, LINE, SLOT, bucket, line::Line, tag};
use crate::cold::{hash_range::HashRange, tags::Tags};

impl DeltaMap {
    /// Builds the map of a hash range from the visible slots of `before`, which has as many buckets, and from the tags
    /// of deltas.
    pub(in crate::cold) fn build(
        memory: &Memory,
        hash_range: HashRange,
        buckets: u64,
        ages: &Ages,
        before: Option<&DeltaMap>,
        tags: &[(u8, &Tags)],
    ) -> Result<DeltaMap> {
        assert!(before.is_none_or(|map| (map.hash_range, map.buckets) == (hash_range, buckets)));
        let lines = buckets.div_ceil(BUCKETS);
        let pages = Pages::zeroed(memory, Component::ColdIndex, (lines as usize * LINE).div_ceil(PAGE))?;
        let mut map = DeltaMap { hash_range, buckets, pages, slots: 0 };
        let mut source = Source::new(&map, ages, before, tags);
        let mut line = Line::default();
        for number in 0..lines {
            source.load(number as usize);
            for bucket in number * BUCKETS..buckets.min((number + 1) * BUCKETS) {
                let crowded = source.take(bucket, &mut line);
                line.end_bucket(crowded);
            }
            line.store(memory, &mut map, number as usize)?;
        }
        Ok(map)
    }
}

/// The sources of a map.
struct Source<'s> {
    ages: &'s Ages,
    before: Option<&'s DeltaMap>,
    line: Line,
    /// Streams of younger deltas first.
    streams: Vec<Stream<'s>>,
    /// Whether all slots from streams are younger than those of the previous map. This holds except for merged deltas.
    is_younger: bool,
}

impl<'s> Source<'s> {
    fn new(map: &DeltaMap, ages: &'s Ages, before: Option<&'s DeltaMap>, tags: &[(u8, &'s Tags)]) -> Source<'s> {
        let age = |delta: u8| ages[usize::from(delta)];
        let mut streams: Vec<_> = tags.iter().map(|(delta, tags)| Stream::new(map, *delta, tags)).collect();
        streams.sort_by_key(|stream| Reverse(age(stream.delta)));
        let others = (0..=u8::MAX).filter(|delta| tags.iter().all(|(comes, _)| comes != delta));
        let oldest = streams.last().map_or(u8::MAX, |stream| age(stream.delta));
        let is_younger = before.is_none() || others.map(age).all(|age| age < oldest);
        Source { ages, before, line: Line::default(), streams, is_younger }
    }

    /// Loads the line of the previous map.
    fn load(&mut self, number: usize) {
        if let Some(before) = self.before {
            self.line.load(before, number);
        }
    }

    /// Adds the visible slots of the next bucket, the youngest first. Returns whether the bucket is crowded.
    fn take(&mut self, bucket: u64, line: &mut Line) -> bool {
        let age = |[_, delta]: &[u8; SLOT]| self.ages[usize::from(*delta)];
        self.streams.iter_mut().for_each(|stream| stream.take(bucket, line.slots()));
        if self.before.is_none() {
            return false;
        }
        let Some(slots) = self.line.next_bucket((bucket % BUCKETS) as usize) else { return true };
        line.slots().extend(slots.iter().filter(|slot| age(slot) > 0));
        if !self.is_younger {
            line.bucket().sort_by_key(|slot| Reverse(age(slot)));
        }
        false
    }
}

/// The tags of one delta that go into a map.
struct Stream<'t> {
    delta: u8,
    tags: &'t Tags,
    left: Range<u64>,
    hash_range: HashRange,
    buckets: u64,
    /// The next tag's bucket, and its bits in the slot.
    next: Option<(u64, u8)>,
}

impl<'t> Stream<'t> {
    fn new(map: &DeltaMap, delta: u8, tags: &'t Tags) -> Stream<'t> {
        let (hash_range, buckets) = (map.hash_range, map.buckets);
        let mut stream = Stream { delta, tags, left: tags.of(hash_range), hash_range, buckets, next: None };
        stream.advance();
        stream
    }

    fn advance(&mut self) {
        let hash = self.left.next().map(|number| self.tags.get(number));
        self.next = hash.map(|hash| (bucket(self.hash_range, self.buckets, hash), tag(hash)));
    }

    /// Appends the slots of the next bucket.
    fn take(&mut self, bucket: u64, slots: &mut Vec<[u8; SLOT]>) {
        while let Some((_, tag)) = self.next.filter(|(next, _)| *next == bucket) {
            slots.push([tag, self.delta]);
            self.advance();
        }
    }
}
