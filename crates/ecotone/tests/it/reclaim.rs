//! A step of log reclaim over many keyspaces.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use ecotone::{
    Database, Engine, Keyspace, KeyspaceOptions,
    internal::{
        Components,
        lsm::LsmFamily,
        substrate::{
            limits::PAGE,
            storage::{FileId, Storage},
        },
        tree::TreeFamily,
    },
};
use ecotone_testkit::sim::{SimClock, SimStorage};

/// More pages than the tree has; all of them are held.
const PAGES: u64 = 10_000;

fn flushes(keyspace: &Keyspace) -> u64 {
    keyspace.stats().counters.iter().find(|counter| counter.0 == "flushes").expect("an lsm counts them").1
}

/// Waits until `ready` holds, for ten seconds at most. Returns whether it holds.
fn comes(ready: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !ready() && begin.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(1));
    }
    ready()
}

#[test]
fn memtables_are_flushed_while_the_write_out_of_a_tree_stands_in_the_same_step() {
    let disk = SimStorage::new(1);
    let families = vec![Arc::new(TreeFamily::default()) as _, Arc::new(LsmFamily::default()) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers: 4, families };
    let database = Database::builder("simulated").memory_budget(64 << 20).open_parts(parts).unwrap();
    // A step visits keyspaces by name.
    let tree = database.keyspace("a tree", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
    let lsm = database.keyspace("an lsm", KeyspaceOptions::default().engine(Engine::Tree).engine_named("lsm")).unwrap();
    tree.insert("first", "record").unwrap();
    let pages =
        disk.list().unwrap().into_iter().find(|file| matches!(file, FileId::Pages(_))).expect("a tree has a file");
    (0..PAGES).for_each(|page| disk.hold(pages, page * PAGE as u64));
    let insert = |keyspace: &Keyspace, from: u32, to: u32| {
        (from..to).for_each(|i| keyspace.insert(i.wrapping_mul(0x9E37_79B1).to_be_bytes(), [7; 1_000]).unwrap());
    };
    insert(&tree, 0, 100);
    insert(&lsm, 0, 2_000);
    let before = flushes(&lsm);
    // Fills more than half of the log.
    insert(&tree, 100, 8_500);
    let flushed = comes(|| flushes(&lsm) > 0);
    (0..PAGES).for_each(|page| disk.release(pages, page * PAGE as u64));
    assert!(before == 0 && flushed, "it waited for the tree");
    drop((tree, lsm));
    database.close().unwrap();
}
