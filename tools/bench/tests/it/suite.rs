use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::harness::{bench, directory, failure, lines, number};

/// Runs some cells of a suite at a tiny scale.
fn suite(name: &str, stores: &str, cells: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ecotone-bench"));
    command.args(["suite", name, "--scale", "tiny", "--store", stores, "--json", "--dir"]).arg(directory);
    command.args(cells.iter().flat_map(|cell| ["--cell", cell]));
    command.output().unwrap()
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

#[test]
#[ignore = "long"]
fn a_suite_prints_rows_and_comparisons() {
    let directory = directory();
    let cells = ["A zipfian 64B", "C zipfian 64B none", "D latest 64B none", "batch 32"];
    let lines = lines(&suite("treeline-points", "tree,null", &cells, directory.path()));
    let rows = of_kind(&lines, "row");
    let of = |cell: &str, store: &str| rows.iter().find(|row| row["cell"] == cell && row["store"] == store).copied();
    for cell in ["C zipfian 64B none", "A zipfian 64B buffered", "D latest 64B none", "A zipfian 64B sync"] {
        for store in ["tree", "null"] {
            let row = of(cell, store).unwrap_or_else(|| panic!("{cell} {store}"));
            assert!(row["suite"] == "treeline-points" && number(row, "ops_per_second") > 0.0 && row["round"] == 1);
        }
    }
    let batches = of("C uniform 64B batch 32 none", "tree").unwrap();
    assert_eq!(number(batches, "batch"), 32.0);
    assert!(of("C uniform 64B batch 32 none", "null").is_none() && of("C uniform 64B none", "tree").is_none());
    let comparisons = of_kind(&lines, "comparison");
    let mean =
        comparisons.iter().find(|line| line["cell"] == "mean: zipfian 64B none" && line["theirs"] == "null").unwrap();
    assert!(mean["ours"] == "tree" && number(mean, "our_ratio") > 0.0 && mean["cells"] == 3 && mean["of_cells"] == 3);
    let stated = comparisons
        .iter()
        .find(|line| line["cell"] == "A zipfian 64B none" && line["metric"] == "write_bytes")
        .unwrap();
    assert!(number(stated, "paper_ratio") > 0.7 && stated["our_ratio"].is_null(), "RocksDB was not measured");
}

#[test]
fn states_are_used_again() {
    let directory = directory();
    let cells = ["A zipfian 108B none", "C zipfian 108B none", "A zipfian 108B sync"];
    let run = || lines(&suite("f2", "null", &cells, directory.path()));
    run();
    let states = || fs::read_dir(directory.path().join("states")).unwrap().count();
    assert_eq!(states(), 2, "one with and one without a log");
    let again = run();
    assert!(of_kind(&again, "row").iter().all(|row| row["load"].is_null() && row["status"] != "failed"));
    assert_eq!(states(), 2);
}

#[test]
fn rounds_of_variants_and_of_loads_are_counted() {
    let directory = directory();
    let output = bench("suite aha --scale tiny --store null --cell load --rounds 3 --json", directory.path());
    let rounds: Vec<_> = of_kind(&lines(&output), "row").iter().map(|row| row["round"].as_u64().unwrap()).collect();
    assert_eq!(rounds, [1, 2, 3]);
    let output = bench("suite aha --scale tiny --store null --cell sync --rounds 2 --json", directory.path());
    let lines = lines(&output);
    let rounds: Vec<_> = of_kind(&lines, "row").iter().map(|row| row["round"].as_u64().unwrap()).collect();
    assert_eq!(rounds, [1, 2]);
    let summaries = of_kind(&lines, "summary");
    assert!(summaries.len() == 1 && summaries[0]["cell"] == "A hotspot 148B sync" && summaries[0]["suite"] == "aha");
}

#[test]
fn a_failing_cell_is_shown_and_the_others_go_on() {
    let directory = directory();
    // A state that is not ours to use: the cells that need it fail, the others do not.
    let strange = directory.path().join("states/2000-8+100B-synthetic-logged/null");
    fs::create_dir_all(&strange).unwrap();
    fs::write(strange.join("thesis.txt"), b"").unwrap();
    let output = suite("f2", "null", &["A zipfian 108B", "C zipfian 108B none"], directory.path());
    assert!(!output.status.success());
    let rows: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let failed: Vec<_> = rows.iter().filter(|row| row["status"] == "failed").collect();
    let error = |row: &Value| row["error"].as_str().unwrap().to_owned();
    assert!(
        failed.len() == 2 && failed[0]["cell"] == "A zipfian 108B buffered" && error(failed[0]).contains("thesis.txt"),
        "{failed:?}"
    );
    assert!(
        failed[1]["cell"] == "A zipfian 108B sync" && error(failed[1]).contains("could not be prepared"),
        "{failed:?}"
    );
    assert!(strange.join("thesis.txt").exists());
    assert!(
        rows.iter().filter(|row| row["kind"] == "row" && row["status"] == "ok").count() == 2,
        "A and C without a log"
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("2 rows of f2 failed"));
}

#[test]
fn the_suite_of_the_adaptive_engine_has_rows_of_it() {
    let directory = directory();
    let rows = lines(&suite("aha", "adaptive,null", &["load"], directory.path()));
    let done: Vec<_> =
        of_kind(&rows, "row").into_iter().map(|row| (row["store"].clone(), row["status"].clone())).collect();
    assert!(["adaptive", "null"].iter().all(|store| done.contains(&((*store).into(), "ok".into()))), "{rows:?}");
}

#[test]
fn a_way_of_the_adaptive_engine_is_compared_with_the_usual_one() {
    let directory = directory();
    let lines = lines(&suite("aha", "adaptive,null", &["by split"], directory.path()));
    let rows = of_kind(&lines, "row");
    assert!(rows.iter().all(|row| row["store"] == "adaptive" && row["status"] == "ok"), "{rows:?}");
    assert_eq!(rows.len(), 2 * 3, "three phases of each");
    let mut compared = of_kind(&lines, "comparison");
    compared.retain(|line| line["ours"] == "adaptive split=down" && line["metric"] == "throughput");
    assert_eq!(compared.len(), 4, "each phase, and all together");
    assert!(
        compared.iter().all(|line| line["theirs"] == "adaptive split=side" && number(line, "our_ratio") > 0.0),
        "{compared:?}"
    );
}

#[test]
fn kinds_of_index_are_compared_with_each_other() {
    let directory = directory();
    let output = suite("spongekv", "lsm", &["108B none by index"], directory.path());
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let index_bytes = |kind: &str| {
        let cell = format!("C uniform 108B none by index index={kind}");
        let found = of_kind(&rows, "row")
            .into_iter()
            .find(|row| row["cell"] == cell)
            .unwrap_or_else(|| panic!("no row {cell}"));
        assert!(found["status"] == "ok" && found["store"] == "lsm", "{found}");
        number(&found["engine"], "index_bytes")
    };
    let (single, plr, linear) = (index_bytes("single"), index_bytes("plr"), index_bytes("linear"));
    assert!(plr > 0.0 && linear > 0.0 && plr.max(linear) < single, "{single} {plr} {linear}");
}

#[test]
fn the_record_cache_can_be_switched_off() {
    let directory = directory();
    let rows =
        lines(&bench("suite treeline-points --scale tiny --store tree --cell record_cache --json", directory.path()));
    let row = |value: &str| {
        let cell = format!("A zipfian 1024B none by record_cache record_cache={value}");
        let found = of_kind(&rows, "row")
            .into_iter()
            .find(|row| row["cell"] == cell)
            .unwrap_or_else(|| panic!("no row {cell}"));
        assert_eq!(found["status"], "ok", "{found}");
        found["device_reads_per_op"].as_f64().unwrap_or_else(|| panic!("{found}"))
    };
    let (on, off) = (row("on"), row("off"));
    assert!(off > on, "{off} reads an operation without a cache, {on} with one");
}

#[test]
fn cells_without_their_keys_are_skipped_aloud() {
    let directory = directory();
    let arguments = "suite treeline-forecast --scale tiny --store null --data /no/such/place --json";
    let output = bench(arguments, directory.path());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && told.contains("skipped, because taxi_pickups.u64.zst is neither in /no/such/place"),
        "{told}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn a_list_measures_nothing() {
    let directory = directory();
    let path = directory.path().join("none");
    let cells = lines(&bench("suite treeline-scans --scale full --list --json", &path));
    assert!(cells.len() > 10 && cells.iter().all(|cell| number(cell, "measuring_seconds") > 10.0));
    assert!(cells.iter().map(|cell| number(cell, "preparing_seconds")).sum::<f64>() > 600.0);
    let table = String::from_utf8(bench("suite f2 --scale small --list", &path).stdout).unwrap();
    assert!(table.contains("A zipfian 108B sync") && table.contains("minutes:"), "{table}");
    assert!(!Path::new(&path).exists());
    assert!(failure("suite f2 --scale small --cell nonsense", &path).contains("nonsense"));
    assert!(failure("suite f2 --scale small --store nonsense", &path).contains("there is no store"));
}

#[test]
fn time_that_is_short_leaves_cells_out() {
    let directory = directory();
    let output = bench("suite f2 --scale tiny --store null --minutes 0.001 --json", directory.path());
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("cells were left out"));
}

#[test]
fn a_table_of_comparisons_for_people() {
    let directory = directory();
    let output = bench("suite f2 --scale tiny --store null --cell A", directory.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("A zipfian 108B none") && text.contains("/s"), "{text}");
    assert!(text.contains("read amplification") && text.contains("0.30"), "{text}");
}
