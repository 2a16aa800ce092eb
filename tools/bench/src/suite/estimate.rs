//! Estimates the time and the space of a cell before it runs, for `--list` and for the time limit.

use super::{
    cell::{Cell, Data, Warm},
    options::SuiteOptions,
    scale::Scale,
};
use crate::row::{Durability, Shape, Workload};

/// Longest preparation of a store, in seconds.
const LONGEST_PREPARATION: f64 = 1200.0;
/// Seconds to settle a store: a fixed part, plus one second for this many bytes of records.
const SETTLE: f64 = 3.0;
const BYTES_A_SECOND_OF_SETTLING: f64 = 100e6;
/// Seconds to open and close a store and to observe the machine.
const OPEN: f64 = 3.0;
/// Longest warm-up that the estimate assumes; the warm-up is limited by operations.
const LONGEST_WARMUP: f64 = 300.0;
/// Operations per record after which a store is usually steady: a cache of records has then seen most of the hot
/// records, a cache of blocks all blocks.
const STEADY_RECORDS: f64 = 4.0;
const STEADY_BLOCKS: f64 = 1.25;
/// Memory, as a fraction of the records, below which scans over all keys wait for the disk.
const SCARCE: f64 = 0.2;
/// Bytes a second that are adapted while scans run.
const BYTES_A_SECOND_OF_ADAPTING: f64 = 30e6;

/// Seconds and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Estimate {
    /// Seconds to load and update the states that do not exist yet.
    pub(super) preparing: f64,
    /// Seconds to warm up and measure all stores and rounds.
    pub(super) measuring: f64,
    /// Bytes of the states that do not exist yet.
    pub(super) new_bytes: u64,
}

impl Estimate {
    /// All seconds.
    pub(super) fn seconds(self) -> f64 {
        self.preparing + self.measuring
    }
}

/// The estimate of one cell; `ready` says which stores of which states exist.
pub(super) fn estimate(
    cell: &Cell,
    stores: &[String],
    options: &SuiteOptions,
    ready: &dyn Fn(&str, &str) -> bool,
) -> Estimate {
    let (scale, rounds) = (options.scale, options.rounds);
    let warmups = if options.stay_open && cell.variants.len() == 1 { 1 } else { rounds };
    let mut sum = Estimate::default();
    for variant in &cell.variants {
        let state = cell.state(variant, scale);
        for store in cell.stores_of(variant, stores) {
            sum.measuring += f64::from(rounds) * (OPEN + measured(cell, &store, scale))
                + f64::from(warmups) * warmup(cell, &store, scale);
            if !ready(&state, &store) {
                let times = if cell.keeps_state() { 1.0 } else { f64::from(rounds) };
                sum.preparing += times * preparing(&cell.data, &store, scale, cell.keeps_state());
                sum.new_bytes += bytes(&cell.data, &store, scale);
            }
        }
    }
    sum
}

fn measured(cell: &Cell, store: &str, scale: Scale) -> f64 {
    let phases = cell.phases_at(scale).map(|(workload, operations)| match workload {
        Workload::Adapt => cell.data.bytes(scale) as f64 / BYTES_A_SECOND_OF_ADAPTING,
        _ => operations as f64 / operations_of(&Cell { workload, ..cell.clone() }, store),
    });
    match cell.workload {
        Workload::Load => 0.0,
        _ if cell.phases.is_empty() => scale.seconds(),
        _ => phases.sum(),
    }
}

fn warmup(cell: &Cell, store: &str, scale: Scale) -> f64 {
    if cell.workload == Workload::Load {
        return 0.0;
    }
    let a_record = match cell.warmup {
        Warm::Operations(a_record) => a_record,
        Warm::All => 1.0,
        Warm::Steady if keeps_records(store) => STEADY_RECORDS,
        Warm::Steady => STEADY_BLOCKS,
    };
    let warmup = cell.data.records(scale) as f64 * a_record / operations_of(cell, store);
    warmup.min(LONGEST_WARMUP)
}

