//! `ecotone-bench`: workloads and measurements. `docs/benchmark.md` says how to run it and what it prints.

mod cli;
mod error;
mod measure;
mod report;
mod row;
mod size;
mod statistics;
mod suite;

use std::{io, process::ExitCode};

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::{
    cli::{Cli, Command},
    measure::disk,
    suite::rounds,
};

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let result = match Cli::parse().command {
        Command::Disk(options) => disk::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Run(options) => rounds::run(&options),
        Command::Row => Ok(rounds::row()),
        Command::Report(options) => report::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Suite(options) => suite::run(&options).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
