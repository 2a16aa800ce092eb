//! A keyspace that nobody uses.

use super::world::{Model, World, key};
use crate::{engine::Engine, lsm::table::Kind};

#[test]
fn level_0_goes_down_when_nobody_has_used_the_keyspace_for_a_while() {
    let (world, mut model) = (World::new(1, Kind::Linear), Model::new());
    let tick = || {
        world.environment.scheduler.tick();
        while world.environment.scheduler.run_one() {}
    };
    for round in 0..3u8 {
        for number in 0..50 {
            world.write(&key(number), Some(&[round; 40]));
            model.insert(key(number).to_vec(), vec![round; 40]);
        }
        world.flush();
        tick();
    }
    for number in 0..20 {
        assert!(world.keyspace.get(&key(number)).unwrap().is_some());
        tick();
    }
    (0..9).for_each(|_| tick());
    assert_eq!(world.stat("runs"), 3);
    tick();
    assert_eq!((world.stat("runs"), world.stat("table_records")), (0, 50));
    world.expect(&model);
}

#[test]
fn what_was_deleted_ends_when_nobody_has_used_the_keyspace_for_a_while() {
    let (world, mut model) = (World::new(1, Kind::Linear), Model::new());
    let ticks = |count| {
        for _ in 0..count {
            world.environment.scheduler.tick();
            while world.environment.scheduler.run_one() {}
        }
    };
    for number in 0..2500 {
        world.write(&key(number), Some(&[1; 40]));
        model.insert(key(number).to_vec(), vec![1; 40]);
    }
    world.keyspace.compact(&mut |_, _| ()).unwrap();
    for number in 0..2000 {
        world.write(&key(number), None);
        model.remove(&key(number)[..]);
    }
    ticks(10);
    assert!(world.stat("table_records") >= 2500, "it was used until now");
    // The memtable first, and when that is long ago the tables.
    ticks(30);
    let is = |name| world.stat(name);
    assert_eq!((is("table_records"), is("table_tombstones"), is("runs")), (500, 0, 0));
    world.expect(&model);
}

#[test]
fn a_few_deletes_stay_where_they_are() {
    let world = World::new(1, Kind::Linear);
    (0..2500).for_each(|number| world.write(&key(number), Some(&[1; 40])));
    world.keyspace.compact(&mut |_, _| ()).unwrap();
    (0..900).for_each(|number| world.write(&key(number), None));
    let flushes = world.stat("flushes");
    for _ in 0..30 {
        world.environment.scheduler.tick();
        while world.environment.scheduler.run_one() {}
    }
    assert_eq!(world.stat("flushes"), flushes);
}
