use serde_json::Value;

use crate::harness::{bench, directory, failure, line, number};

/// Every name that issue and documents promise, and whether it is a number.
const NAMES: [(&str, bool); 20] = [
    ("store", false),
    ("workload", false),
    ("distribution", false),
    ("records", true),
    ("operations", true),
    ("seconds", true),
    ("ops_per_second", true),
    ("latency_us", false),
    ("device_reads", true),
    ("device_writes", true),
    ("read_bytes", true),
    ("write_bytes", true),
    ("user_read_bytes", true),
    ("user_write_bytes", true),
    ("memory_budget", true),
    ("memory_peak", true),
    ("index_bytes", true),
    ("cpu_seconds", true),
    ("device_reads_per_op", true),
    ("engine", false),
];

fn check_names(result: &Value) {
    for (name, is_number) in NAMES {
        assert!(!result[name].is_null() && result[name].is_number() == is_number, "{name}: {}", result[name]);
    }
    for name in ["records", "operations", "device_reads", "read_bytes", "memory_peak", "memory_budget", "index_bytes"] {
        assert!(result[name].is_u64(), "{name} is an integer");
    }
    for name in ["p50", "p99", "p999", "max"] {
        assert!(result["latency_us"][name].is_number(), "{name}");
    }
}

#[test]
#[ignore = "long"]
fn every_workload_and_distribution_prints_every_name() {
    for store in ["null", "tree"] {
        for (workload, distribution) in [
            ("a", "zipfian"),
            ("b", "hotspot"),
            ("c", "uniform"),
            ("d", "latest"),
            ("e", "zipfian"),
            ("f", "uniform"),
            ("insert", "uniform"),
            ("load", "uniform"),
        ] {
            let directory = directory();
            let arguments = format!(
                "run --store {store} --workload {workload} --distribution {distribution} --records 2000 --operations \
                    3000 --threads 3 \
                 --memory 16MiB --json"
            );
            let result = line(&arguments, directory.path());
            check_names(&result);
            assert_eq!((result["store"].as_str(), result["workload"].as_str()), (Some(store), Some(workload)));
            let operations = if workload == "load" { 2000.0 } else { 3000.0 };
            assert_eq!(number(&result, "operations"), operations, "{workload}");
            assert_eq!(number(&result, "memory_budget"), f64::from(16 << 20));
        }
    }
}

#[test]
fn user_bytes_are_those_of_the_operations() {
    let directory = directory();
    let run = |workload: &str, more: &str| {
        let arguments = format!(
            "run --store tree --workload {workload} --records 1000 --operations 500 --warmup 0 --memory 16MiB --json \
                {more}"
        );
        line(&arguments, directory.path())
    };
    let reads = run("c", "");
    assert_eq!((number(&reads, "user_read_bytes"), number(&reads, "user_write_bytes")), (500.0 * 64.0, 0.0));
    assert!(!reads["load"].is_null());
    let inserts = run("insert", "--batch 10");
    assert_eq!((number(&inserts, "user_read_bytes"), number(&inserts, "user_write_bytes")), (0.0, 500.0 * 64.0));
    assert!(inserts["load"].is_null(), "the finished store is used again");
    let mixed = run("a", "--batch 7");
    assert_eq!(number(&mixed, "user_read_bytes") + number(&mixed, "user_write_bytes"), 500.0 * 64.0);
    let modified = run("f", "");
    assert!(number(&modified, "user_read_bytes") == 500.0 * 64.0 && number(&modified, "user_write_bytes") > 0.0);
}

#[test]
#[ignore = "long"]
fn a_finished_store_is_checked_before_it_is_used_again() {
    let directory = directory();
    let run = |more: &str| format!("run --store tree --records 1000 --operations 100 --warmup 0 --memory 16MiB {more}");
    line(&run("--workload c --json"), directory.path());
    assert!(failure(&run("--workload c --value-size 57"), directory.path()).contains("value-size 56, not 57"));
    assert!(failure(&run("--workload c --durability none"), directory.path()).contains("logged true, not false"));
    assert!(failure(&run("--workload load"), directory.path()).contains("needs an empty --dir"));
    line(&run("--workload d --durability sync --json"), directory.path());
    line(&run("--workload c --batch 32 --json"), directory.path());
}

