//! Running a phase and measuring it.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use ecotone::{Counters, Database};
use hdrhistogram::Histogram;

use crate::{
    demo::{operations::THREADS, progress},
    failure::Failure,
};

/// The largest latency that the histogram resolves, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;
/// A worker updates the progress bar after this many operations.
const TELL: u64 = 256;

/// What a phase did.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) phase: &'static str,
    /// Operations done.
    pub(crate) operations: u64,
    /// How long it took.
    pub(crate) time: Duration,
    /// Latencies in nanoseconds, where single operations were timed.
    pub(crate) latency: Option<Histogram<u32>>,
    /// Device requests, where they are known.
    pub(crate) io: Option<Counters>,
}

/// The limits of a phase: it ends after this many operations or this much time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// Operations.
    pub(crate) operations: u64,
    /// Time.
    pub(crate) time: Duration,
}

/// Measures a phase as one unit. `work` returns the number of operations, and their latencies if it measures any.
pub(crate) fn whole(
    phase: &'static str,
    database: &Database,
    work: impl FnOnce(&mut Histogram<u32>) -> Result<u64, Failure>,
) -> Result<Row, Failure> {
    let before = database.stats().io;
    let began = Instant::now();
    let mut latency = histogram();
    let operations = work(&mut latency)?;
    let time = began.elapsed();
    let latency = Some(latency).filter(|latency| !latency.is_empty());
    Ok(Row { phase, operations, time, latency, io: Some(difference(database.stats().io, before)) })
}

/// Measures a phase with many threads. `worker` creates the work of each thread: a closure that runs step `n` of the
/// phase and returns the number of its operations; 0 ends the thread.
pub(crate) fn threads<W: FnMut(u64) -> Result<u64, Failure>>(
    phase: &'static str,
    database: &Database,
    limit: Limit,
    worker: impl Fn(usize) -> W + Sync,
) -> Result<Row, Failure> {
    let bar = progress::bar(phase, limit.operations);
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let row = whole(phase, database, |latency| {
        let run = |thread| work(worker(thread), limit, &next, &done, &bar);
        let results: Vec<_> = thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
        });
        for result in results {
            latency.add(result?).expect("all histograms have the same bounds");
        }
        Ok(done.load(Ordering::Relaxed))
    });
    bar.finish_and_clear();
    row
}

fn work(
    mut step: impl FnMut(u64) -> Result<u64, Failure>,
    limit: Limit,
    next: &AtomicU64,
    done: &AtomicU64,
    bar: &indicatif::ProgressBar,
) -> Result<Histogram<u32>, Failure> {
    let mut latency = histogram();
    let end = Instant::now() + limit.time;
    let mut now = Instant::now();
    while now < end && done.load(Ordering::Relaxed) < limit.operations {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let operations = step(number)?;
        if operations == 0 {
            break;
        }
        let before = std::mem::replace(&mut now, Instant::now());
        latency.saturating_record(nanoseconds(now - before));
        let all = done.fetch_add(operations, Ordering::Relaxed);
        if all / TELL != (all + operations) / TELL {
            bar.set_position(all);
        }
    }
    Ok(latency)
}

/// A time for a latency histogram.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LONGEST, 2).expect("the bounds are fixed")
}

fn difference(after: Counters, before: Counters) -> Counters {
    Counters {
        reads: after.reads - before.reads,
        writes: after.writes - before.writes,
        read_bytes: after.read_bytes - before.read_bytes,
        write_bytes: after.write_bytes - before.write_bytes,
        syncs: after.syncs - before.syncs,
    }
}
