//! Writers beside a background that is behind.

use super::world::World;
use crate::lsm::table::Kind;

/// Runs of level 0 with which writers come to rest, and with which they compact where nobody else would.
const RUNS: u64 = 16;

fn write(world: &World, number: u32) {
    world.write(&number.wrapping_mul(0x9E37_79B9).to_be_bytes(), Some(&[number as u8; 100]));
}

#[test]
fn runs_count_from_the_eighth_on_and_no_longer_when_they_are_compacted() {
    let world = World::new(1, Kind::Linear);
    for run in 0..RUNS {
        (0..20).for_each(|number| write(&world, 20 * run as u32 + number));
        world.flush();
        let runs = world.stat("runs");
        // Their bytes count too, and are few.
        assert!(runs == run + 1 && (world.behind() - runs.saturating_sub(8) as f64 / 8.0).abs() < 0.01, "{}", world.behind());
    }
    write(&world, 0);
    world.flush();
    assert!(world.stat("runs") < RUNS, "nobody compacts in the background");
    while world.environment.scheduler.run_one() {}
    assert_eq!((world.behind(), world.stat("writer_delays")), (0.0, 0), "nobody is delayed where nobody would catch up");
}

#[test]
fn writers_come_to_rest_with_their_background() {
    let world = World::threaded(1, 2);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let world = &world;
            scope.spawn(move || (0..20_000).for_each(|number| write(world, 3 * number + thread)));
        }
    });
    assert!(world.stat("flushes") > 50);
    // Memtables of one slab are full long before the background begins, and so writers are slowed down.
    assert!(world.stat("writer_delays") > 0);
    assert!(world.stat("runs") < 2 * RUNS, "{} runs", world.stat("runs"));
}
