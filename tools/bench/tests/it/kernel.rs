//! The drivers' counters against the kernel's.

use serde_json::Value;

use crate::harness::{directory, line, number};

/// Page of the tree, the unit of its reads.
const PAGE: f64 = 4096.0;

/// Whether the kernel counted: it does not on file systems in memory and where it may not be asked.
fn counted(result: &Value) -> bool {
    let counted = result["kernel_read_bytes"].as_f64().is_some_and(|bytes| bytes > 0.0);
    if !counted {
        eprintln!("SKIPPED: the kernel counts no device reads for {}", env!("CARGO_TARGET_TMPDIR"));
    }
    counted
}

fn near(ours: f64, kernels: f64, what: &str) {
    assert!((ours / kernels - 1.0).abs() < 0.02, "{what}: {ours} by our count, {kernels} by the kernel's");
}

#[test]
fn reads_are_those_that_the_kernel_saw() {
    let directory = directory();
    // Twice the memory, so that most reads go to the disk.
    let run = "run --store tree --distribution uniform --records 40000 --value-size 800 --memory 16MiB --threads 4";
    line(&format!("{run} --workload c --operations 1 --warmup 0 --json"), directory.path());
    for batch in [1, 16] {
        let result = line(&format!("{run} --workload c --operations 20000 --warmup 0 --batch {batch} --json"), directory.path());
        if !counted(&result) {
            return;
        }
        assert!(number(&result, "device_reads") > 5000.0, "{}", result["device_reads"]);
        near(number(&result, "read_bytes"), number(&result, "kernel_read_bytes"), "bytes read");
        near(number(&result, "device_reads"), number(&result, "kernel_read_bytes") / PAGE, "requests");
    }
}
