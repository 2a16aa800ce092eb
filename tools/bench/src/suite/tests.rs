//! Tests that the tables are sound, and fit into the time and the space of a suite.

use std::{collections::BTreeMap, path::Path};

use clap::Parser;
use serde_json::{Value, json};

use super::{
    cell::{Cell, Data, Variant},
    child::Request,
    compare::{Compared, Rows, compare, means, whole},
    comparison::{Comparison, Metric, Side},
    list,
    options::SuiteOptions,
    scale::Scale,
    states::{MOST_BYTES, States},
    table::{Suite, missing_store},
    tables::{self, NAMES},
};
use crate::{
    cli::{Cli, Command},
    row::{Durability, Shape, Workload},
    statistics::median,
};

/// Longest that a suite may take at the full scale, in minutes.
const LONGEST: f64 = 120.0;
/// Longest that all suites together may take at the small scale, in minutes.
const LONGEST_SMALL: f64 = 70.0;
/// The rival stores that the tables may name.
const RIVALS: [&str; 6] = ["rocksdb", "lmdb", "redb", "fjall", "sled", "bf-tree"];

fn suites() -> Vec<Suite> {
    NAMES.iter().map(|name| tables::named(name).unwrap()).collect()
}

fn options(line: &str) -> SuiteOptions {
    let arguments = format!("ecotone-bench suite --dir none {line}");
    let Command::Suite(options) = Cli::try_parse_from(arguments.split_whitespace()).unwrap().command else {
        panic!("suite")
    };
    options
}

#[test]
fn cells_have_names_of_their_own() {
    for suite in suites() {
        let mut rows: Vec<_> =
            suite.cells.iter().flat_map(|cell| cell.variants.iter().map(|variant| variant.cell(cell))).collect();
        rows.extend(suite.cells.iter().filter(|cell| cell.variants.len() > 1).map(Cell::name));
        let all = rows.len();
        rows.sort();
        let repeated: Vec<_> = rows.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
        // A variant without settings has the name of its cell.
        let plain = suite
            .cells
            .iter()
            .filter(|cell| cell.variants.len() > 1 && cell.variants.contains(&Variant::default()))
            .count();
        assert!(repeated.len() == plain && all > 1, "{}: {repeated:?}", suite.name);
    }
}

#[test]
fn stores_exist_or_are_rivals() {
    for suite in suites() {
        assert_eq!(suite.stores[0], suite.engine, "{}", suite.name);
        assert!((1..=suite.stores.len()).contains(&suite.usual));
        let variants = suite.cells.iter().flat_map(|cell| &cell.variants).filter_map(|variant| variant.store);
        let of_cells = suite.cells.iter().flat_map(|cell| cell.stores.unwrap_or_default().iter().chain(cell.without));
        for store in suite.stores.iter().copied().chain(variants).chain(of_cells.copied()) {
            assert!(missing_store(store).is_none() || RIVALS.contains(&store), "{store}");
        }
    }
}

#[test]
fn every_suite_has_rows_of_all_three_durabilities_and_sync_has_eight_threads() {
    for suite in suites() {
        for durability in [Durability::None, Durability::Buffered, Durability::Sync] {
            let cells = || suite.cells.iter().filter(|cell| cell.durability == durability);
            assert!(cells().count() > 0, "{}: {durability:?}", suite.name);
            assert!(durability != Durability::Sync || cells().all(|cell| cell.threads == 8), "{}", suite.name);
            assert!(cells().any(|cell| cell.workload != Workload::C), "{}: {durability:?} only reads", suite.name);
        }
    }
}

#[test]
fn cells_of_one_state_run_together_and_reads_come_before_inserts() {
    for suite in suites() {
        let mut last: Vec<String> = Vec::new();
        let mut grown = false;
        for cell in suite.cells.iter().filter(|cell| cell.keeps_state()) {
            let state = cell.state(&cell.variants[0], Scale::Full);
            if last.last() != Some(&state) {
                assert!(!last.contains(&state), "{}: {} comes back to {state}", suite.name, cell.name());
                last.push(state);
                grown = false;
            }
            assert!(!(grown && cell.workload == Workload::C), "{}: {} reads what has grown", suite.name, cell.name());
            grown |= cell.workload.inserts();
        }
    }
}

