//! Prepared states.

use crate::harness::{directory, failure, line, number};

const RUN: &str = "run --records 3000 --threads 3 --memory 16MiB --warmup 0 --operations 2000";

#[test]
fn a_prepared_state_is_updated_closed_and_used_again() {
    let directory = directory();
    let run =
        |workload: &str| line(&format!("{RUN} --store tree --prepared --workload {workload} --json"), directory.path());
    let first = run("c");
    let load = first["load"].clone();
    assert!(load["updates_seconds"].as_f64().unwrap() > 0.0 && load["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!((load["capped"].as_bool(), number(&first, "operations")), (Some(false), 2000.0));
    for workload in ["a", "c"] {
        assert_eq!(run(workload)["load"], load, "what is known of the preparation stays");
    }
    let plain = failure(&format!("{RUN} --store tree --workload c"), directory.path());
    assert!(plain.contains("made with prepared true, not false"), "{plain}");
}

#[test]
fn a_capped_preparation_says_so_and_reads_what_is_there() {
    let directory = directory();
    // No store makes 20 million records in this time.
    let run = "run --store tree --records 20000000 --prepared --prepare-seconds 0.5 --workload c --memory 16MiB \
        --warmup 0 --operations 5000 --json";
    let first = line(run, directory.path());
    assert_eq!(first["load"]["capped"].as_bool(), Some(true));
    let records = number(&first, "records");
    assert!((1.0..2e7).contains(&records) && number(&first, "operations") == 5000.0, "{records}");
    let inserted = line(&run.replace("workload c", "workload insert"), directory.path());
    assert_eq!((number(&inserted, "records"), number(&inserted, "operations")), (records, 5000.0));
    line(&run.replace("workload c", "workload a --distribution latest"), directory.path());
}

#[test]
fn a_preparation_without_room_or_sense_is_told() {
    let directory = directory();
    let told =
        failure("run --store null --records 1000000000000 --prepared --workload c --memory 16MiB", directory.path());
    assert!(told.contains("is expected to need 174.6 TiB"), "{told}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let told = failure(&format!("{RUN} --store null --prepared --workload load"), directory.path());
    assert!(told.contains("leaves nothing to load"), "{told}");
}
