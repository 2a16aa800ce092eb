//! What a salvage found out.

/// Keys from the first (inclusive) up to the second (exclusive), or to the end of all keys.
pub type KeyRange = (Vec<u8>, Option<Vec<u8>>);

/// Ranges that are listed one by one; more are counted.
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
    /// Adds a range that does not begin before the last one ends.
    pub(super) fn add(&mut self, range: KeyRange) {
        match self.listed.last_mut() {
            Some((_, end)) if self.count <= LISTED as u64 && end.as_ref() == Some(&range.0) => *end = range.1,
            _ => {
                self.count += 1;
                if self.listed.len() < LISTED {
                    self.listed.push(range);
                }
            }
        }
    }
}

/// How the pages of a keyspace were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Pages that held something.
    pub pages: u64,
    /// Those of them that cannot be read or do not verify. Without a whole index, pages that were free are among them.
    pub damaged: u64,
    /// Where no page was found.
    pub missing: Ranges,
    /// Where a page was found that may not be the newest, or without its overflow page: records may be old, missing, or deleted ones.
    pub doubtful: Ranges,
}

impl Findings {
    /// Of a file that is not there.
    pub fn nothing() -> Self {
        let mut findings = Findings::default();
        findings.missing.add((Vec::new(), None));
        findings
    }
}
