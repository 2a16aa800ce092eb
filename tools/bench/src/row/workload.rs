//! The workloads and the distributions by name, as rows and the command line have them.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The workloads by name: YCSB's six, three that only write, one that has a store adapt, and three of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    /// 50% reads, 50% updates.
    A,
    /// 95% reads, 5% updates.
    B,
    /// Reads.
    C,
    /// 95% reads, of the newest by default, 5% inserts.
    D,
    /// 95% scans of 1 to 100 records, 5% inserts.
    E,
    /// 50% reads, 50% read-modify-writes.
    F,
    /// Updates.
    Update,
    /// Inserts of new records into a loaded store, and reads if asked for.
    Insert,
    /// The load itself.
    Load,
    /// As `e`, from a hint that all keys are read mostly until the store has adapted to that.
    Adapt,
    /// Inserts of new records, each followed by the removal of the first one that there is.
    Queue,
    /// Removals of the first and of the last record that there are.
    Drain,
    /// Reads of the first record that there is.
    First,
}

/// The distributions by name; `docs/benchmark.md` defines them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    /// Every record equally often.
    Uniform,
    /// Zipf over all records, the hot ones spread over the records.
    Zipfian,
    /// Zipf over all records, the newest the hottest.
    Latest,
    /// 80% of the operations to 1% of the records, which move through all of them once per run.
    Hotspot,
    /// Every record of a stretch of keys that lie side by side equally often; --stretch says how many of all these are.
    Stretch,
    /// As an access trace says; comes with --trace.
    Trace,
}

impl Workload {
    /// Whether it adds records.
    pub(crate) fn inserts(self) -> bool {
        matches!(self, Workload::D | Workload::E | Workload::Insert | Workload::Adapt | Workload::Queue)
    }

    /// Whether it removes records, so that the store cannot be reused.
    pub(crate) fn removes(self) -> bool {
        matches!(self, Workload::Queue | Workload::Drain)
    }

    /// Whether it overwrites existing records, so that their versions must be tracked.
    pub(crate) fn updates(self) -> bool {
        matches!(self, Workload::A | Workload::B | Workload::F | Workload::Update)
    }

    /// Whether its operations read single records, so that a miss ratio gives the device reads per operation.
    pub(crate) fn reads_points(self) -> bool {
        matches!(self, Workload::A | Workload::B | Workload::C | Workload::F)
    }

    /// The distribution that YCSB defines for it.
    pub(crate) fn usual_shape(self) -> Shape {
        match self {
            Workload::D => Shape::Latest,
            Workload::Insert | Workload::Load | Workload::Queue | Workload::Drain | Workload::First => Shape::Uniform,
            _ => Shape::Zipfian,
        }
    }
}
