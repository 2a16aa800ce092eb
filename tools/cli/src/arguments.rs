//! The command line.

use clap::{Parser, Subcommand};

use crate::{
    commands::{
        delete::Delete, drop::Drop, dump::Dump, get::Get, list::List, put::Put, scan::Scan, stats::Stats, verify::Verify,
    },
    demo::{self, Demo},
    failure::Failure,
    load::Load,
};

const AFTER_HELP: &str = "\
Exit codes: 0 all is well, 1 an error (also a key that `get` does not find, and damage that `verify` finds), 2 wrong use.
ECOTONE_LOG sets what is logged to standard error: error, warn (default), info, debug, trace.";

/// An embedded key-value store for data several times larger than memory.
#[derive(Debug, Parser)]
#[command(name = "ecotone", version, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Everything the command can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Loads records from a file or standard input; makes the database and the keyspace if they are missing
    Load(Load),
    /// Prints the value of a key
    Get(Get),
    /// Stores a value under a key; makes the database and the keyspace if they are missing
    Put(Put),
    /// Deletes a key, whether or not it is there
    Delete(Delete),
    /// Prints the records of a range, a line each: key, tab, value
    Scan(Scan),
    /// Lists the keyspaces
    List(List),
    /// Drops a keyspace with everything in it
    Drop(Drop),
    /// Prints memory against budget, device requests, the log, and each keyspace's numbers
    Stats(Stats),
    /// Reads everything and checks it
    Verify(Verify),
    /// Prints all records of a keyspace in a form that `load` reads back
    Dump(Dump),
    /// Loads real keys into a database several times larger than its memory, kills it in the middle of its work and checks it
    Demo(Demo),
    /// The process that the demonstration kills
    #[command(hide = true)]
    DemoVictim(demo::victim::Victim),
}

impl Command {
    /// Does it.
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
            Command::Dump(command) => command.run(),
            Command::Demo(command) => command.run(),
            Command::DemoVictim(command) => command.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn definitions_are_consistent() {
        super::Arguments::command().debug_assert();
    }
}
