//! Keyspaces that have a budget of disk (H12).

use std::{sync::mpsc::channel, thread, time::Duration};

use ecotone_engine::{
    contract::{Engine, Get, Hashed, UpdateAction},
    merge::Merge,
};
use ecotone_substrate::storage::{Access, FileId, Storage};
use ecotone_testkit::{engine::stat, sim::SimStorage};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{removal::files_of, *};
use crate::{compact::CompactionLimits, keyspace::HashKeyspace, log::tests::files::LogDisk};

/// Bytes of a value.
const VALUE: usize = 1_000;

/// A keyspace with a budget of disk, which does in the background what there is to do whenever something was written.
struct Fixture {
    disk: SimStorage,
    files: Arc<Files>,
    keyspace: HashKeyspace,
    /// The most bytes that its files had.
    most: u64,
}

impl Fixture {
    fn new(limit: u64) -> Fixture {
        let disk = SimStorage::new(1);
        let options = HashOptions { disk: Some(limit), ..HashOptions::default() };
        let files = Arc::new(files_of(LogDisk::new(disk.clone()).environment, false, options));
        let memory = files.environment().memory.budget();
        let limits =
            CompactionLimits { least_delta: 128 << 10, ..CompactionLimits::within(memory as u64) }.chosen(options);
        let keyspace =
            HashKeyspace::create(files.clone(), Sizes { bucket_bits: 10, frames: 24, copies: 0 }, limits).unwrap();
        Fixture { disk, files, keyspace, most: 0 }
    }

    fn put(&mut self, number: u64, value: Option<&[u8]>) -> Result<()> {
        self.keyspace.try_apply(Operation { key: &number.to_le_bytes(), value })?;
        while self.files.environment().scheduler.run_one() {
            self.look();
        }
        Ok(())
    }

    fn update(&mut self, number: u64, round: u64) {
        self.put(number, Some(&value(number, round))).unwrap();
    }

    /// Looks at the space that there is in the files, and in the books.
    fn look(&mut self) {
        let mine = |file: &FileId| matches!(file, FileId::Table { .. } | FileId::Segment { .. });
        let space = |file| self.disk.open(file, Access::Direct).and_then(|file| file.reserved()).unwrap();
        let used: u64 = self.disk.list().unwrap().into_iter().filter(mine).map(space).sum();
        assert_eq!(used, self.stat("disk_bytes"));
        self.most = self.most.max(used);
    }

    fn stat(&self, name: &str) -> u64 {
        stat(&self.keyspace.stats(), name)
    }

    fn value(&self, number: u64) -> Option<Vec<u8>> {
        self.keyspace.get(&number.to_le_bytes()).unwrap()
    }
}

fn value(number: u64, round: u64) -> Vec<u8> {
    [(number * 31 + round) as u8; VALUE].to_vec()
}

/// Ten times the data as updates of keys at random: the files keep within the budget, which is the sooner filled by old
/// versions the smaller it is, and base merges come the sooner.
#[test]
fn updates_of_ten_times_the_data_stay_within_the_budget() {
    const KEYS: u64 = 16_000;
    let data = KEYS * (VALUE as u64 + 8);
    let base_merges = [40, 24].map(|mib: u64| {
        let (mut fixture, mut random) = (Fixture::new(mib << 20), SmallRng::seed_from_u64(1));
        let mut rounds = vec![0; KEYS as usize];
        (0..KEYS).for_each(|number| fixture.update(number, 0));
        for round in 1..=10 * KEYS {
            let number = random.random_range(0..KEYS);
            fixture.update(number, round);
            rounds[number as usize] = round;
        }
        let (most, limit) = (fixture.most, fixture.stat("disk_limit_bytes"));
        eprintln!(
            "{mib} MiB: {most} bytes at most, {:.2} of the data; {} base merges, {} compactions, {} evictions",
            most as f64 / data as f64,
            fixture.stat("base_merges"),
            fixture.stat("compactions"),
            fixture.stat("forced_evictions"),
        );
        assert!(most <= limit, "{most} bytes where {limit} may be");
        (0..KEYS).for_each(|number| assert_eq!(fixture.value(number), Some(value(number, rounds[number as usize]))));
        (most as f64 / data as f64, fixture.stat("base_merges"))
    });
    let [(ample, few), (tight, many)] = base_merges;
    assert!(ample <= 1.6 && tight <= 1.5 && tight < ample, "{ample} and {tight} of the data");
    assert!(many > few, "{few} and {many} base merges");
}

