//! A suite as data: its cells in the order of execution, and the means over them.

use clap::ValueEnum;

use super::{cell::Cell, compare::Group, tables};
use crate::store;

/// The names of all suites.
pub(super) const NAMES: [&str; 7] =
    ["treeline-points", "treeline-scans", "treeline-forecast", "f2", "spongekv", "aha", "loads"];

/// A paper's tables, as reproduced here.
pub(super) struct Suite {
    pub(super) name: &'static str,
    /// The store that represents Ecotone.
    pub(super) engine: &'static str,
    /// All stores of the suite.
    pub(super) stores: &'static [&'static str],
    /// This many of the first stores are measured by default; more do not fit into the time.
    pub(super) usual: usize,
    /// Cells in the order of execution: those that share a state are adjacent, those that add records come last.
    pub(super) cells: Vec<Cell>,
    pub(super) groups: Vec<Group>,
}

impl Suite {
    /// Finds a suite.
    pub(super) fn named(name: &str) -> Option<Suite> {
        match name {
            "treeline-points" => Some(tables::treeline_points::suite()),
            "treeline-scans" => Some(tables::treeline_scans::suite()),
            "treeline-forecast" => Some(tables::treeline_forecast::suite()),
            "f2" => Some(tables::f2::suite()),
            "spongekv" => Some(tables::spongekv::suite()),
            "aha" => Some(tables::aha::suite()),
            "loads" => Some(tables::loads::suite()),
            _ => None,
        }
    }

    /// The stores that are measured by default.
    pub(super) fn usual_stores(&self) -> Vec<String> {
        self.stores[..self.usual].iter().map(|&store| store.to_owned()).collect()
    }
}

/// The reason why this build lacks a store, if it does.
pub(super) fn missing_store(store: &str) -> Option<String> {
    if let Ok(kind) = <store::Kind as ValueEnum>::from_str(store, false) {
        (store::opener(kind).is_none()).then(|| store::Unavailable(kind).to_string())
    } else {
        Some(format!("this build has no {store}"))
    }
}
