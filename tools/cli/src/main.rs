//! The `ecotone` command: load, inspect, check and dump databases, and a demonstration on real keys.
//!
//! Exit codes: 0 success, 1 an error (printed to standard error), 2 wrong usage, 3 `repair` could not restore
//! everything. If the reader of standard output goes away, the command ends quietly.
//!
//! The allocator is the system's: in the demonstration mimalloc was no faster and raised the peak of the process from
//! 51 to 88 MiB.

mod arguments;
mod commands;
mod demo;
mod failure;
mod header;
mod load;
mod open_keyspace;
mod output;
mod target;
mod text;

use std::process::ExitCode;

use clap::{Parser, error::ErrorKind};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use self::{
    arguments::Arguments,
    failure::{Failure, warn},
};

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| wrong_use(&error));
    match start_log().and_then(|()| arguments.command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn wrong_use(error: &clap::Error) -> ! {
    if error.kind() == ErrorKind::InvalidUtf8 {
        warn("an argument is not UTF-8; give keys and values of other bytes as hexadecimal digits, with --hex");
    }
    error.exit()
}

/// Starts logging as `ECOTONE_LOG` says: a level, or levels of modules such as `warn,ecotone_lsm=debug`.
fn start_log() -> Result<(), Failure> {
    let wanted =
        std::env::var("ECOTONE_LOG").ok().filter(|wanted| !wanted.is_empty()).unwrap_or_else(|| "warn".to_owned());
    // The filter takes a word that is no level for the name of a module, and then logs nothing else.
    let is_level = wanted.split(',').all(|part| part.contains('=') || part.parse::<LevelFilter>().is_ok());
    let filter = EnvFilter::try_new(&wanted).ok().filter(|_| is_level).ok_or_else(|| {
        Failure::Usage(format!("ECOTONE_LOG is {wanted:?}, and must be off, error, warn, info, debug or trace"))
    })?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    Ok(())
}
