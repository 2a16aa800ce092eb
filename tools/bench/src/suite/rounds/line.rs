//! A row as it is printed: the child's measurements, and the parent's observations.

use serde::Serialize;

use super::{machine::Machine, parent::Ending};
use crate::{
    measure::options::{RECORDS, RunOptions},
    row::{Row, Shape, Status, StoreKind, Workload},
};

/// One line of JSON; `docs/benchmark.md` explains the names.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    kind: &'static str,
    /// Position in the sequence of workloads in an open store.
    pub(super) leg: usize,
    pub(super) round: u32,
    pub(super) status: Status,
    pub(super) error: Option<String>,
    #[serde(flatten)]
    content: Content,
    ideal_ops_per_second: Option<f64>,
    cgroup_limit: Option<u64>,
    cgroup_peak: Option<u64>,
    pub(super) machine: Machine,
}

/// The measurements, or the request if the row failed.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Content {
    Row(Box<Row>),
    Request(Request),
}

/// The parameters that distinguish the rows of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Request {
    pub(super) store: StoreKind,
    pub(super) workload: Workload,
    pub(super) distribution: Shape,
    /// `None` if a file of keys or accesses determines the number.
    pub(super) records: Option<u64>,
}

impl Request {
    pub(super) fn new(options: &RunOptions) -> Self {
        let from_files = options.keys.is_some() || options.trace.is_some();
        Request {
            store: options.store,
            workload: options.workload,
            distribution: options.shape(options.workload),
            records: options.records.or((!from_files).then_some(RECORDS)),
        }
    }
}

impl Line {
    pub(super) fn new(request: Request, round: u32, ending: Ending, machine: Machine) -> Self {
        let Ending { result, cgroup_limit, cgroup_peak } = ending;
        let (status, error, content) = match result {
            Ok(row) => (Status::Ok, None, Content::Row(row)),
            Err((status, error)) => (status, Some(error), Content::Request(request)),
        };
        let reads = content.row().and_then(|row| row.ideal_device_reads_per_op);
        let ideal_ops_per_second = reads.and_then(|reads| machine.most_per_second(reads));
        Line {
            kind: "row",
            leg: 0,
            round,
            status,
            error,
            content,
            ideal_ops_per_second,
            cgroup_limit,
            cgroup_peak,
            machine,
        }
    }

    /// The request of one workload in the sequence.
    pub(super) fn of_leg(self, leg: usize) -> Self {
        Line { leg, ..self }
    }

    /// The measurements, if the row ended well.
    pub(super) fn row(&self) -> Option<&Row> {
        self.content.row()
    }

    /// The store of the row.
    pub(super) fn store(&self) -> StoreKind {
        match &self.content {
            Content::Row(row) => row.store,
            Content::Request(request) => request.store,
        }
    }

    /// The measured or requested workload.
    pub(super) fn workload(&self) -> Workload {
        match &self.content {
            Content::Row(row) => row.workload,
            Content::Request(request) => request.workload,
        }
    }

    /// The throughput limit of disk and processors, in operations a second.
    pub(super) fn ideal(&self) -> Option<f64> {
        self.ideal_ops_per_second
    }
}

impl Content {
    fn row(&self) -> Option<&Row> {
        match self {
            Content::Row(row) => Some(row),
            Content::Request(_) => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::row::{Durability, Latency};

    /// A line with this speed, or of a row that failed.
    pub(in crate::suite::rounds) fn line(store: StoreKind, round: u32, speed: Option<f64>, machine: Machine) -> Line {
        let request = Request { store, workload: Workload::C, distribution: Shape::Uniform, records: Some(10) };
        let result = speed.map(|speed| Box::new(row(store, speed))).ok_or((Status::Failed, "it failed".to_owned()));
        Line::new(request, round, Ending { result, cgroup_limit: None, cgroup_peak: None }, machine)
    }

    fn row(store: StoreKind, ops_per_second: f64) -> Row {
        Row {
            store,
            workload: Workload::C,
            distribution: Shape::Uniform,
            theta: 0.99,
            stretch: None,
            trace: None,
            records: 10,
            key_size: 8.0,
            value_size: 56,
            threads: 1,
            batch: 1,
            rate: None,
            durability: Durability::None,
            warmup_operations: 0,
            operations: 10,
            seconds: 1.0,
            ops_per_second,
            latency_us: Latency { p50: 1.0, p99: 1.0, p999: 1.0, p9999: 1.0, max: 1.0, mean: 1.0 },
            device_reads: None,
            device_writes: None,
            read_bytes: None,
            write_bytes: None,
            kernel_device_reads: None,
            kernel_device_writes: None,
            kernel_read_bytes: None,
            kernel_write_bytes: None,
            user_read_bytes: 640,
            user_write_bytes: 0,
            device_reads_per_op: None,
            ideal_device_reads_per_op: Some(0.5),
            read_amplification: None,
            write_amplification: None,
            space_amplification: 1.0,
            size_on_disk: 640,
            memory_budget: 640,
            memory_peak: 640,
            index_bytes: 0,
            cpu_seconds: 1.0,
            open_seconds: 0.0,
            longest_stall_us: 0.0,
            load: None,
            engine: BTreeMap::new(),
            latency_cdf: Vec::new(),
            timeline: Vec::new(),
        }
    }
}
