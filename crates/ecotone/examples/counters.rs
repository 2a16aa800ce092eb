//! Several threads increment the same counters with `fetch_update`, and a batch moves an amount between two keyspaces
//! atomically.
//!
//! `cargo run --example counters -- [DIRECTORY]`; without a directory it works in a temporary one.

use std::{path::PathBuf, thread};

use ecotone::{Database, Keyspace, KeyspaceOptions, Result};

const THREADS: u64 = 4;
const ROUNDS: u64 = 10_000;

fn number(value: Option<&[u8]>) -> u64 {
    value.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Adds `amount` to a counter. No lock is needed: the closure runs again if another thread came between.
fn add(counters: &Keyspace, name: &str, amount: u64) -> Result<()> {
    counters.fetch_update(name, |value| Some((number(value) + amount).to_le_bytes().to_vec())).map(|_| ())
}

fn main() -> Result<()> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let path = std::env::args_os().nth(1).map_or_else(|| temporary.path().join("counters.db"), PathBuf::from);
    let database = Database::builder(&path).open()?;
    let open = database.keyspace("open", KeyspaceOptions::default())?;
    let archive = database.keyspace("archive", KeyspaceOptions::default())?;

    thread::scope(|scope| {
        let count = || (0..ROUNDS).try_for_each(|round| add(&open, ["apples", "pears"][round as usize % 2], 1));
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(count)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let (apples, pears) = (number(open.get("apples")?.as_deref()), number(open.get("pears")?.as_deref()));
    assert_eq!(apples + pears, THREADS * ROUNDS);
    println!("{THREADS} threads counted {apples} apples and {pears} pears");

    // The batch is recovered whole or not at all, so after a crash the apples are in exactly one keyspace. (A reader
    // beside it may see them in both or in neither for a moment.)
    let mut batch = database.batch();
    batch.insert(&archive, "apples", apples.to_le_bytes());
    batch.remove(&open, "apples");
    batch.commit()?;
    let left = open.iter().try_fold(0, |count, counter| counter.map(|_| count + 1))?;
    println!("archived: {}, still open: {left}", number(archive.get("apples")?.as_deref()));
    database.close()
}
