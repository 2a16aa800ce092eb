//! Hash keyspaces on a disk whose I/O fails, panics or hangs. Acknowledged writes can be read, and a hanging I/O blocks
//! only the calls that need it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    ops::Range,
    sync::{Arc, OnceLock},
};

use ecotone::{
    Database, Durability, Error, HashKeyspace, HashOptions,
    internal::{
        Components,
        engine::contract::Shared,
        hash::{HashFamily, cold::Block},
        substrate::{storage::FileId, table::FileIdentity},
    },
    limits,
};
use ecotone_testkit::{
    sim::{Crash, Io, Phase, SimClock, SimStorage},
    suite::ObservedFactory,
};

use crate::in_time::in_time;

const RECORDS: u32 = 600;
const PAGE: usize = 4096;

/// The acknowledged records.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Open {
    disk: SimStorage,
    database: Database,
    keyspace: HashKeyspace,
    shared: Arc<OnceLock<Shared>>,
}

/// The database of a copy of the disk, without threads.
fn open(disk: &SimStorage) -> Open {
    let (family, shared) = ObservedFactory::over(Arc::new(HashFamily::tiny()));
    let disk = disk.crash(Crash::KeepAll);
    let parts = Components {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(SimClock::new(1)),
        workers: 0,
        families: vec![family],
    };
    let database = Database::builder("simulated").memory_budget(limits::MIN_BUDGET).open_parts(parts).unwrap();
    let keyspace = database.hash_keyspace("k", HashOptions::default()).unwrap();
    Open { disk, database, keyspace, shared }
}

fn key(i: u32) -> Vec<u8> {
    format!("key {i:06}").into_bytes()
}

fn value(i: u32, version: u32) -> Vec<u8> {
    [i, version].map(u32::to_be_bytes).concat().repeat(60)
}

impl Open {
    /// Runs the background jobs.
    fn run_jobs(&self) {
        while self.shared.get().is_some_and(|shared| shared.scheduler.run_one()) {}
    }

    /// Writes hot records of all kinds. The log has them.
    fn change(&self, model: &mut Model) {
        for i in (0..RECORDS).step_by(3) {
            self.keyspace.insert(key(i), value(i, 1)).unwrap();
            model.insert(key(i), value(i, 1));
        }
        for i in (0..RECORDS).step_by(31) {
            self.keyspace.remove(key(i)).unwrap();
            model.remove(&key(i));
        }
        self.database.sync().unwrap();
    }

    /// Runs a flush, then compactions and merges into base runs.
    fn work(&self) {
        // The database reports the same error.
        let _ = self.database.flush();
        self.run_jobs();
    }

    /// Reads everything in every way.
    fn check(&self, model: &Model) {
        for i in 0..RECORDS {
            assert_eq!(self.keyspace.get(key(i)).unwrap().as_ref(), model.get(&key(i)), "{i}");
        }
        let values = self.keyspace.multi_get((0..RECORDS).map(key)).unwrap();
        assert!((0..RECORDS).zip(&values).all(|(i, value)| value.as_ref() == model.get(&key(i))));
        let all: Vec<_> = self.keyspace.iter().map(Result::unwrap).collect();
        assert_eq!(all.len(), model.len(), "no key comes twice");
        assert!(all.into_iter().collect::<Model>() == *model);
        let checks = self.database.verify().unwrap();
        assert!(checks.iter().all(|(_, check)| check.problems.is_empty()), "{checks:?}");
    }
}

/// A closed database with records in base runs, in deltas and in the hot log.
fn loaded() -> (SimStorage, Model) {
    let opened = open(&SimStorage::new(7));
    let model: Model = (0..RECORDS).map(|i| (key(i), value(i, 0))).collect();
    for (key, value) in &model {
        opened.keyspace.insert(key, value).unwrap();
        opened.run_jobs();
    }
    let Open { disk, database, keyspace, .. } = opened;
    drop(keyspace);
    database.close().unwrap();
    (disk, model)
}

/// The I/Os of [`work`](Open::work).
fn of_work(disk: &SimStorage, model: &Model) -> (SimStorage, Range<usize>) {
    let opened = open(disk);
    opened.change(&mut model.clone());
    let first = opened.disk.io_index() as usize;
    opened.work();
    let end = opened.disk.io_index() as usize;
    assert!(opened.database.failure().is_none());
    (opened.disk, first..end)
}

/// Lets each I/O go wrong that writes or syncs the hot log or a run.
fn each_wrong(wrong: impl Fn(&SimStorage, u64)) {
    let (disk, model) = loaded();
    let (reference, work) = of_work(&disk, &model);
    let (labels, mut tried) = (reference.labels(), BTreeMap::<Phase, u32>::new());
    for index in work {
        let label = labels[index];
        if !matches!(label.phase, Phase::Hot | Phase::Table) || !matches!(label.io, Io::Write | Io::Sync) {
            continue;
        }
        let (opened, mut model) = (open(&disk), model.clone());
        opened.change(&mut model);
        wrong(&opened.disk, index as u64);
        let opened = in_time("the work", move || {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| opened.work()));
            opened
        });
        assert!(opened.database.failure().is_some(), "{label:?}");
        opened.check(&model);
        assert!(matches!(opened.keyspace.insert("more", "of it"), Err(Error::Poisoned { .. })));
        for crash in [Crash::Random(index as u64), Crash::KeepAll] {
            open(&opened.disk.crash(crash)).check(&model);
        }
        *tried.entry(label.phase).or_default() += 1;
    }
    assert!(tried.len() == 2 && tried.values().all(|tried| *tried >= 3), "{tried:?}");
}