#[test]
fn the_full_scale_fits_into_its_time_and_space() {
    let nowhere = States::new(Path::new("/nowhere"));
    let mut small = 0.0;
    for suite in suites() {
        let cells: Vec<_> = suite.cells.iter().collect();
        let minutes = |scale: &str| {
            let options = options(&format!("{} --scale {scale}", suite.name));
            let estimates = list::estimates(&cells, &options, &options.stores(&suite), &nowhere);
            for (cell, estimate) in cells.iter().zip(&estimates) {
                assert!(estimate.new_bytes < MOST_BYTES, "{}: {}", suite.name, cell.name());
            }
            estimates.iter().map(|estimate| estimate.seconds()).sum::<f64>() / 60.0
        };
        let full = minutes("full");
        assert!(full > 1.0 && full <= LONGEST, "{} takes {full:.0} minutes", suite.name);
        small += minutes("small");
    }
    assert!(small <= LONGEST_SMALL, "all suites take {small:.0} minutes at the small scale");
}

#[test]
fn groups_have_cells_and_the_papers_ratios_are_numbers() {
    for suite in suites() {
        for group in &suite.groups {
            assert!(suite.cells.iter().any(group.contains), "{}: {}", suite.name, group.name);
        }
        let stated = suite.cells.iter().flat_map(|cell| &cell.comparisons).filter_map(|comparison| comparison.paper);
        let means = suite.groups.iter().flat_map(|group| group.paper).map(|(_, ratio)| *ratio);
        stated.chain(means).for_each(|ratio| assert!((0.05..100.0).contains(&ratio), "{}: {ratio}", suite.name));
    }
}

#[test]
fn sides_name_variants_that_are_there() {
    for suite in suites() {
        for cell in &suite.cells {
            let stores: Vec<String> = suite.stores.iter().map(|&store| store.to_owned()).collect();
            let of = |variant: &Variant| {
                cell.stores_of(variant, &stores).into_iter().map(|store| variant.contender(&store)).collect::<Vec<_>>()
            };
            let contenders: Vec<_> = cell.variants.iter().flat_map(of).collect();
            for side in cell.comparisons.iter().flat_map(|comparison| [comparison.ours, comparison.theirs]) {
                let Side::Store(name) = side else { continue };
                assert!(
                    contenders.iter().any(|contender| contender == name),
                    "{}: {name} is not in {}",
                    suite.name,
                    cell.name()
                );
            }
        }
    }
}

#[test]
fn what_is_asked_of_run_is_understood() {
    for suite in suites() {
        for cell in &suite.cells {
            for scale in [Scale::Tiny, Scale::Small, Scale::Full] {
                let stores = ["null".to_owned()];
                let (keys, state) = (cell.data.keys.label().map(Path::new), "state".into());
                let request = Request {
                    cell,
                    variant: &cell.variants[0],
                    stores: &stores,
                    scale,
                    rounds: 1,
                    stay_open: false,
                    state,
                    keys,
                };
                let mut arguments = request.arguments();
                assert_eq!(arguments[..2], ["run", "--json"]);
                assert!(arguments.contains(&"state/null".to_owned()), "one store has the directory for itself");
                assert_eq!(arguments.contains(&"--prepared".to_owned()), scale != Scale::Tiny && cell.keeps_state());
                arguments.insert(0, "ecotone-bench".to_owned());
                let Command::Run(options) = Cli::try_parse_from(arguments).unwrap().command else { panic!("run") };
                assert_eq!(
                    (options.row.durability, options.row.memory, options.row.records),
                    (cell.durability, cell.memory_bytes(scale), Some(cell.data.records(scale)))
                );
            }
        }
    }
}

#[test]
fn a_variant_has_the_stores_that_know_its_settings() {
    let chosen = ["lsm", "rocksdb"].map(str::to_owned);
    let suite = tables::named("spongekv").unwrap();
    let cell = &suite.cells[0];
    let all: Vec<_> = cell.variants.iter().map(|variant| (variant.label(), cell.stores_of(variant, &chosen))).collect();
    assert_eq!(all[0], ("index=single".to_owned(), vec!["lsm".to_owned()]));
    assert_eq!(all[4], (String::new(), vec!["rocksdb".to_owned()]));
    assert_eq!(cell.variants[2].contender("lsm"), "lsm index=plr");
}

