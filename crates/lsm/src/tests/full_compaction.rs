//! Full (manual) compaction.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use ecotone_engine::contract::{Compactable, Engine};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::{
    table::IndexKind,
    tests::fixture::{Fixture, Model, expect, key},
};

/// Writes and deletes keys, some of them several times.
fn fill(fixture: &Fixture, model: &mut Model, random: &mut SmallRng) {
    for _ in 0..4000 {
        let (key, value) = (key(random.random_range(0..1500)), vec![random.random(); 100]);
        fixture.write_both(model, &key, (!random.random_bool(0.3)).then_some(value));
        if random.random_bool(0.02) {
            fixture.environment.scheduler.run_one();
        }
    }
}

/// Compacts everything. The reported progress rises up to the total.
fn compact(fixture: &Fixture) {
    let mut told = Vec::new();
    fixture.keyspace.compact(&mut |done, all| told.push((done, all))).unwrap();
    assert!(told.is_sorted() && told[0].0 == 0 && told[told.len() - 1] == (told[0].1, told[0].1), "{told:?}");
    fixture.keyspace.checkpoint_is_durable();
}

#[test]
fn one_level_is_left_with_what_is_there_and_nothing_else() {
    for (seed, kind) in (1..).zip(IndexKind::ALL) {
        let (fixture, mut model, mut random) = (Fixture::new(seed, kind), Model::new(), SmallRng::seed_from_u64(seed));
        for _ in 0..3 {
            fill(&fixture, &mut model, &mut random);
            compact(&fixture);
            let stats =
                ["memtables", "runs", "levels", "table_tombstones", "table_records"].map(|name| fixture.stat(name));
            assert_eq!(stats, [1, 0, 1, 0, model.len() as u64]);
            assert_eq!(fixture.tables(), fixture.stat("tables"), "what was replaced is removed");
            fixture.expect(&model);
        }
        let compactions = fixture.stat("compactions");
        compact(&fixture);
        assert_eq!(fixture.stat("compactions"), compactions, "there is nothing more to do");
        expect(&fixture.reopened(), &model);
    }
}

#[test]
fn nothing_is_left_of_a_keyspace_whose_keys_were_all_deleted() {
    let (fixture, mut model) = (Fixture::new(1, IndexKind::Linear), Model::new());
    fill(&fixture, &mut model, &mut SmallRng::seed_from_u64(1));
    model.keys().for_each(|key| fixture.write(key, None));
    compact(&fixture);
    assert_eq!((fixture.stat("levels"), fixture.stat("tables"), fixture.tables()), (0, 0, 0));
    fixture.expect(&Model::new());
}

/// An intra-L0 merge of runs flushed meanwhile must not include runs that the full compaction is to move down.
#[test]
fn what_is_there_at_the_beginning_sinks_whatever_is_flushed_meanwhile() {
    let fixture = Fixture::new(1, IndexKind::Linear);
    let write = |numbers: &[u32], value: Option<&[u8]>| {
        numbers.iter().for_each(|number| fixture.write(&key(*number), value));
        fixture.flush();
    };
    write(&[100, 110], Some(b"first"));
    write(&[200, 210], None);
    write(&[300, 310], None);
    let mut turns = 0;
    fixture
        .keyspace
        .compact(&mut |done, all| {
            if done > 0 && done < all && turns == 0 {
                turns += 1;
                [400, 401].iter().for_each(|number| write(&[*number, 500 + number], Some(b"later")));
                while fixture.keyspace.lsm().compact_next().unwrap() {}
            }
        })
        .unwrap();
    assert_eq!((turns, fixture.stat("table_tombstones"), fixture.stat("runs")), (1, 0, 2));
    [402, 403].iter().for_each(|number| write(&[*number], Some(b"last")));
    while fixture.keyspace.lsm().compact_next().unwrap() {}
    assert_eq!(fixture.stat("runs"), 1, "they become one again");
}

/// A full compaction ends despite concurrent writes, and these writes are kept.
#[test]
fn it_ends_whatever_others_write() {
    let (fixture, is_over) = (Fixture::threaded(1, 2), AtomicBool::new(false));
    let mut model = Model::new();
    fill(&fixture, &mut model, &mut SmallRng::seed_from_u64(1));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut random = SmallRng::seed_from_u64(2);
            while !is_over.load(Ordering::Relaxed) {
                let (key, value) = (key(random.random_range(0..1500)), vec![random.random(); 100]);
                fixture.write_both(&mut model, &key, Some(value));
            }
        });
        (0..5).for_each(|_| fixture.keyspace.compact(&mut |_, _| ()).unwrap());
        is_over.store(true, Ordering::Relaxed);
        writer.join().expect("writing goes on");
    });
    fixture.expect(&model);
}

/// The disk has room for less than the compaction writes before it removes its inputs. The compaction reports that and
/// loses nothing; with more room it completes.
#[test]
fn compaction_of_everything_on_a_full_disk_is_told_so_and_loses_nothing() {
    let (fixture, mut model) = (Fixture::new(1, IndexKind::Linear), Model::new());
    for number in 0..4000 {
        fixture.write_both(&mut model, &key(number), (number % 7 > 0).then(|| vec![number as u8; 100]));
    }
    fixture.flush();
    let (used, tables) = (fixture.disk.space_used(), fixture.tables());
    for room in [0, 20 << 10, 100 << 10] {
        fixture.disk.space_limit(used + room);
        let error = fixture.keyspace.compact(&mut |_, _| ()).unwrap_err();
        assert!(error.is_no_space() && error.to_string().contains("space"), "{error}");
        assert_eq!((fixture.disk.space_used(), fixture.tables()), (used, tables), "what was written in vain is gone");
        fixture.environment.health.check().expect("nothing was promised");
        fixture.expect(&model);
    }
    fixture.disk.space_limit(u64::MAX);
    fixture.keyspace.compact(&mut |_, _| ()).unwrap();
    assert_eq!((fixture.stat("runs"), fixture.stat("levels"), fixture.stat("table_tombstones")), (0, 1, 0));
    fixture.expect(&model);
}
