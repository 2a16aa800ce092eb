//! Hints of how ranges will be used (adaptive.md, "Controller"). They are kept in memory alone, like advice to a
//! kernel.

use std::ops::Bound;

use ecotone_engine::contract::{Hint, Range};
use ecotone_lsm::key_after;
use ecotone_substrate::{Error, Result, limits::MAX_KEY};

/// Ranges with hints at most.
const MAX_HINTS: usize = 64;

/// Hinted ranges, the latest last.
#[derive(Debug, Clone, Default)]
pub(super) struct Hints(Vec<(Vec<u8>, Option<Vec<u8>>, Hint)>);

impl Hints {
    /// Sets the hint of a range, which is unbounded without `upper`. Hints of ranges within it are forgotten. `Auto` is
    /// kept only where it overrides an older hint.
    ///
    /// # Errors
    /// If there are too many ranges.
    pub(super) fn set(&mut self, lower: Vec<u8>, upper: Option<Vec<u8>>, hint: Hint) -> Result<()> {
        let is_within = |(from, to): (&[u8], Option<&[u8]>)| {
            *from >= *lower && upper.as_ref().is_none_or(|upper| to.is_some_and(|to| to <= upper.as_slice()))
        };
        self.0.retain(|(from, to, _)| !is_within((from, to.as_deref())));
        if hint == Hint::Auto
            && !self.0.iter().any(|(from, to, _)| overlaps((from, to.as_deref()), (&lower, upper.as_deref())))
        {
            return Ok(());
        }
        if self.0.len() == MAX_HINTS {
            return Err(Error::Limit {
                what: "the ranges that hints were given for",
                limit: MAX_HINTS as u64,
                actual: MAX_HINTS as u64 + 1,
            });
        }
        self.0.push((lower, upper, hint));
        Ok(())
    }

    /// The latest hint that overlaps a range.
    pub(super) fn of(&self, lower: &[u8], upper: &[u8]) -> Hint {
        let latest = self.0.iter().rfind(|(from, to, _)| overlaps((from, to.as_deref()), (lower, Some(upper))));
        latest.map_or(Hint::Auto, |(_, _, hint)| *hint)
    }

    /// Divides a range into parts, ascending, each with the hint that holds for all of it.
    pub(super) fn parts<'h>(&'h self, lower: &'h [u8], upper: &'h [u8]) -> Vec<(&'h [u8], &'h [u8], Hint)> {
        let ends = self.0.iter().flat_map(|(from, to, _)| [Some(from.as_slice()), to.as_deref()]).flatten();
        let mut ends: Vec<_> = ends.filter(|end| lower < *end && *end < upper).chain([lower, upper]).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.windows(2).map(|part| (part[0], part[1], self.of(part[0], part[1]))).collect()
    }
}

/// Whether two ranges overlap. A range without an end is unbounded.
pub(super) fn overlaps(one: (&[u8], Option<&[u8]>), other: (&[u8], Option<&[u8]>)) -> bool {
    let is_below = |low: &[u8], end: Option<&[u8]>| end.is_none_or(|end| low < end);
    is_below(one.0, other.1) && is_below(other.0, one.1)
}

/// The first key of a range, and its exclusive end, if there is one. Keys are cut to the maximum length.
pub(super) fn bounds((low, high): &Range) -> (Vec<u8>, Option<Vec<u8>>) {
    let short = |key: &Vec<u8>| key[..key.len().min(MAX_KEY)].to_vec();
    let lower = match low {
        Bound::Included(key) => short(key),
        Bound::Excluded(key) => key_after(&short(key)),
        Bound::Unbounded => Vec::new(),
    };
    let upper = match high {
        Bound::Included(key) => Some(key_after(&short(key))),
        Bound::Excluded(key) => Some(short(key)),
        Bound::Unbounded => None,
    };
    (lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    #[test]
    fn what_was_said_last_counts() {
        let mut hints = Hints::default();
        hints.set(key("b"), Some(key("f")), Hint::WriteMostly).unwrap();
        hints.set(key("d"), None, Hint::ReadMostly).unwrap();
        let of = |hints: &Hints, lower: &str, upper: &str| hints.of(lower.as_bytes(), upper.as_bytes());
        let all = |hints: &Hints| {
            [("a", "b"), ("a", "c"), ("c", "e"), ("e", "g"), ("x", "z")].map(|(lower, upper)| of(hints, lower, upper))
        };
        assert_eq!(all(&hints), [Hint::Auto, Hint::WriteMostly, Hint::ReadMostly, Hint::ReadMostly, Hint::ReadMostly]);
        let parts: Vec<_> = hints.parts(b"a", b"x").iter().map(|(lower, _, hint)| (lower[0], *hint)).collect();
        let said = [(b'a', Hint::Auto), (b'b', Hint::WriteMostly), (b'd', Hint::ReadMostly), (b'f', Hint::ReadMostly)];
        assert_eq!(parts, said);
        hints.set(key("e"), Some(key("f")), Hint::Auto).unwrap();
        assert_eq!((of(&hints, "e", "f"), hints.0.len()), (Hint::Auto, 3));
        hints.set(key("a"), None, Hint::Auto).unwrap();
        assert_eq!((all(&hints), hints.0.len()), ([Hint::Auto; 5], 0));
    }

    #[test]
    fn hints_have_a_limit_and_a_wide_one_makes_room() {
        let mut hints = Hints::default();
        let mut set = |number: u8, hint| hints.set(vec![number], Some(vec![number + 1]), hint);
        assert!((0..MAX_HINTS as u8).all(|number| set(number, Hint::ReadMostly).is_ok()));
        assert!(matches!(set(200, Hint::ReadMostly), Err(Error::Limit { .. })));
        assert!(set(3, Hint::WriteMostly).is_ok());
        hints.set(Vec::new(), Some(vec![100]), Hint::Auto).unwrap();
        assert_eq!(hints.0.len(), 0);
    }

    #[test]
    fn ranges_become_half_open() {
        let range = (Bound::Excluded(key("a")), Bound::Included(key("b")));
        assert_eq!(bounds(&range), (key("a\0"), Some(key("b\0"))));
        assert_eq!(bounds(&(Bound::Unbounded, Bound::Unbounded)), (Vec::new(), None));
        let longest = vec![1; MAX_KEY];
        assert_eq!(bounds(&(Bound::Unbounded, Bound::Included(longest.clone()))).1, Some(longest.clone()));
        assert_eq!(bounds(&(Bound::Excluded([&longest[..], b"x"].concat()), Bound::Unbounded)).0, longest);
    }
}
