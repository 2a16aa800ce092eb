//! Free space goes back to the file system. A crash meanwhile loses nothing, a full disk is reported before a write is
//! acknowledged, and a real disk really gets emptier.

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use ecotone::{Database, Engine, Keyspace, KeyspaceOptions, Result};
use ecotone_testkit::{
    model::{Change, Level},
    sim::{Crash, Io, SimStorage},
    suite::{Opener, Store},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::IndexedRandom};

use crate::tree;

const KEYSPACE: u32 = 1;
const RECORDS: u32 = 9_000;
const MIB: u64 = 1 << 20;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u32) -> Vec<u8> {
    number.wrapping_mul(0x9E37_79B1).to_be_bytes().to_vec()
}

/// A database with its certain content, and the content that an interrupted write may have added.
struct Life {
    store: Box<dyn Store>,
    content: Content,
    perhaps: Vec<Change>,
    random: SmallRng,
}

impl Life {
    fn begin(disk: &SimStorage, content: Content) -> Result<Life> {
        let store = tree().open(disk, 1)?;
        Ok(Life { store, content, perhaps: Vec::new(), random: SmallRng::seed_from_u64(3) })
    }

    /// Writes the results of `change` for some keys, in batches, and flushes them in the end.
    fn change(&mut self, keys: impl Iterator<Item = u32>, full: bool) -> Result<()> {
        let keys: Vec<u32> = keys.collect();
        for batch in keys.chunks(150) {
            let value = |random: &mut SmallRng| full.then(|| vec![random.random(); random.random_range(700..1100)]);
            let changes: Vec<Change> =
                batch.iter().map(|number| ((KEYSPACE, key(*number)), value(&mut self.random))).collect();
            self.perhaps = changes;
            self.store.write(&self.perhaps, Level::Sync)?;
            put(&mut self.content, &self.perhaps);
            self.perhaps.clear();
        }
        self.store.flush()?;
        while self.store.background() {}
        Ok(())
    }

    /// Shrinks to a tenth, and grows again to a half.
    fn breathe(&mut self) -> Result<()> {
        self.change((0..RECORDS).filter(|number| number % 10 > 0), false)?;
        self.change(0..RECORDS / 2, true)
    }

    fn check(&self, place: &str) {
        let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let found: Content = self.store.scan(KEYSPACE, everything, false).unwrap().into_iter().collect();
        if found != self.content {
            let mut with = self.content.clone();
            put(&mut with, &self.perhaps);
            assert!(found == with, "{place}: other records");
        }
        assert_eq!(self.store.verify().unwrap(), Vec::<String>::new(), "{place}");
    }
}

fn put(content: &mut Content, changes: &[Change]) {
    for ((_, key), value) in changes {
        match value {
            Some(value) => drop(content.insert(key.clone(), value.clone())),
            None => drop(content.remove(key)),
        }
    }
}

/// A disk with all records, closed.
fn filled() -> (SimStorage, Content) {
    let disk = SimStorage::new(1);
    let mut session = Life::begin(&disk, Content::new()).unwrap();
    session.store.create(KEYSPACE).unwrap();
    session.change(0..RECORDS, true).unwrap();
    session.check("filled");
    let Life { store, content, .. } = session;
    store.close().unwrap();
    (disk, content)
}

