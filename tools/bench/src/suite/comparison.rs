//! What a cell compares: two sides by a metric, with the paper's ratio.

use serde::Serialize;
use serde_json::Value;

use super::figures;

/// The metric of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    /// Operations a second. For throughput, also of the worst windows, more is better; for every other metric less is
    /// better.
    Throughput,
    /// Bytes read from the device per operation.
    ReadBytes,
    /// Bytes written to the device per operation.
    WriteBytes,
    /// Bytes read from the device per byte that the user read.
    ReadAmplification,
    /// Bytes written to the device per byte that the user wrote.
    WriteAmplification,
    /// Read requests per operation.
    DeviceReads,
    /// Memory of the index.
    IndexBytes,
    /// Reorganisations per operation.
    Reorganisations,
    /// Throughput of the worst window of scans after updates, relative to the steady one.
    WorstWindow,
    /// Bytes that adaptations rewrote, relative to the bytes of the hot range.
    RewrittenBytes,
    /// Seconds to adapt a GB of records.
    AdaptSeconds,
    /// Throughput of the worst second while adapting, relative to the phase before.
    WorstMeanwhile,
}

impl Metric {
    /// Its value in a row, if the row has one.
    pub(super) fn of(self, row: &Value) -> Option<f64> {
        let an_operation =
            |value: &Value| Some(value.as_f64()? / row["operations"].as_f64().filter(|count| *count > 0.0)?);
        match self {
            Metric::Throughput => row["ops_per_second"].as_f64(),
            Metric::ReadBytes => an_operation(&row["kernel_read_bytes"]),
            Metric::WriteBytes => an_operation(&row["kernel_write_bytes"]),
            Metric::ReadAmplification => row["read_amplification"].as_f64(),
            Metric::WriteAmplification => row["write_amplification"].as_f64(),
            Metric::DeviceReads => row["device_reads_per_op"].as_f64(),
            Metric::IndexBytes => row["index_bytes"].as_f64(),
            Metric::Reorganisations => an_operation(&row["engine"]["reorganisations"]),
            Metric::WorstWindow => figures::worst_window(row),
            Metric::RewrittenBytes => figures::rewritten_bytes(row),
            Metric::AdaptSeconds => figures::adapt_seconds(row),
            Metric::WorstMeanwhile => figures::worst_meanwhile(row),
        }
    }

    /// The value that the best possible store would have in this row.
    pub(super) fn ideal(self, row: &Value) -> Option<f64> {
        match self {
            Metric::Throughput => row["ideal_ops_per_second"].as_f64(),
            Metric::DeviceReads => row["ideal_device_reads_per_op"].as_f64(),
            _ => None,
        }
    }
}

/// One side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The suite's own engine, or the store that replaces it.
    Ours,
    /// A store, followed by the settings of its variant.
    Store(&'static str),
    /// A cache that holds the hottest records in the whole budget, limited only by disk and processor.
    Ideal,
    /// The disk's own rate of random reads.
    Disk,
    /// The same row in its steady state.
    Steady,
    /// The bytes of the hot range in the same row.
    HotRange,
    /// A GB of records.
    Gigabyte,
    /// The previous phase.
    Before,
}

/// One comparison of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    pub(super) metric: Metric,
    pub(super) ours: Side,
    pub(super) theirs: Side,
    /// Ours divided by theirs in the paper.
    pub(super) paper: Option<f64>,
    /// The goal for our ratio: a minimum where more is better, else a maximum.
    pub(super) goal: Option<f64>,
}

impl Comparison {
    /// Compares the suite's own engine with a rival.
    pub(super) fn with(theirs: Side, metric: Metric, paper: Option<f64>) -> Self {
        Comparison { metric, ours: Side::Ours, theirs, paper, goal: None }
    }

    /// Compares two variants of one store.
    pub(super) fn of(ours: &'static str, theirs: &'static str, metric: Metric, paper: Option<f64>) -> Self {
        Comparison { metric, ours: Side::Store(ours), theirs: Side::Store(theirs), paper, goal: None }
    }

    /// Sets a goal for our ratio.
    pub(super) fn goal(self, goal: f64) -> Self {
        Comparison { goal: Some(goal), ..self }
    }
}
