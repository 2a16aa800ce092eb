//! Who waits for a flush, and who does not.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use ecotone_substrate::{Seq, clock::Clock, limits::PAGE, memory::Component, scheduler::Priority, storage::FileId};
use ecotone_sys::primitive::Mutex;
use ecotone_testkit::sim::SimClock;

use super::world::{World, key};
use crate::{
    engine::Engine,
    lsm::{compact::rate::Rate, family::Sizes, table::Kind},
    tests::stat,
};

/// The first table, and a place in it that a flush writes.
const FIRST: (FileId, u64) = (FileId::Table { keyspace: 3, number: 1 }, PAGE as u64);

/// Writes until there are so many memtables. Gives how many records that took.
fn fill(world: &World, memtables: u64) -> u32 {
    let mut number = 0;
    while world.stat("memtables") < memtables {
        write(world, number);
        number += 1;
    }
    number
}

fn write(world: &World, number: u32) {
    world.write(&key(number), Some(&[number as u8; 100]));
}

/// Waits until it is so, for some ten seconds at most. Whether it is.
fn comes(ready: impl Fn() -> bool) -> bool {
    (0..10_000).any(|_| {
        thread::sleep(Duration::from_millis(1));
        ready()
    })
}

#[test]
fn a_writer_that_waited_for_a_flush_which_made_room_makes_none() {
    let world = World::new(1, Kind::Linear);
    let mut number = fill(&world, 3);
    while world.keyspace.lsm().present.get().active().filled()
        < world.keyspace.lsm().pool.full(world.keyspace.lsm().sizes.memtable)
    {
        write(&world, number);
        number += 1;
    }
    world.disk.hold(FIRST.0, FIRST.1);
    thread::scope(|scope| {
        let first = scope.spawn(|| write(&world, number));
        world.disk.wait_blocked(FIRST.0, FIRST.1);
        let second = scope.spawn(|| write(&world, number + 1));
        thread::sleep(Duration::from_millis(50));
        assert!(!second.is_finished(), "there is no room");
        world.disk.release(FIRST.0, FIRST.1);
        [first, second].into_iter().for_each(|writer| writer.join().unwrap());
    });
    assert_eq!((world.stat("flushes"), world.stat("memtables")), (1, 3));
    let has = world.keyspace.lsm().memtable_bytes() + world.keyspace.lsm().room.bytes();
    assert_eq!(world.environment.memory.used(&[Component::Memtable]), has, "the memory of what was flushed is free");
}

#[test]
fn memtables_that_wait_for_the_same_flush_leave_a_worker_free_and_are_flushed_after_it() {
    let world = World::threaded(1, 2);
    world.disk.hold(FIRST.0, FIRST.1);
    fill(&world, 2);
    world.disk.wait_blocked(FIRST.0, FIRST.1);
    fill(&world, 3);
    let (scheduler, done) = (&world.environment.scheduler, Arc::new(AtomicBool::new(false)));
    let is_done = done.clone();
    // Behind the calls for flushes.
    scheduler.spawn(Priority::Flush, "another keyspace's flush", move || done.store(true, Ordering::SeqCst));
    assert!(comes(|| is_done.load(Ordering::SeqCst)), "both workers wait for one flush");
    world.disk.release(FIRST.0, FIRST.1);
    assert!(comes(|| world.stat("memtables") == 1));
    assert_eq!(world.stat("flushes"), 2);
}

/// The turn is held by somebody who does not flush what waits; the job that comes meanwhile only tries.
#[test]
fn whoever_gives_a_turn_back_sees_to_what_waits() {
    let world = World::threaded(1, 2);
    let lsm = world.keyspace.lsm();
    let turn = lsm.flushing.lock();
    fill(&world, 2);
    let scheduler = &world.environment.scheduler;
    assert!(comes(|| scheduler.debt() == 0), "the job waits in the turn");
    assert_eq!(world.stat("memtables"), 2);
    drop(turn);
    lsm.flush_if(|| false).unwrap();
    assert!(comes(|| world.stat("memtables") == 1));
    assert_eq!(world.stat("flushes"), 1);
}