#[test]
fn a_crash_around_a_hole_loses_nothing() {
    let (disk, content) = filled();
    let whole = disk.crash(Crash::KeepAll);
    let mut session = Life::begin(&whole, content.clone()).unwrap();
    session.breathe().unwrap();
    let ios: Vec<Io> = whole.labels().iter().map(|label| label.io).collect();
    session.check("without a crash");
    let holes: Vec<u64> = (0..).zip(&ios).filter(|(_, io)| **io == Io::Punch).map(|(index, _)| index).collect();
    let filled = (0..).zip(&ios).skip_while(|(_, io)| **io != Io::Punch).filter(|(_, io)| **io == Io::Preallocate);
    let filled: Vec<u64> = filled.map(|(index, _)| index).collect();
    println!("{} I/Os, holes at {holes:?}, space is reserved after them at {filled:?}", ios.len());
    assert!(!holes.is_empty() && !filled.is_empty(), "space goes and comes");
    let mut random = SmallRng::seed_from_u64(5);
    for number in 0..16 {
        let image = disk.crash(Crash::KeepAll);
        let near = if number % 2 == 0 { holes.choose(&mut random) } else { filled.choose(&mut random) };
        let at = near.unwrap() + random.random_range(0..if number % 4 < 2 { 3 } else { 400 });
        image.crash_at(at);
        let mut session = Life::begin(&image, content.clone()).unwrap();
        let _ = session.breathe();
        let how = *[Crash::KeepAll, Crash::DropAll, Crash::Random(number)].choose(&mut random).unwrap();
        let place = format!("I/O {at}, {how:?}");
        assert!(image.is_off() || at >= ios.len() as u64, "{place}: no crash");
        let next = image.crash(how);
        let Life { content, perhaps, .. } = session;
        let after = Life::begin(&next, content).unwrap_or_else(|error| panic!("{place}: {error}"));
        Life { perhaps, ..after }.check(&place);
    }
}

#[test]
fn a_full_disk_is_told_before_a_hole_is_written_to() {
    let (disk, content) = filled();
    let mut session = Life::begin(&disk, content).unwrap();
    session.change((0..RECORDS).filter(|number| number % 10 > 0), false).unwrap();
    assert!(disk.labels().iter().any(|label| label.io == Io::Punch), "there are holes");
    let mut refused = 0;
    loop {
        disk.space_limit(disk.space_used() + refused * MIB / 2);
        let Err(error) = session.change(0..RECORDS, true) else { break };
        assert!(error.is_no_space(), "{error}");
        assert_eq!(session.store.failure(), None, "no write met the full disk");
        session.check("full");
        refused += 1;
    }
    assert!(refused > 1, "the disk was full {refused} times");
    session.check("with space again");
}

/// Bytes that the file system has allocated to the page files.
fn size_on_disk(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let pages = files.filter(|file| file.file_name().to_string_lossy().starts_with("pages."));
    pages.map(|file| file.metadata().unwrap().blocks() * 512).sum()
}

#[test]
#[ignore = "long"]
fn a_keyspace_that_shrank_to_a_tenth_gives_its_space_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let database = Database::builder(&path).memory_budget(16 << 20).open().unwrap();
    let keyspace = database.keyspace("towns", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
    let records = 40_000;
    for number in 0..records {
        keyspace.insert(key(number), [number as u8; 800]).unwrap();
    }
    database.flush().unwrap();
    let before = size_on_disk(&path);
    assert!(before > u64::from(records) * 800, "{before}");
    for number in (0..records).filter(|number| number % 10 > 0) {
        keyspace.remove(key(number)).unwrap();
    }
    database.flush().unwrap();
    settle(&database);
    // One more checkpoint frees the pages of the last reorganisation.
    database.flush().unwrap();
    settle(&database);
    let counters: BTreeMap<&str, u64> = keyspace.stats().counters.into_iter().collect();
    let (after, used) = (size_on_disk(&path), counters["used_bytes"]);
    if counters["hole_bytes"] == 0 {
        println!("the file system of {} cannot punch holes", path.display());
        return;
    }
    println!("{before} bytes, then {after}, of which {used} are used; {counters:?}");
    assert!(after < used + used / 8 + 3 * MIB, "{after} bytes for {used}");
    assert!(after < before / 4, "{before} bytes, then {after}");
    for number in 0..records {
        let value = keyspace.get(key(number)).unwrap();
        assert_eq!(value, (number % 10 == 0).then(|| vec![number as u8; 800]));
    }
}

