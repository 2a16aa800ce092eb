//! A crew: a few threads that make a few calls each on pages that are about to change. Every history is judged.
//!
//! The suite is made for tools that choose the order in which threads run (`docs/reliability.md`, "Interleavings"): a
//! crew is short, and every wait in it goes through [`primitive`](ecotone_sys::primitive). It works with threads of the
//! operating system as well.

use std::collections::BTreeMap;

use ecotone_substrate::{Result, storage::FileId};
use ecotone_sys::primitive::thread;
use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::{
    Counters, Opener, Store, Verdict, guarded,
    history::{Call, Caller, Event, Mix, Played, Registers, Ticks, Value, joined, linearizable, survives},
    recovery::ending,
    tally::{self, Answered, Merger, Tallies},
    verified,
};
use crate::{
    model::Level,
    sim::{Crash, SimStorage},
};

/// What a thread of a crew does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Gets, one key or several.
    Reader,
    /// Scans in both directions; walks where keys have no order.
    Scanner,
    /// Puts and deletes, buffered and synced.
    Writer,
    /// Batches over both keyspaces.
    Batcher,
    /// Updates, and compare-and-swaps that expect the value that was seen last.
    Updater,
    /// Adds to counters and appends to lists.
    Merger,
    /// Flushes, which end with a checkpoint.
    Flusher,
    /// Makes caches evict clean records.
    Evicter,
    /// Repeatedly writes a record, flushes it to its page, and has it evicted.
    Churner,
    /// Alternates between hinting that all keys are read and that they are written. Each hint is followed by background
    /// jobs, because most hints would be replaced otherwise before they are followed.
    Hinter,
    /// Repeatedly creates a keyspace of its own, writes into it and drops it.
    Dropper,
}

/// Threads, and how their run ends.
#[derive(Debug, Clone, Copy)]
pub struct Crew {
    /// The threads with their numbers of calls.
    pub threads: &'static [(Role, u32)],
    /// Keys that are written.
    pub registers: usize,
    /// Whether the database is crashed at the end, and the recovered content judged too.
    pub crash: bool,
}

/// Records that surround the keys.
const COLD: u32 = 16;
/// The first number of the keyspaces that are dropped, one for each thread.
const DROPPED: u32 = 10;
/// Records of a keyspace that is dropped.
const SHORT_LIVED: u8 = 8;

impl Role {
    fn mix(self) -> Mix {
        match self {
            Role::Reader => Mix { get: 3, multi_get: 1, ..Mix::NONE },
            Role::Scanner => Mix { scan: 1, ..Mix::NONE },
            Role::Writer | Role::Churner => Mix { write: 1, ..Mix::NONE },
            Role::Batcher => Mix { batch: 1, ..Mix::NONE },
            Role::Updater => Mix { update: 1, swap: 1, ..Mix::NONE },
            Role::Flusher => Mix { flush: 1, ..Mix::NONE },
            Role::Merger | Role::Evicter | Role::Hinter | Role::Dropper => Mix::NONE,
        }
    }
}

/// The files of a database whose registers hold long values, many of them in overflow pages, so that the next write-out
/// reorganises pages.
#[derive(Debug, Clone)]
pub struct Image {
    files: BTreeMap<FileId, Vec<u8>>,
    values: Vec<Value>,
}

impl Image {
    /// Makes the database for crews with so many registers.
    pub fn new(opener: &dyn Opener, registers: usize) -> Verdict<Image> {
        let registers = Registers { kind: opener.kind(), count: registers, cold: COLD };
        let disk = registers.prepare(opener)?;
        let store = opener.open(&disk, 1).map_err(|error| format!("opening failed: {error}"))?;
        // Every 11th number is a long value. Two of them on one page do not fit beside its records.
        let values: Vec<Value> = (0..registers.count as u32).map(|register| Some((register + 1) * 11)).collect();
        let ticks = Ticks::new();
        let mut caller = Caller::new(&*store, registers, &ticks);
        let all = Call::Write(values.iter().copied().enumerate().collect(), Level::Buffered);
        for call in [all, Call::Flush] {
            caller.make(&call)?.map_err(|error| format!("preparing failed: {error}"))?;
        }
        // Pending clean-up stays pending.
        let image = disk.crash(Crash::DropAll);
        disk.power_off();
        drop(store);
        Ok(Image { files: image.files(), values })
    }

    fn disk(&self, seed: u64) -> SimStorage {
        let disk = SimStorage::new(seed);
        self.files.iter().for_each(|(file, bytes)| disk.put(*file, bytes));
        disk
    }
}

/// What a crew did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Answers that were judged.
    pub answers: u64,
    /// Counters of the engines.
    pub counters: Counters,
}

/// Runs one crew, whose calls are drawn from `seed`. The opener must give databases that many threads may use.
pub fn run(opener: &dyn Opener, image: &Image, crew: &Crew, seed: u64) -> Verdict<Done> {
    guarded(|| format!("{}, seed {seed}, {crew:?}", opener.name()), || Work::new(opener, image, crew, seed)?.run())
}

