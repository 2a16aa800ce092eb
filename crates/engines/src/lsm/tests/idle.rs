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
