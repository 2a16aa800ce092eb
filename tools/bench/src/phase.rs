//! A load, a warm-up or a measurement: threads that run operations until a limit.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{
    bench::RunContext,
    completions::Completions,
    error::{Error, Result},
    execute::Traffic,
    generator::{BLOCK, Generator, Plan, Position},
    measure,
    progress::Progress,
    timeline::{Point, Timeline},
    transfers::Accounts,
    worker::{Done, Worker},
};

/// When a phase ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Limit {
    Operations(u64),
    Time(Duration),
    /// When the store has adapted.
    Adapted,
}

/// The way in which the threads run operations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) threads: usize,
    /// Operations of one call; 1 for calls of single operations.
    pub(crate) batch: usize,
    /// Operations a second of all threads, started on schedule whether or not earlier ones have ended; `None` for full
    /// speed.
    pub(crate) rate: Option<f64>,
    /// No operation starts after this time, except those of blocks that have started.
    pub(crate) cap: Option<Duration>,
}

/// The outcome of a phase.
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) latency: Histogram<u64>,
    pub(crate) traffic: Traffic,
    pub(crate) longest_stall: Duration,
    pub(crate) timeline: Vec<Point>,
}

/// A running phase.
pub(crate) struct Phase<'a> {
    pub(crate) bench: &'a RunContext,
    pub(crate) plan: &'a Plan,
    pub(crate) manner: Manner,
    pub(crate) completions: Completions,
    accounts: &'a Accounts,
    limit: Limit,
    block: u64,
    claimed: AtomicU64,
    stop: AtomicBool,
}

/// Interval between checks of the clock and the progress.
const LOOK: Duration = Duration::from_millis(20);
/// Interval between checks whether the store has adapted; each check counts the store's ranges.
const ADAPTING: Duration = Duration::from_millis(500);
/// The longest time that adapting may take.
const LONGEST: Duration = Duration::from_secs(1800);

impl<'a> Phase<'a> {
    pub(crate) fn new(
        bench: &'a RunContext,
        plan: &'a Plan,
        manner: Manner,
        limit: Limit,
        accounts: &'a Accounts,
    ) -> Self {
        let (block, completions) = (block_size(manner, limit), Completions::new(manner.threads));
        let (claimed, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        Phase { bench, plan, manner, completions, accounts, limit, block, claimed, stop }
    }

    /// Runs to the end, or to the first failure.
    pub(crate) fn run(&self, progress: &Progress, seed: u64) -> Result<Outcome> {
        let barrier = Barrier::new(self.manner.threads + 1);
        let (sender, results) = mpsc::channel();
        thread::scope(|scope| {
            for thread in 0..self.manner.threads {
                let (sender, barrier) = (sender.clone(), &barrier);
                scope.spawn(move || {
                    let (worker, generator) = (Worker::new(self, thread), Generator::new(self.plan, seed, thread));
                    barrier.wait();
                    let result = worker.run(generator);
                    if result.is_err() {
                        self.stop.store(true, Relaxed);
                    }
                    // The receiver waits for every sender.
                    let _ = sender.send(result);
                });
            }
            drop(sender);
            barrier.wait();
            self.watch(Instant::now(), progress, &results)
        })
    }

    /// Collects the threads' results and stops the threads when time is up.
    fn watch(&self, begin: Instant, progress: &Progress, results: &mpsc::Receiver<Result<Done>>) -> Result<Outcome> {
        let (mut outcome, mut failure) = (Outcome::default(), None::<Error>);
        let (mut timeline, mut next) = (Timeline::new(self.accounts), ADAPTING);
        loop {
            match results.recv_timeout(self.pause(begin)) {
                Ok(Ok(done)) => outcome.add(&done, begin),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let done = self.completions.operations();
            progress.show(done);
            timeline.look(begin.elapsed(), done);
            if self.limit == Limit::Adapted && begin.elapsed() >= next {
                failure = failure.or(self.look_at_shapes(begin.elapsed()).err());
                next = begin.elapsed() + ADAPTING;
            }
        }
        (outcome.longest_stall, outcome.timeline) = (self.completions.longest_stall(), timeline.finish());
        failure.map_or(Ok(outcome), Err)
    }

    /// Stops the threads when the store has adapted; fails if that takes too long.
    fn look_at_shapes(&self, elapsed: Duration) -> Result<()> {
        let (is_adapting, is_late) = (self.bench.store.is_adapting(), elapsed > LONGEST);
        self.stop.fetch_or(!is_adapting || is_late, Relaxed);
        if is_adapting && is_late {
            return Err(
                format!("it has not adapted in {} s: is there space and memory for that?", LONGEST.as_secs()).into()
            );
        }
        Ok(())
    }

    /// How long to wait for a result; stops the threads when time is up.
    fn pause(&self, begin: Instant) -> Duration {
        let Limit::Time(limit) = self.limit else { return LOOK };
        let left = limit.saturating_sub(begin.elapsed());
        if left.is_zero() {
            self.stop.store(true, Relaxed);
        }
        if left.is_zero() { LOOK } else { LOOK.min(left) }
    }

    /// The next block of operations for a thread; `None` when the limit is reached.
    pub(crate) fn claim(&self, begin: Instant) -> Option<Position> {
        if self.is_stopped() || self.manner.cap.is_some_and(|cap| begin.elapsed() >= cap) {
            return None;
        }
        let first = self.claimed.fetch_add(self.block, Relaxed);
        let (count, progress) = match self.limit {
            Limit::Operations(limit) => (self.block.min(limit.saturating_sub(first)), first as f64 / limit as f64),
            Limit::Time(limit) => (self.block, begin.elapsed().as_secs_f64() / limit.as_secs_f64()),
            Limit::Adapted => (self.block, 0.0),
        };
        (count > 0).then(|| Position { first, count, progress, existing: self.bench.inserts.existing() })
    }

    /// Whether all threads should end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

/// The size of a block: whole batches, and small for short phases, so that the threads end together.
fn block_size(manner: Manner, limit: Limit) -> u64 {
    let batch = manner.batch as u64;
    let fair = match limit {
        Limit::Operations(limit) => limit / (16 * manner.threads as u64),
        Limit::Time(_) | Limit::Adapted => BLOCK,
    };
    (fair.min(BLOCK) / batch).max(1) * batch
}

impl Default for Outcome {
    fn default() -> Self {
        Outcome {
            operations: 0,
            seconds: 0.0,
            latency: measure::histogram(),
            traffic: Traffic::default(),
            longest_stall: Duration::ZERO,
            timeline: Vec::new(),
        }
    }
}

impl Outcome {
    /// Operations a second of all threads.
    pub(crate) fn per_second(&self) -> f64 {
        self.operations as f64 / self.seconds.max(1e-9)
    }

    fn add(&mut self, done: &Done, begin: Instant) {
        self.operations += done.operations;
        self.seconds = self.seconds.max((done.end - begin).as_secs_f64());
        self.latency.add(&done.latency).expect("all histograms have the same bounds");
        self.traffic.read += done.traffic.read;
        self.traffic.written += done.traffic.written;
    }
}