#[test]
fn a_warm_up_goes_on_until_reads_are_steady() {
    let directory = directory();
    let run = |warmup: &str| {
        format!("run --store tree --workload c --records 1000 --operations 100 --memory 16MiB --warmup {warmup} --json")
    };
    assert_eq!(number(&line(&run("123"), directory.path()), "warmup_operations"), 123.0);
    let steady = number(&line(&run("steady"), directory.path()), "warmup_operations");
    // Four slices of a quarter of the records tell little while the cache fills; soon nothing is read any more.
    assert!(steady > 1000.0 && steady < 8000.0, "{steady}");
    assert!(failure(&run("long"), directory.path()).contains("steady"));
}

#[test]
fn a_store_that_lost_data_is_caught() {
    let directory = directory();
    let run = "run --store tree --workload c --records 1000 --operations 5000 --warmup 0 --memory 16MiB --json";
    line(run, directory.path());
    let (state, kept) = (directory.path().join("bench.json"), directory.path().join("kept.json"));
    std::fs::rename(&state, &kept).unwrap();
    std::fs::remove_dir_all(directory.path().join("db")).unwrap();
    // The file that says that 1000 records are there, over a database that has none.
    std::fs::rename(&kept, &state).unwrap();
    let told = failure(&run.replace("--json", ""), directory.path());
    assert!(told.contains("the store lost or changed a record"), "{told}");
}

#[test]
#[ignore = "long"]
fn wrong_arguments_are_told() {
    for (arguments, message) in [
        ("--workload c --memory 16MiB --value-size 7", "--value-size is 7"),
        ("--workload c --memory 16MiB --value-size 1900", "--value-size is 1900"),
        ("--workload c --memory 16MiB --key-size 0", "--key-size is 0"),
        ("--workload c --memory 16MiB --key-size 1 --records 300", "256 keys"),
        ("--workload c --memory 16MB", "is no unit"),
        ("--workload c --memory 1MiB", "memory budget"),
        ("--workload c --memory 16MiB --set speed=9", "speed"),
        ("--workload c --memory 16MiB --keys /no/such/file.u64", "/no/such/file.u64"),
        ("--workload x --memory 16MiB", "invalid value 'x'"),
        ("--workload c --memory 16MiB --cgroup-memory much", "is no unit"),
    ] {
        let directory = directory();
        let told = failure(&format!("run --store tree {arguments}"), directory.path());
        assert!(told.contains(message), "{arguments}: {told}");
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert!(left.is_empty(), "{arguments} leaves {left:?}");
    }
}

#[test]
fn keys_from_a_file_and_keys_that_run_out() {
    let directory = directory();
    let file = directory.path().join("towns.txt");
    std::fs::write(&file, (0..3000).map(|n| format!("town number {}\n", n * 7919 % 3001)).collect::<String>()).unwrap();
    let store = directory.path().join("store");
    let run =
        |more: &str| format!("run --store tree --memory 16MiB --threads 2 --keys {} {more} --json", file.display());
    let all = line(&run("--workload c --records 2500"), &store);
    assert_eq!((number(&all, "records"), number(&all, "operations")), (2500.0, 2500.0));
    let rest = line(&run("--workload insert --records 2500 --seconds 20"), &store);
    assert_eq!(number(&rest, "operations"), 500.0);
    let scans = line(&run("--workload e --records 2500 --operations 200 --warmup 0"), &store);
    assert!(number(&scans, "operations") <= 200.0);
    let many = run("--workload c --records 4000").replace("--json", "");
    assert!(failure(&many, &directory.path().join("other")).contains("there are 3000 keys"));
}

#[test]
fn a_given_rate_is_kept() {
    let directory = directory();
    let result = line(
        "run --store null --workload c --records 100 --operations 600 --rate 2000 --threads 2 --warmup 0 --memory \
            16MiB --json",
        directory.path(),
    );
    assert!((0.29..5.0).contains(&number(&result, "seconds")), "{}", result["seconds"]);
}

#[test]
fn the_harness_is_small() {
    let directory = directory();
    let run = "run --store null --workload a --records 20000000 --operations 1000000 --warmup 0 --threads 8 --memory \
        16MiB --json";
    let peak = number(&line(run, directory.path()), "memory_peak");
    assert!(peak <= f64::from(16 << 20), "{peak} bytes");
}

#[test]
fn a_table_for_people() {
    let directory = directory();
    let output =
        bench("run --store null --workload c --distribution zipfian --records 1000 --memory 16MiB", directory.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("operations a second") && text.contains("with the hottest records kept"), "{text}");
}
