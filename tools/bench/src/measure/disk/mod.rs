//! The subcommand `disk`: measures the disk, through the same drivers as the store's requests.

mod gauge;
mod point;
mod scratch;
mod stream;

use std::{fs, path::PathBuf};

use clap::Args;
use ecotone::internal::substrate::storage::Op;

pub(crate) use self::{gauge::Gauge, scratch::DIRECTORY};
use self::{point::Point, scratch::ScratchFile};
use super::options::positive;
use crate::{
    error::{Context, Result},
    size,
};

/// Requests in flight together, over all threads.
const DEPTHS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Options of `disk`.
#[derive(Debug, Args)]
pub(crate) struct DiskOptions {
    /// Directory for the test file of 4 GiB.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Threads that share the requests in flight.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub(crate) threads: u16,
    /// Seconds for each queue depth.
    #[arg(long, default_value_t = 2.0, value_parser = positive)]
    pub(crate) seconds: f64,
    /// Leave the test file for the next time.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Print one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
    /// Size of the test file; less than 4 GiB measures caches, not the disk.
    #[arg(long, default_value = "4GiB", value_parser = size::parse, hide = true)]
    pub(crate) size: u64,
}

/// Runs `disk` and prints a line for each point.
pub(crate) fn run(options: &DiskOptions) -> Result<()> {
    let directory = options.dir.join(DIRECTORY);
    fs::create_dir_all(&directory).context("create", &directory)?;
    let measured = ScratchFile::open(&directory, options.size).and_then(|file| measure(&file, options));
    if !options.keep {
        fs::remove_dir_all(&directory).context("remove", &directory)?;
    }
    measured
}

/// Measures reads and writes at all depths.
fn measure(file: &ScratchFile, options: &DiskOptions) -> Result<()> {
    if !options.json {
        println!("{:<13} {:>6} {:>12} {:>12}", "operation", "depth", "ops/s", "cpu µs/op");
    }
    for (name, op) in [("random_read", Op::Read), ("random_write", Op::Write)] {
        for depth in DEPTHS {
            let point = Point::measure(file, name, op, depth, usize::from(options.threads), options.seconds)?;
            if options.json {
                println!("{}", serde_json::to_string(&point)?);
            } else {
                println!("{name:<13} {depth:>6} {:>12.0} {:>12.2}", point.ops_per_second, point.cpu_us_per_op);
            }
        }
    }
    Ok(())
}
