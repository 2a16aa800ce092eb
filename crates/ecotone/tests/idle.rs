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
    // What there is to do is done soon.
    sleeps("written", Duration::from_secs(15));
    database.close().unwrap();
    let database = open();
    sleeps("opened", Duration::from_secs(2));
    database.close().unwrap();
}

fn sleeps(what: &str, after: Duration) {
    const SECONDS: u64 = 4;
    thread::sleep(after);
    let before = wakes();
    thread::sleep(Duration::from_secs(SECONDS));
    let count = wakes() - before;
    println!("{what}: {count} wakes in {SECONDS} seconds");
    // One a second for ticks, and one of this thread.
    assert!(count <= 3 * SECONDS, "{what}: {count} wakes in {SECONDS} seconds");
}
