//! AHA-tree's loads, scans and updates: 20-byte keys, 128-byte values. The paper gives its ratios in plots only.

use crate::{
    row::{
        Durability::{self, Buffered, None as Unlogged, Sync},
        Shape::{Hotspot, Stretch, Uniform, Zipfian},
        Workload::{self, A, Adapt, C, E, Load, Update},
    },
    suite::{
        cell::{Cell, Data, Variant},
        comparison::{Comparison, Metric, Side},
        keys::Keys,
        table::{Group, Suite},
    },
};

const MEMORY: f64 = 0.1;
/// The paper's hot range: a hundredth of all keys, adjacent. By default a cell of phases has a tenth, as much as the
/// memory.
const HOT: f64 = 0.01;
/// Scans of a tenth of all keys, updates of once and twice as many records as the tenth has, and scans and updates
/// mixed. A phase of scans reads each record of the tenth fifty times; in the paper, whose phases last 300 seconds,
/// some thousand times.
const OSCILLATION: &[(Workload, f64)] = &[(E, 0.1), (Update, 0.1), (E, 0.1), (Update, 0.2), (E, 0.1), (A, 0.1)];
/// The same for scans over all keys. They wait for the disk, so there are fewer.
const SCATTERED: &[(Workload, f64)] = &[(E, 0.03), (Update, 0.1), (E, 0.03), (Update, 0.1), (E, 0.03), (A, 0.1)];
/// Scans after updates of once, twice and three times as many records as a tenth has.
const RISING: &[(Workload, f64)] =
    &[(E, 0.1), (Update, 0.1), (E, 0.1), (Update, 0.2), (E, 0.1), (Update, 0.3), (E, 0.1)];
/// Phases of about two seconds each.
const FAST: &[(Workload, f64)] =
    &[(E, 0.01), (Update, 0.08), (E, 0.01), (Update, 0.08), (E, 0.01), (Update, 0.08), (E, 0.01), (Update, 0.08)];
/// Scans that adapt a tenth, updates of four times as many records as the tenth has, and scans that adapt it again.
const READAPTATION: &[(Workload, f64)] = &[(E, 0.2), (Update, 0.4), (E, 0.4)];
/// Scans over all keys before and while all of them become pages; the first phase finds the store cold.
const ADAPTING: &[(Workload, f64)] = &[(E, 0.03), (E, 0.03), (Adapt, 0.0), (E, 0.03)];
const OSM: Keys = Keys::File { label: "osm", name: "osm_node_ids.du64.zst", scaled: None, arrival: false };

/// Goal: minimum throughput of the worst ten seconds of scans after updates, relative to the steady state.
const EVENNESS: f64 = 0.7;
/// Goal: maximum of the rewritten bytes, relative to the hot range.
const REWRITING: f64 = 3.0;

/// Goals: maximum seconds to adapt a GB, and minimum throughput of the worst second meanwhile, relative to before.
const ADAPTED_IN: f64 = 30.0;
const MEANWHILE: f64 = 0.6;

/// A value of an engine option, and its store.
type Way = (&'static str, &'static str);

/// Options with their values, the default first.
const INSERT: &[Way] =
    &[("auto", "adaptive insert=auto"), ("batch", "adaptive insert=batch"), ("tree", "adaptive insert=tree")];
const SPLIT: &[Way] = &[("side", "adaptive split=side"), ("down", "adaptive split=down")];
const PAGE_FILL: &[Way] = &[("even", "adaptive page_fill=even"), ("spread", "adaptive page_fill=spread")];

pub(super) fn suite() -> Suite {
    // At the small scale a tenth of the records must exceed the minimum memory.
    let data = Data::synthetic(1_200_000, 10_000_000, 20, 128);
    let mut cells = steady(&data);
    cells.extend(phases(&data));
    cells.push(adapting(&Data { small: 400_000, full: 7_000_000, ..data.clone() }));
    cells.extend(ways(&Data { small: 200_000, full: 500_000, ..data.clone() }));
    cells.extend(durable(&Data { small: 400_000, full: 3_000_000, ..data }));
    Suite {
        name: "aha",
        engine: "adaptive",
        stores: &["adaptive", "tree", "lsm", "rocksdb", "lmdb"],
        usual: 5,
        cells,
        groups: groups(),
    }
}

