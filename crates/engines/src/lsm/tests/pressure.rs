//! Writers beside a background that is behind.

use std::sync::Arc;

use ecotone_substrate::{Seq, clock::SystemClock, memory::Component};
use ecotone_sys::chunk::Size;

use super::world::World;
use crate::{
    engine::Engine,
    lsm::{family::Sizes, table::Kind},
    tests::stat,
};

/// Runs of level 0 with which writers come to rest, and with which they compact where nobody else would.
const RUNS: u64 = 16;

fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(0x9E37_79B9).to_be_bytes()
}

fn write(world: &World, number: u32) {
    world.write(&key(number), Some(&[number as u8; 100]));
}

#[test]
fn runs_count_from_the_eighth_on_and_no_longer_when_they_are_compacted() {
    let world = World::new(1, Kind::Linear);
    for run in 0..RUNS {
        (0..20).for_each(|number| write(&world, 20 * run as u32 + number));
        world.flush();
        let runs = world.stat("runs");
        // Their bytes count too, and are few.
        assert!(
            runs == run + 1 && (world.behind() - runs.saturating_sub(8) as f64 / 8.0).abs() < 0.01,
            "{}",
            world.behind()
        );
    }
    write(&world, 0);
    world.flush();
    assert!(world.stat("runs") < RUNS, "nobody compacts in the background");
    while world.environment.scheduler.run_one() {}
    assert_eq!(
        (world.behind(), world.stat("writer_delays")),
        (0.0, 0),
        "nobody is delayed where nobody would catch up"
    );
}

/// By the machine's clock, since by a simulated one nobody waits while he sleeps.
#[test]
fn writers_come_to_rest_with_their_background() {
    let world = World::threaded(1, 2);
    let keyspace = world.another_by(Arc::new(SystemClock::default()), 4, Sizes::TINY);
    let stat = |name| stat(&keyspace.stats(), name);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (world, keyspace) = (&world, &keyspace);
            scope.spawn(move || {
                for number in 0..20_000 {
                    world.write_to(keyspace, &key(3 * number + thread), Some(&[7; 100]));
                    let runs = if number % 50 == 0 { stat("runs") } else { 0 };
                    assert!(runs < 2 * RUNS, "{runs} runs");
                }
            });
        }
    });
    assert!(stat("flushes") > 50);
    // Memtables of one slab are full long before the background begins, and so writers are slowed down.
    assert!(stat("writer_delays") > 0);
}

/// Who flushes for want of memory has what is due then compacted, as others have.
#[test]
fn runs_that_want_of_memory_makes_are_compacted() {
    let world = World::new(1, Kind::Linear);
    for run in 0..10 {
        (0..20).for_each(|number| write(&world, 20 * run + number));
        assert!(world.keyspace.lsm().give_memory().unwrap());
    }
    assert_eq!(world.stat("runs"), 10);
    while world.environment.scheduler.run_one() {}
    assert!(world.stat("runs") < 8, "{} runs", world.stat("runs"));
}

/// Thousands of keyspaces may have some records each, which are flushed where the log is long: this takes no memory.
#[test]
fn a_small_memtable_that_waits_for_its_flush_leaves_no_large_slab() {
    let world = World::new(1, Kind::Linear);
    (0..20).for_each(|number| write(&world, number));
    let memory = || world.environment.memory.used(&[Component::Memtable]);
    let before = memory();
    world.keyspace.lsm().begin_flush(Seq::MAX).unwrap();
    assert!(memory() <= before, "{} bytes, {before} before", memory());
    write(&world, 20);
    assert!(memory() <= before + Size::Frame.bytes(), "{} bytes, {before} before", memory());
}
