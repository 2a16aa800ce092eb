//! The remaining range of a scan that goes from both ends.

use std::{cmp::Ordering, mem, ops::Bound};

use crate::contract::Range;

/// The direction of one end of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending, from the smallest key.
    Up,
    /// Descending, from the largest key.
    Down,
}

impl Direction {
    /// Compares two keys in this direction.
    #[inline]
    pub fn order(self, one: &[u8], other: &[u8]) -> Ordering {
        match self {
            Direction::Up => one.cmp(other),
            Direction::Down => other.cmp(one),
        }
    }
}

/// The keys that were not returned yet: everything between the bounds. After the first record of an end its bound is
/// the key returned last.
#[derive(Debug)]
pub struct RemainingRange {
    /// The lower bound.
    pub low: Bound<Vec<u8>>,
    /// The upper bound.
    pub high: Bound<Vec<u8>>,
}

impl RemainingRange {
    /// Everything between these bounds.
    pub fn new((low, high): Range) -> Self {
        RemainingRange { low, high }
    }

    /// Its bounds.
    pub fn range(&self) -> Range {
        (self.low.clone(), self.high.clone())
    }

    /// Whether the bounds leave no key between them.
    pub fn is_empty(&self) -> bool {
        match (&self.low, &self.high) {
            (Bound::Included(low), Bound::Included(high)) => low > high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
            _ => false,
        }
    }

    /// Whether the key is between the bounds.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.is_above_low(key) && self.is_below_high(key)
    }

    /// Whether the key is not below the lower bound.
    #[inline]
    pub fn is_above_low(&self, key: &[u8]) -> bool {
        match &self.low {
            Bound::Included(low) => key >= low.as_slice(),
            Bound::Excluded(low) => key > low.as_slice(),
            Bound::Unbounded => true,
        }
    }

    /// Whether the key is not above the upper bound.
    #[inline]
    pub fn is_below_high(&self, key: &[u8]) -> bool {
        match &self.high {
            Bound::Included(high) => key <= high.as_slice(),
            Bound::Excluded(high) => key < high.as_slice(),
            Bound::Unbounded => true,
        }
    }

    /// The remaining range if one end stops at a limit: on the way up the keys below the limit, on the way down the
    /// limit and the keys above it.
    pub fn split_before(&self, direction: Direction, limit: Option<&[u8]>) -> RemainingRange {
        let (mut low, mut high) = (self.low.clone(), self.high.clone());
        match (direction, limit) {
            (Direction::Up, Some(limit)) if self.is_below_high(limit) => high = Bound::Excluded(limit.to_vec()),
            (Direction::Down, Some(limit)) if self.is_above_low(limit) => low = Bound::Included(limit.to_vec()),
            _ => {}
        }
        RemainingRange { low, high }
    }

    /// The complement of [`split_before`](Self::split_before): the remaining range beyond the limit.
    pub fn split_after(&self, direction: Direction, limit: &[u8]) -> RemainingRange {
        let (mut low, mut high) = (self.low.clone(), self.high.clone());
        match direction {
            Direction::Up => low = Bound::Included(limit.to_vec()),
            Direction::Down => high = Bound::Excluded(limit.to_vec()),
        }
        RemainingRange { low, high }
    }

    /// Whether keys below `upper` may remain.
    pub fn may_begin_below(&self, upper: Option<&[u8]>) -> bool {
        match (&self.low, upper) {
            (Bound::Included(low) | Bound::Excluded(low), Some(upper)) => upper > low.as_slice(),
            _ => true,
        }
    }

    /// Takes a key, given in two parts, off one end; false if it lies beyond the other. Reuses the bound's memory.
    #[inline]
    pub fn take(&mut self, direction: Direction, prefix: &[u8], suffix: &[u8]) -> bool {
        let bound = match direction {
            Direction::Up => &mut self.low,
            Direction::Down => &mut self.high,
        };
        let mut key = match mem::replace(bound, Bound::Unbounded) {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => Vec::new(),
        };
        key.clear();
        key.extend_from_slice(prefix);
        key.extend_from_slice(suffix);
        let within = match direction {
            Direction::Up => self.is_below_high(&key),
            Direction::Down => self.is_above_low(&key),
        };
        match direction {
            Direction::Up => self.low = Bound::Excluded(key),
            Direction::Down => self.high = Bound::Excluded(key),
        }
        within
    }

    /// The key that this end took last.
    #[inline]
    pub fn taken(&self, direction: Direction) -> &[u8] {
        let bound = match direction {
            Direction::Up => &self.low,
            Direction::Down => &self.high,
        };
        match bound {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound::{Excluded, Included, Unbounded};

    use super::{Direction, RemainingRange};

    #[test]
    fn a_range_without_keys_is_empty() {
        let empty = |low, high| RemainingRange::new((low, high)).is_empty();
        let key = |text: &str| text.as_bytes().to_vec();
        assert!(empty(Included(key("b")), Included(key("a"))) && !empty(Included(key("a")), Included(key("a"))));
        assert!(empty(Included(key("a")), Excluded(key("a"))) && empty(Excluded(key("a")), Included(key("a"))));
        assert!(!empty(Unbounded, Excluded(key("a"))) && !empty(Excluded(key("a")), Unbounded));
    }

    #[test]
    fn a_limit_parts_what_is_left() {
        let key = |text: &str| text.as_bytes().to_vec();
        let keys = ["a", "b", "ba", "c", "d"];
        let of = |rest: &RemainingRange| keys.map(|text| rest.contains(text.as_bytes()));
        for rest in [
            (Unbounded, Unbounded),
            (Included(key("b")), Included(key("c"))),
            (Excluded(key("b")), Excluded(key("d"))),
            (Included(key("c")), Unbounded),
        ] {
            let rest = RemainingRange::new(rest);
            for limit in keys {
                for (direction, is_before) in
                    [(Direction::Up, keys.map(|key| key < limit)), (Direction::Down, keys.map(|key| key >= limit))]
                {
                    let (before, behind) = (
                        rest.split_before(direction, Some(limit.as_bytes())),
                        rest.split_after(direction, limit.as_bytes()),
                    );
                    for (number, there) in of(&rest).into_iter().enumerate() {
                        assert_eq!(of(&before)[number], there && is_before[number], "{rest:?} {direction:?} {limit}");
                        assert!(!there || is_before[number] || of(&behind)[number], "{rest:?} {direction:?} {limit}");
                    }
                }
            }
            assert_eq!(of(&rest.split_before(Direction::Up, None)), of(&rest));
        }
    }

    #[test]
    fn the_ends_meet_and_do_not_pass() {
        let mut rest = RemainingRange::new((Included(b"b".to_vec()), Included(b"d".to_vec())));
        assert!(rest.contains(b"b") && rest.contains(b"d") && !rest.contains(b"a") && !rest.contains(b"da"));
        assert!(rest.take(Direction::Up, b"", b"b") && rest.taken(Direction::Up) == b"b");
        assert!(rest.take(Direction::Down, b"c", b"a") && rest.taken(Direction::Down) == b"ca");
        assert!(!rest.contains(b"b") && rest.contains(b"c") && !rest.contains(b"ca"));
        assert!(!rest.take(Direction::Up, b"c", b"a"));
    }
}
