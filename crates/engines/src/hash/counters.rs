//! Numbers of one hash keyspace.

use super::Hash;
use crate::engine::Stats;

impl Hash {
    /// What `stats` tells.
    pub(super) fn stats(&self) -> Stats {
        let (bounds, tail) = (self.log.bounds(), self.log.tail());
        vec![
            ("hot_log_bytes", tail.get() - bounds.begin().get().min(tail.get())),
            ("hot_log_memory_bytes", tail.get() - bounds.head().get().min(tail.get())),
            ("hot_log_durable_bytes", bounds.durable().get() - bounds.begin().get().min(bounds.durable().get())),
        ]
    }
}
