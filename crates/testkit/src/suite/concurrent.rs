//! Threads that call at the same time, on more data than memory holds, for several sessions. Each session ends at a
//! random I/O.
//!
//! The machine schedules the threads, so a seed gives the calls but not their results. The suite judges the recorded
//! histories.

use std::ops::AddAssign;

use rand::{Rng, RngExt, SeedableRng, rngs::SmallRng};

use super::{
    Counters, Opener, Store, Verdict, add, guarded,
    history::{Caller, Event, Mix, Played, Registers, Ticks, Value, joined, survives},
    recovery::ending,
    tally::{self, Answered, Merger, Tallies},
    verified,
};
use crate::sim::{Crash, SimStorage};

/// How much a run does.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Sessions of each database; all but the last end in a crash.
    pub sessions: u32,
    /// Threads.
    pub threads: u32,
    /// Calls of each thread in a session that is not cut short.
    pub calls: u32,
    /// Keys that are written.
    pub registers: usize,
    /// Records of about 1800 bytes that never change.
    pub cold: u32,
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Sessions that ended in a crash.
    pub crashes: u64,
    /// Answers and unanswered writes that were judged; a call counts once for each of its keys.
    pub events: u64,
    /// Writes without an answer.
    pub unanswered: u64,
    /// Counters of the engines, summed over the sessions.
    pub counters: Counters,
}

impl AddAssign for Done {
    fn add_assign(&mut self, other: Done) {
        self.crashes += other.crashes;
        self.events += other.events;
        self.unanswered += other.unanswered;
        add(&mut self.counters, &other.counters);
    }
}

const MIX: Mix = Mix {
    get: 22,
    multi_get: 8,
    scan: 8,
    write: 28,
    batch: 10,
    update: 6,
    swap: 6,
    cold: 8,
    sync: 1,
    flush: 2,
    squeeze: 1,
    hint: 4,
    spare: 1 << 20,
    ..Mix::NONE
};

/// One call in so many is a merge.
const MERGES: u32 = 20;

/// Runs the databases of these seeds. The opener must give databases that many threads may use.
pub fn run(opener: &dyn Opener, seeds: std::ops::Range<u64>, extent: Extent) -> Verdict<Done> {
    let registers = Registers { kind: opener.kind(), count: extent.registers, cold: extent.cold };
    let disk = guarded(|| format!("{}, concurrent", opener.name()), || registers.prepare(opener))?;
    let mut done = Done::default();
    for seed in seeds {
        let what = || format!("{}, concurrent, seed {seed} (the schedule is the machine's), {extent:?}", opener.name());
        let random = SmallRng::seed_from_u64(seed);
        let disk = disk.crash(Crash::KeepAll);
        let ticks = Ticks::new();
        let (values, tallies, answered) = (vec![None; extent.registers], Tallies::default(), Answered::default());
        let mut database = Sessions { opener, random, disk, registers, extent, ticks, values, tallies, answered };
        done += guarded(what, || database.run())?;
    }
    Ok(done)
}

/// One database and its sessions.
struct Sessions<'a> {
    opener: &'a dyn Opener,
    random: SmallRng,
    disk: SimStorage,
    registers: Registers,
    extent: Extent,
    ticks: Ticks,
    /// What the registers held when the present session began.
    values: Vec<Value>,
    /// The tallies at the start of the session, and the merges that were answered since.
    tallies: Tallies,
    answered: Answered,
}

