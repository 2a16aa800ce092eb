//! What the repair of a keyspace found out.

use std::result;

use ecotone_substrate::{Error, Result};

/// Keys from the first (inclusive) up to the second (exclusive), or to the end of all keys.
pub type KeyRange = (Vec<u8>, Option<Vec<u8>>);

/// Ranges and problems that are listed one by one; more are counted.
const LISTED: usize = 1000;

/// Ranges of keys, in ascending order; what touches is one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges {
    /// The first thousand.
    pub listed: Vec<KeyRange>,
    /// How many there are.
    pub count: u64,
}

impl Ranges {
    /// Adds a range that does not begin before the last one begins.
    pub(crate) fn add(&mut self, (start, end): KeyRange) {
        match self.listed.last_mut() {
            Some((_, last)) if self.count <= LISTED as u64 && last.as_ref().is_none_or(|last| start <= *last) => {
                *last = last.take().zip(end).map(|(last, end)| last.max(end));
            }
            _ => {
                self.count += 1;
                if self.listed.len() < LISTED {
                    self.listed.push((start, end));
                }
            }
        }
    }

    /// All of these and of others.
    pub(crate) fn union(self, others: Ranges) -> Ranges {
        let unlisted = |ranges: &Ranges| ranges.count.saturating_sub(ranges.listed.len() as u64);
        let more = unlisted(&self) + unlisted(&others);
        let mut all = [self.listed, others.listed].concat();
        all.sort();
        let mut union = Ranges::default();
        all.into_iter().for_each(|range| union.add(range));
        union.count += more;
        union
    }
}

/// The first key behind another one.
pub fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Keeps damage, and what the disk does not give, apart from errors that end a repair.
///
/// # Errors
/// The latter.
pub fn survive<T>(result: Result<T>) -> Result<result::Result<T, Error>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error @ (Error::Corruption { .. } | Error::Io { .. })) => Ok(Err(error)),
        Err(error) => Err(error),
    }
}

/// Things that are damaged or missing, each as a sentence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    /// The first thousand.
    pub listed: Vec<String>,
    /// How many there are.
    pub count: u64,
}

impl Problems {
    /// Adds one.
    pub fn add(&mut self, problem: impl ToString) {
        self.count += 1;
        if self.listed.len() < LISTED {
            self.listed.push(problem.to_string());
        }
    }

    /// Turns damage into a problem; other errors end the repair.
    ///
    /// # Errors
    /// All but damage, and what the disk does not give.
    pub fn survive<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        Ok(survive(result)?.map_err(|damage| self.add(damage)).ok())
    }

    /// The sentences, with one at the end that tells how many are left out.
    pub fn sentences(self, of: &str) -> impl Iterator<Item = String> {
        let more = self.count.saturating_sub(self.listed.len() as u64);
        let rest = (more > 0).then(|| format!("{more} more places of {of} are damaged"));
        self.listed.into_iter().chain(rest)
    }
}

/// How the files of a keyspace were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Units with a checksum that held something: pages of a tree, blocks of tables, pages of a hot log.
    pub pages: u64,
    /// Those of them that cannot be read or do not verify. Without a whole index, pages of a tree that were free are
    /// among them.
    pub damaged: u64,
    /// Where nothing was found.
    pub missing: Ranges,
    /// Where something was found that may not be the newest, or not all: records may be old, missing, or deleted ones.
    pub doubtful: Ranges,
    /// What is damaged or missing of files, each with the file and the place in it. Damaged pages of a tree are only
    /// counted.
    pub problems: Problems,
}

impl Findings {
    /// Of a file that is not there.
    pub fn nothing() -> Self {
        let mut findings = Findings::default();
        findings.missing.add((Vec::new(), None));
        findings
    }

    /// These and those of other files of the keyspace.
    #[must_use]
    pub fn with(self, others: Findings) -> Findings {
        let mut problems = self.problems;
        problems.count += others.problems.count;
        problems.listed.extend(others.problems.listed);
        problems.listed.truncate(LISTED);
        Findings {
            pages: self.pages + others.pages,
            damaged: self.damaged + others.damaged,
            missing: self.missing.union(others.missing),
            doubtful: self.doubtful.union(others.doubtful),
            problems,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &str, end: &str) -> KeyRange {
        (start.into(), (!end.is_empty()).then(|| end.into()))
    }

    fn ranges(all: &[(&str, &str)]) -> Ranges {
        let mut ranges = Ranges::default();
        all.iter().for_each(|(start, end)| ranges.add(range(start, end)));
        ranges
    }

    #[test]
    fn ranges_that_touch_or_overlap_are_one() {
        let found = ranges(&[("a", "c"), ("b", "bb"), ("c", "d"), ("e", "f"), ("e", ""), ("x", "y")]);
        assert_eq!((found.listed, found.count), (vec![range("a", "d"), range("e", "")], 2));
    }

    #[test]
    fn a_union_has_the_ranges_of_both_in_order() {
        let union = ranges(&[("a", "c"), ("m", "p")]).union(ranges(&[("b", "d"), ("x", "")]));
        assert_eq!((union.listed, union.count), (vec![range("a", "d"), range("m", "p"), range("x", "")], 3));
    }

    #[test]
    fn the_first_thousand_are_listed_and_all_are_counted() {
        let mut problems = Problems::default();
        (0..1500).for_each(|number| problems.add(number));
        let sentences: Vec<String> = problems.sentences("towns").collect();
        assert_eq!(sentences.len(), 1001);
        assert!(sentences[1000].contains("500 more places of towns"), "{}", sentences[1000]);
    }
}
