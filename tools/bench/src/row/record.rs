//! The lines of result files for reading. Every field is optional, so that lines of older and newer versions can be
//! read.

use serde::Deserialize;
use serde_json::Value;

/// The parameters that must be equal for rows to be comparable. `docs/benchmark.md` defines the numbers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct RowParameters {
    pub(crate) suite: Option<String>,
    /// The cell of the suite's table.
    pub(crate) cell: Option<String>,
    pub(crate) workload: Option<String>,
    /// The position in the sequence of workloads in stores that stay open, from 0.
    pub(crate) leg: Option<u64>,
    pub(crate) distribution: Option<String>,
    pub(crate) theta: Option<f64>,
    pub(crate) records: Option<u64>,
    pub(crate) key_size: Option<f64>,
    pub(crate) value_size: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) batch: Option<u64>,
    pub(crate) rate: Option<f64>,
    pub(crate) durability: Option<String>,
    pub(crate) memory_budget: Option<u64>,
}

impl RowParameters {
    /// Whether both may belong to one measurement: same suite and cell, and no differing parameter that both name.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        self.follows(other) && same(&self.workload, &other.workload) && same(&self.leg, &other.leg)
    }

    /// Whether both may belong to two phases of one measurement.
    pub(crate) fn follows(&self, other: &Self) -> bool {
        self.suite == other.suite
            && self.cell == other.cell
            && same(&self.distribution, &other.distribution)
            && same(&self.theta, &other.theta)
            && same(&self.records, &other.records)
            && same(&self.key_size, &other.key_size)
            && same(&self.value_size, &other.value_size)
            && same(&self.threads, &other.threads)
            && same(&self.batch, &other.batch)
            && same(&self.rate, &other.rate)
            && same(&self.durability, &other.durability)
            && same(&self.memory_budget, &other.memory_budget)
    }

    /// Whether all parameters are present, as in rows that ended well.
    pub(crate) fn are_whole(&self) -> bool {
        self.value_size.is_some() && self.memory_budget.is_some()
    }
}

fn same<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// One store in one round.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RowRecord {
    pub(crate) store: Option<String>,
    #[serde(flatten)]
    pub(crate) parameters: RowParameters,
    pub(crate) round: Option<u64>,
    pub(crate) status: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) operations: Option<f64>,
    pub(crate) seconds: Option<f64>,
    pub(crate) ops_per_second: Option<f64>,
    pub(crate) latency_us: Option<LatencyRecord>,
    pub(crate) latency_cdf: Option<Vec<(Option<f64>, Option<f64>)>>,
    pub(crate) longest_stall_us: Option<f64>,
    pub(crate) timeline: Option<Vec<PointRecord>>,
    pub(crate) device_reads: Option<f64>,
    pub(crate) device_writes: Option<f64>,
    pub(crate) read_bytes: Option<f64>,
    pub(crate) write_bytes: Option<f64>,
    pub(crate) kernel_device_reads: Option<f64>,
    pub(crate) kernel_device_writes: Option<f64>,
    pub(crate) kernel_read_bytes: Option<f64>,
    pub(crate) kernel_write_bytes: Option<f64>,
    pub(crate) ideal_device_reads_per_op: Option<f64>,
    pub(crate) ideal_ops_per_second: Option<f64>,
    pub(crate) read_amplification: Option<f64>,
    pub(crate) write_amplification: Option<f64>,
    pub(crate) space_amplification: Option<f64>,
    pub(crate) memory_peak: Option<f64>,
    pub(crate) cgroup_peak: Option<f64>,
    pub(crate) index_bytes: Option<f64>,
    pub(crate) size_on_disk: Option<f64>,
    pub(crate) open_seconds: Option<f64>,
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) load: Option<LoadRecord>,
    pub(crate) machine: Option<MachineRecord>,
}

impl RowRecord {
    /// The throughput, if the row ended well.
    pub(crate) fn throughput(&self) -> Option<f64> {
        let well = self.status.as_deref().is_none_or(|status| status == "ok");
        self.ops_per_second.filter(|ops| well && ops.is_finite())
    }

    /// The outcome in words.
    pub(crate) fn ending(&self) -> String {
        match self.status.as_deref() {
            Some("ok") | None if self.throughput().is_some() => "ok".to_owned(),
            Some("ok") | None => "no throughput".to_owned(),
            Some(status) => status.replace('_', " "),
        }
    }

    /// The store's name.
    pub(crate) fn store(&self) -> &str {
        self.store.as_deref().unwrap_or("(no store)")
    }
}

/// Percentiles in microseconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LatencyRecord {
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) p999: Option<f64>,
    pub(crate) p9999: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) mean: Option<f64>,
}

/// A point of the timeline of the measured phase.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PointRecord {
    pub(crate) seconds: Option<f64>,
    /// Since the start of the phase.
    pub(crate) operations: Option<f64>,
    pub(crate) memory_bytes: Option<f64>,
}

/// The load that preceded the measurement.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoadRecord {
    pub(crate) seconds: Option<f64>,
    pub(crate) ops_per_second: Option<f64>,
    pub(crate) settle_seconds: Option<f64>,
    pub(crate) updates_seconds: Option<f64>,
    pub(crate) capped: Option<bool>,
}

/// The state of the machine before and after a row.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MachineRecord {
    pub(crate) before: Option<MachineSpeed>,
    pub(crate) after: Option<MachineSpeed>,
}

/// The machine's speed at one moment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MachineSpeed {
    /// Nanoseconds of a fixed loop.
    pub(crate) loop_ns: Option<f64>,
    pub(crate) disk_reads_per_second: Option<f64>,
    /// The fraction of the processor time that other guests took.
    pub(crate) stolen: Option<f64>,
}

/// One store over all rounds. Medians and ratios are recomputed from the rows; this carries the noise verdict.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SummaryRecord {
    pub(crate) store: Option<String>,
    #[serde(flatten)]
    pub(crate) parameters: RowParameters,
    pub(crate) noisy: Option<bool>,
    pub(crate) why: Option<Value>,
}

/// A paper's ratio between two stores, or two variants of one, beside the measured one. Ratios are ours divided by
/// theirs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ComparisonRecord {
    pub(crate) suite: Option<String>,
    pub(crate) cell: Option<String>,
    /// The compared metric; `None` means throughput.
    pub(crate) metric: Option<String>,
    pub(crate) ours: Option<String>,
    pub(crate) theirs: Option<String>,
    pub(crate) paper_ratio: Option<f64>,
    pub(crate) our_ratio: Option<f64>,
    /// The goal for our ratio.
    pub(crate) goal: Option<f64>,
    /// The number of cells behind a mean, and the number expected.
    pub(crate) cells: Option<u64>,
    pub(crate) of_cells: Option<u64>,
}

impl ComparisonRecord {
    /// The metric in words.
    pub(crate) fn metric(&self) -> String {
        self.metric.as_deref().unwrap_or("throughput").replace('_', " ")
    }

    /// The two sides in words.
    pub(crate) fn sides(&self) -> String {
        let name = |side: &Option<String>| side.clone().unwrap_or_else(|| "?".to_owned());
        format!("{} / {}", name(&self.ours), name(&self.theirs))
    }

    /// Our ratio minus the paper's.
    pub(crate) fn difference(&self) -> Option<f64> {
        Some(self.our_ratio? - self.paper_ratio?)
    }
}
