//! Measures the disk at one queue depth.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use ecotone::internal::substrate::storage::Op;
use serde::Serialize;

use super::{scratch::ScratchFile, stream::Stream};
use crate::{
    error::Result,
    measure::{process, progress::Progress},
};

/// One result; the names are a public interface.
#[derive(Debug, Serialize)]
pub(crate) struct Point {
    operation: &'static str,
    queue_depth: usize,
    threads: usize,
    seconds: f64,
    pub(crate) ops_per_second: f64,
    pub(crate) cpu_us_per_op: f64,
}

impl Point {
    /// Measures one queue depth, split evenly over the threads.
    pub(super) fn measure(
        file: &ScratchFile,
        operation: &'static str,
        op: Op,
        depth: usize,
        threads: usize,
        seconds: f64,
    ) -> Result<Point> {
        let threads = threads.min(depth);
        let (barrier, stop) = (Barrier::new(threads + 1), AtomicBool::new(false));
        let progress = Progress::waiting(operation);
        let (count, seconds, cpu) = thread::scope(|scope| -> Result<_> {
            let start = |thread: usize| {
                let share = depth / threads + usize::from(thread < depth % threads);
                let (barrier, stop) = (&barrier, &stop);
                scope.spawn(move || {
                    let stream = Stream::new(file, op, share, (depth * 1000 + thread) as u64);
                    barrier.wait();
                    stream.and_then(|stream| stream.run(stop))
                })
            };
            let handles: Vec<_> = (0..threads).map(start).collect();
            barrier.wait();
            let (begin, cpu) = (Instant::now(), process::cpu_time());
            thread::sleep(Duration::from_secs_f64(seconds));
            stop.store(true, Relaxed);
            let counts = handles.into_iter().map(|handle| handle.join().map_err(|_| "a thread panicked")?);
            let count = counts.sum::<Result<u64>>()?;
            Ok((count, begin.elapsed().as_secs_f64(), process::cpu_time() - cpu))
        })?;
        drop(progress);
        let cpu_us_per_op = cpu.as_secs_f64() * 1e6 / count.max(1) as f64;
        Ok(Point {
            operation,
            queue_depth: depth,
            threads,
            seconds,
            ops_per_second: count as f64 / seconds,
            cpu_us_per_op,
        })
    }
}
