//! Job locks: which threads wait for a flush or a compaction, and the pauses of compaction jobs.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use ecotone_engine::contract::Engine;
use ecotone_substrate::{Seq, clock::Clock, limits::PAGE, memory::Component, scheduler::Priority, storage::FileId};
use ecotone_sys::primitive::Mutex;
use ecotone_testkit::{engine::stat, sim::SimClock};

use crate::{
    compaction::throttle::compaction_throttle::CompactionThrottle,
    table::IndexKind,
    tests::fixture::{Fixture, key},
    tuning::Tuning,
};

/// The first table, and an offset in it that a flush writes.
const FIRST: (FileId, u64) = (FileId::Table { keyspace: 3, number: 1 }, PAGE as u64);

/// Writes until there are this many memtables. Gives the number of records written.
fn fill(fixture: &Fixture, memtables: u64) -> u32 {
    let mut number = 0;
    while fixture.stat("memtables") < memtables {
        write(fixture, number);
        number += 1;
    }
    number
}

fn write(fixture: &Fixture, number: u32) {
    fixture.write(&key(number), Some(&[number as u8; 100]));
}

/// Waits until a condition holds, for ten seconds or so at most. Whether it holds.
fn comes(ready: impl Fn() -> bool) -> bool {
    (0..10_000).any(|_| {
        thread::sleep(Duration::from_millis(1));
        ready()
    })
}

#[test]
fn a_writer_that_waited_for_a_flush_which_made_room_makes_none() {
    let fixture = Fixture::new(1, IndexKind::Linear);
    let mut number = fill(&fixture, 3);
    while fixture.keyspace.lsm().current.get().active().filled()
        < fixture.keyspace.lsm().slabs.pool().full(fixture.keyspace.lsm().tuning.memtable)
    {
        write(&fixture, number);
        number += 1;
    }
    fixture.disk.hold(FIRST.0, FIRST.1);
    thread::scope(|scope| {
        let first = scope.spawn(|| write(&fixture, number));
        fixture.disk.wait_blocked(FIRST.0, FIRST.1);
        let second = scope.spawn(|| write(&fixture, number + 1));
        assert!(comes(|| fixture.keyspace.lsm().flusher.lock.has_waiters()), "there is room");
        fixture.disk.release(FIRST.0, FIRST.1);
        [first, second].into_iter().for_each(|writer| writer.join().unwrap());
    });
    assert_eq!((fixture.stat("flushes"), fixture.stat("memtables")), (1, 3));
    let has = fixture.keyspace.lsm().memtable_bytes() + fixture.keyspace.lsm().slabs.bytes();
    assert_eq!(fixture.environment.memory.used(&[Component::Memtable]), has, "the memory of what was flushed is free");
}

#[test]
fn memtables_that_wait_for_the_same_flush_leave_a_worker_free_and_are_flushed_after_it() {
    let fixture = Fixture::threaded(1, 2);
    fixture.disk.hold(FIRST.0, FIRST.1);
    fill(&fixture, 2);
    fixture.disk.wait_blocked(FIRST.0, FIRST.1);
    fill(&fixture, 3);
    let (scheduler, done) = (&fixture.environment.scheduler, Arc::new(AtomicBool::new(false)));
    let is_done = done.clone();
    // This job is queued behind the flush jobs.
    scheduler.spawn(Priority::Flush, "another keyspace's flush", move || done.store(true, Ordering::SeqCst));
    assert!(comes(|| is_done.load(Ordering::SeqCst)), "both workers wait for one flush");
    fixture.disk.release(FIRST.0, FIRST.1);
    assert!(comes(|| fixture.stat("memtables") == 1));
    assert_eq!(fixture.stat("flushes"), 2);
}

/// A thread holds the flush lock and does not flush the waiting memtable. The job that comes meanwhile only tries the
/// lock.
#[test]
fn whoever_gives_a_turn_back_sees_to_what_waits() {
    let fixture = Fixture::threaded(1, 2);
    let lsm = fixture.keyspace.lsm();
    let guard = lsm.flusher.lock.lock();
    fill(&fixture, 2);
    let scheduler = &fixture.environment.scheduler;
    assert!(comes(|| scheduler.debt() == 0), "the job waits in the turn");
    assert_eq!(fixture.stat("memtables"), 2);
    drop(guard);
    lsm.flush_if(|| false).unwrap();
    assert!(comes(|| fixture.stat("memtables") == 1));
    assert_eq!(fixture.stat("flushes"), 1);
}

#[test]
fn a_compaction_that_finds_another_at_it_takes_no_worker_and_comes_after_it() {
    let fixture = Fixture::threaded(1, 1);
    let lsm = fixture.keyspace.lsm();
    let guard = lsm.compactor.lock.lock();
    let mut number = 0;
    while !lsm.is_compaction_due() {
        (0..300).for_each(|_| {
            write(&fixture, number);
            number += 1;
        });
        fixture.flush();
    }
    let scheduler = &fixture.environment.scheduler;
    assert!(comes(|| scheduler.debt() == 0), "the job waits in the turn");
    assert_eq!(fixture.stat("compactions"), 0);
    lsm.release_compaction_lock(guard);
    assert!(comes(|| fixture.stat("compactions") > 0));
}

