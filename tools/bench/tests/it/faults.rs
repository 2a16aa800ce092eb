//! Bad stores: each is reported in its row, and the others go on.

use std::{path::Path, time::Instant};

use serde_json::Value;

use crate::harness::{bench, directory, line, number};

/// A run of a bad store, by the null store's `fault`; gives its row.
fn bad(fault: &str, more: &str, directory: &Path) -> Value {
    let run = "run --store null --workload c --records 1000 --warmup 0 --threads 2 --memory 16MiB --json";
    let output = bench(&format!("{run} --set fault={fault} {more}"), directory);
    let (text, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let row: Value = serde_json::from_str(text.lines().next().unwrap_or_else(|| panic!("no row: {said}"))).unwrap();
    assert!(output.status.code() == Some(1) && said.contains(row["error"].as_str().unwrap()), "{said}");
    assert!(row["kind"] == "row" && row["round"] == 1 && row["store"] == "null" && row["workload"] == "c", "{row}");
    assert!(row["records"] == 1000 && row["distribution"] == "zipfian" && row["machine"].is_object(), "{row}");
    row
}

#[test]
fn a_liar_is_wrong() {
    let row = bad("lie", "", directory().path());
    assert_eq!(row["status"], "wrong");
    assert!(row["error"].as_str().unwrap().contains("the store lost or changed a record"), "{row}");
}

#[test]
fn an_error_is_a_failure() {
    let row = bad("fail", "", directory().path());
    assert_eq!(
        (row["status"].as_str(), row["error"].as_str()),
        (Some("failed"), Some("the null store was told to fail"))
    );
}

#[test]
fn what_hangs_is_killed() {
    let begin = Instant::now();
    let row = bad("hang", "--hang-seconds 1", directory().path());
    assert_eq!(row["status"], "hung");
    assert!(row["error"].as_str().unwrap().contains("nothing moved for 1 s in the phase \"measure\""), "{row}");
    assert!(begin.elapsed().as_secs() < 60);
}

#[test]
fn what_takes_too_much_memory_is_killed_alone() {
    let row = bad("hoard", "--cgroup-memory 32MiB", directory().path());
    if row["error"].as_str().unwrap().contains("no memory cgroup can be made here") {
        eprintln!("SKIPPED: no memory cgroup can be made here");
        return;
    }
    assert_eq!(row["status"], "out_of_memory", "{row}");
    assert!(row["error"].as_str().unwrap().contains("32.0 MiB"), "{row}");
    assert_eq!(row["cgroup_limit"], 32 << 20);
    let peak = number(&row, "cgroup_peak");
    assert!((f64::from(24 << 20)..=f64::from(32 << 20)).contains(&peak), "{peak}");
}

#[test]
fn the_others_go_on() {
    let directory = directory();
    let run =
        |more: &str| format!("run --workload c --records 1000 --threads 2 --memory 16MiB --rounds 2 --json {more}");
    line(&run("--store tree --rounds 1").replace("--rounds 2 ", ""), &directory.path().join("tree"));
    // The records are gone, but the file that says that they are there is not.
    std::fs::remove_dir_all(directory.path().join("tree/db")).unwrap();
    let output = bench(&run("--store tree,null"), directory.path());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let statuses: Vec<_> = lines.iter().filter_map(|line| line["status"].as_str()).collect();
    assert!(statuses[0] == "wrong" && statuses[1] == "ok" && statuses[3] == "ok", "{statuses:?}");
    assert_eq!(output.status.code(), Some(1));
    let null = lines.iter().find(|line| line["kind"] == "summary" && line["store"] == "null").unwrap();
    assert!(null["rounds"] == 2 && null["ratios"]["tree"].is_null(), "{null}");
}

/// Of 1000 reads one takes 100 ms. Asked as fast as it answers, the store has hidden that from all but one operation;
/// asked 2000 times a second it made 200 of them wait.
#[test]
fn stalls_are_not_omitted() {
    let directory = directory();
    let run = |more: &str| {
        let fixed = "run --store null --workload c --records 1000 --operations 4000 --warmup 0 --threads 1 --memory \
            16MiB --json";
        line(&format!("{fixed} --set stall_us=100000 {more}"), directory.path())
    };
    let (closed, open) = (run(""), run("--rate 2000"));
    let p99 = |row: &Value| number(&row["latency_us"], "p99");
    assert!(p99(&closed) < 20_000.0 && p99(&open) > 50_000.0, "{} and {}", p99(&closed), p99(&open));
    for row in [&closed, &open] {
        assert!(number(row, "longest_stall_us") >= 100_000.0 && number(&row["latency_us"], "max") >= 100_000.0);
    }
}

/// The store stalls until time is up: what should have begun meanwhile counts as well.
#[test]
fn a_stall_at_the_end_is_not_omitted() {
    let directory = directory();
    let run = "run --store null --workload c --records 1000 --seconds 1 --rate 1000 --warmup 0 --threads 1 --memory \
        16MiB --json";
    let row = line(&format!("{run} --set stall_us=1500000"), directory.path());
    // The 500th read begins after half a second and ends a second after the time. Those before it were fast, and so
    // would be all that is recorded.
    assert!(number(&row["latency_us"], "p99") > 1_000_000.0, "{}", row["latency_us"]);
}
