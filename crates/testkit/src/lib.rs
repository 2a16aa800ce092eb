//! The test kit of Ecotone: a simulated disk and clock, a reference model, tiny engines, and suites for any engine
//! (`docs/reliability.md`).
//!
//! Start at [`sim::SimStorage`], a disk that can lose power at any I/O, and at [`model::Model`], which checks the
//! recovered data. [`suite::campaign`] uses both together.

pub mod engine;
pub mod fuzz;
pub mod model;
pub mod restless;
pub mod sim;
pub mod suite;
pub mod table;
pub mod thread_watch;
pub mod tiny;
