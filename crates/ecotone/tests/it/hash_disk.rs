//! Hash keyspaces with a disk budget, and with a hot log that stays on disk (H12).

use std::{
    os::unix::fs::MetadataExt,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use ecotone::{
    Database, Error, HashKeyspace, HashKeyspaceOptions, HashOptions,
    internal::{
        Components,
        engine::contract::EngineFactory,
        hash::HashFamily,
        substrate::storage::{FileKind, Storage},
    },
    limits::MIN_BUDGET,
};
use ecotone_testkit::{
    model::{Change, Ending, Key, Level, Model},
    sim::{Crash, SimClock, SimStorage},
    suite::{Kind, Opener, Store},
};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::store::Simulated;

/// The smallest disk budget.
const LIMIT: u64 = 16 << 20;
const VALUE: usize = 1_000;

fn open(disk: &SimStorage) -> Database {
    let families = vec![Arc::new(HashFamily::default()) as _];
    let parts = Components { storage: Arc::new(disk.clone()), clock: Arc::new(SimClock::new(1)), workers: 2, families };
    Database::builder("simulated").memory_budget(MIN_BUDGET).open_parts(parts).unwrap()
}

fn keyspace(database: &Database, options: HashKeyspaceOptions) -> HashKeyspace {
    database.hash_keyspace("records", options).unwrap()
}

fn limited() -> HashKeyspaceOptions {
    HashOptions::default().disk(LIMIT).into()
}

fn counter(keyspace: &HashKeyspace, wanted: &str) -> u64 {
    keyspace.stats().counter(wanted).unwrap_or(0)
}

fn value(number: u32, round: u8) -> Vec<u8> {
    vec![number as u8 ^ round; VALUE]
}

/// Inserts new records until an insert is refused. Returns the number of records.
fn fill(keyspace: &HashKeyspace, from: u32) -> u32 {
    for number in from.. {
        assert!(u64::from(number - from) < LIMIT / VALUE as u64);
        assert!(!number.is_multiple_of(64) || counter(keyspace, "disk_bytes") <= LIMIT);
        match keyspace.insert(number.to_be_bytes(), value(number, 0)) {
            Ok(()) => {}
            Err(Error::DiskBudget { budget }) => {
                assert_eq!(budget, LIMIT);
                return number;
            }
            Err(error) => panic!("after {number} records: {error}"),
        }
    }
    unreachable!("numbers are many")
}

fn check(keyspace: &HashKeyspace, count: u32, expected: impl Fn(u32) -> Option<Vec<u8>>) {
    (0..count).for_each(|number| {
        assert_eq!(keyspace.get(number.to_be_bytes()).unwrap(), expected(number), "{number} of {count}")
    });
}

/// Fills a keyspace, closes and opens it, deletes a part and fills it again.
fn filled(options: HashKeyspaceOptions) {
    let disk = SimStorage::new(1);
    let database = open(&disk);
    let records = keyspace(&database, options.clone());
    let count = fill(&records, 0);
    assert!(count > 5_000, "{count} records");
    drop(records);
    database.close().unwrap();

    let database = open(&disk);
    let records = keyspace(&database, options.clone());
    check(&records, count, |number| Some(value(number, 0)));
    let waited = counter(&records, "writer_delay_total_us");
    (0..count).step_by(2).for_each(|number| records.remove(number.to_be_bytes()).unwrap());
    let waited = counter(&records, "writer_delay_total_us") - waited;
    assert!(
        waited < 50 * u64::from(count),
        "{count} records, and deletes of half of them waited {waited} µs for space that they give back"
    );
    let more = fill(&records, count);
    assert!(more > count + count / 4, "{} records where {} were deleted", more - count, count / 2);
    let expected = |number: u32| (number >= count || number % 2 == 1).then(|| value(number, 0));
    check(&records, more, expected);
    database.flush().unwrap();
    let after = disk.crash(Crash::DropAll);
    disk.power_off();

    let database = open(&after);
    let records = keyspace(&database, options);
    assert!(counter(&records, "disk_bytes") <= LIMIT);
    check(&records, more, expected);
}

#[test]
fn a_logged_keyspace_that_fills_its_budget_loses_nothing_and_takes_deletes() {
    filled(limited());
}

#[test]
fn an_unlogged_keyspace_that_fills_its_budget_loses_nothing_and_takes_deletes() {
    filled(limited().unlogged());
}

/// Two threads update each key ten times on average, on a real disk. The files stay within the budget all the time. The
/// durations of writes are printed, since they depend on the machine too.
#[test]
fn updates_of_ten_times_the_data_stay_within_the_budget() {
    const KEYS: u32 = 8_000;
    const THREADS: u32 = 2;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let database = Database::builder(&path).memory_budget(MIN_BUDGET).open().unwrap();
    let records = keyspace(&database, limited().unlogged());
    (0..KEYS).for_each(|number| records.insert(number.to_be_bytes(), value(number, 0)).unwrap());
    // Each thread has the keys with its own remainder.
    let update = |thread: u32| {
        let (mut random, mut rounds) = (SmallRng::seed_from_u64(thread.into()), vec![0; (KEYS / THREADS) as usize]);
        let times: Vec<Duration> = (0..10 * KEYS / THREADS)
            .map(|_| {
                let place = random.random_range(0..rounds.len());
                rounds[place] = random.random();
                let number = place as u32 * THREADS + thread;
                let begin = Instant::now();
                records.insert(number.to_be_bytes(), value(number, rounds[place])).unwrap();
                let time = begin.elapsed();
                assert!(counter(&records, "disk_bytes") <= LIMIT);
                time
            })
            .collect();
        (times, rounds)
    };
    let done: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || update(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    check(&records, KEYS, |number| {
        Some(value(number, done[(number % THREADS) as usize].1[(number / THREADS) as usize]))
    });
    let space: u64 = std::fs::read_dir(&path)
        .unwrap()
        .map(Result::unwrap)
        .filter(is_of_a_keyspace)
        .map(|file| space_of(&file))
        .sum();
    let mut times: Vec<Duration> = done.into_iter().flat_map(|(times, _)| times).collect();
    times.sort_unstable();
    let [median, rare, longest] = [500, 999, 1_000].map(|of| times[(times.len() - 1) * of / 1_000]);
    let [base_merges, delays] = ["base_merges", "writer_delays"].map(|name| counter(&records, name));
    println!(
        "a write took {median:?}, {rare:?} of one in a thousand, {longest:?} at most; {delays} delays, \
         {base_merges} base merges, {space} bytes"
    );
    assert!(space <= LIMIT && base_merges > 0, "{space} bytes where {LIMIT} may be, {base_merges} base merges");
}

fn is_of_a_keyspace(file: &std::fs::DirEntry) -> bool {
    let name = file.file_name();
    ["table.", "segment."].iter().any(|kind| name.to_str().unwrap().starts_with(kind))
}

fn space_of(file: &std::fs::DirEntry) -> u64 {
    file.metadata().unwrap().blocks() * 512
}

/// An open reads at most the disk share of the hot log, however much data there is.
#[test]
fn an_opening_reads_no_more_of_the_hot_log_than_stays_on_disk() {
    const HOT: u64 = 4 << 20;
    let read = [10_000, 40_000].map(|count: u32| {
        let disk = SimStorage::new(1);
        let options = || HashKeyspaceOptions::from(HashOptions::default().hot_disk(HOT)).unlogged();
        let database = open(&disk);
        let records = keyspace(&database, options());
        (0..count).for_each(|number| records.insert(number.to_be_bytes(), value(number, 1)).unwrap());
        while database.stats().background_jobs > 0 {
            thread::sleep(Duration::from_millis(1));
        }
        drop(records);
        database.close().unwrap();
        let before = disk.counters_of(FileKind::Segment).read_bytes;
        let database = open(&disk);
        assert_eq!(
            keyspace(&database, options()).get(0_u32.to_be_bytes()).unwrap(),
            Some(value(0, 1)),
            "the first use opens it"
        );
        let read = disk.counters_of(FileKind::Segment).read_bytes - before;
        check(&keyspace(&database, options()), count, |number| Some(value(number, 1)));
        read
    });
    assert!(read.iter().all(|read| (HOT / 2..HOT + MIN_BUDGET as u64).contains(read)), "{read:?} bytes");
}

/// The keyspace of the crashes below, and crashes.
const RECORDS: u32 = 1;
const CRASHES: u64 = 30;
const CHANGES: u32 = 800;

fn simulated() -> Simulated {
    Simulated::new(Kind::Hashed, || Arc::new(HashFamily::default()) as Arc<dyn EngineFactory>)
        .set(&[("disk", "16777216")])
}

/// Makes one change, and sometimes runs the background jobs or a flush. Returns whether the change was refused for lack
/// of space.
fn change(store: &dyn Store, model: &mut Model, change: Change, random: &mut SmallRng) -> Result<bool, Error> {
    let level = if random.random_ratio(1, 20) { Level::Sync } else { Level::Buffered };
    let refused = match store.write(std::slice::from_ref(&change), level) {
        Ok(()) => false,
        Err(Error::DiskBudget { .. }) => true,
        Err(error) => {
            model.record(vec![change], Level::InDoubt);
            return Err(error);
        }
    };
    if !refused {
        model.record(vec![change], level);
    }
    if random.random_ratio(1, 8) {
        while store.background() {}
    }
    if random.random_ratio(1, 300) {
        store.flush()?;
    }
    Ok(refused)
}

/// A disk with a keyspace whose budget is full, its content, and the number of keys.
fn full() -> (SimStorage, Model, u32) {
    let (disk, mut model, mut random) = (SimStorage::new(1), Model::new(), SmallRng::seed_from_u64(0));
    let store = simulated().open(&disk, 1).unwrap();
    store.create(RECORDS).unwrap();
    let mut put = |number: &u32| {
        let put = ((RECORDS, number.to_be_bytes().to_vec()), Some(value(*number, 0)));
        !change(&*store, &mut model, put, &mut random).unwrap()
    };
    let count = (0..).take_while(&mut put).count() as u32;
    let records = recovered(&*store);
    store.close().unwrap();
    model.restart(Ending::Closed, records).unwrap();
    (disk, model, count)
}

fn recovered(store: &dyn Store) -> Vec<(Key, Vec<u8>)> {
    assert!(store.counters()["disk_bytes"] <= LIMIT);
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
    store.walk(RECORDS).unwrap().into_iter().map(|(key, value)| ((RECORDS, key), value)).collect()
}

/// Deletes and inserts random keys, more than fit. Returns the number of refused inserts.
fn work(store: &dyn Store, model: &mut Model, keys: u32, random: &mut SmallRng) -> Result<u32, Error> {
    let mut refused = 0;
    for _ in 0..CHANGES {
        let number: u32 = random.random_range(0..keys * 5 / 4);
        let value = random.random_bool(0.5).then(|| value(number, random.random()));
        refused += u32::from(change(store, model, ((RECORDS, number.to_be_bytes().to_vec()), value), random)?);
    }
    Ok(refused)
}

/// Power fails at some I/O while deletes and inserts compete for the space of a full budget. Everything promised comes
/// back, within the budget, and writes succeed again (traps 11 and 14).
#[test]
#[ignore = "long"]
fn crashes_where_the_budget_is_full_lose_nothing() {
    let (disk, before, count) = full();
    let rehearsal = disk.crash(Crash::KeepAll);
    let store = simulated().open(&rehearsal, 1).unwrap();
    let refused = work(&*store, &mut before.clone(), count, &mut SmallRng::seed_from_u64(0)).unwrap();
    let ios = rehearsal.io_index();
    rehearsal.power_off();
    drop(store);
    assert!(count > 5_000 && refused > CHANGES / 20, "{count} records, {refused} were refused");
    for seed in 0..CRASHES {
        let (disk, mut model, mut random) = (disk.crash(Crash::KeepAll), before.clone(), SmallRng::seed_from_u64(seed));
        disk.crash_at(random.random_range(0..ios));
        let store = simulated().open(&disk, seed);
        let worked =
            store.as_ref().map_err(Clone::clone).and_then(|store| work(&**store, &mut model, count, &mut random));
        assert!(worked.is_ok() || disk.is_off(), "{seed}: {worked:?}");
        disk.power_off();
        drop(store);
        let how = [Crash::KeepAll, Crash::DropAll, Crash::Random(seed)][seed as usize % 3];
        let ending = if how == Crash::KeepAll { Ending::ProcessDeath } else { Ending::PowerLoss };
        let store = simulated().open(&disk.crash(how), seed).unwrap();
        model.restart(ending, recovered(&*store)).unwrap_or_else(|wrong| panic!("{seed}: {wrong}"));
        work(&*store, &mut model, count, &mut random).unwrap();
        model.check_recovered(Ending::Closed, recovered(&*store)).unwrap_or_else(|wrong| panic!("{seed}: {wrong}"));
    }
}
