//! The table at the end.

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

use crate::demo::{measure::Row, memory::Memory};

const HEADER: [&str; 9] =
    ["phase", "operations", "per second", "p50 µs", "p99 µs", "reads/op", "writes/op", "KiB read/op", "KiB written/op"];

/// Formats the rows as a table. A dash stands for a value that was not measured.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(HEADER);
    for row in rows {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn cells(row: &Row) -> [String; 9] {
    let dash = || "–".to_owned();
    let latency = |quantile| {
        row.latency
            .as_ref()
            .map_or_else(dash, |latency| format!("{:.1}", latency.value_at_quantile(quantile) as f64 / 1e3))
    };
    let each = |amount: u64, unit: f64| format!("{:.3}", amount as f64 / unit / (row.operations.max(1) as f64));
    let io = row.io.map(|io| {
        [each(io.reads, 1.0), each(io.writes, 1.0), each(io.read_bytes, 1024.0), each(io.write_bytes, 1024.0)]
    });
    let [reads, writes, read, written] = io.unwrap_or_else(|| [(); 4].map(|()| dash()));
    let rate = row.operations as f64 / row.time.as_secs_f64().max(1e-9);
    let (p50, p99) = (latency(0.5), latency(0.99));
    [row.phase.to_owned(), row.operations.to_string(), format!("{rate:.0}"), p50, p99, reads, writes, read, written]
}

/// Amounts of memory in a line.
pub(crate) fn sizes(sizes: &[Memory]) -> String {
    let size = |&(name, bytes): &Memory| format!("{name} {}", bytes.map_or("unknown".to_owned(), mib));
    sizes.iter().map(size).collect::<Vec<_>>().join(", ")
}

/// Bytes in MiB, with one decimal.
pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
