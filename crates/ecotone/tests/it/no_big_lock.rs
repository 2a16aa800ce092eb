//! While the I/O of one page hangs, gets, writes and scans of other pages finish.

use std::sync::Arc;

use ecotone::{
    Database, Durability, Engine, Keyspace, KeyspaceOptions,
    internal::{
        Components,
        substrate::{
            limits::PAGE,
            page::{Page, PageAddress, PageKind},
            storage::FileId,
        },
        tree::TreeFamily,
    },
    limits,
};
use ecotone_testkit::sim::{SimClock, SimStorage};

use crate::in_time::in_time;

const RECORDS: u32 = 4_000;
const FILE: FileId = FileId::Pages(1);

fn key(i: u32) -> Vec<u8> {
    format!("key {i:06}").into_bytes()
}

fn value(i: u32) -> Vec<u8> {
    i.to_be_bytes().repeat(25)
}

fn open(disk: &SimStorage) -> Database {
    let families = vec![Arc::new(TreeFamily::default()) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers: 2, families };
    Database::builder("simulated").memory_budget(limits::MIN_BUDGET).open_parts(parts).unwrap()
}

/// A tree on disk with an empty cache, and one of its pages: its offset and the numbers of its first and last record.
fn cold_tree() -> (SimStorage, Database, Keyspace, u64, (u32, u32)) {
    let disk = SimStorage::new(7);
    let database = open(&disk);
    let keyspace = database.keyspace("numbers", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
    assert_eq!(keyspace.bulk_load((0..RECORDS).map(|i| (key(i), value(i)))).unwrap(), u64::from(RECORDS));
    drop(keyspace);
    database.close().unwrap();
    let (offset, held) = page_of(&disk, RECORDS / 2);
    let database = open(&disk);
    let keyspace = database.open_keyspace("numbers").unwrap();
    (disk, database, keyspace, offset, held)
}

/// The page with the record of this number.
fn page_of(disk: &SimStorage, wanted: u32) -> (u64, (u32, u32)) {
    let bytes = &disk.files()[&FILE];
    let pages = (0..).zip(bytes.chunks_exact(PAGE)).filter_map(|(number, bytes)| {
        let page = Page::parse(bytes, PageAddress { file: FILE.identity(), page: number }).ok()?;
        (page.kind() == PageKind::Base && page.get(&key(wanted)).is_some()).then_some((number, page))
    });
    let pages: Vec<_> = pages.collect();
    let [(number, page)] = pages[..] else { panic!("{} pages have the key", pages.len()) };
    let inside = |i: &u32| page.covers(&key(*i));
    let numbers = ((0..RECORDS).find(inside).unwrap(), (0..RECORDS).rfind(inside).unwrap());
    (u64::from(number) * PAGE as u64, numbers)
}

fn elsewhere(keyspace: &Keyspace, (first, last): (u32, u32), round: u8) {
    let (k, others) = (keyspace.clone(), move || (0..RECORDS).filter(move |i| *i < first || *i > last));
    in_time("a get", move || {
        others().step_by(7).for_each(|i| assert_eq!(k.get(key(i)).unwrap(), Some(value(i)), "{i}"))
    });
    let k = keyspace.clone();
    in_time("a multi_get", move || {
        let keys: Vec<u32> = others().step_by(5).collect();
        let values = k.multi_get(keys.iter().map(|i| key(*i))).unwrap();
        assert!(keys.iter().zip(values).all(|(i, got)| got == Some(value(*i))));
    });
    let k = keyspace.clone();
    in_time("a write", move || {
        for i in (0..RECORDS).step_by(3) {
            k.insert([&key(i)[..], &[round]].concat(), value(i)).unwrap();
        }
        k.durability(Durability::Sync).insert([&key(1)[..], &[round]].concat(), value(1)).unwrap();
        k.remove([&key(3)[..], &[round]].concat()).unwrap();
    });
    let k = keyspace.clone();
    in_time("a scan", move || {
        let below = k
            .range(key(0)..=key(first - 1))
            .map(|record| record.unwrap().0)
            .filter(|key| key.len() == self::key(0).len());
        assert_eq!(below.count() as u32, first);
        let above = k
            .range(key(last + 1)..)
            .rev()
            .map(|record| record.unwrap().0)
            .filter(|key| key.len() == self::key(0).len());
        assert_eq!(above.count() as u32, RECORDS - 1 - last);
    });
}

#[test]
fn a_read_that_hangs_stops_nobody_else() {
    let (disk, database, keyspace, offset, held) = cold_tree();
    disk.hold(FILE, offset);
    let reader = std::thread::spawn({
        let keyspace = keyspace.clone();
        move || keyspace.get(key(RECORDS / 2)).unwrap()
    });
    disk.wait_blocked(FILE, offset);
    elsewhere(&keyspace, held, 1);
    let written = key(held.0);
    in_time("a write to the page itself", move || {
        keyspace.insert(&written, "new").unwrap();
        assert_eq!(keyspace.get(&written).unwrap().as_deref(), Some(&b"new"[..]));
    });
    assert!(!reader.is_finished());
    disk.release(FILE, offset);
    assert_eq!(reader.join().unwrap(), Some(value(RECORDS / 2)));
    database.close().unwrap();
}

#[test]
fn a_write_out_that_hangs_stops_nobody_else() {
    let (disk, database, keyspace, offset, held) = cold_tree();
    keyspace.insert(key(held.0), "new").unwrap();
    disk.hold(FILE, offset);
    let flusher = std::thread::spawn({
        let database = database.clone();
        move || database.flush().unwrap()
    });
    disk.wait_blocked(FILE, offset);
    elsewhere(&keyspace, held, 2);
    assert!(!flusher.is_finished());
    disk.release(FILE, offset);
    flusher.join().unwrap();
    drop(keyspace);
    database.close().unwrap();
    let database = open(&disk);
    let keyspace = database.open_keyspace("numbers").unwrap();
    assert_eq!(keyspace.get(key(held.0)).unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(keyspace.get([&key(3)[..], &[2]].concat()).unwrap(), None);
    assert_eq!(keyspace.get([&key(6)[..], &[2]].concat()).unwrap(), Some(value(6)));
}
