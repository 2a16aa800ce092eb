//! `ecotone-bench report --plots`.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{bench_with, row, sample, with, write, xml};
use crate::harness::directory;

/// The names and the texts of the plots of a directory.
fn plots(directory: &Path, options: &[&str]) -> Vec<(String, String)> {
    let folder = directory.join("plots");
    let (well, said) = bench_with(directory, &[&["--plots", folder.to_str().unwrap()], options].concat());
    assert!(well, "{said}");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut plots: Vec<(String, String)> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect();
    plots.sort();
    plots
}

fn names(plots: &[(String, String)]) -> Vec<&str> {
    plots.iter().map(|(name, _)| name.as_str()).collect()
}

/// The description of a plot.
fn described<'a>(plots: &'a [(String, String)], name: &str) -> &'a str {
    let (_, text) = plots.iter().find(|(other, _)| other == name).unwrap_or_else(|| panic!("{name}"));
    text.split_once("<desc>").unwrap().1.split_once("</desc>").unwrap().0
}

/// A row of another workload.
fn of(workload: &str, store: &str, round: u64, ops_per_second: f64) -> Value {
    with(row(store, round, ops_per_second), json!({"workload": workload}))
}

#[test]
fn each_chart_is_a_file_named_by_measurement_and_figure() {
    let directory = directory();
    let size = |store, bytes: u64| with(row(store, 1, 5e3), json!({"size_on_disk": bytes}));
    let twice = with(size("tree", 9), json!({"memory_budget": 1 << 25}));
    write(directory.path(), "a.jsonl", &[size("tree", 7), size("lmdb", 8), twice]);
    let mut measured = vec![
        "c-uniform-56-b-operations-a-second-2.svg",
        "c-uniform-56-b-operations-a-second.svg",
        "c-uniform-56-b-size-on-disk-2.svg",
        "c-uniform-56-b-size-on-disk.svg",
    ];
    assert_eq!(names(&plots(directory.path(), &[])), measured);
    assert!(!directory.path().join("report.html").exists());
    measured.push("throughput-relative-to-lmdb.svg");
    assert_eq!(names(&plots(directory.path(), &["--relative-to", "lmdb"])), measured);
}

#[test]
fn a_file_is_well_formed_and_needs_nothing_else() {
    let directory = directory();
    write(directory.path(), "a.jsonl", &sample::runs());
    write(directory.path(), "b.jsonl", &sample::suite());
    let plots = plots(directory.path(), &["--relative-to", "rocksdb"]);
    assert!(plots.len() > 20, "{:?}", names(&plots));
    for (name, text) in &plots {
        xml::check(text).unwrap_or_else(|error| panic!("{error} in {name}"));
        let root = text.split_once('>').unwrap().0;
        assert!([" viewBox=", " width=", " height="].iter().all(|part| root.contains(part)), "{root} in {name}");
        assert!(["<title>", "<desc>", "scheme: dark"].iter().all(|part| text.contains(part)), "{name}");
        let inner = text.replace("http://www.w3.org/2000/svg", "");
        for foreign in ["http", "<script", "href", "@import", "url(", "NaN", "<desc></desc>"] {
            assert!(!inner.contains(foreign), "{foreign} in {name}");
        }
        let style = text.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        for class in text.split("class=\"").skip(1).flat_map(|rest| rest.split_once('"').unwrap().0.split(' ')) {
            let has_rule = style.split(&format!(".{class}")).skip(1).any(|rest| rest.starts_with([' ', ',', ':']));
            assert!(has_rule, "{class} in {name}");
        }
    }
}

#[test]
fn ratios_are_those_of_the_medians_to_one_store() {
    let directory = directory();
    let load = |store, rate: f64| with(of("c", store, 1, rate), json!({"load": {"ops_per_second": rate * 3.0}}));
    let ended = json!({"kind": "row", "store": "hash", "workload": "e", "distribution": "uniform", "records": 1000,
        "round": 1, "status": "failed", "error": "it has no scans"});
    let lines = [
        load("tree", 80e3),
        load("rocksdb", 20e3),
        of("c", "null", 1, 9e6),
        of("c", "tree", 2, 60e3),
        of("c", "rocksdb", 2, 20e3),
        of("e", "tree", 1, 5e3),
        of("e", "rocksdb", 1, 10e3),
        ended,
        of("a", "tree", 1, 5e3),
    ];
    write(directory.path(), "a.jsonl", &lines);
    let plots = plots(directory.path(), &["--relative-to", "rocksdb"]);
    assert_eq!(
        described(&plots, "throughput-relative-to-rocksdb.svg"),
        "C: reads (uniform): tree: 3.50×, from 3.00× to 4.00×; rocksdb: 1.00×. \
            E: scans (uniform): tree: 0.50×; hash: failed: it has no scans; rocksdb: 1.00×. load: tree: 4.00×; \
            rocksdb: 1.00×",
    );
}

#[test]
fn a_measured_load_is_shown_instead_of_one_before_a_measurement() {
    let directory = directory();
    let load = json!({"load": {"ops_per_second": 7.0}});
    let lines = ["tree", "rocksdb"].map(|store| [with(row(store, 1, 4e3), load.clone()), of("load", store, 1, 5e3)]);
    write(directory.path(), "a.jsonl", &lines.concat());
    let plots = plots(directory.path(), &["--relative-to", "rocksdb"]);
    let described = described(&plots, "throughput-relative-to-rocksdb.svg");
    assert_eq!(described.matches("load").count(), 1, "{described}");
}

#[test]
fn a_store_to_compare_with_must_have_rows() {
    let directory = directory();
    write(directory.path(), "a.jsonl", &[row("tree", 1, 5e3), row("lmdb", 1, 5e3)]);
    let folder = directory.path().join("plots");
    let options = ["--plots", folder.to_str().unwrap(), "--relative-to", "rocksdb"];
    let (well, said) = bench_with(directory.path(), &options);
    assert!(!well && said.contains("no measurement has comparable rows of rocksdb"), "{said}");
    assert!(!folder.exists());
    let (well, said) = bench_with(directory.path(), &["--relative-to", "lmdb"]);
    assert!(!well && said.contains("--plots"), "{said}");
}
