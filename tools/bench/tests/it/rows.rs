//! Several stores and rounds in one run.

use serde_json::Value;

use crate::harness::{bench, directory, lines, number};

const RUN: &str =
    "run --store tree,null --rounds 2 --workload a --records 2000 --operations 3000 --threads 3 --memory 16MiB";

fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_else(|| panic!("{name} is {}", line[name]))
}

#[test]
fn stores_take_turns_and_summaries_follow() {
    let directory = directory();
    let lines = lines(&bench(&format!("{RUN} --json"), directory.path()));
    let order: Vec<_> =
        lines.iter().map(|line| (text(line, "kind"), text(line, "store"), line["round"].as_u64())).collect();
    let rows = [("tree", 1), ("null", 1), ("tree", 2), ("null", 2)].map(|(store, round)| ("row", store, Some(round)));
    assert_eq!(order[..4], rows);
    assert_eq!(order[4..], [("summary", "tree", None), ("summary", "null", None)]);
    assert!(lines[0]["load"].is_object() && lines[2]["load"].is_null(), "the loaded store is used again");
    for summary in &lines[4..] {
        let speeds: Vec<f64> = lines[..4]
            .iter()
            .filter(|row| row["store"] == summary["store"])
            .map(|row| number(row, "ops_per_second"))
            .collect();
        let (median, spread) = (f64::midpoint(speeds[0], speeds[1]), (speeds[0] - speeds[1]).abs());
        assert!((number(summary, "ops_per_second") / median - 1.0).abs() < 1e-9);
        assert!((number(summary, "spread") - spread / median).abs() < 1e-9);
        assert_eq!(summary["noisy"].as_bool().unwrap(), summary["why"].is_string());
        assert!(summary["ratios"].is_object() && summary["rounds"] == 2 && summary["records"] == 2000);
    }
    for store in ["tree", "null"] {
        assert!(directory.path().join(store).join("bench.json").exists());
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "the scratch file is removed");
}

#[test]
#[ignore = "long"]
fn stores_that_stay_open_are_warmed_up_once_and_stand_still_in_between() {
    let directory = directory();
    let run = "run --store tree,null --rounds 3 --stay-open --workload d --records 2000 --warmup 1s --seconds 0.3 \
        --threads 3 --memory 16MiB --json";
    let lines = lines(&bench(run, directory.path()));
    let order: Vec<_> =
        lines.iter().map(|line| (text(line, "kind"), text(line, "store"), line["round"].as_u64())).collect();
    let rows = [1, 2, 3].map(|round| [("row", "tree", Some(round)), ("row", "null", Some(round))]).concat();
    assert_eq!(order[..6], rows);
    assert_eq!(order[6..], [("summary", "tree", None), ("summary", "null", None)]);
    let tree: Vec<&Value> = lines[..6].iter().filter(|row| row["store"] == "tree").collect();
    for row in &tree {
        assert!(row["status"] == "ok" && number(row, "warmup_operations") > 1000.0 && row["load"].is_object(), "{row}");
        assert!((0.3..0.9).contains(&number(row, "seconds")), "nothing of other rounds counts: {}", row["seconds"]);
    }
    let processor: f64 = tree.iter().map(|row| number(row, "cpu_seconds")).sum();
    assert!(processor > 0.0 && tree.iter().all(|row| number(row, "operations") > 100.0));
    assert!(tree[0]["operations"] != tree[1]["operations"] || tree[1]["operations"] != tree[2]["operations"]);
    assert!(directory.path().join("tree/bench.json").exists());
    let again = crate::harness::lines(&bench(&run.replace("--rounds 3", "--rounds 1"), directory.path()));
    assert!(again[0]["status"] == "ok" && again[0]["load"].is_null(), "it was closed well: {}", again[0]);
}

