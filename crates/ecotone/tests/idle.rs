//! A database that nobody uses costs nothing: its threads sleep. In a process of its own, whose threads are counted.

#![cfg(all(not(feature = "shuttle"), not(feature = "bugs")))]

use std::{fs, thread, time::Duration};

use ecotone::{Database, Engine, HashOptions, KeyspaceOptions};

/// How often threads of this process have slept and woken so far, but for those that the kernel keeps for io_uring:
/// when these look and end is its own affair.
fn wakes() -> u64 {
    let of_task = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        if status.starts_with("Name:\tiou-") {
            return 0;
        }
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    };
    fs::read_dir("/proc/self/task").unwrap().flatten().map(of_task).sum()
}

#[test]
fn a_database_that_nobody_uses_sleeps() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::builder(directory.path().join("db")).memory_budget(32 << 20).open().unwrap();
    let database = open();
    for (name, engine) in [("tree", Engine::Tree), ("lsm", Engine::Lsm), ("adaptive", Engine::Adaptive)] {
        let keyspace = database.keyspace(name, KeyspaceOptions::default().engine(engine)).unwrap();
        // In random order and growing, so that there are overflow pages, runs and debts.
        for number in 0..40_000_u64 {
            keyspace.insert((number * 7919 % 20_000).to_be_bytes(), vec![1; (number % 500) as usize]).unwrap();
        }
    }
    let hash = database.hash_keyspace("hash", HashOptions::default()).unwrap();
    (0..40_000_u64).for_each(|number| hash.insert(number.to_be_bytes(), [1; 200]).unwrap());
    drop(hash);
    comes_to_rest("written");
    database.close().unwrap();
    let database = open();
    comes_to_rest("opened");
    database.close().unwrap();
}

/// Waits until the database sleeps. What there is to do is done within a minute.
fn comes_to_rest(what: &str) {
    const SECONDS: u64 = 4;
    let wakes_in_a_while = || {
        let before = wakes();
        thread::sleep(Duration::from_secs(SECONDS));
        wakes() - before
    };
    let counts: Vec<u64> = (0..60 / SECONDS)
        .map(|_| wakes_in_a_while())
        // One a second for ticks, and one of this thread.
        .take_while(|count| *count > 3 * SECONDS)
        .collect();
    println!("{what}: {counts:?} wakes, each in {SECONDS} seconds, before it slept");
    assert!((counts.len() as u64) < 60 / SECONDS, "{what}: {counts:?} wakes, each in {SECONDS} seconds");
}
