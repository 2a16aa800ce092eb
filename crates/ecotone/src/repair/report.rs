//! The report and the progress of a repair.

use ecotone_engine::repair::SalvageReport;
pub use ecotone_engine::repair::{KeyRange, Ranges};

/// The progress of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairProgress {
    /// The current step.
    pub step: RepairStep,
    /// The finished part of the step, in its unit.
    pub done: u64,
    /// The size of the step in its unit, if known.
    pub total: Option<u64>,
}

/// The steps of a repair, in their order. Each keyspace goes through all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairStep {
    /// Reads and checks the pages of all keyspaces. The unit is a page.
    Pages,
    /// Loads the records of one keyspace. The unit is a record.
    Records,
    /// Replays the log. The unit is an operation.
    Log,
}

/// The outcome of a [`Repair`](crate::Repair): what the new database has, and what may be lacking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The keyspaces of the new database.
    pub keyspaces: Vec<RepairedKeyspace>,
    /// The number of replayed operations of the log.
    pub log_operations: u64,
    /// Each part of the log that was synced once and cannot be read, as a sentence. Writes in such a part that had not
    /// reached the pages are lost. An older write of the same key may have come back instead.
    pub log_gaps: Vec<String>,
    /// Each damage and each missing thing, as a sentence.
    pub problems: Vec<String>,
    /// Whether something was left out altogether, for example a keyspace of an engine that cannot be repaired.
    /// `problems` names it.
    pub left_out: bool,
}

/// The outcome for one keyspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairedKeyspace {
    /// The keyspace's name; `keyspace-7` for id 7 if no manifest names it.
    pub name: String,
    /// The keyspace's id in the old database.
    pub id: u32,
    /// Whether the engine checkpoint and the log tell which pages, tables or runs are current. If not, the repair used
    /// the contents of each file alone.
    pub indexed: bool,
    /// Records restored from files of the keyspace. Records from the log alone come on top. For a hashed keyspace,
    /// replaced versions are counted too.
    pub records: u64,
    /// Old pages and blocks that were in use.
    pub pages: u64,
    /// Pages and blocks that cannot be read or fail verification. Without an index some of them may have been free.
    pub damaged_pages: u64,
    /// Key ranges without any record found.
    pub missing: Ranges,
    /// Key ranges whose records may be old, incomplete or deleted. The newest page, block or file is damaged, or it is
    /// uncertain which is the newest. For a hashed keyspace this is all keys or none.
    pub doubtful: Ranges,
}

impl RepairReport {
    /// Returns whether the new database certainly holds everything that the old one held.
    ///
    /// If not, it can lack only what is listed as missing, doubtful or damaged.
    pub fn is_complete(&self) -> bool {
        !self.left_out && self.log_gaps.is_empty() && self.keyspaces.iter().all(RepairedKeyspace::is_complete)
    }
}

impl RepairedKeyspace {
    pub(super) fn new(name: &str, id: u32, indexed: bool) -> Self {
        RepairedKeyspace { name: name.to_owned(), id, indexed, ..RepairedKeyspace::default() }
    }

    pub(super) fn found(self, records: u64, findings: SalvageReport) -> Self {
        let SalvageReport { pages, damaged, missing, doubtful, .. } = findings;
        RepairedKeyspace { records, pages, damaged_pages: damaged, missing, doubtful, ..self }
    }

    /// Returns whether everything in the keyspace is certainly restored.
    ///
    /// Without an index each damaged page counts, since it may have been the newest of its range.
    pub fn is_complete(&self) -> bool {
        self.missing.count == 0 && self.doubtful.count == 0 && (self.indexed || self.damaged_pages == 0)
    }
}
