//! `ecotone-bench`: workloads and measurements. `docs/benchmark.md` says how to run it and what it prints.

mod batch;
mod bench;
mod cli;
mod completions;
mod disk;
mod distribution;
mod error;
mod execute;
mod files;
mod generator;
mod inserts;
mod keys;
mod measure;
mod numbering;
mod pack;
mod permutation;
mod phase;
mod prepare;
mod process;
mod progress;
mod report;
mod row;
mod rows;
mod run;
mod size;
mod state;
mod statistics;
mod step;
mod store;
mod suite;
mod timeline;
mod trace;
mod transfers;
mod value;
mod versions;
mod warmup;
mod words;
mod worker;
mod workload;
mod zipf;

use std::{io, process::ExitCode};

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let result = match Cli::parse().command {
        Command::Disk(options) => disk::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Run(options) => rows::run(&options),
        Command::Row => Ok(rows::row()),
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
