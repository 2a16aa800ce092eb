//! The subcommand `disk`: measures the disk, through the same drivers as the store's requests.

mod gauge;
mod scratch;
mod stream;

use std::{
    fs,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use ecotone::internal::substrate::storage::Op;
use serde::Serialize;

pub(crate) use self::gauge::Gauge;
use self::{scratch::ScratchFile, stream::Stream};
use crate::{
    cli::DiskOptions,
    error::{Context, Result},
    process,
    progress::Progress,
};

/// Requests in flight together, over all threads.
const DEPTHS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// The test file's own directory below --dir.
pub(crate) const DIRECTORY: &str = "ecotone-bench-disk";

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

/// Runs `disk` and prints a line for each point.
pub(crate) fn run(options: &DiskOptions) -> Result<()> {
    let directory = options.dir.join(DIRECTORY);
    fs::create_dir_all(&directory).context("create", &directory)?;
    let measured = ScratchFile::open(&directory, options.size).and_then(|bed| bed.measure(options));
    if !options.keep {
        fs::remove_dir_all(&directory).context("remove", &directory)?;
    }
    measured
}

impl ScratchFile {
    fn measure(&self, options: &DiskOptions) -> Result<()> {
        if !options.json {
            println!("{:<13} {:>6} {:>12} {:>12}", "operation", "depth", "ops/s", "cpu µs/op");
        }
        for (name, op) in [("random_read", Op::Read), ("random_write", Op::Write)] {
            for depth in DEPTHS {
                let point = self.point(name, op, depth, usize::from(options.threads), options.seconds)?;
                if options.json {
                    println!("{}", serde_json::to_string(&point)?);
                } else {
                    println!("{name:<13} {depth:>6} {:>12.0} {:>12.2}", point.ops_per_second, point.cpu_us_per_op);
                }
            }
        }
        Ok(())
    }

    /// Measures one queue depth, split evenly over the threads.
    fn point(&self, operation: &'static str, op: Op, depth: usize, threads: usize, seconds: f64) -> Result<Point> {
        let threads = threads.min(depth);
        let (barrier, stop) = (Barrier::new(threads + 1), AtomicBool::new(false));
        let progress = Progress::waiting(operation);
        let (count, seconds, cpu) = thread::scope(|scope| -> Result<_> {
            let start = |thread: usize| {
                let share = depth / threads + usize::from(thread < depth % threads);
                let (barrier, stop) = (&barrier, &stop);
                scope.spawn(move || {
                    let stream = Stream::new(self, op, share, (depth * 1000 + thread) as u64);
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