/// Lets time pass.
fn work(fixture: &Fixture, milliseconds: u64) {
    fixture.keyspace.lsm().files.context().shared.clock.sleep(Duration::from_millis(milliseconds));
}

/// Milliseconds that a job sleeps at a throttle check.
fn sleep(fixture: &Fixture, throttle: &mut CompactionThrottle<'_>) -> u64 {
    let clock = &fixture.keyspace.lsm().files.context().shared.clock;
    let before = clock.now();
    throttle.pause();
    (clock.now() - before) / 1_000_000
}

/// The same for a job that has worked for `milliseconds`.
fn sleep_after(fixture: &Fixture, milliseconds: u64) -> u64 {
    let mut throttle = CompactionThrottle::begin(fixture.keyspace.lsm());
    work(fixture, milliseconds);
    sleep(fixture, &mut throttle)
}

/// A job pauses less the later compaction is, and not at all while another thread waits for its lock or the keyspace is
/// idle (compaction-pace.md, invariant 1).
#[test]
fn a_job_sleeps_the_less_the_later_it_is_and_not_when_somebody_waits_or_nobody_is_in_the_way() {
    let fixture = Fixture::threaded(1, 1);
    let lsm = fixture.keyspace.lsm();
    // Holding the lock keeps compactions out.
    let guard = lsm.compactor.lock.lock();
    assert_eq!([4, 10, 20].map(|worked| sleep_after(&fixture, worked)), [12, 30, 50]);
    assert_eq!([60, 95, 200].map(|worked| sleep_after(&fixture, worked)), [40, 10, 0], "nobody uses it for 100 ms");
    let mut throttle = CompactionThrottle::begin(lsm);
    work(&fixture, 90);
    write(&fixture, 0);
    assert_eq!(sleep(&fixture, &mut throttle), 50);
    thread::scope(|scope| {
        let other = scope.spawn(|| drop(lsm.compactor.lock.lock()));
        assert!(comes(|| lsm.compactor.lock.has_waiters()));
        assert_eq!(sleep_after(&fixture, 10), 0);
        drop(guard);
        other.join().unwrap();
    });
    assert_eq!(sleep_after(&fixture, 10), 30);
    let _guard = lsm.compactor.lock.lock();
    for (runs, sleeps) in [(4, 12), (8, 0)] {
        while fixture.stat("runs") < runs {
            write(&fixture, runs as u32);
            fixture.flush();
        }
        assert_eq!(sleep_after(&fixture, 10), sleeps, "{runs} runs");
    }
}

/// A clock that runs an event at the next sleep.
struct Eventful {
    clock: SimClock,
    event: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl fmt::Debug for Eventful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clock.fmt(f)
    }
}

impl Clock for Eventful {
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn random(&self) -> u64 {
        self.clock.random()
    }

    fn processor(&self) -> u64 {
        self.clock.processor()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
        let event = self.event.lock().take();
        event.into_iter().for_each(|event| event());
    }
}

/// A sleeping job checks the debt again at each step of its sleep (compaction-pace.md, invariant 1).
#[test]
fn a_job_that_becomes_late_while_it_sleeps_goes_on() {
    let fixture = Arc::new(Fixture::threaded(1, 1));
    let clock = Arc::new(Eventful { clock: SimClock::new(1), event: Mutex::new(None) });
    let keyspace = fixture.another_by(clock.clone(), 4, Tuning::TINY);
    let fill = {
        let (fixture, keyspace) = (fixture.clone(), keyspace.clone());
        move |runs: u64| {
            while stat(&keyspace.stats(), "runs") < runs {
                fixture.write_to(&keyspace, &key(runs as u32), Some(&b"a value"[..]));
                keyspace.flush(Seq::MAX).unwrap();
            }
        }
    };
    let lsm = keyspace.lsm();
    let _guard = lsm.compactor.lock.lock();
    fill(4);
    for (runs, sleeps) in [(4, 25), (8, 10)] {
        let (mut throttle, fill) = (CompactionThrottle::begin(lsm), fill.clone());
        clock.clock.advance(20_000_000);
        *clock.event.lock() = Some(Box::new(move || fill(runs)));
        let before = clock.now();
        throttle.pause();
        assert_eq!((clock.now() - before) / 1_000_000, sleeps, "{runs} runs");
    }
}

#[test]
fn a_job_does_not_sleep_for_a_keyspace_that_is_gone_or_without_threads() {
    let fixture = Fixture::threaded(1, 1);
    fixture.keyspace.mark_dropped();
    assert_eq!((sleep_after(&fixture, 10), sleep_after(&Fixture::new(1, IndexKind::Linear), 10)), (0, 0));
    let fixture = Fixture::threaded(1, 1);
    fixture.environment.scheduler.stop();
    assert_eq!(sleep_after(&fixture, 10), 0);
}
