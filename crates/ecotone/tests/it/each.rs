//! A keyspace of each engine.

use std::path::Path;

use ecotone::{Database, Engine, HashOptions, KeyspaceOptions, Result};

use crate::either::{Either, either};

pub(crate) const ENGINES: [&str; 4] = ["tree", "lsm", "adaptive", "hash"];

pub(crate) fn open(path: &Path) -> Result<Database> {
    Database::builder(path).memory_budget(16 << 20).open()
}

pub(crate) fn options(engine: &str) -> KeyspaceOptions {
    let engine = [Engine::Tree, Engine::Lsm, Engine::Adaptive].into_iter().find(|known| known.name() == engine);
    KeyspaceOptions::default().engine(engine.expect("an ordered engine"))
}

pub(crate) fn keyspace(database: &Database, engine: &str) -> Either {
    match engine {
        "hash" => Either::Hashed(database.hash_keyspace("k", HashOptions::default()).unwrap()),
        _ => Either::Ordered(database.keyspace("k", options(engine)).unwrap()),
    }
}

pub(crate) fn fill(keyspace: &Either, from: u32) {
    either!(keyspace, ks => (from..from + 3000).for_each(|number| ks.insert(number.to_be_bytes(), [7; 300]).unwrap()));
}

pub(crate) fn check(keyspace: &Either, count: u32) {
    let expected = Some(vec![7; 300]);
    let found = |number: u32| either!(keyspace, ks => ks.get(number.to_be_bytes()).unwrap());
    (0..count).for_each(|number| assert_eq!(found(number), expected));
}
