//! `ecotone-bench report`.

mod plots;
mod sample;
mod xml;

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::harness::directory;

/// The page, the Markdown file, and what was said on standard error.
struct Report {
    html: String,
    markdown: String,
    said: String,
}

fn bench(directory: &Path) -> (bool, String) {
    bench_with(directory, &[])
}

fn bench_with(directory: &Path, options: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ecotone-bench"));
    let output = command.arg("report").arg(directory).args(options).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

fn report(directory: &Path) -> Report {
    let (well, said) = bench(directory);
    assert!(well, "{said}");
    let read = |name| fs::read_to_string(directory.join(name)).unwrap();
    Report { html: read("report.html"), markdown: read("report.md"), said }
}

/// A report of these lines in one file.
fn report_of(lines: &[Value]) -> Report {
    let directory = directory();
    write(directory.path(), "results.jsonl", lines);
    report(directory.path())
}

fn write(directory: &Path, name: &str, lines: &[Value]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(directory.join(name), text).unwrap();
}

/// A row as a run prints it, with little in it.
fn row(store: &str, round: u64, ops_per_second: f64) -> Value {
    json!({"kind": "row", "store": store, "workload": "c", "distribution": "uniform", "records": 1000, "value_size": 56,
        "memory_budget": 1 << 24, "round": round, "status": "ok", "ops_per_second": ops_per_second})
}

fn with(mut row: Value, fields: Value) -> Value {
    let fields = fields.as_object().unwrap().clone();
    row.as_object_mut().unwrap().extend(fields);
    row
}

/// The state of a machine whose fixed loop takes so long.
fn machine(loop_ns: f64) -> Value {
    let pace = json!({"loop_ns": loop_ns, "disk_reads_per_second": 150_000.0, "stolen": 0.01});
    json!({"machine": {"before": pace, "after": pace}})
}

/// The rows of the first Markdown table with this caption, as cells.
fn table(markdown: &str, caption: &str) -> Vec<Vec<String>> {
    let (_, rest) = markdown.split_once(&format!("**{caption}")).unwrap_or_else(|| panic!("{caption} in {markdown}"));
    let lines = rest.lines().skip(2).take_while(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn every_row_of_a_rich_sample_appears_in_both_files() {
    // It stays where it is, for those who want to look at it.
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(directory.join("suites")).unwrap();
    let files = [
        ("runs.jsonl", sample::runs()),
        ("suites/treeline.jsonl", sample::suite()),
        ("earlier.jsonl", sample::earlier()),
    ];
    files.iter().for_each(|(name, lines)| write(&directory, name, lines));
    let report = report(&directory);
    assert_eq!(report.said, "");
    let is_row = |line: &&Value| line.get("kind").is_none_or(|kind| kind == "row");
    let rows = files.iter().flat_map(|(_, lines)| lines).filter(is_row).count();
    let rounds = report
        .markdown
        .split("**Every round**")
        .skip(1)
        .map(|rest| rest.trim_start().lines().take_while(|line| line.starts_with('|')).count() - 2);
    assert_eq!(rounds.sum::<usize>(), rows);
    let in_markdown =
        report.markdown.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")).count();
    assert_eq!(report.html.matches("<tr>").count(), in_markdown, "both have the same tables");
    for line in files.iter().flat_map(|(_, lines)| lines).filter(|line| line["kind"] == "comparison") {
        assert!(report.html.contains(line["cell"].as_str().unwrap()), "{line}");
    }
}

#[test]
fn charts_are_well_formed_and_say_what_they_show() {
    let directory = directory();
    write(directory.path(), "a.jsonl", &sample::runs());
    write(directory.path(), "b.jsonl", &sample::suite());
    let html = report(directory.path()).html;
    let charts: Vec<&str> = html.split("<svg").skip(1).map(|rest| rest.split_once("</svg>").unwrap().0).collect();
    assert!(charts.len() > 20, "{}", charts.len());
    for chart in charts {
        let chart = format!("<svg{chart}</svg>");
        xml::check(&chart).unwrap_or_else(|error| panic!("{error} in {chart}"));
        assert!(chart.contains("<title>") && chart.contains("<desc>") && !chart.contains("<desc></desc>"), "{chart}");
        assert!(!chart.contains("NaN") && !chart.contains("inf"), "{chart}");
    }
}

#[test]
fn the_page_needs_nothing_else() {
    let html = report_of(&sample::runs()).html.replace("http://www.w3.org/2000/svg", "");
    for foreign in ["http:", "https:", "<script", " src=", "@import", "url("] {
        assert!(!html.contains(foreign), "{foreign}");
    }
}

#[test]
fn medians_spreads_and_ratios_are_those_of_the_rounds() {
    let rounds = |store, ops: [f64; 5]| ops.into_iter().zip(1..).map(move |(ops, round)| row(store, round, ops));
    let ours = rounds("tree", [100e3, 102e3, 101e3, 99e3, 250e3]);
    let theirs = rounds("rocksdb", [50e3, 50.5e3, 50.2e3, 51e3, 50.1e3]);
    let report = report_of(&ours.chain(theirs).collect::<Vec<_>>());
    let speed = table(&report.markdown, "Operations a second");
    assert_eq!(speed[0][..7], ["tree", "101,000/s", "99,000/s", "250,000/s", "149.5%", "1.00×", "5 of 5"]);
    assert_eq!(speed[1][..7], ["rocksdb", "50,200/s", "50,000/s", "51,000/s", "2.0%", "0.50×", "5 of 5"]);
    assert_eq!((speed[0][7].as_str(), speed[1][7].as_str()), ("noisy: the rounds are 149.5% apart", ""));
    assert!(report.html.contains("tree: 101,000/s (1.00×), median of 5, from 99,000/s to 250,000/s"));
}

#[test]
fn figures_are_medians_a_operation() {
    let figures = |reads: f64| {
        json!({"operations": 1000, "device_reads": reads, "kernel_write_bytes": 4_096_000, "cpu_seconds": 0.01,
        "ideal_device_reads_per_op": 0.3, "memory_peak": 15 << 20, "load": {"seconds": 90.0, "settle_seconds": null}})
    };
    let rows: Vec<Value> =
        [500.0, 700.0, 600.0].into_iter().map(|reads| with(row("tree", 1, 1e3), figures(reads))).collect();
    let markdown = report_of(&rows).markdown;
    assert_eq!(
        table(&markdown, "Device and processor"),
        [["tree", "0.600", "4 KiB", "10.0 µs"], ["ideal", "0.300", "–", "–"],]
    );
    assert_eq!(table(&markdown, "Memory, space and time"), [["tree", "15 MiB", "90.0 s"], ["budget", "16 MiB", "–"]]);
}

#[test]
fn text_of_others_is_no_markup() {
    let evil = "<script>alert(1)</script> & \"'|";
    let failed = json!({"kind": "row", "store": "<i>x</i>", "workload": "c", "distribution": "uniform",
        "records": 1000, "round": 1,
        "status": "failed", "error": evil, "suite": "<b>s", "cell": "]]><u>"});
    let comparison = json!({"kind": "comparison", "suite": "<b>s", "cell": evil, "ours": evil, "theirs": evil,
        "paper_ratio": 2.0, "our_ratio": 1.0});
    let report = report_of(&[failed, comparison]);
    for markup in ["<script", "<i>", "<b>", "<u>"] {
        assert!(!report.html.contains(markup) && !report.markdown.contains(markup), "{markup}");
    }
    assert!(report.html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    for chart in report.html.split("<svg").skip(1) {
        xml::check(&format!("<svg{}</svg>", chart.split_once("</svg>").unwrap().0)).unwrap();
    }
}

#[test]
fn rows_that_did_not_end_well_are_shown_with_their_error_beside_their_neighbours() {
    let bad = |store, status, error: Value| {
        json!({"kind": "row", "store": store, "workload": "c", "distribution": "uniform",
        "records": 1000, "round": 1, "status": status, "error": error})
    };
    let lines = [
        row("tree", 1, 5e3),
        bad("lmdb", "wrong", json!("key 7 has the value of key 8")),
        bad("sled", "out_of_memory", Value::Null),
        bad("redb", "hung", json!("no operation in 60 s")),
        bad("fjall", "unavailable", json!("built without it")),
        row("tree", 2, 5e3),
    ];
    let report = report_of(&lines);
    assert_eq!(report.markdown.matches("\n### ").count(), 1, "they are one measurement");
    let troubles = table(&report.markdown, "Rows without a result");
    let told: Vec<[&str; 3]> =
        troubles.iter().map(|cells| [&cells[2], &cells[4], &cells[5]].map(String::as_str)).collect();
    assert!(told.contains(&["lmdb", "wrong", "key 7 has the value of key 8"]), "{told:?}");
    assert!(
        told.contains(&["sled", "out of memory", "–"]) && told.contains(&["redb", "hung", "no operation in 60 s"]),
        "{told:?}"
    );
    assert_eq!(told.len(), 4);
    assert!(report.markdown.contains("2 ok, 1 hung, 1 out of memory, 1 unavailable, 1 wrong"));
    let chart = report.html.split_once("</svg>").unwrap().0;
    assert!(chart.contains("key 7 has the value of key 8") && chart.contains("built without it"));
}

#[test]
fn a_failed_row_goes_to_the_measurement_that_it_stands_beside() {
    let small = |store, round| row(store, round, 5e3);
    let large = |store, round| with(row(store, round, 4e3), json!({"value_size": 1000}));
    let bad = json!({"kind": "row", "store": "sled", "workload": "c", "distribution": "uniform", "records": 1000,
        "round": 1,
        "status": "failed", "error": "oh"});
    let markdown = report_of(&[small("tree", 1), large("tree", 1), bad]).markdown;
    let places: Vec<bool> = markdown.split("\n### ").skip(1).map(|group| group.contains("sled")).collect();
    assert_eq!(places, [false, true]);
}

#[test]
fn rounds_of_another_machine_state_are_left_out() {
    let at = |store, round, ops, loop_ns| with(row(store, round, ops), machine(loop_ns));
    let report = report_of(&[
        at("tree", 1, 100e3, 1.0e6),
        at("rocksdb", 1, 50e3, 1.02e6),
        at("lmdb", 1, 40e3, 1.9e6),
        at("tree", 2, 101e3, 1.1e6),
        at("rocksdb", 2, 25e3, 1.9e6),
        at("tree", 3, 102e3, 1.05e6),
    ]);
    let speed = table(&report.markdown, "Operations a second");
    assert_eq!((speed[1][1].as_str(), speed[1][5].as_str(), speed[1][6].as_str()), ("50,000/s", "0.50×", "1 of 2"));
    assert!(speed[1][7].contains("1 of 2 rounds left out"), "{speed:?}");
    assert_eq!((speed[2][0].as_str(), speed[2][5].as_str()), ("lmdb", "–"), "it has no ratio");
    assert!(speed[2][7].contains("not comparable"), "{speed:?}");
    let overview = table(&report.markdown, "At a glance");
    assert!(overview[0][3].contains("not comparable"), "{overview:?}");
}

#[test]
fn what_the_bench_calls_noisy_is_called_noisy() {
    let summary = json!({"kind": "summary", "store": "tree", "workload": "c", "distribution": "uniform",
        "records": 1000, "rounds": 1,
        "ops_per_second": 5.0, "spread": null, "ratios": {"lmdb": null}, "noisy": true,
            "why": "the machine slowed down"});
    let report = report_of(&[row("tree", 1, 5e3), row("lmdb", 1, 6e3), summary]);
    let speed = table(&report.markdown, "Operations a second");
    assert!(
        speed[0].last().unwrap().contains("the machine slowed down") && !speed[1].last().unwrap().contains("slowed"),
        "{speed:?}"
    );
    assert!(table(&report.markdown, "At a glance")[0][1].contains("noisy"));
}

#[test]
fn phases_are_measurements_of_their_own_and_one_chart() {
    let phases = ["e", "update", "e"];
    let lines: Vec<Value> = phases
        .iter()
        .enumerate()
        .flat_map(|(leg, workload)| {
            ["adaptive", "lsm"].map(|store| {
                let moments: Vec<Value> = (0..4)
                    .map(|at| {
                        json!({"seconds": at, "operations": 1000 * at * (leg + 1),
                        "memory_bytes": 1})
                    })
                    .collect();
                let ops = 1000.0 * (leg + 1) as f64;
                let phase = json!({"leg": leg, "workload": workload, "seconds": 3.0, "operations": 3.0 * ops,
                        "timeline": moments});
                with(row(store, 1, ops), phase)
            })
        })
        .collect();
    let report = report_of(&lines);
    for (number, workload) in phases.iter().enumerate() {
        let title = format!("### phases uniform 56 B, phase {}: {workload}\n", number + 1);
        assert!(report.markdown.contains(&title), "{title} in {}", report.markdown);
    }
    assert!(!report.markdown.contains("noisy"), "phases are no rounds of each other");
    let chart = report.html.split("<title>All phases: ").nth(1).expect("there is a chart of all");
    let described = chart.split_once("</desc>").unwrap().0;
    assert!(described.contains("adaptive: its phases end after 3.00 s, 6.00 s, 9.00 s"), "{described}");
    assert!(report.html.contains("follow each other in stores that stay open: e, update, e."));
}

#[test]
fn rows_with_next_to_nothing_are_read() {
    let bare = json!({"store": "tree", "ops_per_second": 12.5});
    let nulls = json!({"kind": "row", "store": "lmdb", "round": null, "status": "ok", "ops_per_second": 25,
        "latency_us": {"p50": null},
        "latency_cdf": [[0.5, null], [null, 3.0]], "timeline": [{"seconds": 1.0}], "machine": {"before": null},
            "load": null,
        "timeline_of_the_future": {"x": 1}});
    let nothing = json!({"kind": "row"});
    let report = report_of(&[bare, nulls, nothing]);
    assert_eq!(report.said, "");
    let speed = table(&report.markdown, "Operations a second");
    assert_eq!(speed.iter().map(|cells| cells[0].as_str()).collect::<Vec<_>>(), ["tree", "lmdb", "(no store)"]);
    assert_eq!((speed[0][1].as_str(), speed[1][1].as_str(), speed[1][2].as_str()), ("12.5/s", "25.0/s", "2.00×"));
}

#[test]
fn a_store_in_two_files_is_shown_once_for_each() {
    let directory = directory();
    write(directory.path(), "before.jsonl", &[row("tree", 1, 5e3), row("lmdb", 1, 2e3)]);
    write(directory.path(), "after.jsonl", &[row("tree", 1, 6e3)]);
    let speed = table(&report(directory.path()).markdown, "Operations a second");
    let told: Vec<[&str; 2]> = speed.iter().map(|cells| [&cells[0], &cells[1]].map(String::as_str)).collect();
    assert_eq!(told, [["tree (after)", "6,000/s"], ["tree (before)", "5,000/s"], ["lmdb", "2,000/s"]]);
}

#[test]
fn comparisons_stand_beside_the_paper() {
    let comparison = json!({"kind": "comparison", "suite": "f2", "cell": "A zipfian", "metric": "read_bytes",
        "ours": "tree",
        "theirs": "rocksdb", "paper_ratio": 2.5, "our_ratio": 1.25, "difference": -1.25});
    let waiting = json!({"kind": "comparison", "suite": "f2", "cell": "B", "ours": "hash", "theirs": "lmdb",
        "paper_ratio": 11.9, "our_ratio": null});
    let report = report_of(&[row("tree", 1, 5e3), comparison, waiting]);
    assert_eq!(
        table(&report.markdown, "Ratios in the paper"),
        [
            ["A zipfian", "tree / rocksdb", "read bytes", "2.50×", "1.25×", "−1.25×"],
            ["B", "hash / lmdb", "throughput", "11.90×", "–", "–"],
        ]
    );
    assert!(report.html.contains("A zipfian: tree / rocksdb, read bytes: paper 2.50×, here 1.25×"));
}

#[test]
fn goals_stand_beside_what_was_measured() {
    let comparison = json!({"kind": "comparison", "suite": "aha", "cell": "E stretch, phase 3: e",
        "metric": "worst_window",
        "ours": "adaptive", "theirs": "steady", "paper_ratio": null, "our_ratio": 0.82, "difference": null,
            "goal": 0.7});
    let report = report_of(&[row("adaptive", 1, 5e3), comparison]);
    let told = [["E stretch, phase 3: e", "adaptive / steady", "worst window", "0.70×", "0.82×"]];
    assert_eq!(table(&report.markdown, "Ratios in the paper"), told);
}

#[test]
fn lines_that_cannot_be_read_are_named_and_skipped() {
    let directory = directory();
    fs::create_dir(directory.path().join("deep")).unwrap();
    let file = directory.path().join("deep/x.jsonl");
    let lines = [
        "{\"kind\": \"row\", \"store\": \"tree\", \"ops_per_second\": 7}",
        "",
        "{\"kind\": \"row\", \"st",
        "{\"kind\": \"mystery\"}",
        "{\"operation\": \"random_read\"}",
        "{\"kind\": \"row\", \"store\": [1]}",
        "5",
    ];
    fs::write(&file, lines.join("\n")).unwrap();
    fs::write(directory.path().join("notes.txt"), "no results").unwrap();
    let report = report(directory.path());
    let named: Vec<&str> = report.said.lines().collect();
    assert_eq!(named.len(), 5, "{named:?}");
    for (said, (line, why)) in
        named.iter().zip([(3, "no JSON"), (4, "\"mystery\""), (5, "no kind"), (6, "no row"), (7, "no kind")])
    {
        assert!(said.contains(&format!("{}:{line}: ", file.display())) && said.contains(why), "{said}");
    }
    assert!(report.markdown.contains("7.00/s") && report.markdown.contains("Skipped lines: 5"));
}

#[test]
fn without_rows_it_says_what_to_do() {
    let directory = directory();
    let (well, said) = bench(directory.path());
    assert!(!well && said.contains("in 0 files") && said.contains("--json >"), "{said}");
    write(directory.path(), "a.jsonl", &[json!({"kind": "comparison", "suite": "f2", "cell": "x"})]);
    let (well, said) = bench(directory.path());
    assert!(!well && said.contains("in 1 files"), "{said}");
    assert!(!directory.path().join("report.html").exists());
    let (well, said) = bench(&directory.path().join("missing"));
    assert!(!well && said.contains("missing"), "{said}");
}