#[test]
fn a_compaction_that_finds_another_at_it_takes_no_worker_and_comes_after_it() {
    let world = World::threaded(1, 1);
    let lsm = world.keyspace.lsm();
    let turn = lsm.compacting.lock();
    let mut number = 0;
    while !lsm.present.get().version.is_due(lsm.sizes.level_0, lsm.small()) {
        (0..300).for_each(|_| {
            write(&world, number);
            number += 1;
        });
        world.flush();
    }
    let scheduler = &world.environment.scheduler;
    assert!(comes(|| scheduler.debt() == 0), "the job waits in the turn");
    assert_eq!(world.stat("compactions"), 0);
    lsm.end_turn(turn);
    assert!(comes(|| world.stat("compactions") > 0));
}

/// Has so much time pass.
fn work(world: &World, milliseconds: u64) {
    world.keyspace.lsm().files.context().shared.clock.sleep(Duration::from_millis(milliseconds));
}

/// Milliseconds that a job sleeps at a look.
fn sleep(world: &World, rate: &mut Rate<'_>) -> u64 {
    let clock = &world.keyspace.lsm().files.context().shared.clock;
    let before = clock.now();
    rate.rest();
    (clock.now() - before) / 1_000_000
}

/// The same of one that was at work for so many.
fn sleep_after(world: &World, milliseconds: u64) -> u64 {
    let mut rate = Rate::begin(world.keyspace.lsm());
    work(world, milliseconds);
    sleep(world, &mut rate)
}

/// Decision 16, invariant 10.
#[test]
fn a_job_sleeps_the_less_the_later_it_is_and_not_when_somebody_waits_or_nobody_is_in_the_way() {
    let world = World::threaded(1, 1);
    let lsm = world.keyspace.lsm();
    // So that nothing is compacted in between.
    let turn = lsm.compacting.lock();
    assert_eq!([4, 10, 20].map(|worked| sleep_after(&world, worked)), [12, 30, 50]);
    assert_eq!([60, 95, 200].map(|worked| sleep_after(&world, worked)), [40, 10, 0], "nobody uses it for 100 ms");
    let mut rate = Rate::begin(lsm);
    work(&world, 90);
    write(&world, 0);
    assert_eq!(sleep(&world, &mut rate), 50);
    thread::scope(|scope| {
        let other = scope.spawn(|| drop(lsm.compacting.lock()));
        assert!(comes(|| lsm.compacting.is_wanted()));
        assert_eq!(sleep_after(&world, 10), 0);
        drop(turn);
        other.join().unwrap();
    });
    assert_eq!(sleep_after(&world, 10), 30);
    let _turn = lsm.compacting.lock();
    for (runs, sleeps) in [(4, 12), (8, 0)] {
        while world.stat("runs") < runs {
            write(&world, runs as u32);
            world.flush();
        }
        assert_eq!(sleep_after(&world, 10), sleeps, "{runs} runs");
    }
}

/// By this something happens as soon as somebody sleeps.
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

/// Decision 16, invariant 10: it looks again at each step.
#[test]
fn a_job_that_becomes_late_while_it_sleeps_goes_on() {
    let world = Arc::new(World::threaded(1, 1));
    let clock = Arc::new(Eventful { clock: SimClock::new(1), event: Mutex::new(None) });
    let keyspace = world.another_by(clock.clone(), 4, Sizes::TINY);
    let fill = {
        let (world, keyspace) = (world.clone(), keyspace.clone());
        move |runs: u64| {
            while stat(&keyspace.stats(), "runs") < runs {
                world.write_to(&keyspace, &key(runs as u32), Some(&b"a value"[..]));
                keyspace.flush(Seq::MAX).unwrap();
            }
        }
    };
    let lsm = keyspace.lsm();
    let _turn = lsm.compacting.lock();
    fill(4);
    for (runs, sleeps) in [(4, 25), (8, 10)] {
        let (mut rate, fill) = (Rate::begin(lsm), fill.clone());
        clock.clock.advance(20_000_000);
        *clock.event.lock() = Some(Box::new(move || fill(runs)));
        let before = clock.now();
        rate.rest();
        assert_eq!((clock.now() - before) / 1_000_000, sleeps, "{runs} runs");
    }
}

#[test]
fn a_job_does_not_sleep_for_a_keyspace_that_is_gone_or_without_threads() {
    let world = World::threaded(1, 1);
    world.keyspace.retire();
    assert_eq!((sleep_after(&world, 10), sleep_after(&World::new(1, Kind::Linear), 10)), (0, 0));
    let world = World::threaded(1, 1);
    world.environment.scheduler.stop();
    assert_eq!(sleep_after(&world, 10), 0);
}
