//! The contract of every store, tested for all that are built in.

use std::{collections::BTreeMap, env, thread};

use clap::ValueEnum;
use tempfile::TempDir;

use super::{contract::Record, *};
use crate::row::{Durability, StoreKind};

const MEMORY: usize = 32 << 20;

/// This test's directory, on a real disk for direct I/O.
fn directory() -> TempDir {
    let own = env::current_exe().unwrap();
    tempfile::tempdir_in(own.parent().unwrap()).unwrap()
}

fn open_with(kind: StoreKind, directory: &TempDir, durability: Durability) -> Result<Box<dyn Store>> {
    open(kind, &Options { directory: &directory.path().join("db"), memory: MEMORY, durability, settings: &[] })
}

/// Every built-in store that remembers its writes, at every durability that it supports.
fn each(test: impl Fn(&dyn Fn() -> Box<dyn Store>)) {
    let is_whole = |kind: &StoreKind| ![StoreKind::Null, StoreKind::F2Cold].contains(kind) && opener(*kind).is_some();
    for kind in StoreKind::value_variants().iter().copied().filter(is_whole) {
        for durability in Durability::value_variants() {
            let directory = directory();
            if !kind.has_log() && *durability != Durability::None {
                let refusal = open_with(kind, &directory, *durability).err().unwrap().to_string();
                assert!(refusal.contains("its log") || refusal.contains("no log"), "{refusal}");
                continue;
            }
            eprintln!("{kind}, {durability:?}");
            test(&|| open_with(kind, &directory, *durability).unwrap());
        }
    }
}

fn key(number: u32) -> Vec<u8> {
    u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec()
}

fn value(number: u32, version: u32) -> Vec<u8> {
    let length = 20 + number as usize % 100;
    format!("{version}/{number}/").into_bytes().into_iter().cycle().take(length).collect()
}

fn get(store: &dyn Store, key: &[u8]) -> Option<Vec<u8>> {
    let mut answers = Vec::new();
    store.get(key, &mut |value| answers.push(value.map(<[u8]>::to_vec))).unwrap();
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

fn multi_get(store: &dyn Store, keys: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
    let mut answers = BTreeMap::new();
    let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    store
        .multi_get(&wanted, &mut |number, value| assert!(answers.insert(number, value.map(<[u8]>::to_vec)).is_none()))
        .unwrap();
    assert!(answers.keys().copied().eq(0..keys.len()));
    answers.into_values().collect()
}

/// The records from a key on; `None` if keys are unordered.
fn scan(store: &dyn Store, start: &[u8], length: usize) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    match store.scan(start, length, &mut |key, value| found.push((key.to_vec(), value.to_vec()))) {
        Ok(()) => Some(found),
        Err(refusal) => {
            assert!(refusal.to_string().contains("keeps its records in no order"), "{refusal}");
            None
        }
    }
}

fn insert_batch(store: &dyn Store, records: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let records: Vec<Record<'_>> = records.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
    store.insert_batch(&records).unwrap();
}

/// Checks by every way of reading that all written records are there.
fn check(store: &dyn Store, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let all: Vec<_> = model.clone().into_iter().collect();
    let (start, _) = &all[all.len() / 3];
    if let Some(found) = scan(store, start, 10) {
        assert_eq!(found, all[all.len() / 3..][..10]);
        assert_eq!(scan(store, &[0], usize::MAX >> 1), Some(all));
    }
    let keys: Vec<_> = model.keys().cloned().chain([b"none".to_vec()]).collect();
    let values: Vec<_> = model.values().cloned().map(Some).chain([None]).collect();
    assert_eq!(multi_get(store, &keys), values);
    assert!(model.iter().step_by(7).all(|(key, value)| get(store, key).as_ref() == Some(value)));
    assert_eq!(get(store, b"none"), None);
}

/// The first or last record, if the store supports that.
fn at_end(store: &dyn Store, end: End) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut found = None;
    store.end(end, &mut |key, value| found = Some((key.to_vec(), value.to_vec()))).unwrap();
    found
}

#[test]
fn records_at_the_ends_are_found_and_taken() {
    each(|open| {
        let store = open();
        if store.take(b"none", b"").is_err() {
            return;
        }
        assert_eq!([End::First, End::Last].map(|end| at_end(&*store, end)), [None, None]);
        let mut model: BTreeMap<_, _> = (0..100).map(|number| (key(number), value(number, 1))).collect();
        insert_batch(&*store, &model);
        while let Some((first, value)) = model.pop_first() {
            assert_eq!(at_end(&*store, End::First).unwrap(), (first.clone(), value.clone()));
            assert!(!store.take(&first, b"another value").unwrap() && !store.take(b"none", &value).unwrap());
            assert!(store.take(&first, &value).unwrap() && !store.take(&first, &value).unwrap());
            let Some((last, value)) = model.pop_last() else { break };
            assert_eq!(at_end(&*store, End::Last).unwrap(), (last.clone(), value.clone()));
            assert!(store.take(&last, &value).unwrap());
        }
        assert_eq!(at_end(&*store, End::First), None);
        store.close().unwrap();
    });
}

#[test]
fn what_was_written_is_read() {
    each(|open| {
        let (store, mut model) = (open(), BTreeMap::new());
        for number in 0..200 {
            store.insert(&key(number), &value(number, 1)).unwrap();
            model.insert(key(number), value(number, 1));
        }
        let batch: BTreeMap<_, _> = (150..1000).map(|number| (key(number), value(number, 2))).collect();
        insert_batch(&*store, &batch);
        model.extend(batch);
        check(&*store, &model);
        store.wait_until_quiet().unwrap();
        check(&*store, &model);
        store.close().unwrap();
    });
}

