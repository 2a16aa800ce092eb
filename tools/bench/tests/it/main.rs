//! The binary as its users see it.

mod disk;
mod harness;
mod inputs;
mod kernel;
mod run;
mod states;
