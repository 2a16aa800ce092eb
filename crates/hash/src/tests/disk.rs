//! Searches where most of the log has left memory.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use ecotone_substrate::{
    Error,
    health::Health,
    limits::PAGE,
    memory::Component,
    storage::{FileId, FileKind, Storage},
};
use ecotone_sys::chunk::Size;
use ecotone_testkit::sim::SimStorage;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::*;
use crate::{
    chains::{FoundIn, Seen},
    log::tests::files::LogDisk,
    multi_get::Search,
};

pub(super) struct Fixture {
    pub(super) log_disk: Arc<LogDisk>,
    pub(super) hash: Arc<Hash>,
}

impl EvictionTarget for LogDisk {
    fn write_out(&self, log: &HotLog, until: Address) -> Result<()> {
        log.write_out(&self.environment, until, &mut |from| self.next(from))?;
        log.sync(&self.environment)
    }
}

impl Fixture {
    pub(super) fn new(seed: u64, sizes: Sizes) -> Fixture {
        let log_disk = Arc::new(LogDisk::new(SimStorage::new(seed)));
        let hash = Hash::new(&Domain::new(), &log_disk.environment.memory, SEED, sizes).expect("there is memory");
        Fixture { log_disk, hash: Arc::new(hash) }
    }

    /// One whose frames leave memory where room is wanted.
    fn evicting(seed: u64, sizes: Sizes) -> Fixture {
        let (log_disk, domain) = (Arc::new(LogDisk::new(SimStorage::new(seed))), Domain::new());
        let log = HotLog::new(&domain, Address::FIRST, sizes.frames);
        let room = Reservations::new(&log_disk.environment.memory, log_disk.clone());
        let hash = Hash::of(&domain, SEED, log, Runs::default(), room, sizes).expect("there is memory");
        Fixture { log_disk, hash: Arc::new(hash) }
    }

    /// Frames wholly below `until` leave memory.
    pub(super) fn write_and_evict(&self, until: Address) {
        let done = self
            .hash
            .chains
            .log
            .write_and_evict(&self.log_disk.environment, until, &mut |from| self.log_disk.next(from));
        done.expect("the disk takes it");
    }

    /// All but the last `frames` frames leave memory.
    pub(super) fn keep(&self, frames: u64) {
        let until = self.hash.chains.log.tail().frame().saturating_sub(frames);
        if until > self.hash.chains.log.bounds().head().frame() {
            self.write_and_evict(Address::of_frame(until));
        }
    }

    /// Writes a key; where no frame is left, the oldest leaves memory.
    pub(super) fn write(&self, key: &[u8], value: Option<&[u8]>) {
        while let Err(error) = self.hash.put(Operation { key, value }) {
            assert!(matches!(error, Error::Memory { .. }), "{error}");
            let evicted =
                self.hash.chains.log.evict_oldest(&self.log_disk.environment, &mut |from| self.log_disk.next(from));
            evicted.expect("the disk takes it");
        }
    }

    pub(super) fn reads(&self) -> u64 {
        self.log_disk.disk.counters_of(FileKind::Segment).reads
    }
}

pub(super) fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Batches have three frames between them, and no other memory comes free.
#[test]
fn batches_go_on_with_what_their_own_reads_give_back() {
    const COUNT: u64 = 10_000;
    let fixture = Fixture::new(1, Sizes { bucket_bits: 12, frames: 4, copies: 0 });
    (0..COUNT).for_each(|number| fixture.write(&key(number), Some(&[number as u8; 100])));
    let lease = || fixture.log_disk.environment.memory.lease_essential(Component::Other, Size::Frame).ok();
    let mut taken: Vec<_> = std::iter::from_fn(lease).collect();
    taken.truncate(taken.len() - 3);
    let keys: Vec<_> = (0..COUNT / 2).step_by(7).map(key).collect();
    let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut found = 0;
                let storage = &*fixture.log_disk.environment.storage;
                fixture.hash.multi_get(storage, &slices, |_, value| found += usize::from(value.is_some())).unwrap();
                assert_eq!(found, slices.len());
            });
        }
    });
}

