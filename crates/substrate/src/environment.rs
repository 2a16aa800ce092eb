//! The shared services of everything that writes a database's files.

use std::sync::Arc;

use crate::{health::Health, memory::Memory, scheduler::Scheduler, storage::Storage};

/// The parts that log, page files and engines of one open database share. Clones share them too.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The database's identity, which its files contain.
    pub database: u64,
    /// The directory.
    pub storage: Arc<dyn Storage>,
    /// The one memory budget.
    pub memory: Arc<Memory>,
    /// Background work.
    pub scheduler: Arc<Scheduler>,
    /// The health: whether writing is still allowed.
    pub health: Arc<Health>,
}
