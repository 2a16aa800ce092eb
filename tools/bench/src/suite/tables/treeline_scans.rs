//! TreeLine's scans (YCSB E) over three sets of keys, uniform and Zipf, memory a third of the data.

use crate::{
    row::{
        Durability::{self, Buffered, None as Unlogged, Sync},
        Shape::{self, Uniform, Zipfian},
        Workload::E,
    },
    suite::{
        cell::{Cell, Data, Variant},
        comparison::{Comparison, Metric, Side},
        keys::Keys,
        table::{Group, Suite},
    },
};

const MEMORY: f64 = 0.33;
/// Blocks are cached after some thousand scans, and no store caches more.
const WARMUP: f64 = 0.02;
/// Replaces the paper's Amazon reviews: dense numbers with gaps, like theirs.
const AMAZON: Keys = Keys::File { label: "ncbi_taxids", name: "ncbi_taxids.du64.zst", scaled: None, arrival: false };
/// Replaces the paper's OpenStreetMap keys; scaled at the full scale to about their number.
const OSM: Keys = Keys::File { label: "osm", name: "osm_node_ids.du64.zst", scaled: Some(22_000_000), arrival: false };

pub(super) fn suite() -> Suite {
    let small = |full, keys| Data::synthetic(1_000_000, full, 8, 56).keys(keys);
    let large = |full, keys| Data::synthetic(150_000, full, 8, 1016).keys(keys);
    let reviews = small(2_000_000, AMAZON);
    let sets = [
        reviews.clone(),
        small(20_000_000, Keys::Synthetic),
        large(2_000_000, AMAZON),
        large(3_000_000, Keys::Synthetic),
        large(3_000_000, OSM),
        small(20_000_000, OSM),
    ];
    let mut cells = vec![scan(&reviews, Zipfian, Buffered), scan(&reviews, Zipfian, Sync).threads(8)];
    cells.extend(sets.iter().flat_map(|data| [Uniform, Zipfian].map(|shape| scan(data, shape, Unlogged))));
    cells.push(page_grouping(&sets[2]));
    Suite {
        name: "treeline-scans",
        engine: "tree",
        stores: &["tree", "rocksdb", "lmdb", "bf-tree"],
        usual: 2,
        cells,
        groups: groups(),
    }
}

/// Scans with the paper's 16 threads; a table gives the request rates of its Amazon set.
fn scan(data: &Data, shape: Shape, durability: Durability) -> Cell {
    let cell = Cell::new(E, shape, data, durability, MEMORY).warmup(WARMUP).threads(16);
    let paper = match (data.keys == AMAZON && shape == Uniform, data.record_size()) {
        (true, 64) => 100.0 / 42.0,
        (true, _) => 12.0 / 5.4,
        _ => return cell,
    };
    cell.compare(Comparison::with(Side::Store("rocksdb"), Metric::Throughput, Some(paper)))
}

/// Segments of several pages and of one.
fn page_grouping(data: &Data) -> Cell {
    let variant = |value| Variant { settings: vec![("segment_pages", value)], store: Some("tree") };
    let (grouped, single) = ("tree segment_pages=16", "tree segment_pages=1");
    scan(data, Zipfian, Unlogged)
        .variants(vec![variant("16"), variant("1")])
        .compare(Comparison::of(grouped, single, Metric::Throughput, Some(1.87)))
        .compare(Comparison::of(grouped, single, Metric::IndexBytes, Some(1.0 / 3.8)))
}

fn plain(cell: &Cell, shape: Shape, size: u64) -> bool {
    let plain = cell.variants.iter().all(|variant| variant.settings.is_empty());
    plain && cell.durability == Unlogged && cell.distribution == shape && cell.data.record_size() == size
}

fn groups() -> Vec<Group> {
    let group = |name, contains, paper| Group { name, metric: Metric::Throughput, contains, paper };
    vec![
        group("zipfian 64B none", |cell| plain(cell, Zipfian, 64), &[("rocksdb", 1.74)]),
        group("zipfian 1024B none", |cell| plain(cell, Zipfian, 1024), &[("rocksdb", 1.88)]),
        group("uniform 64B none", |cell| plain(cell, Uniform, 64), &[("rocksdb", 2.21)]),
        group("uniform 1024B none", |cell| plain(cell, Uniform, 1024), &[("rocksdb", 2.50)]),
        group(
            "all none",
            |cell| [64, 1024].iter().any(|&size| plain(cell, Uniform, size) || plain(cell, Zipfian, size)),
            &[],
        ),
    ]
}
