//! The parts of a request to the cache: its keyspace, its purpose, and the write.

use ecotone_engine::superseded::SupersededReports;
use ecotone_substrate::Seq;

/// The purpose of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    /// The key is written next. Read and write count as one access: a record that is updated once is not hot.
    Update,
}

/// A keyspace, as the cache sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheKeyspace {
    /// Its number within the caches.
    pub(crate) number: u16,
    /// Whether its writes are logged.
    pub(crate) logged: bool,
}

/// A write that is in the log; no value means a delete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Applied<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) seq: Seq,
    /// Where a version is reported that the write replaces.
    pub(crate) reports: &'a SupersededReports,
}
