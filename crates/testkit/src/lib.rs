//! What proves Ecotone's contracts: a simulated disk and clock, and a reference model (`docs/reliability.md`).
//!
//! Start at [`sim::SimStorage`], the disk that can lose power at any I/O, and [`model::Model`], which judges what was recovered.

pub mod model;
pub mod sim;
pub mod tiny;
