//! The report of a salvage: damage found, and key ranges that may be lost.

use std::result;

use ecotone_substrate::{Error, Result};

/// Keys from the first (inclusive) up to the second (exclusive), or to the end of all keys.
pub type KeyRange = (Vec<u8>, Option<Vec<u8>>);

/// Ranges and problems listed one by one; more are only counted.
const LISTED: usize = 1000;

/// Key ranges in ascending order; adjacent ranges are joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges {
    /// The first thousand.
    pub listed: Vec<KeyRange>,
    /// How many there are.
    pub count: u64,
}

impl Ranges {
    /// Adds a range that does not begin before the last one.
    #[doc(hidden)]
    pub fn add(&mut self, (start, end): KeyRange) {
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

    /// The union of two sets of ranges.
    #[doc(hidden)]
    pub fn union(self, others: Ranges) -> Ranges {
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

/// The smallest key above another one.
pub fn key_successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Separates damage and unreadable data from errors that end a salvage.
///
/// # Errors
/// Errors of the second kind.
pub fn separate_damage<T>(result: Result<T>) -> Result<result::Result<T, Error>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error @ (Error::Corruption { .. } | Error::Io { .. })) => Ok(Err(error)),
        Err(error) => Err(error),
    }
}

/// Damaged or missing things, each as a sentence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    /// The first thousand.
    pub listed: Vec<String>,
    /// How many there are.
    pub count: u64,
}

impl Problems {
    /// Adds a problem.
    pub fn add(&mut self, problem: impl ToString) {
        self.count += 1;
        if self.listed.len() < LISTED {
            self.listed.push(problem.to_string());
        }
    }

    /// Turns damage into a problem; other errors end the salvage.
    ///
    /// # Errors
    /// All errors but damage and unreadable data.
    pub fn survive<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        Ok(separate_damage(result)?.map_err(|damage| self.add(damage)).ok())
    }

    /// The sentences; the last one tells how many are left out.
    pub fn sentences(self, of: &str) -> impl Iterator<Item = String> {
        let more = self.count.saturating_sub(self.listed.len() as u64);
        let rest = (more > 0).then(|| format!("{more} more places of {of} are damaged"));
        self.listed.into_iter().chain(rest)
    }
}

/// The state of a keyspace's files, as salvage found it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// Checksummed units that held data: pages of a tree, blocks of tables, pages of a hot log.
    pub pages: u64,
    /// Units among them that are unreadable or do not verify. Without a complete index this includes free pages of a
    /// tree.
    pub damaged: u64,
    /// Key ranges where nothing was found.
    pub missing: Ranges,
    /// Key ranges whose data may be stale or incomplete: records may be old, missing, or deleted ones.
    pub doubtful: Ranges,
    /// Damaged or missing parts of files, each with the file and the position. Damaged pages of a tree are only
    /// counted.
    pub problems: Problems,
}

impl SalvageReport {
    /// The report for a missing file.
    pub fn nothing() -> Self {
        let mut findings = SalvageReport::default();
        findings.missing.add((Vec::new(), None));
        findings
    }

    /// Combines the reports of several files of the keyspace.
    #[must_use]
    pub fn with(self, others: SalvageReport) -> SalvageReport {
        let mut problems = self.problems;
        problems.count += others.problems.count;
        problems.listed.extend(others.problems.listed);
        problems.listed.truncate(LISTED);
        SalvageReport {
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
