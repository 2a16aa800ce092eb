//! `ecotone stats`.

mod json;
mod look;
mod text;

use clap::Args;

use self::look::Look;
use crate::{
    failure::Failure,
    output::Output,
    place::{Place, close},
};

/// Prints memory against budget, device requests by kind of file, the log, and for each keyspace its segments, how full its pages are, what it takes on disk, and what was done
///
/// What is counted is counted since the opening, so device requests are those of the opening and of the look at the pages itself.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    place: Place,
}

impl Stats {
    /// Prints the numbers.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let database = self.place.open()?;
        let look = Look::at(&database, &self.place.path)?;
        let mut output = Output::new();
        if self.place.json {
            output.json(&json::of(&look))?;
        } else {
            output.line(&[text::of(&look).trim_fmt().as_bytes()])?;
        }
        output.finish()?;
        close(database)
    }
}
