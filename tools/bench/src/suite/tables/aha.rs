//! AHA-tree's loads, scans and updates: 20-byte keys, 128-byte values. The paper's ratios stand in pictures only.

use super::super::{
    cell::{Cell, Data},
    compare::{Group, Metric},
    table::Suite,
};
use crate::{
    distribution::Shape::{Hotspot, Stretch, Uniform},
    store::Durability::{self, Buffered, None as Unlogged, Sync},
    workload::Workload::{self, A, E, Load, Update},
};

const MEMORY: f64 = 0.1;
/// Scans of a tenth of all keys that lie side by side, updates of as many records and of twice as many, and both mixed. A phase of scans reads each record of the
/// tenth fifty times; the paper's, of 300 seconds, some thousand times.
const OSCILLATION: &[(Workload, f64)] = &[(E, 0.1), (Update, 0.1), (E, 0.1), (Update, 0.2), (E, 0.1), (A, 0.1)];

pub(in super::super) fn suite() -> Suite {
    // Two million at the small scale, so that a tenth is more than the least memory.
    let data = Data::synthetic(2_000_000, 10_000_000, 20, 128);
    let logged = Data { small: 1_200_000, full: 3_000_000, ..data.clone() };
    let cell = |workload, shape, warmup| Cell::new(workload, shape, &data, Unlogged, MEMORY).warmup(warmup);
    let durable = |durability| Cell::new(A, Hotspot, &logged, durability, MEMORY);
    let cells = vec![
        cell(Load, Uniform, 0.0),
        cell(A, Hotspot, 0.2),
        cell(E, Hotspot, 0.05),
        cell(E, Uniform, 0.02),
        Cell::of_phases(Stretch, &data, MEMORY, OSCILLATION),
        durable(Buffered).warmup(0.2),
        durable(Sync).warmup(0.02),
    ];
    let group = |name, contains| Group { name, metric: Metric::Throughput, contains, paper: &[] };
    Suite {
        name: "aha",
        engine: "adaptive",
        stores: &["adaptive", "tree", "rocksdb", "lsm"],
        usual: 3,
        cells,
        groups: vec![
            group("load", |cell| cell.workload == Load),
            group("scans", |cell| cell.workload == E && cell.phases.is_empty()),
            group("updates none", |cell| updates(cell, Unlogged)),
            group("updates buffered", |cell| updates(cell, Buffered)),
            group("updates sync", |cell| updates(cell, Sync)),
        ],
    }
}

fn updates(cell: &Cell, durability: Durability) -> bool {
    cell.workload == A && cell.durability == durability
}
