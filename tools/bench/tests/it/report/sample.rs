//! Results as a long session leaves them: good rows, noisy ones, failures, another machine state, older lines.

use serde_json::{Value, json};

/// A store as the sample has it: name, operations a second in workload C, microseconds of the median, device reads and
/// bytes written an operation.
type Store = (&'static str, f64, f64, f64, f64);

const STORES: [Store; 8] = [
    ("tree", 212_345.0, 21.0, 0.206, 0.0),
    ("rocksdb", 96_100.0, 62.0, 0.41, 120.0),
    ("lmdb", 121_900.0, 44.0, 0.72, 0.0),
    ("redb", 58_300.0, 98.0, 0.95, 0.0),
    ("fjall", 44_700.0, 130.0, 1.38, 260.0),
    ("sled", 31_200.0, 180.0, 1.9, 900.0),
    ("bf-tree", 150_800.0, 35.0, 0.33, 12.0),
    ("null", 8_900_000.0, 0.3, 0.0, 0.0),
];
const BUDGET: f64 = 220.0 * 1048576.0;
const ROUNDS: u64 = 5;

/// Between -1 and 1, different for each seed and always the same.
fn noise(seed: f64) -> f64 {
    (seed * 12.9898).sin() * 43_758.547 % 1.0
}

fn extend(row: &mut Value, fields: Value) {
    let fields = fields.as_object().unwrap().clone();
    row.as_object_mut().unwrap().extend(fields);
}

/// Two workloads of five rounds with eight stores.
pub(crate) fn runs() -> Vec<Value> {
    let mut lines = Vec::new();
    for (workload, factor) in [("c", 1.0), ("a", 0.55)] {
        for round in 1..=ROUNDS {
            lines.extend(STORES.iter().map(|store| run(*store, workload, factor, round)));
        }
        lines.extend(STORES.iter().map(|store| summary(store.0, workload)));
    }
    lines
}

fn parameters(workload: &str) -> Value {
    json!({"kind": "row", "workload": workload, "distribution": "zipfian", "theta": 0.99, "records": 20_000_000,
        "key_size": 8.0, "value_size": 100,
        "threads": 8, "batch": 1, "rate": null, "durability": "buffered", "memory_budget": BUDGET as u64})
}

fn run(store: Store, workload: &str, factor: f64, round: u64) -> Value {
    let (name, ..) = store;
    let bad = match (name, workload, round) {
        ("sled", "a", _) => Some((
            "out_of_memory",
            "the process was killed: its cgroup of 268 MiB had no memory left while it loaded record 14,201,988 of \
                20,000,000",
        )),
        ("redb", "c", 4) => Some(("hung", "no operation ended for 60 s; the process was killed")),
        ("fjall", "a", _) => {
            Some(("wrong", "the store lost or changed a record: key 0x8ad0 has version 17, acknowledged was 19"))
        }
        ("lmdb", "a", _) => Some(("failed", "MDB_MAP_FULL: Environment mapsize limit reached <data.mdb>")),
        _ => None,
    };
    if let Some((status, error)) = bad {
        return json!({"kind": "row", "store": name, "workload": workload, "distribution": "zipfian",
            "records": 20_000_000, "round": round,
            "status": status, "error": error});
    }
    let mut row = parameters(workload);
    extend(&mut row, measured(store, workload, factor, round));
    extend(&mut row, prepared(store, round));
    row
}

fn measured((name, ops, median, reads, written): Store, workload: &str, factor: f64, round: u64) -> Value {
    let seed = ops + round as f64 * 7.0 + factor;
    let slow = name == "bf-tree" && round == 2;
    let spread = if name == "rocksdb" && workload == "c" { 0.09 } else { 0.012 };
    let ops = ops * factor * (1.0 + spread * noise(seed)) * if slow { 0.58 } else { 1.0 };
    let operations = (ops * 60.0).round();
    let written = if workload == "a" { written * 8.0 + 310.0 } else { written };
    let stall = median * 210.0 / factor;
    let user = operations * 108.0;
    json!({"store": name, "round": round, "status": "ok", "error": null, "operations": operations, "seconds": 60.0,
        "ops_per_second": ops,
        "latency_us": {"p50": median, "p99": median * 14.0, "p999": median * 40.0, "p9999": median * 120.0,
            "max": stall, "mean": median * 1.8},
        "latency_cdf": distribution(median, reads), "timeline": timeline(name, ops), "longest_stall_us": stall,
        "kernel_device_reads": operations * reads, "kernel_device_writes": operations * written / 9000.0,
        "kernel_read_bytes": operations * reads * 4096.0, "kernel_write_bytes": operations * written,
        "ideal_device_reads_per_op": 0.139, "ideal_ops_per_second": 312_000.0 * factor,
        "read_amplification": operations * reads * 4096.0 / user, "cpu_seconds": 60.0 * 1.7,
        "write_amplification": if workload == "a" { Some(operations * written / user) } else { None },
        "memory_peak": BUDGET * (1.02 + 0.11 * noise(median)), "cgroup_peak": BUDGET * 1.13, "index_bytes": 21_000_000,
        "machine": {"before": pace(seed, slow), "after": pace(seed + 1.0, slow)}})
}

fn prepared((name, _, median, ..): Store, round: u64) -> Value {
    let load = json!({"seconds": median * 3.1, "ops_per_second": 20e6 / (median * 3.1),
        "settle_seconds": median / 9.0, "updates_seconds": median * 7.0,
        "capped": name == "fjall"});
    json!({"load": if round == 1 { load } else { Value::Null }, "size_on_disk": 2.16e9 * (1.1 + median / 150.0),
        "space_amplification": 1.1 + median / 150.0, "open_seconds": 0.02 * median})
}

/// Cache hits below, reads of the device above.
fn distribution(median: f64, reads: f64) -> Vec<[f64; 2]> {
    let at = |step: u32| {
        let share = 1.0 - 10_f64.powf(-f64::from(step) / 15.0);
        let hit = 0.4 + median / 60.0;
        let miss = median * 3.0 * (1.0 - share).powf(-0.42);
        let misses = 1.0 / (1.0 + (-(share - (1.0 - reads.min(0.9))) * 22.0).exp());
        [share, hit.powf(1.0 - misses) * miss.powf(misses) * (1.0 + share)]
    };
    (0..=60).map(at).collect()
}

fn timeline(name: &str, ops: f64) -> Vec<Value> {
    let (begin, wave) = match name {
        "tree" => (0.93, 0.005),
        "rocksdb" => (0.8, 0.14),
        "lmdb" => (1.08, 0.01),
        "null" => (0.05, 0.0),
        _ => (0.6 + noise(name.len() as f64 + 2.0).abs() * 0.3, 0.04),
    };
    let mut operations = 0.0;
    let moment = |second: u32| {
        let stalls = name == "rocksdb" && second % 37 > 33;
        let warm = 1.0 - 0.35 * (-f64::from(second) / 12.0).exp();
        operations +=
            ops * 0.3 * warm * (1.0 + 0.04 * noise(f64::from(second) + ops)) * if stalls { 0.15 } else { 1.0 };
        let time = f64::from(second) * 0.3;
        let memory = BUDGET * (begin * (1.0 - 0.5 * (-time / 4.0).exp()) + wave * (time * 0.9).sin());
        json!({"seconds": time, "operations": operations.round(), "memory_bytes": memory,
            "device_reads": second * 9000, "device_writes": 0})
    };
    (0..200).map(moment).collect()
}

fn pace(seed: f64, slow: bool) -> Value {
    let factor = if slow { 1.86 } else { 1.0 + 0.03 * noise(seed) };
    json!({"loop_ns": 1.02e6 * factor, "disk_reads_per_second": 151_000.0 / factor,
        "stolen": if slow { 0.21 } else { 0.004 }})
}

fn summary(store: &str, workload: &str) -> Value {
    let noisy = store == "rocksdb" && workload == "c";
    let mut summary = parameters(workload);
    extend(
        &mut summary,
        json!({"kind": "summary", "store": store, "rounds": ROUNDS, "ops_per_second": 1.0, "spread": 0.01,
            "ratios": {"tree": 1.0},
        "noisy": noisy, "why": if noisy { Some("the rounds are 17% apart") } else { None }}),
    );
    summary
}

/// A suite of three stores with the paper's ratios.
pub(crate) fn suite() -> Vec<Value> {
    let mut lines = Vec::new();
    for (index, (workload, shape, size)) in
        [("A", "zipfian", 64), ("A", "uniform", 64), ("C", "zipfian", 1024), ("E", "zipfian", 64)]
            .into_iter()
            .enumerate()
    {
        let cell = format!("{workload} {shape} {size}B none");
        let row = |(name, ops, median, reads, written): Store| {
            let ops = ops * (1.0 + 0.4 * noise(index as f64 + ops));
            let measured = measured((name, ops, median, reads, written), &workload.to_lowercase(), 0.5, 1);
            let mut row = parameters(&workload.to_lowercase());
            extend(&mut row, measured);
            extend(
                &mut row,
                json!({"suite": "treeline-points", "cell": cell, "distribution": shape, "value_size": size - 8,
                    "durability": "none"}),
            );
            row
        };
        lines.extend(STORES[..3].iter().map(|store| row(*store)));
        for (theirs, metric, paper) in
            [("rocksdb", "throughput", Some(2.2)), ("lmdb", "throughput", Some(10.95)), ("rocksdb", "read_bytes", None)]
        {
            let here = 1.6 + noise(index as f64 * 3.0 + paper.unwrap_or(0.0));
            lines.push(json!({"kind": "comparison", "suite": "treeline-points", "cell": cell, "metric": metric,
                "ours": "tree", "theirs": theirs,
                "paper_ratio": paper, "our_ratio": here, "difference": paper.map(|paper: f64| here - paper),
                    "cells": 1, "of_cells": 1}));
        }
    }
    lines.push(json!({"kind": "comparison", "suite": "treeline-points", "cell": "mean: all zipfian",
        "metric": "throughput", "ours": "tree",
        "theirs": "rocksdb", "paper_ratio": 2.4, "our_ratio": 1.9, "difference": -0.5, "cells": 3, "of_cells": 4}));
    lines
}

/// Lines as the first version of the benchmark printed them.
pub(crate) fn earlier() -> Vec<Value> {
    let line = |store: &str, ops: f64| {
        json!({"store": store, "workload": "b", "distribution": "hotspot", "theta": 0.99, "records": 1_000_000,
            "key_size": 8.0, "value_size": 56,
            "threads": 8, "batch": 32, "rate": null, "durability": "sync", "operations": 1_000_000,
                "seconds": 1e6 / ops, "ops_per_second": ops,
            "latency_us": {"p50": 30.0, "p99": 400.0, "p999": 900.0, "p9999": 2100.0, "max": 9000.0, "mean": 41.0},
            "device_reads": 300_000, "device_writes": 9000, "read_bytes": 1_228_800_000, "write_bytes": 200_000_000,
                "kernel_read_bytes": null,
            "kernel_write_bytes": null, "device_reads_per_op": 0.3, "ideal_device_reads_per_op": null,
                "memory_budget": 67_108_864,
            "memory_peak": 68_000_000, "index_bytes": 900_000, "cpu_seconds": 7.5, "load": null,
                "engine": {"segments": 12}})
    };
    vec![line("tree", 84_000.0), line("null", 9.1e6)]
}