#[test]
fn a_cell_is_without_the_stores_that_take_too_long() {
    let suite = tables::named("aha").unwrap();
    let of = |wanted: fn(&Cell) -> bool| {
        let cell = suite.cells.iter().find(|cell| wanted(cell)).unwrap();
        cell.stores_of(&Variant::default(), &suite.usual_stores())
    };
    assert_eq!(of(|cell| cell.phases.len() == 7), ["adaptive", "lsm", "rocksdb"]);
    assert_eq!(of(|cell| cell.workload == Workload::C), ["adaptive", "tree", "lsm", "rocksdb", "lmdb"]);
}

#[test]
fn a_store_beside_comes_with_the_stores_that_a_cell_has() {
    let suite = tables::named("f2").unwrap();
    let cell = suite.cells.iter().find(|cell| !cell.beside.is_empty()).unwrap();
    let stores = |chosen: &str| cell.stores_of(&Variant::default(), &[chosen.to_owned()]);
    assert_eq!((stores("hash"), stores("rocksdb")), (vec!["hash".to_owned(), "map".to_owned()], vec![]));
}

#[test]
fn the_middle_of_rounds_counts() {
    assert_eq!(median(vec![5.0, 1.0, 3.0].into_iter()), Some(3.0));
    assert_eq!(median(vec![4.0, 1.0].into_iter()), Some(2.5));
    assert_eq!(median(Vec::new().into_iter()), None);
}

fn example() -> (Cell, Rows) {
    let data = Data::synthetic(1000, 1000, 8, 56);
    let cell = Cell::new(Workload::A, Shape::Zipfian, &data, Durability::None, 0.3)
        .compare(Comparison::with(Side::Store("rocksdb"), Metric::WriteBytes, Some(0.75)))
        .compare(Comparison::with(Side::Ideal, Metric::DeviceReads, None));
    let row = |rate: f64, written: f64| {
        json!({ "ops_per_second": rate, "operations": 100, "kernel_write_bytes": written,
                "device_reads_per_op": 0.2, "ideal_device_reads_per_op": 0.16 })
    };
    let rows = BTreeMap::from([
        ("tree".to_owned(), vec![row(300.0, 50.0), row(100.0, 50.0), row(320.0, 50.0)]),
        ("rocksdb".to_owned(), vec![row(100.0, 200.0), row(90.0, 200.0), row(110.0, 200.0)]),
        ("lmdb".to_owned(), vec![row(75.0, 0.0)]),
    ]);
    (cell, rows)
}

fn ratio(lines: &[Compared], theirs: &str, metric: Metric) -> Option<f64> {
    let line = lines.iter().find(|line| line.theirs == theirs && line.metric == metric).unwrap();
    line.our_ratio.map(|ratio| (ratio * 1000.0).round() / 1000.0)
}

#[test]
fn ratios_are_those_of_medians() {
    let (cell, rows) = example();
    let lines = compare("some", (&cell, cell.name()), "tree", &rows);
    assert_eq!(ratio(&lines, "rocksdb", Metric::Throughput), Some(3.0));
    assert_eq!(ratio(&lines, "lmdb", Metric::Throughput), Some(4.0));
    assert_eq!(ratio(&lines, "rocksdb", Metric::WriteBytes), Some(0.25));
    assert_eq!(ratio(&lines, "ideal", Metric::DeviceReads), Some(1.25));
    assert_eq!(lines.len(), 4);
    let written: Value =
        serde_json::to_value(lines.iter().find(|line| line.metric == Metric::WriteBytes).unwrap()).unwrap();
    assert_eq!((&written["kind"], &written["difference"]), (&json!("comparison"), &json!(-0.5)));
}