/// One workload each. Scans are measured after as many warm-up scans as time allows: over all keys it takes ten million
/// or more until everything is adapted.
fn steady(data: &Data) -> Vec<Cell> {
    let cell = |workload, shape, warmup| Cell::new(workload, shape, data, Unlogged, MEMORY).warmup(warmup);
    vec![
        cell(Load, Uniform, 0.0),
        cell(C, Zipfian, 0.2),
        cell(A, Hotspot, 0.2),
        cell(E, Hotspot, 0.05),
        cell(E, Uniform, 0.1),
        cell(E, Zipfian, 0.1),
    ]
}

/// Consecutive phases, with the figures of scans after updates where the phases are long enough.
fn phases(data: &Data) -> Vec<Cell> {
    let osm = Data::synthetic(400_000, 1_700_000, 20, 128).keys(OSM);
    let oscillation = |data: &Data| figures(Cell::of_phases(Stretch, data, MEMORY, OSCILLATION));
    vec![
        oscillation(data),
        oscillation(data).stretch(HOT),
        Cell::of_phases(Stretch, data, MEMORY, FAST).stretch(HOT),
        figures(Cell::of_phases(Stretch, data, MEMORY, RISING)).without(&["tree", "lmdb"]),
        figures(Cell::of_phases(Zipfian, data, MEMORY, SCATTERED)),
        oscillation(&osm).stretch(HOT),
    ]
}

/// All levels become pages at once, while scans run, in a freshly loaded store.
fn adapting(data: &Data) -> Cell {
    let cell = Cell { stores: Some(&["adaptive"]), ..Cell::of_phases(Uniform, data, 2.0 * MEMORY, ADAPTING) };
    cell.compare(Comparison::with(Side::Gigabyte, Metric::AdaptSeconds, None).goal(ADAPTED_IN))
        .compare(Comparison::with(Side::Before, Metric::WorstMeanwhile, None).goal(MEANWHILE))
}

fn figures(cell: Cell) -> Cell {
    cell.compare(Comparison::with(Side::Steady, Metric::WorstWindow, None).goal(EVENNESS))
        .compare(Comparison::with(Side::HotRange, Metric::RewrittenBytes, None).goal(REWRITING))
}

/// The engine with each of its options in turn, at the smallest memory.
fn ways(data: &Data) -> [Cell; 3] {
    [("insert", INSERT), ("split", SPLIT), ("page_fill", PAGE_FILL)].map(|(option, ways)| {
        let variant = |&(value, _): &Way| Variant { settings: vec![(option, value)], store: Some("adaptive") };
        let cell = Cell::of_phases(Stretch, data, MEMORY, READAPTATION).variants(ways.iter().map(variant).collect());
        ways[1..].iter().fold(cell, |cell, &(_, other)| against(cell, other, ways[0].1))
    })
}

fn against(cell: Cell, other: &'static str, usual: &'static str) -> Cell {
    let metrics = [Metric::Throughput, Metric::DeviceReads, Metric::WriteBytes];
    metrics.into_iter().fold(cell, |cell, metric| cell.compare(Comparison::of(other, usual, metric, None)))
}

fn durable(data: &Data) -> [Cell; 2] {
    [(Buffered, 0.2), (Sync, 0.02)]
        .map(|(durability, warmup)| Cell::new(A, Hotspot, data, durability, MEMORY).warmup(warmup).without(&["lmdb"]))
}

fn groups() -> Vec<Group> {
    let group = |name, contains| Group { name, metric: Metric::Throughput, contains, paper: &[] };
    vec![
        group("load", |cell| cell.workload == Load),
        group("reads", |cell| cell.workload == C),
        group("scans", |cell| cell.workload == E && cell.phases.is_empty()),
        group("updates none", |cell| updates(cell, Unlogged)),
        group("updates buffered", |cell| updates(cell, Buffered)),
        group("updates sync", |cell| updates(cell, Sync)),
    ]
}

fn updates(cell: &Cell, durability: Durability) -> bool {
    cell.workload == A && cell.durability == durability
}
