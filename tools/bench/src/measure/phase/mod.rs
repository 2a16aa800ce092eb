//! A load, a warm-up or a measurement: threads that run operations until a limit.

mod batch;
mod completions;
pub(crate) mod execute;
mod pack;
pub(crate) mod stopwatch;
pub(crate) mod timeline;
mod work;
mod worker;

use std::{
    sync::{
        Barrier,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

use self::{
    execute::Traffic,
    timeline::Timeline,
    work::Work,
    worker::{Done, Worker},
};
use super::{
    context::RunContext,
    limit::{Limit, Manner},
    progress::Progress,
    transfers::Accounts,
    workload::generator::{Generator, Plan},
};
use crate::{
    error::{Error, Result},
    row::Point,
};

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
struct Phase<'a> {
    work: Work<'a>,
    accounts: &'a Accounts,
}

/// Interval between checks of the clock and the progress.
const LOOK: Duration = Duration::from_millis(20);
/// Interval between checks whether the store has adapted; each check counts the store's ranges.
const ADAPTING: Duration = Duration::from_millis(500);
/// The longest time that adapting may take.
const LONGEST: Duration = Duration::from_secs(1800);

/// Runs operations of `plan` until the limit, or to the first failure.
pub(crate) fn run(
    bench: &RunContext,
    plan: &Plan,
    manner: Manner,
    limit: Limit,
    accounts: &Accounts,
    progress: &Progress,
    seed: u64,
) -> Result<Outcome> {
    Phase { work: Work::new(bench, manner, limit), accounts }.run(plan, progress, seed)
}

impl Phase<'_> {
    fn run(&self, plan: &Plan, progress: &Progress, seed: u64) -> Result<Outcome> {
        let work = &self.work;
        let barrier = Barrier::new(work.manner.threads + 1);
        let (sender, results) = mpsc::channel();
        thread::scope(|scope| {
            for thread in 0..work.manner.threads {
                let (sender, barrier) = (sender.clone(), &barrier);
                scope.spawn(move || {
                    let (worker, generator) = (Worker::new(work, thread), Generator::new(plan, seed, thread));
                    barrier.wait();
                    let result = worker.run(generator);
                    if result.is_err() {
                        work.stop();
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
            let done = self.work.completions.operations();
            progress.show(done);
            timeline.look(begin.elapsed(), done);
            if self.work.limit == Limit::Adapted && begin.elapsed() >= next {
                failure = failure.or(self.look_at_shapes(begin.elapsed()).err());
                next = begin.elapsed() + ADAPTING;
            }
        }
        (outcome.longest_stall, outcome.timeline) = (self.work.completions.longest_stall(), timeline.finish());
        failure.map_or(Ok(outcome), Err)
    }

    /// Stops the threads when the store has adapted; fails if that takes too long.
    fn look_at_shapes(&self, elapsed: Duration) -> Result<()> {
        let (is_adapting, is_late) = (self.work.bench.store.is_adapting(), elapsed > LONGEST);
        if !is_adapting || is_late {
            self.work.stop();
        }
        if is_adapting && is_late {
            return Err(
                format!("it has not adapted in {} s: is there space and memory for that?", LONGEST.as_secs()).into()
            );
        }
        Ok(())
    }

    /// How long to wait for a result; stops the threads when time is up.
    fn pause(&self, begin: Instant) -> Duration {
        let Limit::Time(limit) = self.work.limit else { return LOOK };
        let left = limit.saturating_sub(begin.elapsed());
        if left.is_zero() {
            self.work.stop();
        }
        if left.is_zero() { LOOK } else { LOOK.min(left) }
    }
}

impl Default for Outcome {
    fn default() -> Self {
        Outcome {
            operations: 0,
            seconds: 0.0,
            latency: stopwatch::histogram(),
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
