//! Loads in any order, and queues. No paper has such a table; it compares our engines with each other and with rivals.

use crate::{
    measure::keys::Order,
    row::{
        Durability::{Buffered, None as Unlogged, Sync},
        Shape::Uniform,
        Workload::{A, Drain, E, First, Insert, Load, Queue},
    },
    suite::{
        cell::{Cell, Data},
        comparison::Metric,
        keys::Keys,
        table::{Group, Suite},
    },
};

const MEMORY: f64 = 0.1;
/// The ids of OpenStreetMap's nodes in order of arrival, which is nearly sorted.
const NODES: Keys = Keys::File { label: "nodes", name: "osm_nodes_arrival.u64.zst", scaled: None, arrival: true };
/// Records that pass through a queue per record in it.
const THROUGH: f64 = 500.0;

pub(super) fn suite() -> Suite {
    let data = Data::synthetic(150_000, 3_000_000, 8, 100);
    let ordered = |order| data.clone().keys(Keys::Ordered(order));
    let load = |data: &Data| Cell::new(Load, Uniform, data, Unlogged, MEMORY);
    let orders = [Order::Shuffled, Order::Ascending, Order::Descending, Order::Zigzag, Order::Bursts, Order::Places];
    let mut cells: Vec<Cell> = orders.map(|order| load(&ordered(order))).into();
    cells.push(load(&Data::synthetic(150_000, 1_800_000, 8, 100).keys(NODES)));
    cells.extend([Order::Shuffled, Order::Ascending, Order::Descending].map(|order| load(&ordered(order)).threads(1)));
    cells.push(Cell { durability: Buffered, ..load(&ordered(Order::Ascending)) });
    let few = Data::synthetic(20_000, 300_000, 8, 100).keys(Keys::Ordered(Order::Ascending));
    cells.push(Cell { durability: Sync, ..Cell::new(Insert, Uniform, &few, Sync, 1.0) });
    cells.extend(queues());
    // Scans directly after writes, of a flushed store.
    let written = Data::synthetic(150_000, 3_000_000, 8, 56);
    cells.push(Cell::of_phases(Uniform, &written, MEMORY, &[(E, 0.05), (A, 0.2), (E, 0.05)]).warmup(0.05));
    Suite {
        name: "loads",
        engine: "tree",
        stores: &["tree", "adaptive", "rocksdb", "lsm", "redb"],
        usual: 3,
        cells,
        groups: vec![Group {
            name: "loads",
            metric: Metric::Throughput,
            contains: |cell| cell.workload == Load,
            paper: &[],
        }],
    }
}

/// Two queues. In a short queue of some thousand records each insert removes the first record, with reads of the first
/// record before and after. In a long queue records are removed from both ends.
fn queues() -> Vec<Cell> {
    let queue = Data::synthetic(2000, 2000, 8, 100).keys(Keys::Ordered(Order::Ascending));
    let ends = Data::synthetic(20_000, 300_000, 8, 100).keys(Keys::Ordered(Order::Ascending));
    let turns: &[_] = &[(First, 10.0), (Queue, THROUGH), (First, 10.0)];
    vec![
        Cell::of_phases(Uniform, &queue, MEMORY, turns),
        Cell::of_phases(Uniform, &queue, MEMORY, turns).threads(1),
        Cell::of_phases(Uniform, &ends, MEMORY, &[(Drain, 0.9)]),
    ]
}
