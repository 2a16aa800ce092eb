//! Those of a page's dirty records that a scan comes to first. A page may have any number of them, until they are written out, and a scan keeps copies.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::write_out::DirtyRecord;
use crate::rest::Direction;

/// Bytes that the allocator and the vectors take for a copy, beside its key and value.
const BESIDE: usize = 96;

impl DirtyRecord {
    /// About the memory that it takes.
    fn memory(&self) -> usize {
        BESIDE + self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// Copies of dirty records, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Nearest {
    pub(crate) records: Vec<DirtyRecord>,
    /// Bytes of memory that they take.
    pub(crate) bytes: usize,
    /// Where they end, if there are more: at this key on the way up, and with it on the way down (see [`Rest::until`](crate::rest::Rest::until)).
    pub(crate) limit: Option<Vec<u8>>,
}

/// Finds them, whatever the order in which records come.
pub(super) struct Collector {
    direction: Direction,
    most: usize,
    bytes: usize,
    /// The farthest one comes out first.
    found: BinaryHeap<Found>,
    /// The nearest one that was left out.
    left_out: Option<Vec<u8>>,
}

struct Found {
    direction: Direction,
    record: DirtyRecord,
}

impl Collector {
    /// For `most` bytes, and one record in any case.
    pub(super) fn new(direction: Direction, most: usize) -> Self {
        Collector { direction, most, bytes: 0, found: BinaryHeap::new(), left_out: None }
    }

    /// Whether a record with this key may be among the nearest.
    pub(super) fn wants(&self, key: &[u8]) -> bool {
        self.left_out.as_ref().is_none_or(|beyond| self.direction.order(key, beyond).is_lt())
    }

    pub(super) fn add(&mut self, record: DirtyRecord) {
        self.bytes += record.memory();
        self.found.push(Found { direction: self.direction, record });
        while self.bytes > self.most && self.found.len() > 1 {
            let Some(Found { record, .. }) = self.found.pop() else { return };
            self.bytes -= record.memory();
            self.left_out = Some(record.key);
        }
    }

    pub(super) fn end(self) -> Nearest {
        let limit = match self.direction {
            Direction::Up => self.left_out,
            Direction::Down => self.left_out.and_then(|_| self.found.peek()).map(|last| last.record.key.clone()),
        };
        let mut records: Vec<DirtyRecord> = self.found.into_iter().map(|found| found.record).collect();
        records.sort_unstable();
        Nearest { records, bytes: self.bytes, limit }
    }
}

impl Ord for Found {
    fn cmp(&self, other: &Self) -> Ordering {
        self.direction.order(&self.record.key, &other.record.key)
    }
}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Found {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Found {}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn nearest(direction: Direction, most: usize, keys: &[u8]) -> (Vec<u8>, Option<u8>) {
        let mut collector = Collector::new(direction, most);
        for key in keys {
            if collector.wants(&[*key]) {
                collector.add(DirtyRecord { key: vec![*key], value: None });
            }
        }
        let Nearest { records, bytes, limit } = collector.end();
        assert_eq!(bytes, records.len() * (BESIDE + 1));
        (records.iter().map(|record| record.key[0]).collect(), limit.map(|key| key[0]))
    }

    #[test]
    fn the_nearest_are_kept_in_any_order() {
        let three = 3 * (BESIDE + 1);
        for keys in [[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1], [3, 6, 1, 5, 2, 4]] {
            assert_eq!(nearest(Direction::Up, three, &keys), (vec![1, 2, 3], Some(4)));
            assert_eq!(nearest(Direction::Down, three, &keys), (vec![4, 5, 6], Some(4)));
            assert_eq!(nearest(Direction::Up, 1, &keys), (vec![1], Some(2)));
            assert_eq!(nearest(Direction::Down, 1, &keys), (vec![6], Some(6)));
            assert_eq!(nearest(Direction::Up, usize::MAX, &keys), (vec![1, 2, 3, 4, 5, 6], None));
        }
        assert_eq!(nearest(Direction::Down, 1, &[]), (vec![], None));
    }
}
