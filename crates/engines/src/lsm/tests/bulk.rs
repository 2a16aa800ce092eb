//! Bulk loads: where their tables go, and what is above them.

use ecotone_substrate::{Error, Result};

use super::world::{Model, World, expect};
use crate::{
    engine::{Ordered, Record},
    lsm::table::Kind,
};

fn record(number: u32) -> Record {
    (format!("key {number:06}").into_bytes(), number.to_be_bytes().repeat(20))
}

fn load(world: &World, records: impl Iterator<Item = Result<Record>>) -> Result<u64> {
    world.keyspace.clone().bulk_load(&mut { records })
}

#[test]
fn loads_go_into_the_last_level_one_behind_the_other() {
    let (world, mut model) = (World::new(1, Kind::Linear), Model::new());
    for part in [0..1000_u32, 1000..1001, 1001..3000] {
        assert_eq!(load(&world, part.clone().map(|number| Ok(record(number)))).unwrap(), part.len() as u64);
        model.extend(part.map(record));
        world.expect(&model);
    }
    assert_eq!((world.stat("runs"), world.stat("levels"), world.stat("table_records")), (0, 1, 3000));
    assert!(world.stat("tables") > 8);
    expect(&world.reopened(), &model);
}

/// Tombstones of keys that are loaded may be in memtables or in tables above.
#[test]
fn what_was_deleted_before_does_not_hide_what_is_loaded() {
    for flush in [false, true] {
        let (world, mut model) = (World::new(1, Kind::Linear), Model::new());
        load(&world, (0..500).map(|number| Ok(record(number)))).unwrap();
        model.extend((0..500).map(record));
        for number in 100..500 {
            world.write(&record(number).0, None);
            model.remove(&record(number).0);
        }
        if flush {
            world.flush();
        }
        load(&world, (100..800).map(|number| Ok(record(number)))).unwrap();
        model.extend((100..800).map(record));
        world.expect(&model);
        world.write(&record(200).0, Some(b"later"));
        model.insert(record(200).0, b"later".to_vec());
        world.flush();
        world.expect(&model);
        expect(&world.reopened(), &model);
    }
}

#[test]
fn a_load_that_fails_leaves_what_came_before() {
    let (world, mut model) = (World::new(1, Kind::Plr), Model::new());
    let fails = |number| if number == 700 { Err(Error::Invalid("no more".into())) } else { Ok(record(number)) };
    assert!(load(&world, (0..900).map(fails)).unwrap_err().to_string().contains("no more"));
    model.extend((0..700).map(record));
    world.expect(&model);
    // Keys that do not ascend, or are not above those that are there.
    for numbers in [[700, 702, 701], [800, 801, 801]] {
        assert!(load(&world, numbers.into_iter().map(|number| Ok(record(number)))).is_err());
        model.extend(numbers[..2].iter().map(|number| record(*number)));
        world.expect(&model);
    }
    assert!(load(&world, [3].into_iter().map(|number| Ok(record(number)))).is_err());
    world.expect(&model);
    assert_eq!(load(&world, std::iter::empty()).unwrap(), 0);
}
