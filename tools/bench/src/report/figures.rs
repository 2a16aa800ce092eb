//! The figures of a series besides its throughput; the tables and the small charts share this list.

use super::{group::Group, number};
use crate::row::record::{LatencyRecord, LoadRecord, RowRecord};

/// A figure of a row.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: fn(&RowRecord) -> Option<f64>,
    pub(crate) show: fn(f64) -> String,
    /// The reference value of its chart; `None` if it has no chart of its own.
    pub(crate) chart: Option<Against>,
}

/// A chart's mark: its name and its value.
pub(crate) type Against = fn(&Group) -> Option<(&'static str, f64)>;

const ALONE: Option<Against> = Some(|_| None);

/// Latencies.
pub(crate) const LATENCY: &[Figure] = &[
    Figure { name: "mean", value: |row| latency(row, |l| l.mean), show: number::microseconds, chart: None },
    Figure { name: "p50", value: |row| latency(row, |l| l.p50), show: number::microseconds, chart: None },
    Figure { name: "p99", value: |row| latency(row, |l| l.p99), show: number::microseconds, chart: None },
    Figure { name: "p99.9", value: |row| latency(row, |l| l.p999), show: number::microseconds, chart: None },
    Figure { name: "p99.99", value: |row| latency(row, |l| l.p9999), show: number::microseconds, chart: None },
    Figure { name: "max", value: |row| latency(row, |l| l.max), show: number::microseconds, chart: None },
    Figure { name: "longest stall", value: |row| row.longest_stall_us, show: number::microseconds, chart: ALONE },
];

/// Device transfers and processor time.
pub(crate) const DEVICE: &[Figure] = &[
    Figure {
        name: "device reads per operation",
        value: |row| per_operation(row, row.kernel_device_reads.or(row.device_reads)),
        show: number::short,
        chart: Some(|group| Some(("ideal", group.median(|row| row.ideal_device_reads_per_op)?))),
    },
    Figure {
        name: "bytes read per operation",
        value: |row| per_operation(row, row.kernel_read_bytes.or(row.read_bytes)),
        show: number::bytes,
        chart: None,
    },
    Figure {
        name: "device writes per operation",
        value: |row| per_operation(row, row.kernel_device_writes.or(row.device_writes)),
        show: number::short,
        chart: None,
    },
    Figure {
        name: "bytes written per operation",
        value: |row| per_operation(row, row.kernel_write_bytes.or(row.write_bytes)),
        show: number::bytes,
        chart: ALONE,
    },
    Figure { name: "read amplification", value: |row| row.read_amplification, show: number::times, chart: ALONE },
    Figure { name: "write amplification", value: |row| row.write_amplification, show: number::times, chart: ALONE },
    Figure {
        name: "processor time per operation",
        value: |row| per_operation(row, row.cpu_seconds.map(|seconds| seconds * 1e6)),
        show: number::microseconds,
        chart: ALONE,
    },
];

/// Memory, space, and the time of load and open.
pub(crate) const SPACE_AND_TIME: &[Figure] = &[
    Figure {
        name: "memory peak",
        value: |row| row.memory_peak,
        show: number::bytes,
        chart: Some(|group| Some(("budget", group.parameters.memory_budget? as f64))),
    },
    Figure { name: "cgroup peak", value: |row| row.cgroup_peak, show: number::bytes, chart: None },
    Figure { name: "index", value: |row| row.index_bytes, show: number::bytes, chart: None },
    Figure { name: "size on disk", value: |row| row.size_on_disk, show: number::bytes, chart: ALONE },
    Figure { name: "space amplification", value: |row| row.space_amplification, show: number::times, chart: ALONE },
    Figure { name: "time to load", value: |row| load(row, |load| load.seconds), show: number::seconds, chart: ALONE },
    Figure { name: "load rate", value: |row| load(row, |load| load.ops_per_second), show: number::rate, chart: None },
    Figure {
        name: "time to update",
        value: |row| load(row, |load| load.updates_seconds),
        show: number::seconds,
        chart: None,
    },
    Figure {
        name: "time to settle",
        value: |row| load(row, |load| load.settle_seconds),
        show: number::seconds,
        chart: ALONE,
    },
    Figure { name: "time to open", value: |row| row.open_seconds, show: number::seconds, chart: ALONE },
];

fn latency(row: &RowRecord, value: fn(&LatencyRecord) -> Option<f64>) -> Option<f64> {
    row.latency_us.as_ref().and_then(value)
}

fn load(row: &RowRecord, value: fn(&LoadRecord) -> Option<f64>) -> Option<f64> {
    row.load.as_ref().and_then(value)
}

fn per_operation(row: &RowRecord, total: Option<f64>) -> Option<f64> {
    let operations = row.operations.filter(|operations| *operations > 0.0)?;
    Some(total? / operations)
}