#[test]
#[ignore = "long"]
fn workloads_follow_each_other_in_stores_that_stay_open() {
    let directory = directory();
    let run = "run --store tree,null --rounds 2 --stay-open --workload c --then a,d --records 2000 --seconds 0.2 \
        --threads 2 --memory 16MiB --json";
    let lines = lines(&bench(run, directory.path()));
    let order: Vec<_> =
        lines.iter().map(|line| (text(line, "kind"), text(line, "workload"), line["round"].as_u64())).collect();
    for (number, workload) in ["c", "a", "d"].into_iter().enumerate() {
        let rows = [1, 1, 2, 2].map(|round| ("row", workload, Some(round)));
        assert_eq!(order[4 * number..][..4], rows);
        assert_eq!(order[12 + 2 * number..][..2], [("summary", workload, None); 2]);
    }
    let tree: Vec<&Value> = lines[..12].iter().filter(|row| row["store"] == "tree").collect();
    let written: Vec<bool> = tree.iter().map(|row| number(row, "user_write_bytes") > 0.0).collect();
    assert_eq!(written, [false, false, true, true, true, true], "c writes nothing, a and d do");
    let shapes: Vec<&str> = tree.iter().map(|row| text(row, "distribution")).collect();
    assert_eq!(shapes, ["zipfian", "zipfian", "zipfian", "zipfian", "latest", "latest"]);
    let summary = lines[12..].iter().find(|line| line["workload"] == "a" && line["store"] == "tree").unwrap();
    let speeds = [2, 3].map(|row| number(tree[row], "ops_per_second"));
    assert!(
        (number(summary, "ops_per_second") / f64::midpoint(speeds[0], speeds[1]) - 1.0).abs() < 1e-9,
        "of a alone: {summary}"
    );
}

/// The same workload twice, with another one between, each as long as it says.
#[test]
fn phases_of_one_stretch_follow_each_other() {
    let directory = directory();
    let run = "run --store tree,null --stay-open --workload update --operations 5000 --then \
        e:700,update:300,update:400 --distribution stretch --records 20000 --warmup 0 --threads 2 --memory 16MiB \
        --json";
    let lines = lines(&bench(run, directory.path()));
    let rows: Vec<_> = lines.iter().filter(|line| line["kind"] == "row" && line["store"] == "tree").collect();
    let told: Vec<_> =
        rows.iter().map(|row| (row["leg"].as_u64(), text(row, "workload"), number(row, "operations"))).collect();
    let expected = [("update", 5000.0), ("e", 700.0), ("update", 300.0), ("update", 400.0)];
    let expected: Vec<_> = (0..).zip(expected).map(|(leg, (workload, count))| (Some(leg), workload, count)).collect();
    assert_eq!(told, expected);
    assert!(rows.iter().all(|row| row["distribution"] == "stretch" && row["stretch"] == 0.1));
    let summaries = lines.iter().filter(|line| line["kind"] == "summary").count();
    assert_eq!(summaries, 8, "one for each");
    let told = crate::harness::failure(&run.replace("e:700", "e:x"), directory.path());
    assert!(told.contains("a number of operations"), "{told}");
}

/// A phase that is over when all is pages, and not before.
#[test]
fn a_store_adapts_as_long_as_it_takes() {
    let directory = directory();
    let run = "run --store adaptive --stay-open --workload e --operations 100 --then adapt,e --records 20000 --warmup \
        0 --threads 2 --memory 16MiB --json";
    let lines = lines(&bench(run, directory.path()));
    let rows: Vec<_> = lines.iter().filter(|line| line["kind"] == "row").collect();
    let pieces: Vec<_> = rows.iter().map(|row| row["engine"]["ranges_to_pages"].as_u64().unwrap()).collect();
    assert_eq!(rows.iter().map(|row| text(row, "workload")).collect::<Vec<_>>(), ["e", "adapt", "e"]);
    assert!(pieces[0] == 0 && pieces[1] > 0 && pieces[2] == 0, "{pieces:?}");
    assert!(number(rows[1], "seconds") > 0.0 && number(rows[1], "operations") > 0.0);
    assert!(rows[1]["engine"]["paged_ranges"].as_u64() > Some(0));
    let told = crate::harness::failure(&run.replace("--store adaptive", "--store lsm"), self::directory().path());
    assert!(told.contains("of the store adaptive alone"), "{told}");
}

#[test]
fn a_store_that_fails_has_no_rounds_and_the_others_have_theirs() {
    let directory = directory();
    let run =
        "run --store null --rounds 2 --stay-open --workload c --records 2000 --operations 3000 --memory 16MiB --json";
    let output = bench(&format!("{run} --set fault=lie"), directory.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() && text.matches("\"wrong\"").count() == 2, "{text}");
    let output = bench(&run.replace("--store null", "--store rocksdb,null"), directory.path());
    let text = String::from_utf8(output.stdout).unwrap();
    if output.status.success() {
        eprintln!("SKIPPED: this binary was built with rocksdb");
        return;
    }
    assert!(text.matches("\"unavailable\"").count() == 2 && text.matches("\"ok\"").count() == 2, "{text}");
}