/// Where what lives fills the budget whoever adds something gets an error that says what to do. Nothing is lost, and
/// deletes make room again.
#[test]
fn a_budget_that_is_full_refuses_what_adds_and_takes_what_deletes() {
    let mut fixture = Fixture::new(16 << 20);
    let (mut count, key) = (0, |number: u64| number.to_le_bytes());
    let refusal = loop {
        match fixture.put(count, Some(&value(count, 0))) {
            Ok(()) => count += 1,
            Err(refusal) => break refusal,
        }
    };
    assert!(refusal.is_no_space() && refusal.to_string().contains("delete some of it"), "{refusal}");
    assert!(fixture.files.environment().health.check().is_ok());
    assert!(count > 5_000, "{count} records of a thousand bytes in 16 MiB");
    let is_refused = |done: Result<()>| assert!(matches!(done, Err(Error::DiskBudget { .. })), "{done:?}");
    is_refused(fixture.put(0, Some(b"other")));
    is_refused(fixture.keyspace.merge(&key(0), Merge::Append(b"more")));
    is_refused(fixture.keyspace.modify(&key(0), &mut |_, next| {
        next.push(1);
        UpdateAction::Store
    }));
    is_refused(fixture.keyspace.admit(Operation { key: &key(count), value: Some(b"new") }).map(|_| ()));
    (0..count).for_each(|number| assert_eq!(fixture.value(number), Some(value(number, 0))));
    // Deletes of any kind are taken, one after the other and more than the hot log has room for.
    fixture.keyspace.modify(&key(0), &mut |_, _| UpdateAction::Delete).unwrap();
    (1..count / 2).for_each(|number| fixture.put(number, None).unwrap());
    (0..count / 2).for_each(|number| assert_eq!(fixture.value(number), None));
    // There is room for as much as was deleted, but for a little.
    let back = count / 2 - count / 16;
    (0..back).for_each(|number| fixture.update(number, 1));
    (0..count).for_each(|number| {
        let wanted = if number < back { Some(1) } else { (number >= count / 2).then_some(0) };
        assert_eq!(fixture.value(number), wanted.map(|round| value(number, round)), "{number} of {count}");
    });
    assert!(fixture.most <= 16 << 20);
    let tables = fixture.disk.files().keys().filter(|file| matches!(file, FileId::Table { .. })).count();
    assert!(tables > 0);
}

/// A budget that old versions fill, on a disk that is full itself, so that nothing saves space: who writes is told, and
/// goes on when there is some again.
#[test]
#[expect(clippy::disallowed_methods, reason = "it may wait without end")]
fn nobody_waits_for_space_that_nothing_can_save() {
    const KEYS: u64 = 8_000;
    let (told, refusals) = channel();
    thread::spawn(move || {
        let mut fixture = Fixture::new(16 << 20);
        (0..4 * KEYS).for_each(|number| fixture.update(number % KEYS, number / KEYS));
        fixture.disk.space_limit(fixture.disk.space_used());
        let refusal = (0..4 * KEYS).find_map(|number| fixture.put(number % KEYS, Some(&value(number, 9))).err());
        let removed = fixture.put(1, None);
        fixture.disk.space_limit(u64::MAX);
        let later = (0..10).find(|_| fixture.put(2, Some(b"there is space")).is_ok());
        told.send((refusal, removed.err(), later, fixture.value(2))).unwrap();
    });
    let (refusal, removed, later, read) =
        refusals.recv_timeout(Duration::from_secs(60)).expect("nobody waits without end");
    assert!(refusal.as_ref().is_some_and(Error::is_no_space), "{refusal:?}");
    assert!(removed.is_none() || removed.as_ref().is_some_and(Error::is_no_space), "{removed:?}");
    assert!(later.is_some());
    assert_eq!(read.as_deref(), Some(&b"there is space"[..]));
}

/// A keyspace that is dropped while somebody waits for space.
#[test]
#[expect(clippy::disallowed_methods, reason = "it may wait without end")]
fn nobody_waits_for_space_of_a_keyspace_that_is_gone() {
    let mut fixture = Fixture::new(16 << 20);
    let mut count = 0;
    while fixture.put(count, Some(&value(count, 0))).is_ok() {
        count += 1;
    }
    let background = fixture.keyspace.background().clone();
    fixture.files.retire();
    let (told, answer) = channel();
    thread::spawn(move || told.send(background.call_for_write(0, true)));
    let answer = answer.recv_timeout(Duration::from_secs(60)).expect("nobody waits without end");
    assert!(matches!(answer, Err(Error::Closed { .. })), "{answer:?}");
}

/// Short of space, what is changed in place again and again is compacted before anybody pays for the space that it may
/// want.
#[test]
fn a_hot_log_does_not_keep_space_short() {
    const KEYS: u64 = 10_000;
    let mut fixture = Fixture::new(16 << 20);
    (0..KEYS).for_each(|number| fixture.update(number, 0));
    let mut shortest = 1.0_f64;
    for round in 0..20 {
        (0..300).for_each(|number| fixture.update(number, round));
        shortest = shortest.min(fixture.keyspace.background().compactor().shortage());
    }
    assert!(shortest < 0.75, "{shortest}");
}