struct Work<'a> {
    opener: &'a dyn Opener,
    crew: &'a Crew,
    initial: &'a [Value],
    seed: u64,
    disk: SimStorage,
    registers: Registers,
    ticks: Ticks,
    answered: Answered,
}

impl<'a> Work<'a> {
    fn new(opener: &'a dyn Opener, image: &'a Image, crew: &'a Crew, seed: u64) -> Verdict<Self> {
        if image.values.len() != crew.registers {
            return Err(format!("the image is for {} registers", image.values.len()));
        }
        let registers = Registers { kind: opener.kind(), count: crew.registers, cold: COLD };
        // Numbers of writes begin above those of the image.
        let ticks = Ticks::from((crew.registers as u64 + 1) * 11);
        Ok(Work {
            opener,
            crew,
            initial: &image.values,
            seed,
            disk: image.disk(seed),
            registers,
            ticks,
            answered: Answered::default(),
        })
    }

    fn run(&self) -> Verdict<Done> {
        let store = self.open(&self.disk)?;
        if self.crew.threads.iter().any(|(role, _)| *role == Role::Merger) {
            tally::prepare(&*store)?;
        }
        let mut events = self.calls(&*store)?;
        let done = Done { answers: events.len() as u64, counters: store.counters() };
        if self.crew.crash {
            let how = [Crash::KeepAll, Crash::DropAll, Crash::Random(self.seed)][self.seed as usize % 3];
            let found = self.disk.crash(how);
            self.disk.power_off();
            drop(store);
            let store = self.open(&found)?;
            survives(self.initial, &events, ending(how), &self.registers.read(&*store)?)?;
            let answered = (how == Crash::KeepAll).then_some(&self.answered);
            Tallies::default().become_of(&*store, self.crew.threads.len() as u64, answered)?;
            return verified(&*store).map(|()| done);
        }
        events.extend(self.last_look(&*store)?);
        linearizable(self.initial, &events)?;
        Tallies::default().become_of(&*store, 0, Some(&self.answered))?;
        verified(&*store).map(|()| done)
    }

    fn open(&self, disk: &SimStorage) -> Verdict<Box<dyn Store>> {
        self.opener.open(disk, self.seed).map_err(|error| format!("opening failed: {error}"))
    }

    /// The calls of all threads.
    fn calls(&self, store: &dyn Store) -> Verdict<Vec<Event>> {
        let histories: Vec<Verdict<Played>> = thread::scope(|scope| {
            let threads = self.crew.threads.iter().zip(0..);
            let threads: Vec<_> =
                threads.map(|(part, number)| scope.spawn(move || self.play(store, *part, number))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        joined(histories)
    }

    /// Makes the calls of one thread.
    fn play(&self, store: &dyn Store, (role, calls): (Role, u32), number: u64) -> Verdict<Played> {
        let mut random = SmallRng::seed_from_u64(self.seed ^ number << 48);
        if role == Role::Merger {
            let failed = |error| format!("a merge failed on a sound disk: {error}");
            let mut merger = Merger::new(store, &self.answered, number as u8)?.map_err(failed)?;
            for _ in 0..calls {
                merger.merge(random.next_u32())?.map_err(failed)?;
            }
            return Ok(Played::default());
        }
        if role == Role::Dropper {
            let dropped = (0..calls).try_for_each(|_| come_and_go(store, DROPPED + number as u32));
            return dropped
                .map(|()| Played::default())
                .map_err(|error| format!("a keyspace that comes and goes failed: {error}"));
        }
        let mut caller = Caller::new(store, self.registers, &self.ticks);
        for turn in 0..calls {
            for call in calls_of(role, turn, &caller, &mut random) {
                caller.make(&call)?.map_err(|error| format!("{call:?} failed on a sound disk: {error}"))?;
            }
            if matches!(role, Role::Evicter | Role::Churner) {
                store.evict();
            }
        }
        Ok((caller.events, caller.syncs))
    }

    /// Reads the final state, from the pages and from the cache.
    fn last_look(&self, store: &dyn Store) -> Verdict<Vec<Event>> {
        let mut last = Caller::new(store, self.registers, &self.ticks);
        last.look_at_all().map(|()| last.events)
    }
}

/// The calls of one round.
fn calls_of(role: Role, turn: u32, caller: &Caller<'_>, random: &mut SmallRng) -> Vec<Call> {
    match role {
        Role::Evicter => Vec::new(),
        Role::Hinter => vec![caller.hint_of(turn), Call::Background],
        Role::Churner => vec![caller.draw(random, &role.mix()), Call::Flush],
        _ => vec![caller.draw(random, &role.mix())],
    }
}

/// Creates a keyspace, writes into it and drops it.
fn come_and_go(store: &dyn Store, keyspace: u32) -> Result<()> {
    store.create(keyspace)?;
    for number in 0..SHORT_LIVED {
        store.write(&[((keyspace, vec![number]), Some(vec![number; 8]))], Level::Buffered)?;
    }
    store.drop_keyspace(keyspace)
}
