//! TreeLine's insert forecasting: half reads, half inserts of taxi pick-ups in order of arrival.

use crate::{
    row::{
        Durability::{self, Buffered, None as Unlogged, Sync},
        Shape::Zipfian,
        Workload::Insert,
    },
    suite::{
        cell::{Cell, Data, Variant},
        comparison::{Comparison, Metric},
        keys::Keys,
        table::{Group, Suite},
    },
};

const MEMORY: f64 = 0.33;
/// A sample of one in a thousand of New York's pick-ups, replayed at the full scale to a whole year of them.
const TAXI: Keys = Keys::File { label: "taxi", name: "taxi_pickups.u64.zst", scaled: Some(24_000_000), arrival: true };
const ON: &str = "tree forecast=auto";
const OFF: &str = "tree forecast=off";

pub(super) fn suite() -> Suite {
    let small = Data::synthetic(600_000, 10_000_000, 8, 56).keys(TAXI);
    let large = Data::synthetic(150_000, 3_000_000, 8, 1016).keys(TAXI);
    let plain = |data: &Data, durability| half(data, durability).warmup(0.05);
    let cells = vec![
        forecast(&small, 8),
        forecast(&small, 1),
        forecast(&large, 8),
        forecast(&large, 1),
        plain(&small, Unlogged),
        plain(&large, Unlogged),
        plain(&large, Buffered),
        plain(&large, Sync).warmup(0.01),
    ];
    Suite { name: "treeline-forecast", engine: "tree", stores: &["tree", "rocksdb"], usual: 2, cells, groups: groups() }
}

/// Half reads, half inserts.
fn half(data: &Data, durability: Durability) -> Cell {
    Cell { read_share: 0.5, ..Cell::new(Insert, Zipfian, data, durability, MEMORY) }
}

fn forecast(data: &Data, threads: u16) -> Cell {
    let variant = |value| Variant { settings: vec![("forecast", value)], store: Some("tree") };
    half(data, Unlogged)
        .warmup(0.1)
        .threads(threads)
        .variants(vec![variant("auto"), variant("off")])
        .compare(Comparison::of(ON, OFF, Metric::Throughput, None))
        .compare(Comparison::of(ON, OFF, Metric::Reorganisations, None))
}

fn forecasts(cell: &Cell) -> bool {
    cell.variants.len() == 2
}

fn small(cell: &Cell) -> bool {
    forecasts(cell) && cell.data.record_size() == 64
}

fn groups() -> Vec<Group> {
    let group = |name, metric, contains, paper| Group { name, metric, contains, paper };
    vec![
        group("forecast on against off", Metric::Throughput, forecasts, &[(OFF, 1.22)]),
        group("forecast on against off", Metric::Reorganisations, forecasts, &[(OFF, 0.59)]),
        group("forecast on against off, 64B", Metric::Throughput, small, &[]),
        group("forecast on against off, 64B", Metric::Reorganisations, small, &[(OFF, 0.37)]),
    ]
}
