//! `ecotone stats`.

mod json;
mod report;
mod text;

use clap::Args;

use self::report::StatsReport;
use crate::{
    failure::Failure,
    output::Output,
    target::{DatabaseArgument, close},
};

/// Prints what the database holds and takes, in six lines; with --all everything that is counted
///
/// The lines are: keyspaces; records, as estimated from samples and from what tables count; disk, the bytes of all
/// files; memory, held now and the budget; log, which the next opening replays; and state, which is good unless writing
/// has stopped or background work is put off.
///
/// With --all: the memory of each component, device requests by kind of file, and all counters of each keyspace,
/// counted since this command has opened the database. --json prints all of it.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    place: DatabaseArgument,
    /// Everything that is counted, not only the six lines
    #[arg(long)]
    all: bool,
}

impl Stats {
    /// Prints the numbers.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let database = self.place.open()?;
        let look = StatsReport::at(&database, &self.place.path)?;
        let mut output = Output::new();
        if self.place.json {
            output.json(&json::of(&look))?;
        } else {
            output.line(&[text::of(&look, self.all).trim_fmt().as_bytes()])?;
        }
        output.finish()?;
        close(database)
    }
}
