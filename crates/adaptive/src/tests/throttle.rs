//! The throttle: the share of the time in which a keyspace adapts (adaptive.md, "Controller").

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use ecotone_engine::contract::{Hint, Hintable, Ordered, Range};
use ecotone_substrate::clock::Clock;

use super::{
    controller::{range, shapes},
    fixture::{ALL, Fixture, Model, key, step},
};
use crate::AdaptiveOptions;

const KEYS: u32 = 4000;
const LOOK: u64 = 1_000_000;

/// A clock that advances at each reading, by a fixed wait and a fixed processor time, so that any work takes at least
/// that long. Its `sleep` does not wait.
#[derive(Debug)]
struct Looks {
    /// Nanoseconds of each reading.
    wait: u64,
    /// Nanoseconds of processor of each reading of the processor time.
    work: u64,
    now: AtomicU64,
    worked: AtomicU64,
    slept: AtomicU64,
    /// Signals the next reading of the processor time, which waits for an answer.
    meanwhile: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Looks {
    fn new(wait: u64, work: u64) -> Arc<Looks> {
        let [now, worked, slept] = [(); 3].map(|()| AtomicU64::new(0));
        Arc::new(Looks { wait, work, now, worked, slept, meanwhile: Mutex::default() })
    }
}

impl Clock for Looks {
    fn now(&self) -> u64 {
        self.now.fetch_add(self.wait, Relaxed)
    }

    fn random(&self) -> u64 {
        7
    }

