//! The `ecotone` command: load, look at, check and dump databases, and a demonstration on real keys.
//!
//! Exit codes: 0 all is well, 1 an error (told on standard error), 2 a wrong use of the command, 3 `repair` could not restore everything. Whoever stops reading standard
//! output early ends the command quietly.
//!
//! The allocator is the system's: in the demonstration mimalloc was no faster and raised the peak of the process from 51 to 88
//! MiB.

mod arguments;
mod commands;
mod demo;
mod failure;
mod header;
mod kept;
mod load;
mod output;
mod place;
mod text;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::parse();
    start_log();
    match arguments.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn start_log() {
    let filter = EnvFilter::try_from_env("ECOTONE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