/// Whether a store caches records.
fn keeps_records(store: &str) -> bool {
    matches!(store, "tree" | "hash" | "adaptive")
}

/// Estimated operations a second, from runs on the machine of `docs/performance.md`; only roughly right.
fn operations_of(cell: &Cell, store: &str) -> f64 {
    let skewed = cell.distribution != Shape::Uniform;
    let rate = match (cell.workload, skewed) {
        (Workload::E, _) if is_scattered(cell) => 25_000.0,
        (Workload::E, _) => 50_000.0,
        (Workload::Update, true) => hot_updates_of(cell, store),
        (_, true) if keeps_records(store) => 700_000.0,
        (Workload::C | Workload::B | Workload::D, true) => 250_000.0,
        (Workload::A | Workload::F, true) => 160_000.0,
        _ => 120_000.0,
    };
    let is_fast = matches!(store, "tree" | "rocksdb" | "hash" | "lsm" | "adaptive" | "null");
    let slower = if is_fast || cell.workload == Workload::E && is_small_stretch(cell) { 1.0 } else { 0.5 };
    let of_size = 2.0 / (1.0 + cell.data.record_size() as f64 / 64.0).max(2.0).sqrt();
    let synced = if cell.durability == Durability::Sync && cell.workload != Workload::C { 0.1 } else { 1.0 };
    rate * slower * of_size * synced
}

/// Estimated updates a second of hot records. Tables take updates at any rate, pages only while the dirty ones fit into
/// memory.
fn hot_updates_of(cell: &Cell, store: &str) -> f64 {
    match store {
        "adaptive" | "lsm" | "rocksdb" => 500_000.0,
        "tree" if is_small_stretch(cell) => 700_000.0,
        "tree" => 60_000.0,
        _ => 120_000.0,
    }
}

/// Whether the cell uses adjacent keys that fit into memory.
fn is_small_stretch(cell: &Cell) -> bool {
    cell.distribution == Shape::Stretch && cell.stretch < cell.memory
}

/// Whether the cell's keys are spread over all records, few of which fit into memory.
fn is_scattered(cell: &Cell) -> bool {
    cell.distribution != Shape::Stretch && cell.memory < SCARCE
}

/// Seconds for the load, and for twice as many updates if the state is prepared.
fn preparing(data: &Data, store: &str, scale: Scale, updated: bool) -> f64 {
    let passes = if updated && scale.prepared() { 3.0 } else { 1.0 };
    let writes = data.records(scale) as f64 * passes;
    let settle = SETTLE + data.bytes(scale) as f64 / BYTES_A_SECOND_OF_SETTLING;
    (writes * seconds_a_write(store, data.record_size() as f64) + settle).min(LONGEST_PREPARATION)
}

/// Estimated seconds per write: a fixed part, and a part by size.
fn seconds_a_write(store: &str, size: f64) -> f64 {
    let (a_second, bytes_a_second) = match store {
        "null" => (1e7, 1e12),
        "tree" => (120e3, 35e6),
        "lsm" | "adaptive" => (500e3, 200e6),
        "rocksdb" => (350e3, 100e6),
        "hash" => (200e3, 80e6),
        "lmdb" => (12e3, 35e6),
        _ => (60e3, 35e6),
    };
    1.0 / a_second + size / bytes_a_second
}

/// Disk space of a state: the engine's bytes per byte of a record, including rewritten data before the old data is
/// freed.
fn bytes(data: &Data, store: &str, scale: Scale) -> u64 {
    let amplification = match store {
        "null" => 0.0,
        "lmdb" | "redb" | "sled" => 2.0,
        "tree" => 1.7,
        _ => 1.5,
    };
    // A plain copy of the keys is kept beside each store.
    let keys = data.keys.label().map_or(0, |_| 8 * data.records(scale));
    (data.bytes(scale) as f64 * amplification) as u64 + keys
}
