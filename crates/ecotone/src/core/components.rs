//! The components of a database that tests replace.

use std::sync::Arc;

use ecotone_engine::contract::EngineFactory;
use ecotone_substrate::{
    clock::Clock, environment::Environment, health::Health, memory::Memory, scheduler::Scheduler, storage::Storage,
};

/// The components that tests replace.
#[derive(Debug)]
pub struct Components {
    /// The directory, real or simulated.
    pub storage: Arc<dyn Storage>,
    /// Time and randomness.
    pub clock: Arc<dyn Clock>,
    /// The number of background workers; 0 makes a manual scheduler.
    pub workers: usize,
    /// The engine factories that keyspaces can use.
    pub families: Vec<Arc<dyn EngineFactory>>,
}

impl Components {
    /// The environment that the files of `database` are created or opened with.
    pub(crate) fn environment(&self, memory_budget: usize, database: u64) -> Environment {
        let health: Arc<Health> = Arc::default();
        let scheduler = match self.workers {
            0 => Scheduler::manual(health.clone()),
            workers => Scheduler::threaded(workers, health.clone()),
        };
        Environment { database, storage: self.storage.clone(), memory: Memory::new(memory_budget), scheduler, health }
    }
}
