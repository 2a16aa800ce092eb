//! F2's YCSB workloads: 8-byte keys, 100-byte values, memory about a tenth of the data.

use crate::{
    row::{
        Durability::{self, Buffered, None as Unlogged, Sync},
        Shape::{Latest, Uniform, Zipfian},
        Workload::{A, B, C, D, F},
    },
    suite::{
        cell::{Cell, Data, Variant, Warm},
        comparison::{Comparison, Metric, Side},
        table::{Group, Suite},
    },
};

/// 220 MiB for 20 M records; the paper has 3 GiB for 250 M, which is 13 bytes a record against our 11.5.
const MEMORY: f64 = 0.1068;

pub(super) fn suite() -> Suite {
    // At the small scale all cells have the minimum memory, a seventh of the data or more.
    let data = Data::synthetic(1_000_000, 20_000_000, 8, 100);
    let logged = Data { full: 5_000_000, ..data.clone() };
    let cell = |workload, shape| Cell::new(workload, shape, &data, Unlogged, MEMORY).steady();
    let uniform =
        |workload| Cell { stores: Some(&["hash", "rocksdb"]), ..Cell::new(workload, Uniform, &data, Unlogged, MEMORY) };
    let batches = Cell { batch: 32, stores: Some(&["hash"]), ..uniform(C) };
    let mut cells = vec![
        batches.compare(Comparison::with(Side::Disk, Metric::Throughput, None)),
        cell(C, Zipfian).compare(Comparison::with(Side::Ideal, Metric::DeviceReads, None)),
        amplified(cell(B, Zipfian), 5.5 / 16.51, 1.77 / 2.64),
        cell(C, Zipfian).with_memory(0.025),
        cell(C, Zipfian).with_memory(0.05),
        cell(C, Zipfian).with_memory(0.2),
        skew(cell(B, Zipfian), 0.667),
        skew(cell(B, Zipfian), 0.999),
        amplified(cell(A, Zipfian), 6.41 / 21.47, 1.23 / 5.28),
        skew(cell(A, Zipfian), 0.667),
        skew(cell(A, Zipfian), 0.999),
        uniform(A),
        cell(F, Zipfian),
        cell(D, Latest),
    ];
    let durable = |workload, shape, durability| Cell::new(workload, shape, &logged, durability, MEMORY);
    let buffered = |workload, shape| durable(workload, shape, Buffered).steady();
    cells.extend([buffered(B, Zipfian), buffered(A, Zipfian), buffered(F, Zipfian), buffered(D, Latest)]);
    cells.push(durable(A, Zipfian, Sync).warmup(0.02));
    let few = Data::synthetic(500_000, 2_000_000, 8, 100);
    cells.extend(in_memory(&few));
    cells.push(read_cache(&few));
    Suite {
        name: "f2",
        engine: "hash",
        stores: &["hash", "rocksdb", "tree", "lmdb", "bf-tree"],
        usual: 2,
        cells,
        groups: vec![
            Group { name: "zipfian none", metric: Metric::Throughput, contains: usual, paper: &[("rocksdb", 11.75)] },
            Group {
                name: "zipfian buffered",
                metric: Metric::Throughput,
                contains: |cell| with(cell, Buffered),
                paper: &[],
            },
            Group { name: "zipfian sync", metric: Metric::Throughput, contains: |cell| with(cell, Sync), paper: &[] },
        ],
    }
}

/// All data in memory, compared with a map without durability: single calls and batches.
fn in_memory(data: &Data) -> [Cell; 2] {
    let cell = Cell::new(C, Zipfian, data, Unlogged, 3.0).threads(2);
    let cell = Cell { warmup: Warm::All, stores: Some(&["hash"]), ..cell }.beside(&["map"]);
    [cell.clone(), Cell { batch: 32, ..cell }]
}

/// The read cache on and off.
fn read_cache(data: &Data) -> Cell {
    let variant = |value| Variant { settings: vec![("read_cache", value)], store: Some("hash") };
    Cell::new(C, Zipfian, data, Unlogged, MEMORY)
        .warmup(2.0)
        .variants(vec![variant("on"), variant("off")])
        .compare(Comparison::of("hash read_cache=on", "hash read_cache=off", Metric::Throughput, None))
}

/// Adds the ratios of the paper's Table 2.
fn amplified(cell: Cell, reads: f64, writes: f64) -> Cell {
    let rocksdb = |metric, paper| Comparison::with(Side::Store("rocksdb"), metric, Some(paper));
    cell.compare(rocksdb(Metric::ReadAmplification, reads)).compare(rocksdb(Metric::WriteAmplification, writes))
}

/// The paper's alpha is 1 / (1 - theta).
fn skew(cell: Cell, theta: f64) -> Cell {
    Cell { theta, ..cell }
}

fn usual(cell: &Cell) -> bool {
    let plain = cell.stores.is_none() && cell.variants.iter().all(|variant| variant.settings.is_empty());
    plain && cell.distribution != Uniform && cell.theta == 0.99 && !cell.on_curve && with(cell, Unlogged)
}

fn with(cell: &Cell, durability: Durability) -> bool {
    cell.durability == durability
}
