//! `--list`: prints the cells of a suite with their estimated time and space.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;

use super::{
    cell::Cell,
    estimate::{Estimate, estimate},
    options::SuiteOptions,
    states::States,
    table::{Suite, missing_store},
};
use crate::{error::Result, size};

/// Estimates of cells in order; a state that one cell prepares is available to later cells.
pub(super) fn estimates(cells: &[&Cell], options: &SuiteOptions, stores: &[String], states: &States) -> Vec<Estimate> {
    let mut prepared: Vec<(String, String)> = Vec::new();
    let mut all = Vec::new();
    for cell in cells {
        let ready = |state: &str, store: &str| {
            let earlier = prepared.iter().any(|(of, by)| (of.as_str(), by.as_str()) == (state, store));
            earlier || states.is_ready(state, store)
        };
        all.push(estimate(cell, stores, options, &ready));
        for variant in cell.variants.iter().filter(|_| cell.keeps_state()) {
            let state = cell.state(variant, options.scale);
            prepared.extend(cell.stores_of(variant, stores).into_iter().map(|store| (state.clone(), store)));
        }
    }
    all
}

/// Prints the cells.
pub(super) fn show(options: &SuiteOptions, suite: &Suite, cells: &[&Cell]) -> Result<()> {
    let stores = options.stores(suite);
    let estimates = estimates(cells, options, &stores, &States::new(&options.dir));
    if options.json {
        for (cell, estimate) in cells.iter().zip(&estimates) {
            let (name, stores, missing) = (cell.name(), names(cell, &stores), missing(cell, &stores));
            let Estimate { preparing, measuring, new_bytes } = estimate;
            println!(
                "{}",
                json!({ "kind": "cell", "suite": suite.name, "cell": name, "stores": stores, "unavailable": missing,
                        "preparing_seconds": preparing, "measuring_seconds": measuring, "new_bytes": new_bytes })
            );
        }
        return Ok(());
    }
    println!("{}", table(options, cells, &stores, &estimates));
    let total = |part: fn(&Estimate) -> f64| estimates.iter().map(part).sum::<f64>() / 60.0;
    let (preparing, measuring) = (total(|estimate| estimate.preparing), total(|estimate| estimate.measuring));
    println!(
        "{:.0} minutes: {preparing:.0} to prepare, {measuring:.0} to measure; --minutes is {}",
        preparing + measuring,
        options.minutes
    );
    if preparing + measuring > options.minutes {
        println!("the last cells will be left out; a second run finds the states prepared");
    }
    Ok(())
}

fn table(options: &SuiteOptions, cells: &[&Cell], stores: &[String], estimates: &[Estimate]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["cell", "stores", "not available", "records", "memory", "prepare, s", "measure, s", "new space"]);
    for (cell, estimate) in cells.iter().zip(estimates) {
        table.add_row([
            cell.name(),
            names(cell, stores).join(", "),
            missing(cell, stores).join(", "),
            cell.data.records(options.scale).to_string(),
            size::show(cell.memory_bytes(options.scale)),
            format!("{:.0}", estimate.preparing),
            format!("{:.0}", estimate.measuring),
            size::show(estimate.new_bytes),
        ]);
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The stores of a cell with the settings of their variants.
fn names(cell: &Cell, stores: &[String]) -> Vec<String> {
    contenders(cell, stores, |_| true)
}

/// The stores of a cell that cannot be measured.
fn missing(cell: &Cell, stores: &[String]) -> Vec<String> {
    contenders(cell, stores, |store| missing_store(store).is_some())
}

fn contenders(cell: &Cell, stores: &[String], wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let of = |variant| cell.stores_of(variant, stores).into_iter().map(move |store| (store, variant));
    let all = cell.variants.iter().flat_map(of).filter(|(store, _)| wanted(store));
    all.map(|(store, variant)| variant.contender(&store)).collect()
}
