//! Results, as one line of JSON and as a table.

use std::collections::BTreeMap;

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{
    distribution::Shape,
    size,
    store::{self, Number},
    workload::Workload,
};

/// The result of `run`. The names are a public interface; `docs/benchmark.md` explains each. Sizes are bytes, times seconds unless the name says
/// otherwise.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) store: store::Kind,
    pub(crate) workload: Workload,
    pub(crate) distribution: Shape,
    pub(crate) theta: f64,
    pub(crate) trace: Option<String>,
    pub(crate) records: u64,
    pub(crate) key_size: f64,
    pub(crate) value_size: u64,
    pub(crate) threads: u64,
    pub(crate) batch: u64,
    pub(crate) rate: Option<f64>,
    pub(crate) durability: store::Durability,
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) ops_per_second: f64,
    pub(crate) latency_us: Latency,
    pub(crate) device_reads: u64,
    pub(crate) device_writes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) kernel_read_bytes: Option<u64>,
    pub(crate) kernel_write_bytes: Option<u64>,
    pub(crate) user_read_bytes: u64,
    pub(crate) user_write_bytes: u64,
    pub(crate) device_reads_per_op: f64,
    pub(crate) ideal_device_reads_per_op: Option<f64>,
    pub(crate) memory_budget: u64,
    pub(crate) memory_peak: u64,
    pub(crate) index_bytes: u64,
    pub(crate) cpu_seconds: f64,
    pub(crate) load: Option<Load>,
    pub(crate) engine: BTreeMap<String, Number>,
}

/// The load that preceded the measurement in the same process, or that made the prepared state.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) seconds: f64,
    pub(crate) ops_per_second: f64,
    pub(crate) settle_seconds: f64,
    /// Time of the updates of a prepared state.
    pub(crate) updates_seconds: Option<f64>,
    /// Whether the time for the preparation was over before everything was loaded and updated.
    pub(crate) capped: bool,
}

/// Percentiles in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) p9999: f64,
    pub(crate) max: f64,
    pub(crate) mean: f64,
}

impl Latency {
    /// From a histogram of nanoseconds.
    pub(crate) fn new(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        let max = histogram.max() as f64 / 1e3;
        Latency { p50: at(0.5), p99: at(0.99), p999: at(0.999), p9999: at(0.9999), max, mean: histogram.mean() / 1e3 }
    }
}

impl Row {
    /// Prints it on standard output.
    pub(crate) fn print(&self, json: bool) -> serde_json::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
        } else {
            println!("{}", self.table());
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut rows = vec![
            ("operations a second", format!("{:.0}", self.ops_per_second)),
            ("operations", format!("{} in {:.1} s", self.operations, self.seconds)),
            ("latency p50, p99, p99.9", microseconds(&[self.latency_us.p50, self.latency_us.p99, self.latency_us.p999])),
            ("latency p99.99, max, mean", microseconds(&[self.latency_us.p9999, self.latency_us.max, self.latency_us.mean])),
            ("device reads an operation", format!("{:.3}", self.device_reads_per_op)),
        ];
        if let Some(ideal) = self.ideal_device_reads_per_op {
            rows.push(("  with the hottest records kept", format!("{ideal:.3}")));
        }
        rows.extend([
            ("device reads", format!("{}, {}", self.device_reads, size::show(self.read_bytes))),
            ("device writes", format!("{}, {}", self.device_writes, size::show(self.write_bytes))),
            (
                "read and written by the user",
                format!("{}, {}", size::show(self.user_read_bytes), size::show(self.user_write_bytes)),
            ),
            ("memory: budget, peak", format!("{}, {}", size::show(self.memory_budget), size::show(self.memory_peak))),
            ("index", size::show(self.index_bytes)),
            ("processor time", format!("{:.1} s", self.cpu_seconds)),
        ]);
        if let Some(load) = self.load {
            let Load { seconds, ops_per_second, settle_seconds, .. } = load;
            rows.push(("load", format!("{seconds:.1} s, {ops_per_second:.0} a second, {settle_seconds:.1} s to settle")));
        }
        let engine = self.engine.iter().map(|(name, number)| (name.as_str(), number.value().to_string()));
        table(&self.title(), rows.into_iter().chain(engine))
    }

    fn title(&self) -> String {
        let (store, workload, distribution) = (name(&self.store), name(&self.workload), name(&self.distribution));
        let size = self.key_size + self.value_size as f64;
        format!("{store}, workload {workload}, {distribution}, {} records of {size:.0} B", self.records)
    }
}

fn name<T: ValueEnum>(value: &T) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}

fn microseconds(times: &[f64]) -> String {
    let times: Vec<String> = times.iter().map(|time| format!("{time:.1}")).collect();
    format!("{} µs", times.join(", "))
}

/// A table of names and numbers under a title.
fn table<'a>(title: &str, rows: impl Iterator<Item = (&'a str, String)>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header([title, ""]);
    rows.for_each(|(name, value)| {
        table.add_row([name, &value]);
    });
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
