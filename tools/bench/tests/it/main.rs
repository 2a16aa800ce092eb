//! The binary as its users see it.

mod disk;
mod faults;
mod harness;
mod inputs;
mod kernel;
mod rows;
mod run;
mod states;
