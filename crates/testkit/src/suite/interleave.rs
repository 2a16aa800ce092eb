//! Calls that overlap in orders drawn from a seed. Each call stops before and after its page I/O while other calls run,
//! so that a read answers late and a write-out is interrupted by writes.
//!
//! One thread runs at a time, so a seed replays a run exactly. Reads stop at page I/O, where they hold no lock. At most
//! one flush or background job at a time stops at pages and at the double-write area; no second one begins meanwhile.

use std::thread::Scope;

use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    Opener, Store, Verdict, guarded,
    history::{Caller, Event, Mix, Registers, Ticks, linearizable, reported_once},
    verified,
};
use crate::{
    model::Level,
    sim::{Crash, Phase, SimStorage, SteppedThread},
};

/// The shape of histories.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Steps: a call, or a part of one.
    pub steps: usize,
    /// Keys that are written.
    pub registers: usize,
}

/// Reads that are in progress at the same time.
const READERS: usize = 4;
/// Records that surround the keys.
const COLD: u32 = 48;

/// Calls that run without a stop.
const WHOLE: Mix =
    Mix { get: 12, multi_get: 4, scan: 4, write: 40, batch: 10, update: 4, swap: 4, sync: 2, squeeze: 20, ..Mix::NONE };
/// Calls that stop at their I/O.
const READS: Mix = Mix { get: 40, multi_get: 20, scan: 20, update: 10, swap: 10, ..Mix::NONE };
/// Background work, one at a time.
const WORK: Mix = Mix { flush: 3, background: 1, ..Mix::NONE };

/// Runs the histories of these seeds, and gives the number of stops.
pub fn run(opener: &dyn Opener, seeds: std::ops::Range<u64>, shape: Shape) -> Verdict<u64> {
    let registers = Registers { kind: opener.kind(), count: shape.registers, cold: COLD };
    let disk = guarded(|| format!("{}, interleaved", opener.name()), || registers.prepare(opener))?;
    let mut stops = 0;
    for seed in seeds {
        let what = || format!("{}, interleaved, seed {seed}, {shape:?}", opener.name());
        stops += guarded(what, || history(opener, &disk, registers, seed, shape))?;
    }
    Ok(stops)
}

fn history(opener: &dyn Opener, disk: &SimStorage, registers: Registers, seed: u64, shape: Shape) -> Verdict<u64> {
    let store = opener.open(&disk.crash(Crash::KeepAll), seed).map_err(|error| format!("opening failed: {error}"))?;
    let (store, ticks) = (&*store, Ticks::new());
    succeed(come_into_use(store), "the first use")?;
    let (mut events, stops) = std::thread::scope(|scope| {
        let random = SmallRng::seed_from_u64(seed);
        let caller = Caller::new(store, registers, &ticks);
        let mut story = Story { scope, random, caller, readers: Vec::new(), worker: None, stops: 0 };
        story.run(shape.steps)?;
        Ok::<_, String>((story.caller.events, story.stops))
    })?;
    // Reads the final state as one more client.
    let mut last = Caller::new(store, registers, &ticks);
    last.look_at_all()?;
    events.append(&mut last.events);
    linearizable(&vec![None; registers.count], &events)?;
    let newest = registers.read(store)?;
    let is_purged = store.purge().map_err(|error| format!("a purge failed on a sound disk: {error}"))?;
    let reports = store.recorder().map(|recorder| recorder.take()).unwrap_or_default();
    reported_once(&reports, &events, &newest, is_purged)?;
    verified(store).map(|()| stops)
}

/// Uses and writes both keyspaces. The first open of a keyspace, and the creation of its files, block the other
/// callers, so these calls must not stop at their I/O.
fn come_into_use(store: &dyn Store) -> ecotone_substrate::Result<()> {
    for keyspace in [1, 2] {
        for value in [Some(b"use".to_vec()), None] {
            store.write(&[((keyspace, b"first".to_vec()), value)], Level::Buffered)?;
        }
    }
    Ok(())
}

fn succeed(answer: ecotone_substrate::Result<()>, what: &str) -> Verdict {
    answer.map_err(|error| format!("{what} failed on a sound disk: {error}"))
}

/// The result of a call on a thread of its own.
type Left = Verdict<Vec<Event>>;

struct Story<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    random: SmallRng,
    /// Makes the calls that run without a stop, and keeps all events.
    caller: Caller<'env>,
    readers: Vec<SteppedThread<'scope, Left>>,
    worker: Option<SteppedThread<'scope, Left>>,
    stops: u64,
}

impl<'scope, 'env> Story<'scope, 'env> {
    fn run(&mut self, steps: usize) -> Verdict {
        for _ in 0..steps {
            match self.random.random_range(0..100) {
                0..40 => self.call()?,
                40..60 if self.readers.len() < READERS => self.begin_read(),
                60..75 if self.worker.is_none() => self.begin_work(),
                60..85 => self.step_worker()?,
                _ => self.step_reader()?,
            }
        }
        while !self.readers.is_empty() || self.worker.is_some() {
            self.step_reader()?;
            self.step_worker()?;
        }
        Ok(())
    }

    /// Makes a call that runs without a stop.
    fn call(&mut self) -> Verdict {
        let call = self.caller.draw(&mut self.random, &WHOLE);
        succeed(self.caller.make(&call)?, &format!("{call:?}"))
    }

    /// Begins a call on a thread of its own. It records its own events, and starts when it is told to go on.
    fn begin(&mut self, mix: &Mix, phases: &'static [Phase]) -> SteppedThread<'scope, Left> {
        let call = self.caller.draw(&mut self.random, mix);
        let (store, registers, ticks) = (self.caller.store, self.caller.registers, self.caller.ticks);
        SteppedThread::new(self.scope, phases, move || {
            let mut caller = Caller::new(store, registers, ticks);
            succeed(caller.make(&call)?, &format!("{call:?}"))?;
            Ok(caller.events)
        })
    }

    fn begin_read(&mut self) {
        let reader = self.begin(&READS, &[Phase::Pages]);
        self.readers.push(reader);
    }

    fn begin_work(&mut self) {
        self.worker = Some(self.begin(&WORK, &[Phase::Pages, Phase::DoubleWrite]));
    }

    fn step_reader(&mut self) -> Verdict {
        if self.readers.is_empty() {
            return Ok(());
        }
        let index = self.random.random_range(0..self.readers.len());
        self.stops += 1;
        match self.readers[index].step() {
            Some(left) => self.caller.events.extend(left?),
            None => return Ok(()),
        }
        self.readers.swap_remove(index);
        Ok(())
    }

    /// Runs some steps of the worker, often all that are left, so that reads are stopped while pages are written.
    fn step_worker(&mut self) -> Verdict {
        let most = if self.random.random_ratio(1, 3) { usize::MAX } else { self.random.random_range(1..8) };
        for _ in 0..most {
            let Some(worker) = &mut self.worker else { break };
            self.stops += 1;
            if let Some(left) = worker.step() {
                self.caller.events.extend(left?);
                self.worker = None;
            }
        }
        Ok(())
    }
}
