//! The drivers' counters against the kernel's.

use serde_json::Value;

use crate::harness::{directory, line, number};

/// A run whose data is twice its memory, so that most reads go to the disk.
const RUN: &str = "run --store tree --distribution uniform --records 40000 --value-size 800 --memory 16MiB --threads 4";

/// Whether the kernel counted: it does not on file systems in memory and where it may not be asked.
fn counted(result: &Value, name: &str) -> bool {
    let counted = result[name].as_f64().is_some_and(|number| number > 0.0);
    if !counted {
        eprintln!("SKIPPED: the kernel tells no {name} for {}", env!("CARGO_TARGET_TMPDIR"));
    }
    counted
}

/// The kernel counted what we did, and at most `more` for each of ours besides.
fn near(result: &Value, ours: &str, kernels: &str, more: f64) {
    if counted(result, kernels) {
        let (name, ours, kernels) = (ours, number(result, ours), number(result, kernels));
        let factor = kernels / ours;
        assert!((0.98..1.02 + more).contains(&factor), "{name}: {ours} by our count, {kernels} by the kernel's");
    }
}

#[test]
#[ignore = "long"]
fn reads_are_those_that_the_kernel_saw() {
    let directory = directory();
    line(&format!("{RUN} --workload c --operations 1 --warmup 0 --json"), directory.path());
    for batch in [1, 16] {
        let result =
            line(&format!("{RUN} --workload c --operations 20000 --warmup 0 --batch {batch} --json"), directory.path());
        assert!(number(&result, "device_reads") > 5000.0, "{}", result["device_reads"]);
        near(&result, "read_bytes", "kernel_read_bytes", 0.0);
        near(&result, "device_reads", "kernel_device_reads", 0.0);
    }
}

/// Without a log all writes go past the page cache. The kernel also counts what a sync costs: a flush without bytes,
/// and blocks of the file system.
#[test]
fn writes_are_those_that_the_kernel_saw() {
    let directory = directory();
    let result = line(&format!("{RUN} --workload a --durability none --operations 40000 --json"), directory.path());
    assert!(number(&result, "device_writes") > 1000.0, "{}", result["device_writes"]);
    near(&result, "write_bytes", "kernel_write_bytes", 0.05);
    near(&result, "device_writes", "kernel_device_writes", 0.2);
}
