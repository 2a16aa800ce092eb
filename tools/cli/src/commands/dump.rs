//! `ecotone dump`.

use clap::Args;

use crate::{
    commands::scan::print_records,
    failure::Failure,
    output::Output,
    place::{Place, Space, close},
    text::Encoding,
};

/// Prints all records of a keyspace in a form that `load` reads back
///
/// The records come in key order, or in none from a keyspace of the engine hash, each as key, tab, value, with escapes (`\t`, `\n`, `\r`, `\\`, `\xNN`) that `load --format
/// tsv` undoes.
#[derive(Debug, Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    space: Space,
    #[command(flatten)]
    encoding: Encoding,
}

impl Dump {
    /// Prints the records.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let database = self.place.open()?;
        let records = self.space.open(&database)?.records();
        let mut output = Output::new();
        print_records(&mut output, records, self.encoding, self.place.json)?;
        output.finish()?;
        close(database)
    }
}
