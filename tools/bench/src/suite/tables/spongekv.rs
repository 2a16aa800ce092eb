//! SpongeKV's index memory: 10 M records with keys of 8 to 64 bytes, by the kind of the index.

use crate::{
    row::{
        Durability::{Buffered, None as Unlogged, Sync},
        Shape::Uniform,
        Workload::{A, C, Load},
    },
    suite::{
        cell::{Cell, Data, Variant},
        comparison::{Comparison, Metric},
        table::{Group, Suite},
    },
};

const MEMORY: f64 = 0.05;
/// With this fraction of memory all indexes and filters fit.
const AMPLE: f64 = 0.25;
/// With this fraction for indexes and filters half of the single-level indexes fit, and all models.
const SCARCE: f64 = 0.0005;
const SINGLE: &str = "lsm index=single";
const PARTITIONED: &str = "lsm index=partitioned";
const GREEDY: &str = "lsm index=plr";
const LINEAR: &str = "lsm index=linear";

/// Memory of the index in percent of the data: key size, single-level, partitioned, greedy PLR, simple linear.
const SHARES: [(u64, f64, Option<f64>, f64, f64); 4] = [
    (8, 0.47, None, 0.27, 0.24),
    (16, 0.62, Some(0.63), 0.26, 0.23),
    (32, 0.68, Some(0.69), 0.25, 0.20),
    (64, 1.00, Some(1.02), 0.24, 0.17),
];

pub(super) fn suite() -> Suite {
    let data = |key_size| Data::synthetic(700_000, 10_000_000, key_size, 100);
    let mut cells = Vec::new();
    for shares in SHARES {
        let data = data(shares.0);
        cells.push(index(&data, shares));
        if shares.0 == 16 {
            cells.extend([latency(&data).with_memory(AMPLE), latency(&data).with_table_cache(SCARCE), building(&data)]);
        }
    }
    let durable = |durability| Cell::new(A, Uniform, &Data { full: 2_000_000, ..data(16) }, durability, MEMORY);
    cells.extend([durable(Unlogged).warmup(0.1), durable(Buffered).warmup(0.1), durable(Sync).warmup(0.01)]);
    let linear = |name, metric| Group { name, metric, contains: |cell| cell.variants.len() > 2, paper: &[] };
    Suite {
        name: "spongekv",
        engine: "lsm",
        stores: &["lsm", "rocksdb", "tree"],
        usual: 2,
        cells,
        groups: vec![
            linear("learned against single", Metric::IndexBytes),
            linear("learned against single", Metric::Throughput),
        ],
    }
}

/// All index kinds over one set of keys, and the other stores unchanged.
fn index(data: &Data, (_, single, partitioned, greedy, linear): (u64, f64, Option<f64>, f64, f64)) -> Cell {
    let learned = [(GREEDY, greedy), (LINEAR, linear)];
    let mut cell = Cell::new(C, Uniform, data, Unlogged, MEMORY).warmup(0.1).variants(vec![
        kind("single"),
        kind("partitioned"),
        kind("plr"),
        kind("linear"),
        Variant::default(),
    ]);
    for (ours, share) in learned {
        cell = cell
            .compare(Comparison::of(ours, SINGLE, Metric::IndexBytes, Some(share / single)))
            .compare(Comparison::of(
                ours,
                PARTITIONED,
                Metric::IndexBytes,
                partitioned.map(|partitioned| share / partitioned),
            ))
            .compare(Comparison::of(ours, SINGLE, Metric::Throughput, None))
            .compare(Comparison::of(ours, "rocksdb", Metric::IndexBytes, None));
    }
    cell
}

/// Latency of a single thread, with memory for all indexes or for few.
fn latency(data: &Data) -> Cell {
    against_single(Cell::new(C, Uniform, data, Unlogged, MEMORY).threads(1).warmup(0.05))
}

/// Times the building of tables during a load.
fn building(data: &Data) -> Cell {
    against_single(Cell::new(Load, Uniform, &Data { small: 200_000, ..data.clone() }, Unlogged, MEMORY))
}

fn kind(kind: &'static str) -> Variant {
    Variant { settings: vec![("index", kind)], store: Some("lsm") }
}

fn against_single(cell: Cell) -> Cell {
    cell.variants(["single", "linear"].map(kind).into()).compare(Comparison::of(
        LINEAR,
        SINGLE,
        Metric::Throughput,
        None,
    ))
}
