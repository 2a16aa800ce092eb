//! A database with keyspaces of both kinds.

use std::sync::Arc;

use ecotone::{
    Database, Durability, Engine, HashKeyspace, HashKeyspaceOptions, Keyspace, KeyspaceOptions,
    internal::{Components, tree::TreeFamily},
    limits,
};
use ecotone_testkit::{
    sim::{SimClock, SimStorage},
    tiny::hashed::TinyHashed,
};

pub(crate) fn open(disk: &SimStorage) -> Database {
    open_with(disk, Durability::Buffered)
}

pub(crate) fn open_with(disk: &SimStorage, durability: Durability) -> Database {
    let families = vec![Arc::new(TreeFamily::default()) as _, Arc::new(TinyHashed) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers: 0, families };
    Database::builder("simulated").memory_budget(limits::MIN_BUDGET).durability(durability).open_parts(parts).unwrap()
}

pub(crate) fn hash_options() -> HashKeyspaceOptions {
    HashKeyspaceOptions::default().engine_named("tiny-hashed")
}

pub(crate) fn ordered(database: &Database) -> Keyspace {
    database.keyspace("ordered", KeyspaceOptions::default().engine(Engine::Tree)).unwrap()
}

pub(crate) fn ordered_unlogged(database: &Database) -> Keyspace {
    database.keyspace("ordered, unlogged", KeyspaceOptions::default().engine(Engine::Tree).unlogged()).unwrap()
}

pub(crate) fn hashed(database: &Database) -> HashKeyspace {
    database.hash_keyspace("hashed", hash_options()).unwrap()
}

pub(crate) fn hashed_unlogged(database: &Database) -> HashKeyspace {
    database.hash_keyspace("hashed, unlogged", hash_options().unlogged()).unwrap()
}
