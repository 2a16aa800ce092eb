//! Prints rows as they end, and the summaries of all rows.

use super::{
    line::{Line, Request},
    options::RoundsOptions,
    summary::Summary,
    table,
};
use crate::{error::Result, row::StoreKind};

/// Prints a row when it is done.
pub(super) fn row(options: &RoundsOptions, line: &Line) -> Result<()> {
    if let Some(error) = &line.error {
        let place =
            if options.is_single() { String::new() } else { format!("{}, round {}: ", line.store(), line.round) };
        eprintln!("error: {place}{error}");
    }
    if options.json {
        println!("{}", serde_json::to_string(line)?);
    } else if let Some(row) = line.row().filter(|_| options.is_single()) {
        println!("{}", table::row(row, line.ideal()));
    }
    Ok(())
}

/// Prints the summaries of all rows; skipped for a single row.
pub(super) fn summaries(options: &RoundsOptions, lines: &[Line]) -> Result<()> {
    if options.is_single() {
        return Ok(());
    }
    let workload = lines.first().map_or(options.row.workload, Line::workload);
    let request = |store: &StoreKind| Request { workload, ..Request::new(&options.row_of(*store)) };
    let summaries: Vec<Summary> = options.store.iter().map(|store| Summary::new(request(store), lines)).collect();
    if options.json {
        for summary in &summaries {
            println!("{}", serde_json::to_string(summary)?);
        }
    } else {
        if !options.row.then.is_empty() {
            println!("workload {}", table::name(&workload));
        }
        println!("{}", table::comparison(&summaries, lines));
        summaries.iter().filter_map(Summary::warning).for_each(|warning| println!("{warning}"));
    }
    Ok(())
}
