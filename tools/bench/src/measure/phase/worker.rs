//! One thread of a phase: draws blocks of operations and makes timed calls.

use std::{
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

use super::{
    batch::Buffers,
    execute::{Executor, Outlook, Traffic},
    stopwatch::Stopwatch,
    work::Work,
};
use crate::{
    error::Result,
    measure::{
        limit::Manner,
        workload::generator::{Generator, Operation},
    },
};

/// The work of a thread.
pub(super) struct Done {
    pub(super) operations: u64,
    pub(super) end: Instant,
    pub(super) latency: Histogram<u64>,
    pub(super) traffic: Traffic,
}

/// Number of operations that are announced ahead: about as many as run while a cache line moves from one processor to
/// another.
const AHEAD: usize = 8;

/// The thread.
pub(super) struct Worker<'a> {
    work: &'a Work<'a>,
    executor: Executor<'a>,
    buffers: Buffers,
    stopwatch: Stopwatch<'a>,
    schedule: Option<Schedule>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(work: &'a Work<'a>, thread: usize) -> Self {
        Worker {
            work,
            executor: Executor::new(work.bench, thread),
            buffers: Buffers::default(),
            stopwatch: Stopwatch::new(&work.completions, thread),
            schedule: Schedule::new(work.manner, thread),
        }
    }

    /// Works until the phase ends.
    pub(super) fn run(mut self, mut generator: Generator<'_>) -> Result<Done> {
        let begin = Instant::now();
        let (mut operations, mut pace, mut outlook) = (0, Duration::MAX, Outlook::GoOn);
        while outlook == Outlook::GoOn {
            let Some(position) = self.work.claim(begin) else { break };
            let block = generator.draw(position)?;
            let start = Instant::now();
            self.stopwatch.resume(pace, start);
            let (count, after) = self.block(block, begin)?;
            self.stopwatch.pause();
            pace = start.elapsed() / u32::try_from(count).unwrap_or(u32::MAX).max(1);
            outlook = after;
            operations += count;
        }
        if self.work.is_stopped() {
            self.count_overdue(begin);
        }
        Ok(Done { operations, end: Instant::now(), latency: self.stopwatch.histogram, traffic: self.executor.traffic })
    }

    /// Runs a block and returns the number of its operations that were done. Operations of a call that found no keys
    /// left do not count.
    fn block(&mut self, block: &[Operation], begin: Instant) -> Result<(u64, Outlook)> {
        let (mut done, mut coming) =
            (0, self.executor.is_forewarned().then(|| block.get(AHEAD..)).flatten().unwrap_or_default());
        for call in block.chunks(self.work.manner.batch) {
            let next = coming.split_off(..call.len().min(coming.len())).unwrap_or_default();
            next.iter().try_for_each(|operation| self.executor.announce(*operation))?;
            let intended = self.schedule.as_mut().map(|schedule| schedule.wait(begin, self.work));
            if self.work.is_stopped() {
                break;
            }
            let outlook = match call {
                [operation] => self.executor.single(*operation)?,
                operations => self.executor.batch(operations, &mut self.buffers)?,
            };
            if outlook != Outlook::GoOn {
                return Ok((done, outlook));
            }
            let count = call.len() as u64;
            match intended {
                Some(intended) => self.stopwatch.since_intended(intended, count),
                None => self.stopwatch.lap(count),
            }
            done += count;
        }
        Ok((done, Outlook::GoOn))
    }

    /// Counts calls that were due before time was up as having waited until now. Leaving them out would hide a store
    /// that is too slow.
    fn count_overdue(&mut self, begin: Instant) {
        let (now, operations) = (Instant::now(), self.work.manner.batch as u64);
        let Some(schedule) = &mut self.schedule else { return };
        while let Some(intended) = schedule.overdue(begin, now) {
            self.stopwatch.never_begun(intended, now, operations);
        }
    }
}

/// The schedule of a thread's calls, independent of the progress of earlier calls.
struct Schedule {
    /// Seconds from the begin of the phase to the first call, and from one call to the next.
    offset: f64,
    step: f64,
    calls: u64,
}

/// A sleep can overshoot by this much; the rest of a wait spins on the clock.
const OVERSLEPT: Duration = Duration::from_micros(100);
/// Longest sleep before the next check whether the phase has ended.
const NAP: Duration = Duration::from_millis(20);

impl Schedule {
    /// The calls of all threads together are evenly spaced.
    fn new(manner: Manner, thread: usize) -> Option<Self> {
        let between = manner.batch as f64 / manner.rate?;
        Some(Schedule { offset: between * thread as f64, step: between * manner.threads as f64, calls: 0 })
    }

    /// The time at which the next call is due.
    fn next(&self, begin: Instant) -> Instant {
        begin + Duration::from_secs_f64(self.offset + self.step * self.calls as f64)
    }

    /// Takes the next call if it was due before `now`, and returns the time at which it was due.
    fn overdue(&mut self, begin: Instant, now: Instant) -> Option<Instant> {
        let intended = Some(self.next(begin)).filter(|intended| *intended < now)?;
        self.calls += 1;
        Some(intended)
    }

    /// Waits until the next call is due or the phase is stopped, and returns the due time.
    fn wait(&mut self, begin: Instant, work: &Work<'_>) -> Instant {
        let intended = self.next(begin);
        self.calls += 1;
        loop {
            let left = intended.saturating_duration_since(Instant::now());
            if left.is_zero() || work.is_stopped() {
                return intended;
            }
            match left.checked_sub(OVERSLEPT) {
                Some(sleep) => thread::sleep(sleep.min(NAP)),
                None => thread::yield_now(),
            }
        }
    }
}
