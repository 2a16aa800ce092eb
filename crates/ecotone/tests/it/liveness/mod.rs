//! Every call returns: with an answer, or with an error that says what to do (`docs/design/waiting.md`).
//!
//! An *episode* is a database with a small memory budget that many threads use in every possible way: iterators that
//! stay open, batches of every shape, closures that call the database, concurrent flushes and checks, on a disk that is
//! full now and then. Then it is closed and reopened with other budgets. The test judges time, and checks that no value
//! belongs to another key. Each call, and the episode as a whole, must end within a bound. Otherwise a watchdog prints
//! the current call of each thread and its start, and the stacks of all threads.
//!
//! The disk is the simulated one, the workers and the clock are those of the product. `ECOTONE_LIVENESS=N` sets the
//! number of episodes of each engine (`just liveness`), `ECOTONE_SEED` the first one. A seed gives the calls; the
//! schedule is the machine's.

mod calls;
mod watch;

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ecotone::{
    Database, Engine, Error, HashKeyspaceOptions, KeyspaceOptions, Result,
    internal::{
        Components, adaptive::AdaptiveFamily, engine::contract::EngineFactory, hash::HashFamily, lsm::LsmFamily,
        substrate::clock::SystemClock, tree::TreeFamily,
    },
};
use ecotone_testkit::sim::SimStorage;
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::IndexedRandom};

use self::{calls::Caller, watch::Watch};
use crate::either::{Either, either};

const MIB: usize = 1 << 20;

/// The time bounds of a database's calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The longest call.
    pub(crate) call: Duration,
    /// The longest episode.
    pub(crate) episode: Duration,
}

#[cfg(not(feature = "bugs"))]
/// Bounds that a busy machine of two cores keeps with a test build. A hanging or crawling call is far beyond them.
const BOUNDS: Bounds = Bounds { call: Duration::from_secs(20), episode: Duration::from_secs(90) };

/// The shape of an episode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) engine: &'static str,
    /// Threads in each session.
    threads: usize,
    /// Calls of all threads in a session.
    calls: usize,
    sessions: usize,
    /// Whether the disk is full now and then.
    full_disk: bool,
    /// Whether threads do little else than one kind of call.
    focus: Option<calls::Focus>,
}

impl Shape {
    fn drawn(engine: &'static str, random: &mut SmallRng) -> Shape {
        let threads = *[1, 2, 4, 8, 16, 48, 128].choose(random).expect("there are some");
        let focus = random.random_bool(0.5).then(|| *calls::Focus::ALL.choose(random).expect("there are some"));
        Shape { engine, threads, calls: 900, sessions: 3, full_disk: random.random_ratio(1, 3), focus }
    }
}

/// Runs the episodes of these seeds.
///
/// # Errors
/// A call that did not end, or a wrong answer.
pub(crate) fn run(
    engine: &'static str,
    seeds: std::ops::Range<u64>,
    bounds: Bounds,
) -> std::result::Result<(), String> {
    for seed in seeds {
        let mut random = SmallRng::seed_from_u64(seed);
        let shape = Shape::drawn(engine, &mut random);
        let watch = Watch::new(shape.threads + 1, bounds);
        let episode = thread::Builder::new().name("episode".into()).spawn({
            let watch = watch.clone();
            move || episode(shape, random, &watch)
        });
        let episode = episode.expect("there is a thread");
        // A hanging thread is left behind.
        let what = |wrong: String| {
            format!("{engine}, liveness, seed {seed} (the schedule is the machine's), {shape:?}: {wrong}")
        };
        watch.over(&|| episode.is_finished()).map_err(what)?;
        episode.join().unwrap_or_else(|panic| Err(format!("a panic: {}", told_by(&*panic)))).map_err(what)?;
        println!("{shape:?}, seed {seed}: {:.1} s; {}", watch.elapsed().as_secs_f64(), watch.summary());
    }
    Ok(())
}

fn told_by(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied()).unwrap_or("of no text")
}

fn episode(shape: Shape, mut random: SmallRng, watch: &Arc<Watch>) -> std::result::Result<(), String> {
    let disk = SimStorage::new(random.random());
    for session in 0..shape.sessions {
        let budget = *[16, 17, 20, 24, 32, 64, 256].choose(&mut random).expect("there are some") * MIB;
        watch.note(shape.threads, &format!("life {session}: opening with {} MiB", budget / MIB));
        let database = open(&disk, budget).map_err(|error| format!("opening failed: {error}"))?;
        let lived = live(shape, &database, &disk, &mut random, watch);
        disk.space_limit(u64::MAX);
        lived.map_err(|wrong| format!("life {session} with {} MiB: {wrong}", budget / MIB))?;
        watch.note(shape.threads, &format!("life {session}: verify"));
        for (name, check) in database.verify().map_err(|error| format!("verify failed: {error}"))? {
            if !check.problems.is_empty() {
                return Err(format!("keyspace {name}: {:?}", check.problems));
            }
        }
        watch.note(shape.threads, &format!("life {session}: closing"));
        database.close().map_err(|error| format!("closing failed: {error}"))?;
    }
    Ok(())
}

