//! The cache in front of all tables, beside flushes that pass a read (decision 15, invariant 9).

use std::{
    collections::BTreeMap,
    fmt,
    ops::Bound,
    sync::{Arc, Mutex},
};

use ecotone_substrate::Seq;

use super::world::World;
use crate::{
    engine::{Engine, Ordered, Stats},
    front::{Front, Look, Ticket},
    lsm::{keyspace::LsmKeyspace, table::Kind},
};

const KEY: &[u8] = b"key";

/// Something that happens once.
type Happening = Box<dyn FnOnce() + Send>;

/// A cache at whose next look something happens, before it or behind it.
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

impl Front for Passed {
    fn look(&self, key: &[u8], value: &mut Vec<u8>) -> Look {
        happen(&self.before);
        let (found, ticket) =
            (self.records.lock().unwrap().get(key).cloned(), Ticket([*self.refreshed.lock().unwrap(); 2]));
        happen(&self.behind);
        found.map_or(Look::Missing(ticket), |found| {
            value.extend(found);
            Look::Found
        })
    }

    fn admit(&self, key: &[u8], value: &[u8], ticket: Ticket) {
        if ticket == Ticket([*self.refreshed.lock().unwrap(); 2]) {
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

    fn forget(&self) {
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

fn world() -> (Arc<World>, Arc<Passed>, Arc<LsmKeyspace>) {
    let (world, front) = (Arc::new(World::new(1, Kind::Linear)), Arc::new(Passed::default()));
    let keyspace = world.another_behind(4, front.clone());
    (world, front, keyspace)
}

/// What was deleted before a read is not there again since the memtable that says so is flushed meanwhile.
#[test]
fn a_hit_is_not_older_than_what_a_flush_takes_out_of_memory_meanwhile() {
    for read in READS {
        let (world, front, keyspace) = world();
        world.write_to(&keyspace, KEY, Some(b"old"));
        keyspace.flush(Seq::MAX).unwrap();
        assert_eq!(read(&keyspace), Some(b"old".to_vec()));
        assert_eq!(front.records.lock().unwrap().len(), 1);
        world.write_to(&keyspace, KEY, None);
        let flushed = keyspace.clone();
        *front.behind.lock().unwrap() = Some(Box::new(move || flushed.flush(Seq::MAX).unwrap()));
        assert_eq!(read(&keyspace), None);
        keyspace.flush(Seq::MAX).unwrap();
        assert_eq!(read(&keyspace), None);
    }
}

/// What a read has found in tables that were replaced meanwhile is not admitted.
#[test]
fn nothing_older_is_admitted_than_what_a_flush_brings_meanwhile() {
    for (read, is_before) in READS.into_iter().flat_map(|read| [(read, false), (read, true)]) {
        let (world, front, keyspace) = world();
        world.write_to(&keyspace, KEY, Some(b"old"));
        keyspace.flush(Seq::MAX).unwrap();
        let (writer, written) = (world.clone(), keyspace.clone());
        let write = move || {
            writer.write_to(&written, KEY, Some(b"new"));
            written.flush(Seq::MAX).unwrap();
        };
        *if is_before { &front.before } else { &front.behind }.lock().unwrap() = Some(Box::new(write));
        assert!(read(&keyspace).is_some());
        assert_eq!(read(&keyspace), Some(b"new".to_vec()));
        assert!(front.records.lock().unwrap().values().all(|value| value == b"new"));
    }
}

/// What others have written and read since a load began is not in the cache any more when the load has passed it.
#[test]
fn a_load_that_passes_what_others_write_leaves_nothing_older_in_front() {
    for read in READS {
        let (world, _front, keyspace) = world();
        let meanwhile = || {
            world.write_to(&keyspace, KEY, Some(b"old"));
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
