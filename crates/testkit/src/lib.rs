//! What proves Ecotone's contracts: a simulated disk and clock, a reference model, two tiny engines, and
//! suites for any engine (`docs/reliability.md`).
//!
//! Start at [`sim::SimStorage`], the disk that can lose power at any I/O, and [`model::Model`], which judges what was
//! recovered; [`suite::campaign`] brings both together.

pub mod fuzz;
pub mod model;
pub mod sim;
pub mod suite;
pub mod table;
pub mod tiny;
