//! The tables, one file a suite. `docs/suites.md` says where in the papers each ratio stands.

pub(super) mod aha;
pub(super) mod f2;
pub(super) mod loads;
pub(super) mod spongekv;
pub(super) mod treeline_forecast;
pub(super) mod treeline_points;
pub(super) mod treeline_scans;
