//! AHA-tree's loads, scans and updates: 20-byte keys, 128-byte values. The paper's ratios stand in pictures only.

use super::super::{
    cell::{Cell, Data},
    compare::{Group, Metric},
    keys::Keys,
    table::Suite,
};
use crate::{
    distribution::Shape::{Hotspot, Stretch, Uniform, Zipfian},
    store::Durability::{self, Buffered, None as Unlogged, Sync},
    workload::Workload::{self, A, C, E, Load, Update},
};

const MEMORY: f64 = 0.1;
/// The paper's hot range, a hundredth of all keys that lie side by side; by itself a cell of phases has a tenth, as much as the memory.
const HOT: f64 = 0.01;
/// Scans of a stretch, updates of as many records as a tenth of all keys has and of twice as many, and both mixed. A phase of scans reads each record of a tenth fifty
/// times; the paper's, of 300 seconds, some thousand times.
const OSCILLATION: &[(Workload, f64)] = &[(E, 0.1), (Update, 0.1), (E, 0.1), (Update, 0.2), (E, 0.1), (A, 0.1)];
/// Phases of about two seconds each.
const FAST: &[(Workload, f64)] =
    &[(E, 0.01), (Update, 0.08), (E, 0.01), (Update, 0.08), (E, 0.01), (Update, 0.08), (E, 0.01), (Update, 0.08)];
const OSM: Keys = Keys::File { label: "osm", name: "osm_node_ids.du64.zst", scaled: None, arrival: false };

pub(in super::super) fn suite() -> Suite {
    // At the small scale so many that a tenth is more than the least memory.
    let data = Data::synthetic(1_200_000, 10_000_000, 20, 128);
    let osm = Data::synthetic(400_000, 1_700_000, 20, 128).keys(OSM);
    let logged = Data { small: 400_000, full: 3_000_000, ..data.clone() };
    let cell = |workload, shape, warmup| Cell::new(workload, shape, &data, Unlogged, MEMORY).warmup(warmup);
    let durable = |durability| Cell::new(A, Hotspot, &logged, durability, MEMORY);
    let cells = vec![
        cell(Load, Uniform, 0.0),
        cell(C, Zipfian, 0.2),
        cell(A, Hotspot, 0.2),
        cell(E, Hotspot, 0.05),
        cell(E, Uniform, 0.02),
        cell(E, Zipfian, 0.02),
        Cell::of_phases(Stretch, &data, MEMORY, OSCILLATION),
        Cell::of_phases(Stretch, &data, MEMORY, OSCILLATION).stretch(HOT),
        Cell::of_phases(Stretch, &data, MEMORY, FAST).stretch(HOT),
        Cell::of_phases(Stretch, &osm, MEMORY, OSCILLATION).stretch(HOT),
        durable(Buffered).warmup(0.2),
        durable(Sync).warmup(0.02),
    ];
    let group = |name, contains| Group { name, metric: Metric::Throughput, contains, paper: &[] };
    Suite {
        name: "aha",
        engine: "adaptive",
        stores: &["adaptive", "tree", "lsm", "rocksdb", "lmdb"],
        usual: 5,
        cells,
        groups: vec![
            group("load", |cell| cell.workload == Load),
            group("reads", |cell| cell.workload == C),
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