#[test]
fn what_left_memory_is_found_in_one_read() {
    const COUNT: u64 = 20_000;
    let fixture = Fixture::new(1, Sizes { bucket_bits: 12, frames: 4, copies: 0 });
    (0..COUNT).for_each(|number| fixture.write(&key(number), Some(&[number as u8; 100])));
    // Of every third the newest is another one, and of every fifth there is none any more.
    let newest = |number: u64| (!number.is_multiple_of(5)).then(|| number as u8 ^ u8::from(number.is_multiple_of(3)));
    for number in 0..COUNT {
        match number {
            _ if number % 5 == 0 => fixture.write(&key(number), None),
            _ if number % 3 == 0 => fixture.write(&key(number), Some(&[number as u8 ^ 1; 100])),
            _ => {}
        }
    }
    assert!(fixture.hash.chains.log.bounds().head() > Address::new(3 << 20));
    let before = fixture.reads();
    for number in 0..COUNT {
        assert_eq!(fixture.hash.value(&key(number)), newest(number).map(|byte| vec![byte; 100]));
    }
    let reads = fixture.reads() - before;
    assert!(reads > COUNT - 3_000 && reads <= COUNT + 2, "{reads} reads for {COUNT} keys");
    let before = fixture.reads();
    (COUNT..2 * COUNT).for_each(|number| assert_eq!(fixture.hash.value(&key(number)), None));
    assert!(fixture.reads() - before <= 2, "who is in no chain is looked for in no page");
    let keys: Vec<_> = (0..COUNT).map(key).collect();
    let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut times = vec![0; keys.len()];
    let asked = fixture.hash.multi_get(&*fixture.log_disk.environment.storage, &slices, |number, found| {
        let expected = newest(number as u64).map(|byte| [byte; 100]);
        assert_eq!(found, expected.as_ref().map(|value| &value[..]));
        times[number] += 1;
    });
    asked.unwrap();
    assert!(times.iter().all(|times| *times == 1));
}

/// Keys that have an entry together: some records of a chain are in memory, some on disk, and each search goes on to
/// its own key.
#[test]
fn chains_go_on_from_memory_to_the_disk() {
    let (crowds, mut model) = (crowds(4), BTreeMap::new());
    let fixture = Fixture::new(2, Sizes { bucket_bits: 0, frames: 8, copies: 0 });
    let mut random = SmallRng::seed_from_u64(2);
    for step in 0..40_000u64 {
        let key = &crowds[random.random_range(0..300)][random.random_range(0..4)];
        match random.random_range(0..10) {
            0..4 => {
                let value = vec![random.random(); random.random_range(0..60)];
                fixture.write(key, Some(&value));
                model.insert(key.clone(), value);
            }
            4 => {
                fixture.write(key, None);
                model.remove(key);
            }
            5 if step % 10 == 0 => {
                fixture.hash.freeze(1);
                if step % 100 == 0 {
                    fixture.keep(random.random_range(0..4));
                }
            }
            _ => assert_eq!(fixture.hash.value(key).as_ref(), model.get(key)),
        }
    }
    let end = fixture.hash.chains.log.close_page();
    fixture.hash.chains.log.freeze(end);
    let rest = Address::of_frame(end.frame());
    fixture.write_and_evict(rest);
    let before = fixture.reads();
    crowds[..300].iter().flatten().for_each(|key| assert_eq!(fixture.hash.value(key).as_ref(), model.get(key)));
    assert!(fixture.reads() > before + 60);
}

/// Many searches at once, whose pages come in any order.
#[test]
fn searches_side_by_side_find_what_single_ones_find() {
    const COUNT: u64 = 6_000;
    let fixture = Fixture::new(9, Sizes { bucket_bits: 4, frames: 4, copies: 0 });
    (0..COUNT).for_each(|number| fixture.write(&key(number), (number % 7 > 0).then_some(&[number as u8; 100])));
    let keys: Vec<_> = (0..COUNT + 500).rev().map(key).collect();
    let (mut beyond, mut value, mut found) = (Vec::new(), Vec::new(), vec![None; keys.len()]);
    for (number, bytes) in keys.iter().enumerate() {
        let key = fixture.hash.chains.key(bytes);
        match fixture.hash.chains.search_memory(&key, &mut value) {
            Ok(seen) => found[number] = seen.has_value().then(|| value.clone()),
            Err(at) => beyond.push(Search { number, key, beyond: at }),
        }
    }
    assert!(beyond.len() > 3_000);
    let before = fixture.reads();
    let storage = &*fixture.log_disk.environment.storage;
    let mut times = vec![0; keys.len()];
    let ended = &mut |search: &Search<'_>, seen: &Seen, value: &[u8]| {
        times[search.number] += 1;
        found[search.number] = seen.has_value().then(|| value.to_vec());
    };
    let sought = beyond.clone();
    fixture.hash.searcher().search_all(storage, sought, ended).unwrap();
    assert!(beyond.iter().all(|search| times[search.number] == 1) && fixture.reads() - before <= COUNT + 2);
    keys.iter().zip(found).for_each(|(key, found)| assert_eq!(found, fixture.hash.value(key)));
    // The first failure is told, and nothing is left in flight.
    fixture.log_disk.disk.fail_at(fixture.log_disk.disk.io_index() + 100, ErrorKind::Other);
    let mut ends = 0;
    let failed = fixture
        .hash
        .searcher()
        .search_all(storage, beyond, &mut |_, seen, _| ends += usize::from(matches!(seen.place, FoundIn::Disk(_))));
    assert!(failed.is_err() && (36..=300).contains(&ends), "{ends}");
    assert!(fixture.log_disk.environment.health.check().is_ok(), "a failed read loses nothing");
}

