//! The binary as its users see it.

mod disk;
mod harness;
mod kernel;
mod run;
mod suite;
