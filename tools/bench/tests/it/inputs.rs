//! Traces, scaled keys and their order.

use std::path::{Path, PathBuf};

use crate::harness::{directory, failure, line, number};

fn put(directory: &Path, name: &str, numbers: impl IntoIterator<Item = u64>) -> PathBuf {
    let file = directory.join(name);
    std::fs::write(&file, numbers.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<_>>()).unwrap();
    file
}

#[test]
#[ignore = "long"]
fn a_trace_says_which_records_are_accessed() {
    let directory = directory();
    let file = put(directory.path(), "shop.u64", (0..5000).map(|access| access * access % 701));
    let store = directory.path().join("store");
    let run = |more: &str| format!("run --store tree --memory 16MiB --threads 3 --trace {} {more} --json", file.display());
    for (workload, batch) in [("c", 1), ("a", 1), ("b", 16), ("f", 1)] {
        let row = line(&run(&format!("--workload {workload} --batch {batch}")), &store);
        assert_eq!((row["distribution"].as_str(), row["trace"].as_str()), (Some("trace"), Some("shop.u64")));
        assert_eq!((number(&row, "records"), number(&row, "operations")), (351.0, 5000.0), "{workload}");
    }
    let around = line(&run("--workload c --operations 12345 --warmup 10"), &store);
    assert_eq!(number(&around, "operations"), 12345.0);
    let other = directory.path().join("other");
    assert!(failure(&run("--workload d"), &other).contains("the workloads a, b, c and f"));
    assert!(failure(&run("--workload c --records 350"), &other).contains("351 different objects"));
    assert!(failure(&run("--workload c --distribution uniform"), &other).contains("cannot be used with"));
    let none = failure("run --store null --workload c --distribution trace --memory 16MiB", &other);
    assert!(none.contains("needs a --trace"), "{none}");
}

#[test]
fn keys_are_scaled_once_and_told_apart() {
    let directory = directory();
    let file = put(directory.path(), "ids.u64", (0..5000).map(|number| number * 3 + number / 100 * 1000));
    let store = directory.path().join("store");
    let run = |more: &str| {
        format!("run --store tree --memory 16MiB --keys {} {more} --workload c --operations 3000 --json", file.display())
    };
    assert_eq!(number(&line(&run("--scale-keys 12000"), &store), "records"), 12000.0);
    let scaled = || {
        std::fs::read_dir(&store)
            .unwrap()
            .map(|entry| entry.unwrap())
            .find(|entry| entry.file_name().to_string_lossy().starts_with("keys.scaled"))
    };
    let made = scaled().unwrap().metadata().unwrap().modified().unwrap();
    line(&run("--scale-keys 12000"), &store);
    assert_eq!(scaled().unwrap().metadata().unwrap().modified().unwrap(), made, "they are used again");
    assert!(failure(&run("--scale-keys 13000 --records 12000"), &store).contains("made with scale"));
    assert!(failure(&run("--scale-keys 12000 --order arrival"), &store).contains("made with order"));
    let alone = failure("run --store null --workload c --scale-keys 10 --memory 16MiB", &store);
    assert!(alone.contains("--keys"), "{alone}");
}

#[test]
fn new_records_arrive_in_order_beside_reads() {
    let directory = directory();
    let file = put(directory.path(), "arrivals.u64", (0..20_000).map(|number| number * 1000 % 20_011));
    let store = directory.path().join("store");
    let run = format!("run --store tree --memory 16MiB --threads 2 --keys {} --order arrival --records 5000", file.display());
    let row = line(&format!("{run} --workload insert --read-share 0.5 --operations 20000 --json"), &store);
    assert_eq!(number(&row, "operations"), 20_000.0);
    let written = number(&row, "user_write_bytes") / 64.0;
    assert!((9500.0..10_500.0).contains(&written), "{written} of 20000");
    assert_eq!(number(&row, "user_read_bytes") / 64.0, 20_000.0 - written);
    line(&format!("{run} --workload insert --read-share 0.5 --distribution latest --operations 5000 --json"), &store);
}
