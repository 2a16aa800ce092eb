//! How much of the time a keyspace adapts by itself (decision 14, "Rate").

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use ecotone_substrate::clock::Clock;

use super::{
    upkeep::{range, shapes},
    world::{ALL, Model, World, key, step},
};
use crate::{
    adaptive::AdaptiveOptions,
    engine::{Hint, Ordered, Range},
};

const KEYS: u32 = 4000;
const LOOK: u64 = 1_000_000;

/// Goes on by some milliseconds with each look, of which some are of processor, so that this is what any work takes at
/// least. Nobody waits for it.
#[derive(Debug)]
struct Looks {
    /// Nanoseconds of the clock.
    wait: u64,
    /// And of processor.
    work: u64,
    now: AtomicU64,
    worked: AtomicU64,
    slept: AtomicU64,
    /// Who is told when it is looked at the time of processor, and is waited for.
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
fn end(world: &World) {
    while shapes(world).iter().any(|(shape, _)| shape.starts_with("to be")) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Three runs.
fn layered(workers: usize, adapt: u8, clock: &Arc<Looks>) -> (World, Model) {
    let options = AdaptiveOptions { adapt, ..AdaptiveOptions::default() };
    let (mut world, mut model) = (World::by(workers, options, clock.clone()), Model::new());
    for round in 0..3_u8 {
        let numbers = (0..KEYS).filter(|number| number % 3 == u32::from(round) || round == 0);
        numbers.for_each(|number| world.put(&mut model, number, Some(&[round; 100])));
        world.flush();
    }
    (world, model)
}

/// A scan of what would be pages, all of which is read from the disk.
fn scan(world: &World, number: u32) {
    let mut cursor = world.keyspace.clone().cursor(range(1000 + number * 7 % 2000, KEYS));
    (0..20).for_each(|_| assert!(step(&mut *cursor, false).is_some()));
    drop(cursor);
    world.keyspace.lsm.forget_blocks();
}

/// Three runs of which scans want a half in pages. Nanoseconds that it rested for so many pieces at least, and how many
/// it made.
fn adapted(clock: &Arc<Looks>, least: u64) -> (World, Model, u64, u64) {
    let (world, model) = layered(2, 10, clock);
    let rests = |world: &World| (world.stat("absorbed_pieces"), clock.slept.load(Relaxed));
    let before = rests(&world).1;
    for number in (0..100_000).take_while(|_| rests(&world).0 < least) {
        scan(&world, number);
    }
    end(&world);
    let (pieces, slept) = rests(&world);
    assert!(pieces >= least);
    (world, model, slept - before, pieces)
}

/// While others have the processors nobody is spared by its rest.
#[test]
fn it_rests_for_what_it_worked_and_not_for_what_it_waited() {
    let clock = Looks::new(20 * LOOK, LOOK);
    let (world, model, slept, pieces) = adapted(&clock, 1);
    // By the clock it would be a second for each, which is the most.
    assert!(slept > 0 && slept < pieces * 300 * LOOK, "{pieces} pieces, {slept} ns of rest");
    world.expect(&model);
}

#[test]
fn it_rests_for_the_rest_of_the_time() {
    let clock = Looks::new(LOOK, LOOK);
    let (world, model, slept, pieces) = adapted(&clock, 3);
    // After the last one it may still be at rest.
    assert!(slept >= (pieces - 1) * 9 * LOOK, "{pieces} pieces, {slept} ns of rest");
    world.expect(&model);
}

/// Three runs of which somebody wants a part in pages: pieces, and nanoseconds that it rested for them.
fn hinted(adapt: u8) -> (u64, u64) {
    let clock = Looks::new(LOOK, LOOK);
    let (world, model) = layered(2, adapt, &clock);
    let before = clock.slept.load(Relaxed);
    world.keyspace.hint(&range(0, 900), Hint::ReadMostly).unwrap();
    end(&world);
    let counted = world.keyspace.lsm.lsm().counted(&key(0), &key(900));
    assert!(counted.bytes == 0 && counted.pages > 0, "{:?}", world.keyspace.shapes());
    world.expect(&model);
    (world.stat("absorbed_pieces"), clock.slept.load(Relaxed) - before)
}

#[test]
fn it_rests_long_for_a_long_piece() {
    let clock = Looks::new(200 * LOOK, 200 * LOOK);
    let (world, model, slept, pieces) = adapted(&clock, 2);
    assert!(slept >= (pieces - 1) * 9 * 200 * LOOK, "{pieces} pieces, {slept} ns of rest");
    world.expect(&model);
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
    let (mut world, mut model) = (World::by(2, AdaptiveOptions::default(), clock.clone()), Model::new());
    // One memtable, so that nothing is compacted.
    (0..100).for_each(|number| world.put(&mut model, number, Some(&[1; 100])));
    world.flush();
    let before = clock.worked.load(Relaxed);
    for number in 0..10_000 {
        clock.now.fetch_add(LOOK, Relaxed);
        assert!(step(&mut *world.keyspace.clone().cursor(range(number % 100, 100)), false).is_some());
        if number % 100 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    // It looks at the clock before and after.
    let chosen = (clock.worked.load(Relaxed) - before) / (100 * LOOK);
    assert!((1..=10_000 / (32 * 50) + 1).contains(&chosen), "{chosen} times in 10 s, of which each takes 50 ms");
}

/// To choose may take long. What somebody says meanwhile is said at once, and what was chosen of it before is not done.
#[test]
fn a_hint_does_not_wait_for_what_is_chosen_and_comes_before_it() {
    let chosen = |said: Option<(Range, Hint)>| {
        let clock = Looks::new(0, 0);
        let (world, model) = layered(0, 10, &clock);
        (0..2000).for_each(|number| scan(&world, number));
        let run = |world: &World| while world.environment.scheduler.run_one() {};
        run(&world);
        let ((begin, begun), (end_of, ended)) = (channel(), channel());
        *clock.meanwhile.lock().unwrap() = Some((begin, ended));
        thread::scope(|scope| {
            let world = &world;
            scope.spawn(move || {
                begun.recv_timeout(Duration::from_secs(20)).expect("nothing is chosen");
                said.into_iter().for_each(|(range, hint)| world.keyspace.hint(&range, hint).unwrap());
                end_of.send(()).unwrap();
            });
            clock.now.fetch_add(1000 * LOOK, Relaxed);
            scan(world, 0);
            run(world);
        });
        assert_eq!(shapes(&world).into_iter().find(|(shape, _)| shape.starts_with("to be")), None);
        world.expect(&model);
        world.stat("absorbed_pieces")
    };
    assert!(chosen(None) > 0);
    assert_eq!(chosen(Some((ALL, Hint::WriteMostly))), 0);
    assert_eq!(chosen(Some((ALL, Hint::Auto))), 0, "it has to be lost anew");
    assert!(chosen(Some((range(2 * KEYS, 3 * KEYS), Hint::WriteMostly))) > 0, "that is about other keys");
}
