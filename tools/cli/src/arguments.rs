//! The command line.

use clap::{Parser, Subcommand};

use crate::{
    commands::{
        compact::Compact, delete::Delete, drop::Drop, dump::Dump, get::Get, list::List, put::Put,
        repair::RepairCommand, scan::Scan, stats::Stats, verify::Verify,
    },
    demo::{self, Demo},
    failure::Failure,
    load::Load,
};

const AFTER_HELP: &str = "\
Exit codes:
  0  success
  1  an error; also a key that `get` does not find, damage that `verify` finds, lines that `load` left out
  2  wrong use
  3  `repair` could not restore everything

ECOTONE_LOG sets what is logged to standard error: error, warn (default), info, debug, trace.";

/// An embedded key-value store for data several times larger than memory.
#[derive(Debug, Parser)]
#[command(name = "ecotone", version, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Everything the command can do; each part documents itself, for its help too.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Load(Load),
    Get(Get),
    Put(Put),
    Delete(Delete),
    Scan(Scan),
    List(List),
    Drop(Drop),
    Stats(Stats),
    Verify(Verify),
    Compact(Compact),
    Repair(RepairCommand),
    Dump(Dump),
    Demo(Demo),
    /// The process that the demonstration kills
    #[command(hide = true)]
    DemoVictim(demo::victim::CrashChild),
    /// The process that removes what the demonstration made if that dies
    #[command(hide = true)]
    DemoSweeper(demo::child::Sweeper),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match self {
            Command::Load(command) => command.run(),
            Command::Get(command) => command.run(),
            Command::Put(command) => command.run(),
            Command::Delete(command) => command.run(),
            Command::Scan(command) => command.run(),
            Command::List(command) => command.run(),
            Command::Drop(command) => command.run(),
            Command::Stats(command) => command.run(),
            Command::Verify(command) => command.run(),
            Command::Compact(command) => command.run(),
            Command::Repair(command) => command.run(),
            Command::Dump(command) => command.run(),
            Command::Demo(command) => command.run(),
            Command::DemoVictim(command) => command.run(),
            Command::DemoSweeper(command) => command.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn definitions_are_consistent_and_explained() {
        let mut command = super::Arguments::command();
        command.build();
        command.clone().debug_assert();
        for part in command.get_subcommands() {
            assert!(
                part.get_about().is_some_and(|about| !about.to_string().is_empty()),
                "{} has no help",
                part.get_name()
            );
        }
    }
}