#[test]
fn a_closed_store_has_everything_when_it_is_opened_again() {
    each(|open| {
        let mut model = BTreeMap::new();
        for round in 1..4 {
            let store = open();
            if round > 1 {
                check(&*store, &model);
            }
            let batch: BTreeMap<_, _> = (0..500 * round).map(|number| (key(number), value(number, round))).collect();
            insert_batch(&*store, &batch);
            model.extend(batch);
            store.insert(&key(round), b"by itself").unwrap();
            model.insert(key(round), b"by itself".to_vec());
            store.close().unwrap();
        }
        let store = open();
        check(&*store, &model);
        store.close().unwrap();
    });
}

#[test]
fn updates_are_atomic() {
    const THREADS: u64 = 4;
    const TIMES: u64 = 50;
    let number = |value: Option<&[u8]>| value.map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()));
    each(|open| {
        let store = open();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let store = &*store;
                scope.spawn(move || {
                    for time in 0..TIMES {
                        store.update(b"counter", &mut |old| (number(old) + 1).to_be_bytes().to_vec()).unwrap();
                        store.insert(&key((thread * TIMES + time) as u32), &thread.to_be_bytes()).unwrap();
                    }
                });
            }
        });
        assert_eq!(number(get(&*store, b"counter").as_deref()), THREADS * TIMES);
        let found = scan(&*store, &[0], usize::MAX >> 1);
        assert!(found.is_none_or(|found| found.len() as u64 == THREADS * TIMES + 1));
        store.close().unwrap();
    });
}

#[test]
fn a_store_that_is_not_built_in_says_so() {
    for kind in StoreKind::value_variants().iter().copied().filter(|kind| opener(*kind).is_none()) {
        let error = open_with(kind, &directory(), Durability::None).err().unwrap();
        assert_eq!(error.downcast_ref(), Some(&Unavailable(kind)));
        assert!(error.to_string().ends_with(&format!("was built without {kind}: build it with --features {kind}")));
    }
}

#[test]
fn other_stores_take_no_settings() {
    let settings = [("speed".to_owned(), "9".to_owned())];
    let directory = directory();
    let options =
        Options { directory: directory.path(), memory: MEMORY, durability: Durability::None, settings: &settings };
    assert!(open(StoreKind::Null, &options).err().unwrap().to_string().contains("the null store knows fault"));
    let others = StoreKind::value_variants().iter().copied().filter(|kind| !kind.is_ours() && *kind != StoreKind::Null);
    for kind in others.filter(|kind| opener(*kind).is_some()) {
        let refusal = open(kind, &options).err().unwrap().to_string();
        assert_eq!(refusal, format!("{kind} takes no --set, and speed is set"));
    }
}

#[test]
fn a_key_that_is_too_long_is_refused() {
    for (kind, longest) in [(StoreKind::Lmdb, 511), (StoreKind::BfTree, 64)] {
        if opener(kind).is_none() {
            continue;
        }
        let directory = directory();
        let store = open_with(kind, &directory, Durability::None).unwrap();
        store.insert(&vec![7; longest], b"value").unwrap();
        let long = vec![7; longest + 1];
        for refusal in [store.insert(&long, b"value"), store.insert_batch(&[(&long, b"value")])] {
            let refusal = refusal.unwrap_err().to_string();
            assert!(refusal.contains(&format!("keys of 1 to {longest} bytes")), "{refusal}");
        }
        store.close().unwrap();
    }
}

#[test]
fn the_cold_tier_of_f2_is_loaded_once_and_then_read() {
    const RECORDS: u32 = 50_000;
    let directory = directory();
    let open = || open_with(StoreKind::F2Cold, &directory, Durability::None).unwrap();
    let store = open();
    (0..RECORDS).for_each(|number| store.insert(&key(number), &value(number, 1)).unwrap());
    store.wait_until_quiet().unwrap();
    assert!(store.insert(&key(0), b"new").unwrap_err().to_string().contains("only read"));
    store.close().unwrap();
    let store = open();
    (0..RECORDS).for_each(|number| assert_eq!(get(&*store, &key(number)), Some(value(number, 1))));
    (RECORDS..RECORDS + 1000).for_each(|number| assert_eq!(get(&*store, &key(number)), None));
    let bytes = store.stats().index_bytes as f64 / f64::from(RECORDS);
    assert!((0.4..0.5).contains(&bytes), "{bytes} bytes a key");
}

/// The one index block of each file has a key of ten bytes and a file position for each block of 4 KiB.
#[cfg(feature = "rocksdb")]
#[test]
fn the_index_of_rocksdb_is_counted() {
    const RECORDS: u32 = 50_000;
    let directory = directory();
    let store = open_with(StoreKind::Rocksdb, &directory, Durability::None).unwrap();
    assert_eq!(store.stats().index_bytes, 0);
    (0..RECORDS).for_each(|number| store.insert(&key(number), &value(number, 1)).unwrap());
    store.wait_until_quiet().unwrap();
    let (bytes, blocks) =
        (store.stats().index_bytes, u64::from(RECORDS) * (key(0).len() + value(0, 1).len()) as u64 / 4096);
    assert!((8 * blocks..40 * blocks).contains(&bytes), "{bytes} bytes for {blocks} blocks");
    store.close().unwrap();
}
