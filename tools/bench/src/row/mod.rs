//! The format of results: one line of JSON a row. `measure` fills a [`Row`], `suite` prints it with what it observed
//! beside, and `report` reads the lines of many files as [`record`]s.
//!
//! The names are a public interface; `docs/benchmark.md` explains each. Sizes are bytes, times seconds unless the name
//! says otherwise.

pub(crate) mod record;
mod store;
mod workload;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

pub(crate) use self::{
    store::{Durability, StoreKind},
    workload::{Shape, Workload},
};

/// The result of one row, as the process that measured it tells it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) store: StoreKind,
    pub(crate) workload: Workload,
    pub(crate) distribution: Shape,
    pub(crate) theta: f64,
    pub(crate) stretch: Option<f64>,
    pub(crate) trace: Option<String>,
    pub(crate) records: u64,
    pub(crate) key_size: f64,
    pub(crate) value_size: u64,
    pub(crate) threads: u64,
    pub(crate) batch: u64,
    pub(crate) rate: Option<f64>,
    pub(crate) durability: Durability,
    pub(crate) warmup_operations: u64,
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) ops_per_second: f64,
    pub(crate) latency_us: Latency,
    pub(crate) device_reads: Option<u64>,
    pub(crate) device_writes: Option<u64>,
    pub(crate) read_bytes: Option<u64>,
    pub(crate) write_bytes: Option<u64>,
    pub(crate) kernel_device_reads: Option<u64>,
    pub(crate) kernel_device_writes: Option<u64>,
    pub(crate) kernel_read_bytes: Option<u64>,
    pub(crate) kernel_write_bytes: Option<u64>,
    pub(crate) user_read_bytes: u64,
    pub(crate) user_write_bytes: u64,
    pub(crate) device_reads_per_op: Option<f64>,
    pub(crate) ideal_device_reads_per_op: Option<f64>,
    pub(crate) read_amplification: Option<f64>,
    pub(crate) write_amplification: Option<f64>,
    pub(crate) space_amplification: f64,
    pub(crate) size_on_disk: u64,
    pub(crate) memory_budget: u64,
    pub(crate) memory_peak: u64,
    pub(crate) index_bytes: u64,
    pub(crate) cpu_seconds: f64,
    pub(crate) open_seconds: f64,
    pub(crate) longest_stall_us: f64,
    pub(crate) load: Option<Load>,
    pub(crate) engine: BTreeMap<String, u64>,
    /// Quantiles and microseconds.
    pub(crate) latency_cdf: Vec<(f64, f64)>,
    pub(crate) timeline: Vec<Point>,
}

/// The load before the measurement in the same process, or the load of the prepared state.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) seconds: f64,
    pub(crate) ops_per_second: f64,
    pub(crate) settle_seconds: f64,
    /// Time of the updates of a prepared state.
    pub(crate) updates_seconds: Option<f64>,
    /// Whether time ran out before everything was loaded and updated.
    pub(crate) capped: bool,
}

/// Percentiles in microseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) p9999: f64,
    pub(crate) max: f64,
    pub(crate) mean: f64,
}

/// The totals at one moment of a phase.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Seconds since the start of the phase.
    pub(crate) seconds: f64,
    pub(crate) operations: u64,
    pub(crate) memory_bytes: u64,
    /// Requests by the kernel's count; `None` without a cgroup.
    pub(crate) device_reads: Option<u64>,
    pub(crate) device_writes: Option<u64>,
}

/// The outcome of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// The row is complete.
    Ok,
    /// The store or the request failed.
    Failed,
    /// The store gave a wrong answer.
    Wrong,
    /// It exceeded the memory of its cgroup.
    OutOfMemory,
    /// No operation completed for a long time.
    Hung,
    /// This binary was built without the store.
    Unavailable,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Ok => "ok",
            Status::Failed => "failed",
            Status::Wrong => "wrong",
            Status::OutOfMemory => "out of memory",
            Status::Hung => "hung",
            Status::Unavailable => "unavailable",
        })
    }
}