#[test]
fn phases_are_compared_each_and_all_together() {
    let suite = tables::named("aha").unwrap();
    let cell = suite.cells.iter().find(|cell| !cell.phases.is_empty()).unwrap();
    let rows = |tree: f64, ours: f64| {
        let row =
            |seconds: f64| vec![json!({ "operations": 100, "seconds": seconds, "ops_per_second": 100.0 / seconds })];
        BTreeMap::from([("tree".to_owned(), row(tree)), ("adaptive".to_owned(), row(ours))])
    };
    let phases = [rows(1.0, 1.0), rows(4.0, 1.0)];
    let lines = |rows: &Rows| compare("aha", (cell, cell.name()), "adaptive", rows);
    let ratios = [&phases[0], &phases[1], &whole(&phases)].map(|rows| ratio(&lines(rows), "tree", Metric::Throughput));
    assert_eq!(ratios, [Some(1.0), Some(4.0), Some(2.5)]);
    let broken = [rows(1.0, 1.0), Rows::new()];
    assert!(lines(&whole(&broken)).is_empty());
    assert!(cell.phase_name(1).ends_with(", phase 2: update"), "{}", cell.phase_name(1));
}

#[test]
fn scans_behind_updates_are_held_against_goals() {
    let suite = tables::named("aha").unwrap();
    let cell = suite.cells.iter().find(|cell| cell.phases.len() == 7).unwrap();
    let timeline: Vec<Value> =
        (1..=40).map(|second| json!({ "seconds": second, "operations": 100 * second })).collect();
    let row = json!({ "workload": "e", "leg": 2, "seconds": 40.0, "operations": 4000, "ops_per_second": 100.0,
        "timeline": timeline,
                      "stretch": 0.1, "records": 1000, "key_size": 20.0, "value_size": 128,
                          "engine": { "conversion_bytes": 29_600 } });
    let rows = BTreeMap::from([("adaptive".to_owned(), vec![row])]);
    let lines = compare(suite.name, (cell, cell.phase_name(2)), "adaptive", &rows);
    let told: Vec<_> = lines.iter().map(|line| (line.theirs.as_str(), line.our_ratio, line.goal)).collect();
    assert_eq!(told, [("steady", Some(1.0), Some(0.7)), ("hot range", Some(2.0), Some(3.0))]);
    let of_the_tree = BTreeMap::from([("tree".to_owned(), vec![json!({ "ops_per_second": 100.0 })])]);
    assert!(compare(suite.name, (cell, cell.phase_name(2)), "adaptive", &of_the_tree).is_empty());
}

#[test]
fn a_store_that_failed_has_no_ratio_but_the_papers_stands() {
    let (cell, mut rows) = example();
    rows.remove("rocksdb");
    let lines = compare("some", (&cell, cell.name()), "tree", &rows);
    assert_eq!(ratio(&lines, "rocksdb", Metric::WriteBytes), None);
    assert!(lines.iter().all(|line| line.theirs != "rocksdb" || line.metric == Metric::WriteBytes));
    rows.clear();
    assert_eq!(compare("some", (&cell, cell.name()), "tree", &rows).len(), 1);
}

#[test]
fn means_are_geometric_and_say_how_many_cells_are_behind_them() {
    let suite = tables::named("treeline-points").unwrap();
    let group = suite.groups.iter().find(|group| group.name == "zipfian 64B none").unwrap();
    let lines = |cell: &Cell, ratio: f64| {
        let row = |rate: f64| vec![json!({ "ops_per_second": rate, "operations": 1 })];
        compare(
            suite.name,
            (cell, cell.name()),
            "tree",
            &BTreeMap::from([("tree".to_owned(), row(ratio)), ("rocksdb".to_owned(), row(1.0))]),
        )
    };
    let members: Vec<_> = suite.cells.iter().filter(|cell| (group.contains)(cell)).collect();
    assert_eq!(members.len(), 5, "A, B, C, D and F");
    let mut compared: Vec<_> = suite.cells.iter().map(|cell| (cell, Vec::new())).collect();
    for (member, ratio) in [(members[0], 2.0), (members[1], 8.0)] {
        compared.iter_mut().find(|(cell, _)| cell.name() == member.name()).unwrap().1 = lines(member, ratio);
    }
    let mean = &means(suite.name, group, &compared)[0];
    assert_eq!((mean.our_ratio.map(f64::round), mean.paper_ratio), (Some(4.0), Some(1.62)));
    assert_eq!((mean.cells, mean.of_cells, mean.cell.as_str()), (2, 5, "mean: zipfian 64B none"));
}
