//! Compaction of an idle keyspace.

use ecotone_engine::contract::{Compactable, Get};

use crate::{
    table::IndexKind,
    tests::fixture::{Fixture, Model, key},
};

#[test]
fn level_0_goes_down_when_nobody_has_used_the_keyspace_for_a_while() {
    let (fixture, mut model) = (Fixture::new(1, IndexKind::Linear), Model::new());
    let tick = || {
        fixture.environment.scheduler.tick();
        while fixture.environment.scheduler.run_one() {}
    };
    for round in 0..3u8 {
        for number in 0..50 {
            fixture.write(&key(number), Some(&[round; 40]));
            model.insert(key(number).to_vec(), vec![round; 40]);
        }
        fixture.flush();
        tick();
    }
    for number in 0..20 {
        assert!(fixture.keyspace.get(&key(number)).unwrap().is_some());
        tick();
    }
    (0..9).for_each(|_| tick());
    assert_eq!(fixture.stat("runs"), 3);
    tick();
    assert_eq!((fixture.stat("runs"), fixture.stat("table_records")), (0, 50));
    fixture.expect(&model);
}

#[test]
fn what_was_deleted_ends_when_nobody_has_used_the_keyspace_for_a_while() {
    let (fixture, mut model) = (Fixture::new(1, IndexKind::Linear), Model::new());
    let ticks = |count| {
        for _ in 0..count {
            fixture.environment.scheduler.tick();
            while fixture.environment.scheduler.run_one() {}
        }
    };
    for number in 0..2500 {
        fixture.write(&key(number), Some(&[1; 40]));
        model.insert(key(number).to_vec(), vec![1; 40]);
    }
    fixture.keyspace.compact(&mut |_, _| ()).unwrap();
    for number in 0..2000 {
        fixture.write(&key(number), None);
        model.remove(&key(number)[..]);
    }
    ticks(10);
    assert!(fixture.stat("table_records") >= 2500, "it was used until now");
    // The memtable is flushed first, the tables are compacted after a longer idle time.
    ticks(30);
    let is = |name| fixture.stat(name);
    assert_eq!((is("table_records"), is("table_tombstones"), is("runs")), (500, 0, 0));
    fixture.expect(&model);
}

#[test]
fn a_few_deletes_stay_where_they_are() {
    let fixture = Fixture::new(1, IndexKind::Linear);
    (0..2500).for_each(|number| fixture.write(&key(number), Some(&[1; 40])));
    fixture.keyspace.compact(&mut |_, _| ()).unwrap();
    (0..900).for_each(|number| fixture.write(&key(number), None));
    let flushes = fixture.stat("flushes");
    for _ in 0..30 {
        fixture.environment.scheduler.tick();
        while fixture.environment.scheduler.run_one() {}
    }
    assert_eq!(fixture.stat("flushes"), flushes);
}
