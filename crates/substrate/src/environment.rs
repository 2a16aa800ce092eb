//! What everything that writes the files of one database stands on.

use std::sync::Arc;

use crate::{health::Health, memory::Memory, scheduler::Scheduler, storage::Storage};

/// The parts that log, page files and engines of one open database share. Clones share them too.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The database's identity, which its files carry.
    pub database: u64,
    /// The directory.
    pub storage: Arc<dyn Storage>,
    /// The one memory budget.
    pub memory: Arc<Memory>,
    /// Background work.
    pub scheduler: Arc<Scheduler>,
    /// Whether writing is still allowed.
    pub health: Arc<Health>,
}