#[test]
fn everything_is_readable_after_a_failed_write_of_a_hash_keyspace() {
    each_wrong(|disk, index| disk.fail_at(index, ErrorKind::Other));
}

#[test]
fn a_panic_in_the_work_of_a_hash_keyspace_poisons_and_hangs_nobody() {
    each_wrong(SimStorage::panic_at);
}

/// The keys of a run that lie in its first page of blocks.
fn keys_of_first_page(bytes: &[u8]) -> BTreeSet<Vec<u8>> {
    let long = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let name = FileIdentity {
        database: long(40),
        keyspace: long(48) as u32,
        number: (long(48) >> 32) as u32,
        birth: long(56),
    };
    let blocks = (0..).zip(bytes[PAGE..2 * PAGE].chunks(1 << bytes[65]));
    let keys = |(number, block)| {
        let block = Block::parse(block, name.place(number)).unwrap();
        block.entries().map(|entry| entry.unwrap().key.to_vec()).collect::<Vec<_>>()
    };
    blocks.flat_map(keys).collect()
}

/// Reads and writes of all other keys, and a new value for one of the keys whose block hangs.
fn elsewhere(keyspace: &HashKeyspace, held: &BTreeSet<Vec<u8>>, model: &Model) {
    let others: Vec<_> =
        model.iter().filter(|(key, _)| !held.contains(*key)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let (reader, asked) = (keyspace.clone(), others.clone());
    in_time("a get", move || {
        asked.iter().for_each(|(key, value)| assert_eq!(reader.get(key).unwrap().as_ref(), Some(value)));
    });
    let (reader, asked) = (keyspace.clone(), others.clone());
    in_time("a multi_get", move || {
        let values = reader.multi_get(asked.iter().map(|(key, _)| key)).unwrap();
        assert!(asked.iter().zip(values).all(|((_, value), found)| found.as_ref() == Some(value)));
    });
    let (writer, written) = (keyspace.clone(), held.first().or(others.first().map(|(key, _)| key)).unwrap().clone());
    in_time("a write", move || {
        writer.insert(&written, "new").unwrap();
        assert_eq!(writer.get(&written).unwrap().as_deref(), Some(&b"new"[..]));
        writer.merge("a counter", ecotone::Merge::Add(3)).unwrap();
        writer.durability(Durability::Sync).remove(&others[1].0).unwrap();
        assert_eq!(writer.get(&others[1].0).unwrap(), None);
    });
}

#[test]
fn a_read_of_a_run_that_hangs_stops_nobody_else() {
    let (disk, model) = loaded();
    let is_base = |(file, bytes): &(FileId, Vec<u8>)| matches!(file, FileId::Table { .. }) && bytes[64] == 2;
    let (file, bytes) = disk.files().into_iter().find(is_base).expect("a base");
    let held = keys_of_first_page(&bytes);
    let opened = open(&disk);
    opened.disk.hold(file, PAGE as u64);
    let (reader, wanted) = (opened.keyspace.clone(), held.last().unwrap().clone());
    let expected = model[&wanted].clone();
    let reader = std::thread::spawn(move || reader.get(&wanted).unwrap());
    opened.disk.wait_blocked(file, PAGE as u64);
    elsewhere(&opened.keyspace, &held, &model);
    assert!(!reader.is_finished());
    opened.disk.release(file, PAGE as u64);
    assert_eq!(reader.join().unwrap(), Some(expected));
}

#[test]
fn a_flush_of_a_hot_log_that_hangs_stops_nobody_else() {
    let (disk, mut model) = loaded();
    let reference = open(&disk);
    reference.change(&mut model.clone());
    let before = reference.disk.files();
    reference.database.flush().unwrap();
    let after = reference.disk.files();
    let changed = |(file, bytes): (&FileId, &Vec<u8>)| {
        let was = before.get(file)?;
        let page = (1..bytes.len() / PAGE).find(|page| bytes[page * PAGE..][..PAGE] != was[page * PAGE..][..PAGE])?;
        matches!(file, FileId::Segment { .. }).then_some((*file, (page * PAGE) as u64))
    };
    let (file, offset) = after.iter().find_map(changed).expect("a flush writes a page of the hot log");
    let opened = open(&disk);
    opened.change(&mut model);
    opened.disk.hold(file, offset);
    let flusher = std::thread::spawn({
        let database = opened.database.clone();
        move || database.flush().unwrap()
    });
    opened.disk.wait_blocked(file, offset);
    let walker = opened.keyspace.clone();
    let walked: Model = in_time("a walk", move || walker.iter().map(Result::unwrap).collect());
    assert!(walked == model);
    elsewhere(&opened.keyspace, &BTreeSet::new(), &model);
    assert!(!flusher.is_finished());
    opened.disk.release(file, offset);
    flusher.join().unwrap();
    model.insert(b"a counter".to_vec(), 3_u64.to_le_bytes().to_vec());
    let [first, second] =
        [0, 1].map(|number| model.keys().filter(|key| key.starts_with(b"key")).nth(number).unwrap().clone());
    model.insert(first, b"new".to_vec());
    model.remove(&second);
    open(&opened.disk).check(&model);
}
