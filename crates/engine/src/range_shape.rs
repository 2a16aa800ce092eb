//! The form of key ranges of an adaptive keyspace, for statistics.

use std::fmt;

/// The form of a range of an adaptive keyspace that is not in plain tables, or is about to change (AHA-tree;
/// adaptive.md).
#[derive(Debug, Clone, PartialEq)]
pub struct RangeShape {
    /// Its first key.
    pub lower: Vec<u8>,
    /// The end of the range, exclusive.
    pub upper: Vec<u8>,
    /// Its present form, or a queued change.
    pub shape: Shape,
    /// Bytes of its pages.
    pub page_bytes: u64,
    /// Estimated bytes of visible table records in the range.
    pub table_bytes: u64,
    /// Scans that began in the range lately; the count decays over ten minutes.
    pub scans: f64,
    /// Seconds that these scans lost to reading tables.
    pub read_cost_seconds: f64,
    /// Seconds that scans have to lose before the range is converted to pages; 0 if it is in pages already.
    pub threshold_seconds: f64,
    /// Why the range was changed last, or why a change is queued. `None` if the change was before the database was
    /// opened.
    pub reason: Option<ConversionReason>,
}

/// The form of a range, or a queued change of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// Its records are in pages.
    Pages,
    /// Newer tables lie above its pages.
    PagesBelowTables,
    /// Its pages are merged with the records of all tables.
    MergeOnRead,
    /// Queued: its records move to pages.
    ToBePages,
    /// Queued: its tables become one run.
    ToBeOneRun,
    /// Queued: its records move to tables.
    ToBeTables,
}

impl Shape {
    /// Returns whether this is a queued change.
    pub fn is_queued(self) -> bool {
        matches!(self, Shape::ToBePages | Shape::ToBeOneRun | Shape::ToBeTables)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Pages => "pages",
            Shape::PagesBelowTables => "pages below tables",
            Shape::MergeOnRead => "merge on read",
            Shape::ToBePages => "to be pages",
            Shape::ToBeOneRun => "to be one run",
            Shape::ToBeTables => "to be tables",
        })
    }
}

/// Why the form of a range is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConversionReason {
    /// Scans have lost more to the tables than the conversion costs.
    Scans,
    /// A hint asks for it.
    Hint,
    /// Scans have left the range.
    Cold,
    /// The keyspace is idle, and most of the range is deleted.
    Idle,
    /// Writes came faster than pages are worth.
    Writes,
}

impl fmt::Display for ConversionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConversionReason::Scans => "scans",
            ConversionReason::Hint => "hint",
            ConversionReason::Cold => "cold",
            ConversionReason::Idle => "idle",
            ConversionReason::Writes => "writes",
        })
    }
}
