//! What the tests of all engines share.

pub mod cursors;

use std::sync::Arc;

use ecotone_engine::contract::{Context, Shared, Stats};
use ecotone_substrate::{
    double_write::DoubleWrite,
    environment::Environment,
    wal::{Wal, WalOptions},
};

use crate::sim::SimClock;

/// The context of keyspace 3 of a new database.
pub fn context(environment: &Environment, log: WalOptions, logged: bool, seed: u64) -> Context {
    let double_write = DoubleWrite::create(&environment.storage, &environment.memory, &environment.health).unwrap();
    let wal = Wal::create(environment.clone(), log).unwrap();
    let shared = Shared::new(environment.clone(), wal, Arc::new(double_write), Arc::new(SimClock::new(seed)));
    Context { keyspace: 3, logged, sub_engine: None, settings: Vec::new(), shared }
}

/// The statistic of this name.
pub fn stat(stats: &Stats, name: &str) -> u64 {
    stats.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name} is told")).1
}
