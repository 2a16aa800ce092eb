//! The `ecotone` binary, run as a user runs it.

mod bad_input;
mod commands;
mod damage;
mod demo;
mod full_disk;
mod harness;
mod hashed;
mod loading;
mod log;
mod lsm;
mod permissions;
mod repair;
