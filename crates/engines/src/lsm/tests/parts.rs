//! Compactions in parts.

use super::world::{Model, World, key};
use crate::{engine::Engine, lsm::table::Kind};

/// A keyspace without levels, in which a compaction is due that is large enough for some parts.
fn due() -> (World, Model) {
    let (world, mut model) = (World::new(1, Kind::Linear), Model::new());
    for run in 0..8 {
        for number in 0..300 {
            let value = (number % 5 != run % 5).then(|| vec![run as u8; 100]);
            world.write_both(&mut model, &key(number * (1 + run % 3)), value);
        }
        world.flush();
    }
    (world, model)
}

#[test]
fn a_job_in_parts_comes_to_what_the_whole_would() {
    let (world, model) = due();
    assert!(world.keyspace.lsm().compact_next().unwrap());
    assert_eq!((world.stat("runs"), world.stat("levels"), world.stat("compactions")), (0, 1, 1));
    assert!(world.stat("compaction_parts") >= 3, "{}", world.stat("compaction_parts"));
    assert_eq!((world.stat("table_records"), world.stat("table_tombstones")), (model.len() as u64, 0));
    assert_eq!(world.tables(), world.stat("tables"), "what was compacted is gone");
    world.expect(&model);
}

#[test]
fn everything_is_the_same_whether_one_thread_compacts_it_or_several() {
    for workers in [1, 3, 6] {
        let (world, mut model) = (World::threaded(1, workers), Model::new());
        for round in 0..4 {
            for number in 0..1500 {
                let value = (number % 5 != round).then(|| vec![round as u8; 100]);
                world.write_both(&mut model, &key(number * (1 + round)), value);
            }
            world.keyspace.compact(&mut |_, _| ()).unwrap();
            let merged = ["levels", "table_tombstones", "table_records"].map(|name| world.stat(name));
            assert_eq!(merged, [1, 0, model.len() as u64]);
        }
        assert!(world.stat("compaction_parts") > world.stat("compactions"));
        world.expect(&model);
    }
}

/// Each I/O of a job fails once: what it has written goes, and everything is as before, or it is installed, and only
/// what it replaces may stay.
#[test]
fn a_job_in_parts_that_fails_leaves_no_file() {
    let whole = due().0;
    let first = whole.disk.io_index();
    whole.keyspace.lsm().compact_next().unwrap();
    let ios = whole.disk.io_index() - first;
    let mut installed = 0;
    for failure in 0..ios {
        let (world, model) = due();
        let tables = world.tables();
        world.fail_io(failure);
        let failed = world.keyspace.lsm().compact_next();
        if world.stat("runs") > 0 {
            assert!(
                failed.is_err() && world.tables() == tables,
                "I/O {failure}: {} of {tables} tables",
                world.tables()
            );
        } else {
            installed += 1;
        }
        world.expect(&model);
    }
    assert!(ios > 60 && installed < 40, "{installed} of {ios}");
}
