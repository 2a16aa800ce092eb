//! A suite as data: its cells in the order of execution, and the means over them.

use clap::ValueEnum;

use super::{cell::Cell, comparison::Metric};
use crate::{measure::store, row::StoreKind};

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
    /// The stores that are measured by default.
    pub(super) fn usual_stores(&self) -> Vec<String> {
        self.stores[..self.usual].iter().map(|&store| store.to_owned()).collect()
    }
}

/// Cells whose geometric mean is taken.
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) metric: Metric,
    pub(super) contains: fn(&Cell) -> bool,
    /// Ratios of the paper, by the other side.
    pub(super) paper: &'static [(&'static str, f64)],
}

/// The reason why this build lacks a store, if it does.
pub(super) fn missing_store(store: &str) -> Option<String> {
    if let Ok(kind) = <StoreKind as ValueEnum>::from_str(store, false) {
        (store::opener(kind).is_none()).then(|| store::Unavailable(kind).to_string())
    } else {
        Some(format!("this build has no {store}"))
    }
}
