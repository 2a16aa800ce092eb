//! The output of a suite: rows as they arrive, comparisons, and a progress bar.

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

use super::compare::Compared;
use crate::error::Result;

/// Standard output, and the bar on standard error.
pub(super) struct Output {
    json: bool,
    bar: ProgressBar,
}

impl Output {
    /// The output of a suite with this estimated number of seconds.
    pub(super) fn new(json: bool, seconds: f64) -> Self {
        let style = ProgressStyle::with_template("{wide_bar} {elapsed} of about {msg}").expect("the template is valid");
        let bar = ProgressBar::new(seconds as u64).with_style(style);
        bar.enable_steady_tick(std::time::Duration::from_secs(1));
        Output { json, bar }
    }

    /// Shows the start of a cell, after `done` of the estimated seconds.
    pub(super) fn begin(&self, cell: &str, done: f64) {
        let minutes = self.bar.length().unwrap_or(0).div_ceil(60);
        self.bar.set_message(format!("{minutes} minutes: {cell}"));
        self.bar.set_position(done as u64);
    }

    /// A message for people.
    pub(super) fn say(&self, message: &str) {
        self.bar.suspend(|| eprintln!("{message}"));
    }

    /// A row or a summary of `run`, with suite and cell.
    pub(super) fn row(&self, row: &Value) -> Result<()> {
        match (self.json, row["kind"].as_str()) {
            (true, _) => self.line(row)?,
            (false, Some("summary")) => (),
            (false, _) => self.bar.suspend(|| println!("{}", sentence(row))),
        }
        Ok(())
    }

    /// Prints comparisons as soon as they are known, for machines.
    pub(super) fn compared(&self, lines: &[Compared]) -> Result<()> {
        if self.json { lines.iter().try_for_each(|line| self.line(line)) } else { Ok(()) }
    }

    /// Prints all comparisons at the end, for people.
    pub(super) fn end(&self, lines: &[Compared]) {
        self.bar.finish_and_clear();
        if !self.json && !lines.is_empty() {
            println!(
                "\nours divided by theirs; of all but throughput and the worst window less is better\n{}",
                table(lines)
            );
        }
    }

    fn line(&self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value)?;
        self.bar.suspend(|| println!("{text}"));
        Ok(())
    }
}

/// A row as one line of text.
fn sentence(row: &Value) -> String {
    let text = |name: &str| row[name].as_str().unwrap_or("").to_owned();
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let (cell, store) = (text("cell"), text("store"));
    if !is_good(row) {
        return format!("{cell:<40} {store:<10} {}: {}", text("status"), text("error"));
    }
    let (rate, late, reads) =
        (number(&row["ops_per_second"]), number(&row["latency_us"]["p99"]), number(&row["device_reads_per_op"]));
    format!("{cell:<40} {store:<10} {rate:>9.0}/s  p99 {late:>7.0} µs  {reads:>6.3} reads an operation")
}

/// Whether a row ended well.
pub(super) fn is_good(row: &Value) -> bool {
    row["status"].as_str().is_none_or(|status| status == "ok")
}

fn table(lines: &[Compared]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["cell", "by", "ours", "theirs", "paper", "goal", "measured", "difference", "cells"]);
    for line in lines {
        let ratio = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let difference = line.difference.map_or("-".to_owned(), |difference| format!("{difference:+.2}"));
        let metric = serde_json::to_value(line.metric).ok().and_then(|name| Some(name.as_str()?.replace('_', " ")));
        table.add_row([
            line.cell.clone(),
            metric.unwrap_or_default(),
            line.ours.clone(),
            line.theirs.clone(),
            ratio(line.paper_ratio),
            ratio(line.goal),
            ratio(line.our_ratio),
            difference,
            format!("{} of {}", line.cells, line.of_cells),
        ]);
    }
    for column in table.column_iter_mut().skip(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
