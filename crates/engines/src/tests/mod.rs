//! What the tests of all engines share.

#[cfg(not(feature = "loom"))]
pub(crate) mod cursors;
#[cfg(feature = "loom")]
pub(crate) mod orders;

#[cfg(not(feature = "loom"))]
use std::sync::Arc;

#[cfg(not(feature = "loom"))]
use ecotone_substrate::{
    double_write::DoubleWrite,
    environment::Environment,
    wal::{Wal, WalOptions},
};
#[cfg(not(feature = "loom"))]
use ecotone_testkit::sim::SimClock;

#[cfg(not(feature = "loom"))]
use crate::engine::{Context, Shared, Stats};

/// That of keyspace 3 of a database that is made.
#[cfg(not(feature = "loom"))]
pub(crate) fn context(environment: &Environment, log: WalOptions, logged: bool, seed: u64) -> Context {
    let double_write = DoubleWrite::create(&environment.storage, &environment.memory, &environment.health).unwrap();
    let wal = Wal::create(environment.clone(), log).unwrap();
    let shared = Shared::new(environment.clone(), wal, Arc::new(double_write), Arc::new(SimClock::new(seed)));
    Context { keyspace: 3, logged, sub_engine: None, settings: Vec::new(), shared }
}

/// A number of a keyspace.
#[cfg(not(feature = "loom"))]
pub(crate) fn stat(stats: &Stats, name: &str) -> u64 {
    stats.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name} is told")).1
}
