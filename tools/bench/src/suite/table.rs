//! A suite as data: its cells in the order in which they run, and the means over them.

use clap::ValueEnum;

use super::{cell::Cell, compare::Group, tables};
use crate::store;

/// The names of all suites.
pub(super) const NAMES: [&str; 7] =
    ["treeline-points", "treeline-scans", "treeline-forecast", "f2", "spongekv", "aha", "loads"];

/// A paper's tables, as we repeat them.
pub(super) struct Suite {
    pub(super) name: &'static str,
    /// The store that stands for us.
    pub(super) engine: &'static str,
    /// All stores that it is for.
    pub(super) stores: &'static [&'static str],
    /// The first so many of them are measured unless others are asked for, which is what fits into the time.
    pub(super) usual: usize,
    /// In the order in which they run: those that share a state beside each other, those that add records last.
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

    /// The stores that are measured unless others are asked for.
    pub(super) fn usual_stores(&self) -> Vec<String> {
        self.stores[..self.usual].iter().map(|&store| store.to_owned()).collect()
    }
}

/// Why this build does not have a store, if it has not.
pub(super) fn missing_store(store: &str) -> Option<String> {
    if let Ok(kind) = <store::Kind as ValueEnum>::from_str(store, false) {
        (store::opener(kind).is_none()).then(|| store::Unavailable(kind).to_string())
    } else {
        Some(format!("this build has no {store}"))
    }
}
