//! TreeLine's point workloads, Zipf 0.99 and uniform, memory a third of the data.

use crate::{
    row::{
        Durability::{self, Buffered, None as Unlogged, Sync},
        Shape::{Latest, Uniform, Zipfian},
        Workload::{A, B, C, D, F},
    },
    suite::{
        cell::{Cell, Data, Variant},
        comparison::{Comparison, Metric, Side},
        table::{Group, Suite},
    },
};

const MEMORY: f64 = 0.33;

pub(super) fn suite() -> Suite {
    let small = Data::synthetic(1_000_000, 20_000_000, 8, 56);
    let large = Data::synthetic(150_000, 3_000_000, 8, 1016);
    // More preparations at the full size do not fit into the time.
    let small_logged = Data { full: 5_000_000, ..small.clone() };
    let large_logged = Data { full: 1_500_000, ..large.clone() };
    let large_switched = Data { full: 1_000_000, ..large.clone() };
    let mut cells = unlogged(&small);
    cells.extend(unlogged(&large));
    cells.extend(logged(&small_logged));
    cells.extend(logged(&large_logged));
    cells.push(record_cache(&large_switched));
    Suite {
        name: "treeline-points",
        engine: "tree",
        stores: &["tree", "rocksdb", "lmdb", "bf-tree"],
        usual: 2,
        cells,
        groups: groups(),
    }
}

/// With a uniform distribution the cache is full after this many operations per record, and further warm-up has no
/// effect.
const UNIFORM_WARMUP: f64 = 0.4;

/// Reads before writes, since all share one state; the workload that adds records comes last.
fn unlogged(data: &Data) -> Vec<Cell> {
    let cell = |workload, shape| match Cell::new(workload, shape, data, Unlogged, MEMORY) {
        cell if shape == Uniform => cell.warmup(UNIFORM_WARMUP),
        cell => cell.steady(),
    };
    let batches = Cell { batch: 32, stores: Some(&["tree"]), ..cell(C, Uniform) };
    let [mut read, mut mostly, mut half] = [C, B, A].map(|workload| cell(workload, Zipfian));
    if data.record_size() == 64 {
        read = bytes(read, Metric::ReadBytes, 18.8 / 65.35);
        mostly = bytes(mostly, Metric::ReadBytes, 19.0 / 31.55);
        half = bytes(bytes(half, Metric::ReadBytes, 12.0 / 27.0), Metric::WriteBytes, 3.09 / 4.27);
    } else {
        read = bytes(read, Metric::ReadBytes, 1.0 / 6.8);
        mostly = bytes(mostly, Metric::ReadBytes, 1.0 / 5.4);
    }
    vec![
        read.compare(Comparison::with(Side::Ideal, Metric::DeviceReads, None)),
        cell(C, Uniform),
        batches.compare(Comparison::with(Side::Disk, Metric::Throughput, None)),
        mostly,
        cell(B, Uniform),
        half,
        cell(A, Uniform),
        cell(F, Zipfian),
        cell(F, Uniform),
        cell(D, Latest),
    ]
}

fn bytes(cell: Cell, metric: Metric, paper: f64) -> Cell {
    cell.compare(Comparison::with(Side::Store("rocksdb"), metric, Some(paper)))
}

fn logged(data: &Data) -> Vec<Cell> {
    let cell = |workload, shape, durability| Cell::new(workload, shape, data, durability, MEMORY).steady();
    vec![
        cell(C, Zipfian, Buffered),
        cell(B, Zipfian, Buffered),
        cell(A, Zipfian, Buffered),
        cell(F, Zipfian, Buffered),
        cell(A, Zipfian, Sync).warmup(0.02),
        cell(D, Latest, Buffered),
    ]
}

/// The record cache on and off.
fn record_cache(data: &Data) -> Cell {
    let variant = |value| Variant { settings: vec![("record_cache", value)], store: Some("tree") };
    Cell::new(A, Zipfian, data, Unlogged, MEMORY)
        .warmup(0.1)
        .variants(vec![variant("on"), variant("off")])
        .compare(Comparison::of("tree record_cache=on", "tree record_cache=off", Metric::Throughput, None))
}

fn skewed(cell: &Cell, size: u64, durability: Durability) -> bool {
    let plain = cell.variants.iter().all(|variant| variant.settings.is_empty());
    plain
        && matches!(cell.distribution, Zipfian | Latest)
        && cell.data.record_size() == size
        && cell.durability == durability
}

fn uniform(cell: &Cell) -> bool {
    cell.distribution == Uniform && cell.batch == 1
}

fn groups() -> Vec<Group> {
    let group = |name, contains, paper| Group { name, metric: Metric::Throughput, contains, paper };
    vec![
        group("zipfian 64B none", |cell| skewed(cell, 64, Unlogged), &[("rocksdb", 1.62)]),
        group("zipfian 1024B none", |cell| skewed(cell, 1024, Unlogged), &[("rocksdb", 2.99)]),
        group("zipfian none", |cell| skewed(cell, 64, Unlogged) || skewed(cell, 1024, Unlogged), &[("rocksdb", 2.20)]),
        group("zipfian 64B buffered", |cell| skewed(cell, 64, Buffered), &[]),
        group("zipfian 1024B buffered", |cell| skewed(cell, 1024, Buffered), &[]),
        group("zipfian sync", |cell| skewed(cell, 64, Sync) || skewed(cell, 1024, Sync), &[]),
        group("uniform B, C", |cell| uniform(cell) && matches!(cell.workload, B | C), &[("rocksdb", 1.36)]),
        group("uniform A, F", |cell| uniform(cell) && matches!(cell.workload, A | F), &[("rocksdb", 1.55)]),
        group("uniform", uniform, &[("rocksdb", 1.45)]),
    ]
}