impl Sessions<'_> {
    fn run(&mut self) -> Verdict<Done> {
        let mut done = Done::default();
        for session in 1..self.extent.sessions {
            let (events, counters) = self.live().map_err(|wrong| format!("life {session}: {wrong}"))?;
            add(&mut done.counters, &counters);
            done.crashes += 1;
            done.events += events.len() as u64;
            done.unanswered += events.iter().filter(|event| event.answered.is_none()).count() as u64;
            self.crash(&events).map_err(|wrong| format!("life {session}: {wrong}"))?;
        }
        self.check_all().map(|()| done)
    }

    /// Each session has another seed; otherwise engines would draw the same random numbers in all sessions.
    fn open(&mut self) -> Verdict<Box<dyn Store>> {
        self.opener.open(&self.disk, self.random.next_u64()).map_err(|error| format!("opening failed: {error}"))
    }

    /// Runs the threads up to a crash at some I/O, or until they have made their calls.
    fn live(&mut self) -> Verdict<(Vec<Event>, Counters)> {
        let store = self.open_again()?;
        tally::prepare(&*store)?;
        // A call has a few I/Os, so that some sessions see all of their calls.
        let most = u64::from(self.extent.threads * self.extent.calls) * 4;
        self.disk.crash_at(self.disk.io_index() + self.random.random_range(1..=most));
        let seeds: Vec<(u64, u8)> =
            (0..self.extent.threads).map(|number| (self.random.next_u64(), number as u8)).collect();
        let (session, store) = (&*self, &*store);
        let histories: Vec<Verdict<Played>> = std::thread::scope(|scope| {
            let threads: Vec<_> = seeds
                .into_iter()
                .map(|(seed, number)| scope.spawn(move || session.call(store, seed, number)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        session.disk.power_off();
        Ok((joined(histories)?, store.counters()))
    }

    /// Makes the calls of one thread.
    fn call(&self, store: &dyn Store, seed: u64, number: u8) -> Verdict<Played> {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut caller = Caller::new(store, self.registers, &self.ticks);
        let mut merger = match Merger::new(store, &self.answered, number)? {
            Ok(merger) => merger,
            Err(_) if self.disk.is_off() => return Ok(Played::default()),
            Err(error) => return Err(format!("reading a tally failed on a sound disk: {error}")),
        };
        for _ in 0..self.extent.calls {
            let call = (!random.random_ratio(1, MERGES)).then(|| caller.draw(&mut random, &MIX));
            let made = match &call {
                Some(call) => caller.make(call)?,
                None => merger.merge(random.next_u32())?,
            };
            match made {
                Ok(()) => {}
                Err(_) if self.disk.is_off() => break,
                Err(error) => {
                    let call = call.map_or("a merge".to_owned(), |call| format!("{call:?}"));
                    return Err(format!("{call} failed on a sound disk: {error}"));
                }
            }
        }
        Ok((caller.events, caller.syncs))
    }

    /// Ends the session in some way, and judges what the next session finds.
    fn crash(&mut self, events: &[Event]) -> Verdict {
        let how = match self.random.random_range(0..4) {
            0 => Crash::KeepAll,
            1 => Crash::DropAll,
            _ => Crash::Random(self.random.next_u64()),
        };
        self.disk = self.disk.crash(how);
        let store = self.open()?;
        let recovered = self.registers.read(&*store)?;
        survives(&self.values, events, ending(how), &recovered)?;
        let answered = (how == Crash::KeepAll).then_some(&self.answered);
        self.tallies = self.tallies.become_of(&*store, self.extent.threads.into(), answered)?;
        self.answered = Answered::default();
        self.values = recovered;
        // A session that only opened and read is killed too.
        self.disk.power_off();
        drop(store);
        self.disk = self.disk.crash(Crash::DropAll);
        Ok(())
    }

    /// Opens the database again: everything that was recovered before must be there.
    fn open_again(&mut self) -> Verdict<Box<dyn Store>> {
        let store = self.open()?;
        let found = self.registers.read(&*store)?;
        let tallies = Tallies::read(&*store)?;
        if (&found, &tallies) != (&self.values, &self.tallies) {
            let (values, before) = (&self.values, &self.tallies);
            return Err(format!("what was recovered as {values:?} and {before:?} became {found:?} and {tallies:?}"));
        }
        Ok(store)
    }

    /// The last session: everything is checked, and the database is closed.
    fn check_all(&mut self) -> Verdict {
        let store = self.open_again()?;
        verified(&*store)?;
        store.close().map_err(|error| format!("closing failed: {error}"))
    }
}
