//! Bulk loads: the level of their tables, and older records above them.

use ecotone_engine::contract::{Ordered, Record};
use ecotone_substrate::{Error, Result};

use crate::{
    table::IndexKind,
    tests::fixture::{Fixture, Model, expect},
};

fn record(number: u32) -> Record {
    (format!("key {number:06}").into_bytes(), number.to_be_bytes().repeat(20))
}

fn load(fixture: &Fixture, records: impl Iterator<Item = Result<Record>>) -> Result<u64> {
    fixture.keyspace.clone().bulk_load(&mut { records })
}

#[test]
fn loads_go_into_the_last_level_one_behind_the_other() {
    let (fixture, mut model) = (Fixture::new(1, IndexKind::Linear), Model::new());
    for part in [0..1000_u32, 1000..1001, 1001..3000] {
        assert_eq!(load(&fixture, part.clone().map(|number| Ok(record(number)))).unwrap(), part.len() as u64);
        model.extend(part.map(record));
        fixture.expect(&model);
    }
    assert_eq!((fixture.stat("runs"), fixture.stat("levels"), fixture.stat("table_records")), (0, 1, 3000));
    assert!(fixture.stat("tables") > 8);
    expect(&fixture.reopened(), &model);
}

/// Older tombstones of loaded keys may be in memtables or in tables above.
#[test]
fn what_was_deleted_before_does_not_hide_what_is_loaded() {
    for flush in [false, true] {
        let (fixture, mut model) = (Fixture::new(1, IndexKind::Linear), Model::new());
        load(&fixture, (0..500).map(|number| Ok(record(number)))).unwrap();
        model.extend((0..500).map(record));
        for number in 100..500 {
            fixture.write(&record(number).0, None);
            model.remove(&record(number).0);
        }
        if flush {
            fixture.flush();
        }
        load(&fixture, (100..800).map(|number| Ok(record(number)))).unwrap();
        model.extend((100..800).map(record));
        fixture.expect(&model);
        fixture.write(&record(200).0, Some(b"later"));
        model.insert(record(200).0, b"later".to_vec());
        fixture.flush();
        fixture.expect(&model);
        expect(&fixture.reopened(), &model);
    }
}

#[test]
fn a_load_that_fails_leaves_what_came_before() {
    let (fixture, mut model) = (Fixture::new(1, IndexKind::Plr), Model::new());
    let fails = |number| if number == 700 { Err(Error::Invalid("no more".into())) } else { Ok(record(number)) };
    assert!(load(&fixture, (0..900).map(fails)).unwrap_err().to_string().contains("no more"));
    model.extend((0..700).map(record));
    fixture.expect(&model);
    // Keys that do not ascend, or are at or below existing ones.
    for numbers in [[700, 702, 701], [800, 801, 801]] {
        assert!(load(&fixture, numbers.into_iter().map(|number| Ok(record(number)))).is_err());
        model.extend(numbers[..2].iter().map(|number| record(*number)));
        fixture.expect(&model);
    }
    assert!(load(&fixture, [3].into_iter().map(|number| Ok(record(number)))).is_err());
    fixture.expect(&model);
    assert_eq!(load(&fixture, std::iter::empty()).unwrap(), 0);
}