/// Threads with keys of their own in common chains, while frames leave memory all the time.
#[test]
fn threads_find_their_keys_while_frames_leave() {
    const THREADS: usize = 4;
    let (fixture, crowds) = (Fixture::new(3, Sizes { bucket_bits: 0, frames: 16, copies: 0 }), crowds(4));
    let all_there = Barrier::new(THREADS);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|number| {
                let (fixture, crowds, all_there) = (&fixture, &crowds, &all_there);
                scope.spawn(move || {
                    let (mut random, mut model) = (SmallRng::seed_from_u64(number as u64), BTreeMap::new());
                    all_there.wait();
                    for _ in 0..6_000 {
                        let key = &crowds[random.random_range(0..300)][number];
                        if random.random_bool(0.02) {
                            fixture.hash.freeze(2);
                            fixture.keep(1);
                        }
                        if random.random_bool(0.4) {
                            let value = vec![random.random(); random.random_range(0..900)];
                            fixture.write(key, Some(&value));
                            model.insert(key.clone(), value);
                        } else {
                            assert_eq!(fixture.hash.value(key).as_ref(), model.get(key));
                        }
                    }
                })
            })
            .collect();
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        ends.into_iter().for_each(|end| end.unwrap());
    });
    // Memory keeps two frames at most, which is not half of what the keys of one thread have.
    assert!(fixture.reads() > 5_000, "{} reads", fixture.reads());
}

/// Eight threads write and read keys of their own, many times what is in memory. (In the authors' code several sessions
/// spin.) It ends in ten seconds.
fn eight_threads(fixture: Fixture, write: impl Fn(&Fixture, u64, &[u8]) + Send + Sync + 'static) {
    const THREADS: u64 = 8;
    let turns = move |fixture: &Fixture, thread: u64| {
        for turn in 0..600 {
            let number = THREADS * (turn % 40) + thread;
            write(fixture, number, &vec![number as u8; 300 + turn as usize]);
            let before = THREADS * ((turn + 7) % 40) + thread;
            let expected = if turn < 40 && (turn + 7) % 40 > turn { None } else { Some(before as u8) };
            assert_eq!(fixture.hash.value(&key(before)).map(|value| value[0]), expected);
        }
    };
    let (done, ended) = channel();
    #[expect(clippy::disallowed_methods, reason = "a scope waits for threads that never end")]
    let working = thread::spawn(move || {
        thread::scope(|scope| {
            let (fixture, turns) = (&fixture, &turns);
            (0..THREADS).for_each(|thread| _ = scope.spawn(move || turns(fixture, thread)));
        });
        assert!(fixture.hash.chains.log.tail() > Address::new(2 << 20));
        done.send(()).expect("it is waited for");
    });
    assert_ne!(ended.recv_timeout(Duration::from_secs(10)), Err(RecvTimeoutError::Timeout), "they spin");
    working.join().unwrap();
}

/// The log's memory is one frame, which all want to have filled, written and emptied all the time.
#[test]
fn eight_sessions_pass_through_one_frame_without_a_spin() {
    let fixture = Fixture::new(8, Sizes { bucket_bits: 6, frames: 1, copies: 0 });
    eight_threads(fixture, |fixture, number, value| fixture.write(&key(number), Some(value)));
}

/// The engine makes room by itself, which takes a frame more.
#[test]
fn eight_sessions_pass_through_two_frames_without_a_spin() {
    let fixture = Fixture::evicting(8, Sizes { bucket_bits: 6, frames: 2, copies: 0 });
    eight_threads(fixture, |fixture, number, value| fixture.hash.set(&key(number), value));
}

/// The same with what admission takes, which is more than two frames for eight.
#[test]
fn eight_sessions_pass_through_the_frames_of_a_logged_keyspace_without_a_spin() {
    let fixture = Fixture::evicting(8, Sizes { bucket_bits: 6, frames: 4, copies: 0 });
    let (health, sequence) = (Health::default(), AtomicU64::new(0));
    eight_threads(fixture, move |fixture, number, value| {
        let key = key(number);
        let operation = Operation { key: &key, value: Some(value) };
        let credit = fixture.hash.reservations.admit(&fixture.hash.chains, operation).expect("frames leave memory");
        fixture.hash.apply(sequence.fetch_add(1, Ordering::Relaxed), operation, &health);
        fixture.hash.reservations.give_back(credit);
    });
}

#[test]
fn a_damaged_page_is_an_error_for_its_keys_alone() {
    let fixture = Fixture::new(6, Sizes { bucket_bits: 10, frames: 4, copies: 0 });
    (0..5_000).for_each(|number| fixture.write(&key(number), Some(&[number as u8; 100])));
    let file = FileId::Segment { keyspace: 3, number: 0 };
    fixture.log_disk.disk.flip_bit(file, 3 * PAGE as u64 + 777, 3);
    let mut damaged = 0;
    for number in 0..5_000 {
        let mut value = Vec::new();
        match fixture.hash.get_into(&key(number), &mut value) {
            Ok(found) => assert!(found && value == [number as u8; 100]),
            Err(error) => {
                assert!(error.is_corruption() && error.to_string().contains("segment.3.0"), "{error}");
                damaged += 1;
            }
        }
    }
    assert_eq!(damaged, 31);
}
