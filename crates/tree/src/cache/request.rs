//! What a request tells the cache: its keyspace and its purpose.

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
