//! Formats results for people.

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};

use super::{line::Line, summary::Summary};
use crate::{
    row::{Load, Row},
    size,
    statistics::median,
};

/// One row, from top to bottom.
pub(super) fn row(row: &Row, ideal_ops_per_second: Option<f64>) -> Table {
    let mut rows = vec![("operations a second", format!("{:.0}", row.ops_per_second))];
    if let Some(ideal) = ideal_ops_per_second {
        rows.push(("  that disk and processors allow", format!("{ideal:.0}")));
    }
    rows.extend(times(row));
    rows.extend(transfers(row));
    rows.extend(space(row));
    rows.extend(row.load.map(|load| ("load", loaded(&load))));
    let engine = row.engine.iter().map(|(name, number)| (name.as_str(), number.to_string()));
    let all = rows.into_iter().chain(engine).map(|(name, value)| vec![name.to_owned(), value]);
    table(&[&title(row), ""], all)
}

fn loaded(load: &Load) -> String {
    let Load { seconds, ops_per_second, settle_seconds, updates_seconds, capped } = load;
    let updates = updates_seconds.map_or(String::new(), |seconds| format!("{seconds:.1} s of updates, "));
    let cut = if *capped { ", cut short" } else { "" };
    format!("{seconds:.1} s, {ops_per_second:.0} a second, {updates}{settle_seconds:.1} s to settle{cut}")
}

fn times(row: &Row) -> Vec<(&'static str, String)> {
    let latency = &row.latency_us;
    vec![
        ("operations", format!("{} in {:.1} s", row.operations, row.seconds)),
        ("latency p50, p99, p99.9", microseconds(&[latency.p50, latency.p99, latency.p999])),
        ("latency p99.99, max, mean", microseconds(&[latency.p9999, latency.max, latency.mean])),
        ("longest stall", microseconds(&[row.longest_stall_us])),
        ("processor time", format!("{:.1} s", row.cpu_seconds)),
        ("time to open", format!("{:.3} s", row.open_seconds)),
    ]
}

fn transfers(row: &Row) -> Vec<(&'static str, String)> {
    let moved = |requests: Option<u64>, bytes: Option<u64>| {
        format!("{}, {}", show(requests, |requests| requests.to_string()), show(bytes, size::show))
    };
    let mut rows = vec![("device reads an operation", show(row.device_reads_per_op, |reads| format!("{reads:.3}")))];
    if let Some(ideal) = row.ideal_device_reads_per_op {
        rows.push(("  with the hottest records kept", format!("{ideal:.3}")));
    }
    rows.extend([
        ("device reads", moved(row.device_reads, row.read_bytes)),
        ("device writes", moved(row.device_writes, row.write_bytes)),
        (
            "read and written by the user",
            format!("{}, {}", size::show(row.user_read_bytes), size::show(row.user_write_bytes)),
        ),
        (
            "amplification of reads, writes",
            format!("{}, {}", factor(row.read_amplification), factor(row.write_amplification)),
        ),
    ]);
    rows
}

fn space(row: &Row) -> Vec<(&'static str, String)> {
    vec![
        (
            "size on disk, amplification",
            format!("{}, {}", size::show(row.size_on_disk), factor(Some(row.space_amplification))),
        ),
        ("memory: budget, peak", format!("{}, {}", size::show(row.memory_budget), size::show(row.memory_peak))),
        ("index", size::show(row.index_bytes)),
    ]
}

fn title(row: &Row) -> String {
    let size = row.key_size + row.value_size as f64;
    let (workload, distribution) = (name(&row.workload), name(&row.distribution));
    format!("{}, workload {workload}, {distribution}, {} records of {size:.0} B", row.store, row.records)
}

/// Heads of the columns that compare stores; each column shows the median of the store's rounds.
const COLUMNS: [&str; 13] = [
    "store",
    "ops/s",
    "ratio",
    "p50 µs",
    "p99 µs",
    "p99.9 µs",
    "reads/op",
    "write ampl.",
    "space ampl.",
    "peak/budget",
    "open s",
    "stall ms",
    "status",
];

/// All stores, one row each; ratios are relative to the first one.
pub(super) fn comparison(summaries: &[Summary], lines: &[Line]) -> Table {
    let first = summaries.first().map(|summary| summary.request.store.to_string()).unwrap_or_default();
    table(&COLUMNS, summaries.iter().map(|summary| compared(summary, &first, lines)))
}

fn compared(summary: &Summary, first: &str, lines: &[Line]) -> Vec<String> {
    let store = summary.request.store;
    let own: Vec<&Line> = lines.iter().filter(|line| line.store() == store).collect();
    let rows: Vec<&Row> = own.iter().filter_map(|line| line.row()).collect();
    let middle = |of: fn(&Row) -> Option<f64>, digits: usize| {
        let numbers: Vec<f64> = rows.iter().filter_map(|row| of(row)).collect();
        show(median(numbers.into_iter()), |number| format!("{number:.digits$}"))
    };
    vec![
        store.to_string(),
        show(summary.ops_per_second, |speed| format!("{speed:.0}")),
        show(summary.ratios.get(first).copied(), |ratio| format!("{ratio:.2}")),
        middle(|row| Some(row.latency_us.p50), 1),
        middle(|row| Some(row.latency_us.p99), 1),
        middle(|row| Some(row.latency_us.p999), 1),
        middle(|row| row.device_reads_per_op, 3),
        middle(|row| row.write_amplification, 2),
        middle(|row| Some(row.space_amplification), 2),
        middle(|row| Some(row.memory_peak as f64 / row.memory_budget as f64), 2),
        middle(|row| Some(row.open_seconds), 3),
        middle(|row| Some(row.longest_stall_us / 1e3), 1),
        status(&own),
    ]
}

/// `ok`, or the number of rows for each kind of ending.
fn status(own: &[&Line]) -> String {
    let bad: Vec<&&Line> = own.iter().filter(|line| line.error.is_some()).collect();
    match bad.first() {
        None => "ok".to_owned(),
        Some(line) if own.len() == 1 => line.status.to_string(),
        Some(line) => format!("{} of {} {}", bad.len(), own.len(), line.status),
    }
}

pub(super) fn name<T: ValueEnum>(value: &T) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}

fn show<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or("–".to_owned(), text)
}

fn factor(number: Option<f64>) -> String {
    show(number, |number| format!("{number:.2}×"))
}

fn microseconds(times: &[f64]) -> String {
    let times: Vec<String> = times.iter().map(|time| format!("{time:.1}")).collect();
    format!("{} µs", times.join(", "))
}

/// Names are left-aligned, numbers right-aligned.
fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(head.iter().copied());
    rows.for_each(|row| {
        table.add_row(row);
    });
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