/// A database with the workers and the clock of the product.
pub(crate) fn open(disk: &SimStorage, budget: usize) -> Result<Database> {
    let tree = TreeFamily::default();
    let lsm = LsmFamily::default().behind(Arc::new(tree.clone()));
    let adaptive = AdaptiveFamily::beside(&lsm, &tree);
    let families: Vec<Arc<dyn EngineFactory>> =
        vec![Arc::new(tree), Arc::new(lsm), Arc::new(HashFamily::default()), Arc::new(adaptive)];
    let parts =
        Components { storage: Arc::new(disk.clone()), clock: Arc::new(SystemClock::default()), workers: 4, families };
    Database::builder("simulated").memory_budget(budget).open_parts(parts)
}

/// A keyspace of an engine.
pub(crate) fn keyspace(database: &Database, name: &str, engine: &str, logged: bool) -> Result<Either> {
    if engine == "hash" {
        let options = HashKeyspaceOptions::default();
        let options = if logged { options } else { options.unlogged() };
        return database.hash_keyspace(name, options).map(Either::Hashed);
    }
    let engine = match engine {
        "tree" => Engine::Tree,
        "lsm" => Engine::Lsm,
        _ => Engine::Adaptive,
    };
    let options = KeyspaceOptions::default().engine(engine);
    let options = if logged { options } else { options.unlogged() };
    database.keyspace(name, options).map(Either::Ordered)
}

fn live(
    shape: Shape,
    database: &Database,
    disk: &SimStorage,
    random: &mut SmallRng,
    watch: &Arc<Watch>,
) -> std::result::Result<(), String> {
    let made =
        |name, logged| keyspace(database, name, shape.engine, logged).map_err(|error| format!("{name}: {error}"));
    let keyspaces = [made("logged", true)?, made("unlogged", false)?, made("other", true)?];
    let (over, calls) = (AtomicBool::new(false), shape.calls.div_ceil(shape.threads));
    watch.note(shape.threads, "the threads make their calls");
    thread::scope(|scope| {
        let threads: Vec<_> = (0..shape.threads)
            .map(|number| {
                let seed = random.random();
                let caller = Caller::new(number, seed, database, &keyspaces, shape, watch);
                scope.spawn(move || caller.make(calls))
            })
            .collect();
        let filler = shape.full_disk.then(|| scope.spawn(|| fill_up(disk, &over, random.random())));
        let ended: std::result::Result<Vec<()>, String> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        over.store(true, Ordering::SeqCst);
        filler.into_iter().for_each(|filler| filler.join().expect("it does not panic"));
        ended.map(drop)
    })?;
    // Once the disk has space again, writes succeed again.
    disk.space_limit(u64::MAX);
    for keyspace in &keyspaces {
        watch.note(shape.threads, "a write after all");
        either!(keyspace, keyspace => written_at_last(|| keyspace.insert(calls::key(0), calls::value(0, 100)), watch))?;
    }
    database.failure().map_or(Ok(()), |failure| Err(format!("writing has stopped: {failure}")))
}

/// A write that may fail for a moment for lack of space, until the next space check.
fn written_at_last(write: impl Fn() -> Result<()>, watch: &Watch) -> std::result::Result<(), String> {
    let began = Instant::now();
    loop {
        match write() {
            Ok(()) => return Ok(()),
            Err(Error::NoSpace { .. } | Error::Memory { .. }) if began.elapsed() < watch.bounds().call => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(format!("a write after all was refused: {error}")),
        }
    }
}

/// Fills the disk now and then.
fn fill_up(disk: &SimStorage, over: &AtomicBool, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    while !over.load(Ordering::SeqCst) {
        disk.space_limit(disk.space_used() + random.random_range(0..8 * MIB as u64));
        thread::sleep(Duration::from_millis(random.random_range(1..300)));
        disk.space_limit(u64::MAX);
        thread::sleep(Duration::from_millis(random.random_range(1..300)));
    }
}

/// Episodes of each engine.
#[cfg(not(feature = "bugs"))]
fn episodes() -> std::ops::Range<u64> {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let first = number("ECOTONE_SEED", 1);
    first..first + number("ECOTONE_LIVENESS", 1)
}

#[cfg(not(feature = "bugs"))]
fn all_return(engine: &'static str) {
    run(engine, episodes(), BOUNDS).unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[cfg(not(feature = "bugs"))]
#[test]
#[ignore = "long"]
fn every_call_of_a_tree_returns() {
    all_return("tree");
}

#[cfg(not(feature = "bugs"))]
#[test]
#[ignore = "long"]
fn every_call_of_a_hash_keyspace_returns() {
    all_return("hash");
}

#[cfg(not(feature = "bugs"))]
#[test]
#[ignore = "long"]
fn every_call_of_an_lsm_keyspace_returns() {
    all_return("lsm");
}

#[cfg(not(feature = "bugs"))]
#[test]
#[ignore = "long"]
fn every_call_of_an_adaptive_keyspace_returns() {
    all_return("adaptive");
}
