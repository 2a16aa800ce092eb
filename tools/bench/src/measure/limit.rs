//! How a phase runs: until when, on how many threads and how fast.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When a phase ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Limit {
    Operations(u64),
    Time(Duration),
    /// When the store has adapted.
    Adapted,
}

/// The way in which the threads run operations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) threads: usize,
    /// Operations of one call; 1 for calls of single operations.
    pub(crate) batch: usize,
    /// Operations a second of all threads, started on schedule whether or not earlier ones have ended; `None` for full
    /// speed.
    pub(crate) rate: Option<f64>,
    /// No operation starts after this time, except those of blocks that have started.
    pub(crate) cap: Option<Duration>,
}