#[test]
fn a_load_cannot_stay_open() {
    let directory = directory();
    let told = crate::harness::failure("run --store null --stay-open --workload load --memory 16MiB", directory.path());
    assert!(told.contains("--stay-open"), "{told}");
}

#[test]
fn a_row_says_what_the_machine_and_the_store_did() {
    let directory = directory();
    let rows = lines(&bench(
        "run --store tree --workload a --records 3000 --seconds 0.4 --threads 3 --memory 16MiB --json",
        directory.path(),
    ));
    let row = &rows[0];
    assert_eq!((text(row, "kind"), text(row, "status"), &row["error"]), ("row", "ok", &Value::Null));
    for name in ["space_amplification", "size_on_disk", "open_seconds", "longest_stall_us"] {
        assert!(number(row, name) > 0.0, "{name}");
    }
    assert!(row["read_amplification"].is_number() && row["write_amplification"].is_number());
    let used = std::fs::read_dir(directory.path().join("db")).unwrap();
    let used: u64 =
        used.map(|file| std::os::unix::fs::MetadataExt::blocks(&file.unwrap().metadata().unwrap()) * 512).sum();
    assert!((number(row, "size_on_disk") / used as f64 - 1.0).abs() < 0.5, "{} and {used}", row["size_on_disk"]);
    assert!((number(row, "space_amplification") - number(row, "size_on_disk") / (3000.0 * 64.0)).abs() < 1e-9);
    for moment in ["before", "after"] {
        assert!(
            number(&row["machine"][moment], "loop_ns") > 0.0
                && number(&row["machine"][moment], "disk_reads_per_second") > 0.0
        );
    }
    assert!((0.0..=1.0).contains(&number(&row["machine"]["after"], "stolen")));
}

#[test]
fn curves_agree_with_the_numbers() {
    let directory = directory();
    let rows = lines(&bench(
        "run --store null --workload c --records 3000 --seconds 0.5 --threads 2 --memory 16MiB --json",
        directory.path(),
    ));
    let row = &rows[0];
    let cdf: Vec<(f64, f64)> = serde_json::from_value(row["latency_cdf"].clone()).unwrap();
    assert!(
        (50..=70).contains(&cdf.len()) && cdf.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)
    );
    let (_, tail) = cdf.iter().find(|(quantile, _)| (quantile - 0.99).abs() < 1e-9).unwrap();
    assert!((tail / number(&row["latency_us"], "p99") - 1.0).abs() < 1e-3);
    let timeline = row["timeline"].as_array().unwrap();
    assert!((3..=200).contains(&timeline.len()), "{}", timeline.len());
    assert!(timeline.windows(2).all(|pair| number(&pair[0], "operations") <= number(&pair[1], "operations")));
    let last = timeline.last().unwrap();
    assert!(number(last, "operations") <= number(row, "operations") && number(last, "memory_bytes") > 0.0);
}

#[test]
fn a_table_compares_stores() {
    let directory = directory();
    let output = bench(RUN, directory.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("ops/s") && text.contains("space ampl."), "{text}");
    let of = |store: &str| {
        text.lines().find(|line| line.trim().starts_with(store)).unwrap_or_else(|| panic!("{store}: {text}"))
    };
    assert!(of("tree").trim().ends_with("ok") && of("null").trim().ends_with("ok"), "{text}");
}

#[test]
fn every_round_of_a_load_loads() {
    let directory = directory();
    let lines = lines(&bench(
        "run --store tree --rounds 2 --workload load --records 2000 --threads 2 --memory 16MiB --json",
        directory.path(),
    ));
    assert!(lines[..2].iter().all(|row| number(row, "operations") == 2000.0 && row["load"].is_object()));
}

#[test]
fn a_store_that_was_not_built_in_is_unavailable() {
    let directory = directory();
    let run = "run --store rocksdb,null --workload c --records 100 --memory 16MiB --json";
    let output = bench(run, directory.path());
    let text = String::from_utf8(output.stdout).unwrap();
    let row: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    if row["status"] == "ok" {
        eprintln!("SKIPPED: this binary was built with rocksdb");
        return;
    }
    assert!(row["status"] == "unavailable" && row["error"].is_string() && !output.status.success(), "{row}");
    assert!(text.lines().nth(1).unwrap().contains("\"ok\""), "{text}");
}

#[test]
fn a_store_is_named_once() {
    let directory = directory();
    let told = crate::harness::failure("run --store null,null --workload c --memory 16MiB", directory.path());
    assert!(told.contains("names null twice"), "{told}");
}
