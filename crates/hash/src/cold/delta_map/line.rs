//! One line of a delta map with its slots, while a map is built: lines of the previous map are copied out, and lines of
//! the new one copied in.

use ecotone_substrate::{
    Result,
    limits::PAGE,
    memory::{Component, Memory},
};

use super::{CROWDED, DeltaMap, LINE, SLOT};

/// The slots of 60 buckets.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Number of slots of each bucket, as encoded in the line.
    counts: Vec<u8>,
    slots: Vec<[u8; SLOT]>,
    /// Index of the current bucket's first slot.
    start: usize,
}

impl Line {
    /// All slots; the caller appends those of the current bucket.
    pub(super) fn slots(&mut self) -> &mut Vec<[u8; SLOT]> {
        &mut self.slots
    }

    /// The slots of the current bucket so far.
    pub(super) fn bucket(&mut self) -> &mut [[u8; SLOT]] {
        &mut self.slots[self.start..]
    }

    /// Ends the current bucket. A crowded bucket keeps no slots.
    pub(super) fn end_bucket(&mut self, crowded: bool) {
        let count = if crowded { CROWDED } else { u8::try_from(self.slots.len() - self.start).unwrap_or(CROWDED) };
        if count == CROWDED {
            self.slots.truncate(self.start);
        }
        self.counts.push(count);
        self.start = self.slots.len();
    }

    /// Loads the line `number` of a map with its slots.
    pub(super) fn load(&mut self, map: &DeltaMap, number: usize) {
        let line: &[u8; LINE] = map.line(number);
        let (first, counts) = line.split_first_chunk().expect("a line is longer");
        self.clear();
        self.counts.extend(counts);
        let len: usize = counts.iter().filter(|count| **count != CROWDED).map(|count| usize::from(*count)).sum();
        let mut next = u64::from(u32::from_le_bytes(*first));
        let end = next + len as u64;
        while next < end {
            let (page, at) = map.place(next);
            let until = (at + (end - next) as usize * SLOT).min(PAGE);
            self.slots.extend(map.pages.page(page)[at..until].as_chunks().0);
            next += ((until - at) / SLOT) as u64;
        }
    }

    /// Takes the slots of the next loaded bucket; `None` if it is crowded.
    pub(super) fn next_bucket(&mut self, bucket: usize) -> Option<&[[u8; SLOT]]> {
        let count = self.counts[bucket];
        if count == CROWDED {
            return None;
        }
        let start = self.start;
        self.start += usize::from(count);
        Some(&self.slots[start..self.start])
    }

    /// Appends the buckets to a map as its line `number`, and clears them.
    pub(super) fn store(&mut self, memory: &Memory, map: &mut DeltaMap, number: usize) -> Result<()> {
        let first = u32::try_from(map.slots).expect("a partition has fewer records than that");
        let (page, at) = (number * LINE / PAGE, number * LINE % PAGE);
        map.pages.set(page, at, &first.to_le_bytes());
        map.pages.set(page, at + size_of_val(&first), &self.counts);
        let mut rest = &self.slots[..];
        while !rest.is_empty() {
            let (page, at) = map.place(map.slots);
            if page == map.pages.len() {
                map.pages.grow(memory, Component::ColdIndex)?;
            }
            let (here, others) = rest.split_at(rest.len().min((PAGE - at) / SLOT));
            map.pages.set(page, at, here.as_flattened());
            map.slots += here.len() as u64;
            rest = others;
        }
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        self.counts.clear();
        self.slots.clear();
        self.start = 0;
    }
}
