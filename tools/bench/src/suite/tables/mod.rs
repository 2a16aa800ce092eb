//! The tables, one file a suite. `docs/suites.md` says where in the papers each ratio stands.

mod aha;
mod f2;
mod loads;
mod spongekv;
mod treeline_forecast;
mod treeline_points;
mod treeline_scans;

use super::table::Suite;

/// The names of all suites.
pub(super) const NAMES: [&str; 7] =
    ["treeline-points", "treeline-scans", "treeline-forecast", "f2", "spongekv", "aha", "loads"];

/// Finds a suite.
pub(super) fn named(name: &str) -> Option<Suite> {
    match name {
        "treeline-points" => Some(treeline_points::suite()),
        "treeline-scans" => Some(treeline_scans::suite()),
        "treeline-forecast" => Some(treeline_forecast::suite()),
        "f2" => Some(f2::suite()),
        "spongekv" => Some(spongekv::suite()),
        "aha" => Some(aha::suite()),
        "loads" => Some(loads::suite()),
        _ => None,
    }
}