#[test]
fn an_unlogged_keyspace_that_is_loaded_in_random_order_uses_its_space_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let database = Database::builder(&path).memory_budget(16 << 20).open().unwrap();
    let keyspace = database.keyspace("towns", KeyspaceOptions::default().engine(Engine::Tree).unlogged()).unwrap();
    let records = 150_000;
    let mut most = 0;
    for number in 0..records {
        keyspace.insert(key(number), [number as u8; 400]).unwrap();
        if number % 10_000 == 0 {
            most = most.max(size_on_disk(&path));
        }
    }
    let data = u64::from(records) * 404;
    println!("{most} bytes at most for {data}");
    assert!(most < 2 * data + 8 * MIB, "{most} bytes for {data}");
}

/// A keyspace of constant size under random updates, inserts and deletes.
struct Steady {
    path: PathBuf,
    keyspace: Keyspace,
    living: Vec<u64>,
    next: u64,
    /// Bytes of a record: a key of eight and its value.
    size: usize,
    random: SmallRng,
}

impl Steady {
    /// A keyspace that was loaded in random order.
    fn loaded(path: &Path, database: &Database, records: u64, size: usize) -> Steady {
        let keyspace = database.keyspace("towns", KeyspaceOptions::default().engine(Engine::Tree)).unwrap();
        let random = SmallRng::seed_from_u64(9);
        let mut steady = Steady { path: path.to_owned(), keyspace, living: Vec::new(), next: 0, size, random };
        (0..records).for_each(|_| steady.insert());
        steady
    }

    fn put(&mut self, number: u64) {
        let value = vec![self.random.random(); self.size - 8];
        self.keyspace.insert(scattered(number), value).unwrap();
    }

    fn insert(&mut self) {
        self.put(self.next);
        self.living.push(self.next);
        self.next += 1;
    }

    /// Updates half of the time; otherwise inserts or deletes.
    fn step(&mut self) {
        let at = self.random.random_range(0..self.living.len());
        match self.random.random_range(0..4) {
            0 => self.insert(),
            1 => self.keyspace.remove(scattered(self.living.swap_remove(at))).unwrap(),
            _ => self.put(self.living[at]),
        }
    }

    /// Bytes of the page file for a byte of records: those that the file system has given, and those in use.
    fn amplification(&self) -> [f64; 2] {
        let counters: BTreeMap<&str, u64> = self.keyspace.stats().counters.into_iter().collect();
        let records = (self.living.len() * self.size) as f64;
        [size_on_disk(&self.path), counters["used_bytes"]].map(|bytes| bytes as f64 / records)
    }

    /// Changes a quarter as many records as there are in each of some rounds, while the background is at work. Of the
    /// last four: the mean on disk, since the file grows by leaps that the background takes back, or the most in use if
    /// that is more.
    fn most_of(&mut self, rounds: usize) -> f64 {
        let mut told = Vec::new();
        for _ in 0..rounds {
            (0..self.living.len() / 4).for_each(|_| self.step());
            told.push(self.amplification());
        }
        println!("{} records of {} bytes, on disk and used: {told:.3?}", self.living.len(), self.size);
        let last = &told[rounds - 4..];
        let on_disk = last.iter().map(|[on_disk, _]| on_disk).sum::<f64>() / last.len() as f64;
        last.iter().map(|[_, used]| *used).fold(on_disk, f64::max)
    }
}

/// Eight bytes of a key, scattered like random ones.
fn scattered(number: u64) -> [u8; 8] {
    let mixed = (number ^ number >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ mixed >> 31).to_be_bytes()
}

fn steady_amplification(records: u64, size: usize) -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let database = Database::builder(&path).memory_budget(16 << 20).open().unwrap();
    Steady::loaded(&path, &database, records, size).most_of(7)
}

#[test]
#[ignore = "long"]
fn space_amplification_stays_low_under_random_writes_of_small_records() {
    let most = steady_amplification(300_000, 64);
    assert!(most <= 1.6, "{most:.3} bytes on disk for a byte of records");
}

#[test]
#[ignore = "long"]
fn space_amplification_stays_low_under_random_writes_of_large_records() {
    let most = steady_amplification(24_000, 1024);
    assert!(most <= 1.75, "{most:.3} bytes on disk for a byte of records");
}

fn settle(database: &Database) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while database.stats().background_jobs > 0 {
        assert!(std::time::Instant::now() < deadline, "the background goes on");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