    fn processor(&self) -> u64 {
        if let Some((begun, ended)) = self.meanwhile.lock().unwrap().take() {
            begun.send(()).unwrap();
            ended.recv_timeout(Duration::from_secs(20)).expect("nobody waits for what is chosen");
        }
        self.now();
        self.worked.fetch_add(self.work, Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        let slept = duration.as_nanos() as u64;
        self.now.fetch_add(slept, Relaxed);
        self.slept.fetch_add(slept, Relaxed);
    }
}

/// Waits until nothing is queued.
fn end(fixture: &Fixture) {
    while shapes(fixture).iter().any(|(shape, _)| shape.is_queued()) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Three runs.
fn layered(workers: usize, adapt: u8, clock: &Arc<Looks>) -> (Fixture, Model) {
    let options = AdaptiveOptions { adapt, ..AdaptiveOptions::default() };
    let (mut fixture, mut model) = (Fixture::by(workers, options, clock.clone()), Model::new());
    for round in 0..3_u8 {
        let numbers = (0..KEYS).filter(|number| number % 3 == u32::from(round) || round == 0);
        numbers.for_each(|number| fixture.put(&mut model, number, Some(&[round; 100])));
        fixture.flush();
    }
    (fixture, model)
}

/// Scans a range that should become pages, all from the disk.
fn scan(fixture: &Fixture, number: u32) {
    let mut cursor = fixture.keyspace.clone().cursor(range(1000 + number * 7 % 2000, KEYS));
    (0..20).for_each(|_| assert!(step(&mut *cursor, false).is_some()));
    drop(cursor);
    fixture.keyspace.lsm.forget_blocks();
}

/// Scans three runs until at least `least` conversion steps were made. Returns the nanoseconds of pause, and the number
/// of steps.
fn adapted(clock: &Arc<Looks>, least: u64) -> (Fixture, Model, u64, u64) {
    let (fixture, model) = layered(2, 10, clock);
    let rests = |fixture: &Fixture| (fixture.stat("ranges_to_pages"), clock.slept.load(Relaxed));
    let before = rests(&fixture).1;
    for number in (0..100_000).take_while(|_| rests(&fixture).0 < least) {
        scan(&fixture, number);
    }
    end(&fixture);
    let (pieces, slept) = rests(&fixture);
    assert!(pieces >= least);
    (fixture, model, slept - before, pieces)
}

/// A pause while other threads use the processors would help no one.
#[test]
fn it_rests_for_what_it_worked_and_not_for_what_it_waited() {
    let clock = Looks::new(20 * LOOK, LOOK);
    let (fixture, model, slept, pieces) = adapted(&clock, 1);
    // Pauses by wall-clock time would be a second per step, which is the maximum.
    assert!(slept > 0 && slept < pieces * 300 * LOOK, "{pieces} pieces, {slept} ns of rest");
    fixture.expect(&model);
}

#[test]
fn it_rests_for_the_rest_of_the_time() {
    let clock = Looks::new(LOOK, LOOK);
    let (fixture, model, slept, pieces) = adapted(&clock, 3);
    // The pause after the last step may not be over.
    assert!(slept >= (pieces - 1) * 9 * LOOK, "{pieces} pieces, {slept} ns of rest");
    fixture.expect(&model);
}

/// Gives a hint for a part of three runs. Returns the conversion steps, and the nanoseconds of pause.
fn hinted(adapt: u8) -> (u64, u64) {
    let clock = Looks::new(LOOK, LOOK);
    let (fixture, model) = layered(2, adapt, &clock);
    let before = clock.slept.load(Relaxed);
    fixture.keyspace.hint(&range(0, 900), Hint::ReadMostly).unwrap();
    end(&fixture);
    let range_size = fixture.keyspace.lsm.lsm().range_sizes().range_size(&key(0), &key(900));
    assert!(range_size.bytes == 0 && range_size.pages > 0, "{:?}", fixture.keyspace.shapes());
    fixture.expect(&model);
    (fixture.stat("ranges_to_pages"), clock.slept.load(Relaxed) - before)
}

#[test]
fn it_rests_long_for_a_long_piece() {
    let clock = Looks::new(200 * LOOK, 200 * LOOK);
    let (fixture, model, slept, pieces) = adapted(&clock, 2);
    assert!(slept >= (pieces - 1) * 9 * 200 * LOOK, "{pieces} pieces, {slept} ns of rest");
    fixture.expect(&model);
}

#[test]
fn it_rests_for_what_somebody_asks_for_unless_that_is_all_it_does() {
    let (pieces, slept) = hinted(10);
    assert!(pieces > 1 && slept >= (pieces - 1) * 9 * LOOK, "{pieces} pieces, {slept} ns of rest");
    let (pieces, slept) = hinted(0);
    assert!(pieces > 1 && slept == 0, "{pieces} pieces, {slept} ns of rest");
}

#[test]
fn it_chooses_the_more_seldom_the_longer_it_takes() {
    let clock = Looks::new(0, 50 * LOOK);
    let (mut fixture, mut model) = (Fixture::by(0, AdaptiveOptions::default(), clock.clone()), Model::new());
    // One memtable, so that there is no compaction.
    (0..100).for_each(|number| fixture.put(&mut model, number, Some(&[1; 100])));
    fixture.flush();
    let before = clock.worked.load(Relaxed);
    for number in 0..10_000 {
        clock.now.fetch_add(LOOK, Relaxed);
        assert!(step(&mut *fixture.keyspace.clone().cursor(range(number % 100, 100)), false).is_some());
        while fixture.environment.scheduler.run_one() {}
    }
    // The controller reads the processor time before and after a choice.
    let chosen = (clock.worked.load(Relaxed) - before) / (100 * LOOK);
    assert!((2..=10_000 / (32 * 50) + 1).contains(&chosen), "{chosen} times in 10 s, of which each takes 50 ms");
}

/// A choice may take long. A hint that comes meanwhile is set at once, and cancels the chosen task.
#[test]
fn a_hint_does_not_wait_for_what_is_chosen_and_comes_before_it() {
    let chosen = |said: Option<(Range, Hint)>| {
        let clock = Looks::new(0, 0);
        let (fixture, model) = layered(0, 10, &clock);
        (0..2000).for_each(|number| scan(&fixture, number));
        let run = |fixture: &Fixture| while fixture.environment.scheduler.run_one() {};
        run(&fixture);
        let ((begin, begun), (end_of, ended)) = (channel(), channel());
        *clock.meanwhile.lock().unwrap() = Some((begin, ended));
        thread::scope(|scope| {
            let fixture = &fixture;
            scope.spawn(move || {
                begun.recv_timeout(Duration::from_secs(20)).expect("nothing is chosen");
                said.into_iter().for_each(|(range, hint)| fixture.keyspace.hint(&range, hint).unwrap());
                end_of.send(()).unwrap();
            });
            clock.now.fetch_add(1000 * LOOK, Relaxed);
            scan(fixture, 0);
            run(fixture);
        });
        assert_eq!(shapes(&fixture).into_iter().find(|(shape, _)| shape.is_queued()), None);
        fixture.expect(&model);
        fixture.stat("ranges_to_pages")
    };
    assert!(chosen(None) > 0);
    assert_eq!(chosen(Some((ALL, Hint::WriteMostly))), 0);
    assert_eq!(chosen(Some((ALL, Hint::Auto))), 0, "it has to be lost anew");
    assert!(chosen(Some((range(2 * KEYS, 3 * KEYS), Hint::WriteMostly))) > 0, "that is about other keys");
}
