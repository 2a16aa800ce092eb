//! Pages below the tables. A [`Conversion`](conversion::Conversion) moves ranges of keys between tables and the page
//! tier: to pages (`to_pages`), back to tables (`to_tables`), or makes hidden tables visible again (`reactivate`). Each
//! step takes one part of the range, ends with one edit of the version, and holds the compaction lock, so no other job
//! changes tables meanwhile (adaptive.md, "Converting to pages").

pub mod conversion;
pub(crate) mod conversion_state;
pub(crate) mod converting_range;
pub(crate) mod pending_frees;
pub(crate) mod range_copy;
pub(crate) mod range_size;
pub(crate) mod reactivate;
pub mod tier;
pub(crate) mod to_pages;
pub(crate) mod to_tables;
pub(crate) mod unsafe_inputs;

use ecotone_substrate::metrics::Counter;

use self::{conversion_state::ConversionState, converting_range::ConvertingRange};

/// The conversions of a keyspace: one at a time, under the lock of the compactor.
#[derive(Debug, Default)]
pub(crate) struct Conversions {
    pub(crate) state: ConversionState,
    /// Set under the lock of the compactor, with that of the flusher held for a moment; cleared without the latter.
    pub(crate) converting: ConvertingRange,
    /// Parts of conversion steps, which threads copy at once.
    pub(crate) parts: Counter,
    /// Bytes of pages and tables that were written to convert ranges.
    pub(crate) bytes: Counter,
    /// Paged ranges, or parts of them, in which all tables became visible again.
    pub(crate) reactivated: Counter,
}
