//! After a failed write, or a panic in the middle of one, all acknowledged writes can be read and nothing hangs.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use ecotone::{
    Database, Engine, Error, Keyspace, KeyspaceOptions,
    internal::{Components, tree::TreeFamily},
    limits,
};
use ecotone_testkit::sim::{Crash, Io, Phase, SimClock, SimStorage};

use crate::in_time::in_time;

const RECORDS: u32 = 1_200;

/// The acknowledged records.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(disk: &SimStorage, workers: usize) -> Database {
    let families = vec![Arc::new(TreeFamily::default()) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers, families };
    Database::builder("simulated").memory_budget(limits::MIN_BUDGET).open_parts(parts).unwrap()
}

fn key(i: u32) -> Vec<u8> {
    format!("key {i:06}").into_bytes()
}

fn value(i: u32, version: u32) -> Vec<u8> {
    [i, version].map(u32::to_be_bytes).concat().repeat(12)
}

/// A tree on disk.
fn loaded() -> (SimStorage, Model) {
    let disk = SimStorage::new(7);
    let model: Model = (0..RECORDS).map(|i| (key(i), value(i, 0))).collect();
    let database = open(&disk, 0);
    let keyspace = database.keyspace("k", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
    keyspace.bulk_load(model.clone()).unwrap();
    drop(keyspace);
    database.close().unwrap();
    (disk, model)
}

/// Dirty records over all pages: changed, fresh (some pages overflow), deleted.
fn dirty(keyspace: &Keyspace, model: &mut Model) {
    for i in (0..RECORDS).step_by(5) {
        keyspace.insert(key(i), value(i, 1)).unwrap();
        model.insert(key(i), value(i, 1));
    }
    for i in (0..RECORDS).step_by(7).filter(|i| i / 300 != 1) {
        let fresh = [key(i), b"+".to_vec()].concat();
        keyspace.insert(&fresh, value(i, 2)).unwrap();
        model.insert(fresh, value(i, 2));
    }
    for i in (0..RECORDS).step_by(31) {
        keyspace.remove(key(i)).unwrap();
        model.remove(&key(i));
    }
}

/// The database on a copy of the disk, with dirty records, just before a flush.
fn about_to_flush(disk: &SimStorage, model: &Model) -> (SimStorage, Database, Keyspace, Model) {
    let (disk, mut model) = (disk.crash(Crash::KeepAll), model.clone());
    let database = open(&disk, 0);
    let keyspace = database.open_keyspace("k").unwrap();
    dirty(&keyspace, &mut model);
    (disk, database, keyspace, model)
}

/// The I/Os of the flush.
fn of_flush(disk: &SimStorage, model: &Model) -> (SimStorage, Range<usize>) {
    let (disk, database, _, _) = about_to_flush(disk, model);
    let first = disk.io_index() as usize;
    database.flush().unwrap();
    let end = disk.io_index() as usize;
    (disk, first..end)
}

/// Reads everything in every way. The ways that fill the cache come last and share the keys.
fn check(database: &Database, keyspace: &Keyspace, model: &Model) {
    let checks = database.verify().unwrap();
    assert!(checks.iter().all(|(_, check)| check.problems.is_empty()), "{checks:?}");
    assert_eq!(checks[0].1.records, model.len() as u64);
    let all: Vec<_> = keyspace.iter().map(Result::unwrap).collect();
    assert!(all.iter().map(|(key, value)| (key, value)).eq(model));
    assert!(keyspace.iter().rev().map(Result::unwrap).eq(all.into_iter().rev()));
    let (single, many): (Vec<_>, Vec<_>) = model.iter().enumerate().partition(|(i, _)| i % 2 == 0);
    single.iter().for_each(|(_, (key, value))| assert_eq!(keyspace.get(key).unwrap().as_ref(), Some(*value)));
    let values = keyspace.multi_get(many.iter().map(|(_, (key, _))| key)).unwrap();
    assert!(values.iter().map(Option::as_ref).eq(many.iter().map(|(_, (_, value))| Some(*value))));
    assert_eq!(keyspace.get(key(31)).unwrap(), None, "a deleted key");
}

fn check_reopened(disk: &SimStorage, model: &Model) {
    let database = open(disk, 0);
    check(&database, &database.open_keyspace("k").unwrap(), model);
    database.close().unwrap();
}

#[test]
fn everything_is_readable_after_a_failed_write_out() {
    let (disk, model) = loaded();
    let (reference, flush) = of_flush(&disk, &model);
    let (labels, mut in_place) = (reference.labels(), 0);
    for index in flush {
        let label = labels[index];
        if !matches!(label.phase, Phase::Pages | Phase::DoubleWrite) || !matches!(label.io, Io::Write | Io::Sync) {
            continue;
        }
        let (disk, database, keyspace, model) = about_to_flush(&disk, &model);
        disk.fail_at(index as u64, ErrorKind::Other);
        database.flush().unwrap_err();
        assert!(database.failure().is_some(), "{label:?}");
        check(&database, &keyspace, &model);
        assert!(matches!(keyspace.insert("more", "of it"), Err(Error::Poisoned { .. })));
        let log_only = disk.crash(Crash::Random(index as u64));
        drop(keyspace);
        database.close().unwrap_err();
        [log_only, disk.crash(Crash::KeepAll)].iter().for_each(|disk| check_reopened(disk, &model));
        in_place += usize::from(label.phase == Phase::Pages);
    }
    // Adjacent writes count as one.
    assert!(in_place > 5, "{in_place} writes of pages");
}

#[test]
fn a_panic_in_a_flush_poisons_and_hangs_nobody() {
    let (disk, model) = loaded();
    let (_, flush) = of_flush(&disk, &model);
    for index in flush {
        let (disk, database, keyspace, model) = about_to_flush(&disk, &model);
        disk.panic_at(index as u64);
        let flushed = catch_unwind(AssertUnwindSafe(|| database.flush()));
        assert!(flushed.is_err(), "no panic at I/O {index}");
        assert!(database.failure().is_some_and(|cause| cause.to_string().contains("panicked")), "at I/O {index}");
        check(&database, &keyspace, &model);
        in_time("the end of the database", move || {
            drop(keyspace);
            drop(database);
        });
        check_reopened(&disk.crash(Crash::KeepAll), &model);
    }
}

#[test]
fn a_panic_in_the_background_ends_the_waits_of_writers() {
    for at in [60, 61, 65, 80, 120, 300] {
        let disk = SimStorage::new(7);
        let database = open(&disk, 2);
        // Writers of an unlogged keyspace do no I/O themselves.
        let keyspace = database.keyspace("k", KeyspaceOptions::default().engine(Engine::Tree).unlogged()).unwrap();
        disk.panic_at(disk.io_index() + at);
        let (refusal, keyspace) = in_time("writers", move || {
            let refusal = (0..1_000_000).find_map(|i| keyspace.insert(key(i % 50_000), [i as u8; 1_000]).err());
            (refusal, keyspace)
        });
        assert!(matches!(refusal, Some(Error::Poisoned { .. })), "{refusal:?}");
        in_time("the end of the database", move || {
            drop(keyspace);
            drop(database);
        });
    }
}

#[test]
fn a_panic_in_a_bulk_load_poisons_unless_it_is_the_callers_own() {
    let (disk, model) = loaded();
    let load = |database: &Database, own: Option<u32>| {
        let keyspace = database.open_keyspace("k").unwrap();
        let records = (0..20_000).inspect(|i| assert_ne!(Some(*i), own)).map(|i| (format!("l{i:06}"), value(i, 0)));
        catch_unwind(AssertUnwindSafe(|| keyspace.bulk_load(records)))
    };
    let own = open(&disk.crash(Crash::KeepAll), 0);
    load(&own, Some(19_999)).unwrap_err();
    assert!(own.failure().is_none());
    own.close().unwrap();
    let begun = || {
        let disk = disk.crash(Crash::KeepAll);
        let database = open(&disk, 0);
        // The first segment of the load has a dirty record.
        database.open_keyspace("k").unwrap().insert(key(RECORDS - 1), value(0, 1)).unwrap();
        (disk, database)
    };
    let (whole, database) = begun();
    let before = whole.io_index();
    load(&database, None).unwrap().unwrap();
    let labels = whole.labels().split_off(before as usize);
    let written = labels.iter().position(|label| label.io == Io::Write).unwrap() as u64;
    let all = labels.len() as u64;
    assert!(written + 20 < all, "{written} of {all}");
    for after in [0, 1, written, written + 1, all / 2, 3 * all / 4] {
        let (disk, database) = begun();
        disk.panic_at(disk.io_index() + after);
        load(&database, None).unwrap_err();
        assert!(database.failure().is_some() || after < written, "{after} of {all}");
        let first = database.open_keyspace("k").unwrap().get(key(1)).unwrap();
        assert_eq!(first.as_ref(), model.get(&key(1)));
        in_time("the end of the database", move || drop(database));
    }
}
