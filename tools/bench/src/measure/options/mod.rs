//! The options of one row.

mod step;
mod warmup;

use std::{iter, path::PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};

pub(crate) use self::{step::WorkloadStep, warmup::Warmup};
use super::keys::Order;
use crate::{
    row::{Durability, Shape, StoreKind, Workload},
    size,
};

/// Records without --records and --keys.
pub(crate) const RECORDS: u64 = 1_000_000;

/// Options of one row.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(crate) struct RunOptions {
    /// The store; the parent fills it in.
    #[arg(skip = StoreKind::Null)]
    pub(crate) store: StoreKind,
    /// YCSB's a to f; `insert` adds records to a loaded store, `load` measures the load, `adapt` scans as e while the
    /// store brings all keys into pages (`adaptive` alone). With --order ascending the loaded records are a queue:
    /// `queue` inserts a record and removes the first one, `drain` removes the first or the last one, `first` reads the
    /// first one.
    #[arg(long, value_enum)]
    pub(crate) workload: Workload,
    /// Workloads to measure after it in the stores that stay open, all rounds of one before the next, each with so many
    /// operations or as --operations or --seconds say; the warm-up is of --workload alone.
    #[arg(long, value_name = "WORKLOAD[:OPERATIONS]", value_parser = WorkloadStep::parse, value_delimiter = ',',
        requires = "stay_open", conflicts_with = "trace")]
    pub(crate) then: Vec<WorkloadStep>,
    /// Which records the operations are for; the default is the workload's usual one.
    #[arg(long, value_enum)]
    pub(crate) distribution: Option<Shape>,
    /// Part of all keys that a stretch has, 0 to 1.
    #[arg(long, default_value_t = 0.1, value_parser = share)]
    pub(crate) stretch: f64,
    /// Exponent of Zipf's law for zipfian and latest.
    #[arg(long, default_value_t = 0.99, value_parser = theta)]
    pub(crate) theta: f64,
    /// Records to load; the default is all of --keys, or a million.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) records: Option<u64>,
    /// Operations to measure; the default is one per record.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "seconds")]
    pub(crate) operations: Option<u64>,
    /// Seconds to measure, instead of --operations.
    #[arg(long, value_parser = positive)]
    pub(crate) seconds: Option<f64>,
    /// Bytes of a key; the default is 8.
    #[arg(long)]
    pub(crate) key_size: Option<usize>,
    /// Bytes of a value, at least 8.
    #[arg(long, default_value_t = 56)]
    pub(crate) value_size: usize,
    /// Threads that call the store.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: u16,
    /// Operations of one call: reads by multi_get, writes by a batch.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) batch: u16,
    /// Operations a second, begun on time whether or not earlier ones have ended; latencies count from the intended
    /// time.
    #[arg(long, value_parser = positive)]
    pub(crate) rate: Option<f64>,
    /// What a write promises when it returns.
    #[arg(long, value_enum, default_value = "buffered")]
    pub(crate) durability: Durability,
    /// Operations before the measurement, or seconds as in 60s, or `steady`: as many as it takes until the device reads
    /// of an operation no longer fall (at most eight a record and 300 s), or `all`: every record is read once; the
    /// default is one per record, and none for insert.
    #[arg(long, value_name = "OPERATIONS")]
    pub(crate) warmup: Option<Warmup>,
    /// The store's memory budget, such as 64MiB.
    #[arg(long, value_parser = size::parse)]
    pub(crate) memory: u64,
    /// Directory of the store; a finished store of the same parameters is used again.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// File of keys: .u64, .u64.zst, .du64.zst, or lines of text.
    #[arg(long)]
    pub(crate) keys: Option<PathBuf>,
    /// Make this many keys of the same kind from --keys, which is sorted or has times beside it.
    #[arg(long, value_name = "N", requires = "keys", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) scale_keys: Option<u64>,
    /// In which order keys come: those of --keys shuffled or as they arrive, synthetic ones shuffled or in one of the
    /// others.
    #[arg(long, value_enum)]
    pub(crate) order: Option<Order>,
    /// Access trace (.u64, .u64.zst) that says which records a, b, c and f access; --records is then the number of its
    /// objects by default.
    #[arg(long, value_name = "FILE", conflicts_with = "distribution")]
    pub(crate) trace: Option<PathBuf>,
    /// Part of reads, 0 to 1, beside the inserts of the workload insert.
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub(crate) read_share: f64,
    /// Before the measurement, load, update every record twice on average, settle, close and open again.
    #[arg(long)]
    pub(crate) prepared: bool,
    /// Longest time for that, in seconds.
    #[arg(long, default_value_t = 1200.0, value_parser = positive)]
    pub(crate) prepare_seconds: f64,
    /// An option of the engine, or `table_cache`, the bytes that indexes and filters of tables have at most; may be
    /// given several times.
    #[arg(long = "set", value_name = "OPTION=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<(String, String)>,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl RunOptions {
    /// All workloads that are measured in the store, in their order.
    pub(crate) fn steps(&self) -> impl Iterator<Item = WorkloadStep> {
        iter::once(WorkloadStep::of(self.workload)).chain(self.then.iter().copied())
    }

    /// The workloads of [`steps`](Self::steps), without their lengths.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = Workload> {
        self.steps().map(|step| step.workload)
    }

    /// The record distribution of a workload.
    pub(crate) fn shape(&self, workload: Workload) -> Shape {
        let usual = if self.trace.is_some() { Shape::Trace } else { workload.usual_shape() };
        self.distribution.unwrap_or(usual)
    }
}

/// A number above 0.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && *number < 1e9);
    number.ok_or_else(|| format!("{text:?} is not a number above 0 and below 10⁹"))
}

fn theta(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=10.0).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from 0 to 10"))
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from 0 to 1"))
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not of the form option=value"))?;
    Ok((name.to_owned(), value.to_owned()))
}
