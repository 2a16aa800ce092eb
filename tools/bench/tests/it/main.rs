//! The binary as its users see it.

mod disk;
mod faults;
mod harness;
mod kernel;
mod rows;
mod run;
