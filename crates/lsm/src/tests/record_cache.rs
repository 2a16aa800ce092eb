//! The record cache in front of the tables, with flushes that overtake a read (adaptive-protocol.md, invariant 9).

use std::{
    collections::BTreeMap,
    fmt,
    ops::Bound,
    sync::{Arc, Mutex},
};

use ecotone_engine::{
    contract::{Engine, Get, Ordered, Stats},
    record_cache::{CacheLookup, CacheTicket, RecordCache},
};
use ecotone_substrate::Seq;

use crate::{keyspace::LsmKeyspace, table::IndexKind, tests::fixture::Fixture};

const KEY: &[u8] = b"key";

/// Something that happens once.
type Happening = Box<dyn FnOnce() + Send>;

/// A cache that runs a callback at its next lookup, before it or behind it.
#[derive(Default)]
struct Passed {
    records: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    refreshed: Mutex<u64>,
    before: Mutex<Option<Happening>>,
    behind: Mutex<Option<Happening>>,
}

impl fmt::Debug for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.records.fmt(f)
    }
}

fn happen(what: &Mutex<Option<Happening>>) {
    let happening = what.lock().unwrap().take();
    happening.into_iter().for_each(|happening| happening());
}

impl RecordCache for Passed {
    fn lookup(&self, key: &[u8], value: &mut Vec<u8>) -> CacheLookup {
        happen(&self.before);
        let (found, ticket) =
            (self.records.lock().unwrap().get(key).cloned(), CacheTicket([*self.refreshed.lock().unwrap(); 2]));
        happen(&self.behind);
        found.map_or(CacheLookup::Missing(ticket), |found| {
            value.extend(found);
            CacheLookup::Found
        })
    }

    fn admit(&self, key: &[u8], value: &[u8], ticket: CacheTicket) {
        if ticket == CacheTicket([*self.refreshed.lock().unwrap(); 2]) {
            self.records.lock().unwrap().insert(key.to_vec(), value.to_vec());
        }
    }

    fn refresh(&self, key: &[u8], value: Option<&[u8]>) {
        *self.refreshed.lock().unwrap() += 1;
        let mut records = self.records.lock().unwrap();
        if records.remove(key).is_some() {
            value.into_iter().for_each(|value| _ = records.insert(key.to_vec(), value.to_vec()));
        }
    }

    fn invalidate(&self) {
        *self.refreshed.lock().unwrap() += 1;
        self.records.lock().unwrap().clear();
    }

    fn stats(&self) -> Stats {
        vec![("cache_records", self.records.lock().unwrap().len() as u64)]
    }
}

/// How a key is read.
type Read = fn(&LsmKeyspace) -> Option<Vec<u8>>;

fn read_many(keyspace: &LsmKeyspace) -> Option<Vec<u8>> {
    let mut value = None;
    keyspace.multi_get(&[KEY], &mut |_, found| value = found.map(<[u8]>::to_vec)).unwrap();
    value
}

const READS: [Read; 2] = [|keyspace| keyspace.get(KEY).unwrap(), read_many];

fn fixture() -> (Arc<Fixture>, Arc<Passed>, Arc<LsmKeyspace>) {
    let (fixture, record_cache) = (Arc::new(Fixture::new(1, IndexKind::Linear)), Arc::new(Passed::default()));
    let keyspace = fixture.another_behind(4, record_cache.clone());
    (fixture, record_cache, keyspace)
}

/// A key that was deleted before a read does not reappear because the memtable with the tombstone is flushed during the
/// read.
#[test]
fn a_hit_is_not_older_than_what_a_flush_takes_out_of_memory_meanwhile() {
    for read in READS {
        let (fixture, record_cache, keyspace) = fixture();
        fixture.write_to(&keyspace, KEY, Some(b"old"));
        keyspace.flush(Seq::MAX).unwrap();
        assert_eq!(read(&keyspace), Some(b"old".to_vec()));
        assert_eq!(record_cache.records.lock().unwrap().len(), 1);
        fixture.write_to(&keyspace, KEY, None);
        let flushed = keyspace.clone();
        *record_cache.behind.lock().unwrap() = Some(Box::new(move || flushed.flush(Seq::MAX).unwrap()));
        assert_eq!(read(&keyspace), None);
        keyspace.flush(Seq::MAX).unwrap();
        assert_eq!(read(&keyspace), None);
    }
}

/// A value that a read found in tables replaced meanwhile is not admitted.
#[test]
fn nothing_older_is_admitted_than_what_a_flush_brings_meanwhile() {
    for (read, is_before) in READS.into_iter().flat_map(|read| [(read, false), (read, true)]) {
        let (fixture, record_cache, keyspace) = fixture();
        fixture.write_to(&keyspace, KEY, Some(b"old"));
        keyspace.flush(Seq::MAX).unwrap();
        let (writer, written) = (fixture.clone(), keyspace.clone());
        let write = move || {
            writer.write_to(&written, KEY, Some(b"new"));
            written.flush(Seq::MAX).unwrap();
        };
        *if is_before { &record_cache.before } else { &record_cache.behind }.lock().unwrap() = Some(Box::new(write));
        assert!(read(&keyspace).is_some());
        assert_eq!(read(&keyspace), Some(b"new".to_vec()));
        assert!(record_cache.records.lock().unwrap().values().all(|value| value == b"new"));
    }
}

/// Values that other threads wrote and read after a load began are not in the cache after the load has replaced them.
#[test]
fn a_load_that_passes_what_others_write_leaves_nothing_older_in_front() {
    for read in READS {
        let (fixture, _front, keyspace) = fixture();
        let meanwhile = || {
            fixture.write_to(&keyspace, KEY, Some(b"old"));
            keyspace.flush(Seq::MAX).unwrap();
            assert_eq!(read(&keyspace), Some(b"old".to_vec()));
        };
        let mut records = [&b"a"[..], KEY].into_iter().map(|key| {
            if key == KEY {
                meanwhile();
            }
            Ok((key.to_vec(), b"new".to_vec()))
        });
        assert_eq!(keyspace.clone().bulk_load(&mut records).unwrap(), 2);
        let scanned = keyspace
            .clone()
            .cursor((Bound::Unbounded, Bound::Unbounded))
            .next_back()
            .unwrap()
            .map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(scanned, read(&keyspace).map(|value| (KEY.to_vec(), value)));
    }
}
