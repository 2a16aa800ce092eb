//! Traces, scaled keys and their order.

use std::path::{Path, PathBuf};

use crate::harness::{bench, directory, failure, line, lines, number};

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
    let run =
        |more: &str| format!("run --store tree --memory 16MiB --threads 3 --trace {} {more} --json", file.display());
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
        format!(
            "run --store tree --memory 16MiB --keys {} {more} --workload c --operations 3000 --json",
            file.display()
        )
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
    let run =
        format!("run --store tree --memory 16MiB --threads 2 --keys {} --order arrival --records 5000", file.display());
    let row = line(&format!("{run} --workload insert --read-share 0.5 --operations 20000 --json"), &store);
    assert_eq!(number(&row, "operations"), 20_000.0);
    let written = number(&row, "user_write_bytes") / 64.0;
    assert!((9500.0..10_500.0).contains(&written), "{written} of 20000");
    assert_eq!(number(&row, "user_read_bytes") / 64.0, 20_000.0 - written);
    line(&format!("{run} --workload insert --read-share 0.5 --distribution latest --operations 5000 --json"), &store);
}

#[test]
fn synthetic_keys_come_in_any_order() {
    let directory = directory();
    for order in ["ascending", "descending", "zigzag", "bursts", "places"] {
        let store = directory.path().join(order);
        let run = format!("run --store tree --memory 16MiB --threads 2 --records 3000 --order {order} --json");
        assert_eq!(number(&line(&format!("{run} --workload load"), &store), "operations"), 3000.0, "{order}");
        assert_eq!(number(&line(&format!("{run} --workload e --operations 500"), &store), "operations"), 500.0);
        let other = run.replace(order, "shuffled");
        assert!(failure(&format!("{other} --workload c"), &store).contains("made with order"));
    }
    let run = "run --store null --memory 16MiB --workload c --order";
    assert!(failure(&format!("{run} arrival"), &directory.path().join("a")).contains("there is no --keys"));
    assert!(
        failure(&format!("{run} ascending --key-size 4"), &directory.path().join("b")).contains("fewer than 8 bytes")
    );
    let stretch = format!("{run} ascending --distribution stretch");
    assert!(failure(&stretch, &directory.path().join("c")).contains("leave --order out"));
    let file = put(directory.path(), "ids.u64", 0..100);
    let of_file = format!("{run} ascending --keys {}", file.display());
    assert!(failure(&of_file, &directory.path().join("d")).contains("of synthetic keys"));
}

#[test]
fn what_is_loaded_in_order_is_a_queue() {
    let directory = directory();
    for store in ["tree", "lsm", "adaptive"] {
        let run = format!(
            "run --store {store} --memory 16MiB --threads 3 --records 500 --order ascending --json --stay-open"
        );
        let place = directory.path().join(store);
        let rows =
            lines(&bench(&format!("{run} --workload first --operations 100 --then queue:3000,first:100"), &place));
        assert!(rows.iter().map(|row| number(row, "operations")).eq([100.0, 3000.0, 100.0]), "{rows:?}");
        let row = line(&format!("{run} --workload drain --operations 450"), &place);
        assert_eq!((number(&row, "operations"), number(&row, "records")), (450.0, 500.0), "it was loaded anew");
    }
    let refused =
        failure("run --store hash --memory 16MiB --records 500 --workload queue", &directory.path().join("hash"));
    assert!(refused.contains("no order") || refused.contains("removes a record"), "{refused}");
}
