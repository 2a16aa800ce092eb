//! What a repair tells.

use ecotone_engines::repair::Findings;

pub use ecotone_engines::repair::{KeyRange, Ranges};

/// How far a repair is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairProgress {
    /// What it does now.
    pub step: RepairStep,
    /// How much of the step is done, in its unit.
    pub done: u64,
    /// How much there is to do, where that is known.
    pub total: Option<u64>,
}

/// The steps of a repair, in the order in which each keyspace goes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairStep {
    /// Reads the pages of all keyspaces and judges them; the unit is a page.
    Pages,
    /// Loads the records of one keyspace; the unit is a record.
    Records,
    /// Reapplies the log; the unit is an operation.
    Log,
}

/// What a repair restored and what it could not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The keyspaces of the new database.
    pub keyspaces: Vec<RepairedKeyspace>,
    /// Operations of the log that were reapplied.
    pub log_operations: u64,
    /// Each part of the log that was synced once and cannot be read, as a sentence. What was written there and had not
    /// reached the pages is lost; where an older write of the same key came before, that one may have come back.
    pub log_gaps: Vec<String>,
    /// Each thing that was found damaged or missing, as a sentence.
    pub problems: Vec<String>,
    /// Whether something was left out altogether, a keyspace of an engine that cannot be repaired, for example.
    /// `problems` says what.
    pub left_out: bool,
}

/// What became of one keyspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairedKeyspace {
    /// Its name; `keyspace-7` for the seventh one if no manifest tells.
    pub name: String,
    /// Its number in the old database.
    pub id: u32,
    /// Whether root and log say of all pages, tables or runs which are the current ones. If not, they were judged by
    /// what they say of themselves.
    pub indexed: bool,
    /// Records that were restored from files of the keyspace. Those that only the log had come on top. Of a hashed
    /// keyspace those count too that newer ones replaced.
    pub records: u64,
    /// Pages and blocks of its old files that held something.
    pub pages: u64,
    /// Those of them that cannot be read or do not verify; without an index some of them may have been free.
    pub damaged_pages: u64,
    /// Key ranges of which nothing was found.
    pub missing: Ranges,
    /// Key ranges whose records may be old, incomplete, or deleted ones, since the newest page, block or file is
    /// damaged, or it is not known for certain which is the newest. Of a hashed keyspace it is all or nothing.
    pub doubtful: Ranges,
}

impl RepairReport {
    /// Whether the new database is known to hold all that the old one held. If not, what is listed as missing, doubtful
    /// or damaged is all that it may lack.
    pub fn is_complete(&self) -> bool {
        !self.left_out && self.log_gaps.is_empty() && self.keyspaces.iter().all(RepairedKeyspace::is_complete)
    }
}

impl RepairedKeyspace {
    pub(super) fn new(name: &str, id: u32, indexed: bool) -> Self {
        RepairedKeyspace { name: name.to_owned(), id, indexed, ..RepairedKeyspace::default() }
    }

    pub(super) fn found(self, records: u64, findings: Findings) -> Self {
        let Findings { pages, damaged, missing, doubtful, .. } = findings;
        RepairedKeyspace { records, pages, damaged_pages: damaged, missing, doubtful, ..self }
    }

    /// Whether all of it is known to be restored. A damaged page may have been the newest of its range, so without an
    /// index each one counts.
    pub fn is_complete(&self) -> bool {
        self.missing.count == 0 && self.doubtful.count == 0 && (self.indexed || self.damaged_pages == 0)
    }
}
