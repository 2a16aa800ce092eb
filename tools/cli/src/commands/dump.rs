//! `ecotone dump`.

use clap::Args;

use crate::{
    commands::scan::print_records,
    failure::Failure,
    header,
    output::Output,
    target::{DatabaseArgument, KeyspaceArgument, close},
    text::Encoding,
};

/// Prints all records of a keyspace in a form that `load` reads back
///
/// `ecotone dump OLD | ecotone load NEW` copies a keyspace. The first line says that this is a dump and how it is
/// written (`#ecotone dump 1`), so that `load` needs no options. Each other line is a record: key, tab, value, with the
/// escapes `\t`, `\n`, `\r`, `\\` and `\xNN`. The records are in key order; those of a keyspace of the engine hash are
/// in no order. With --json there is no first line; that form is for other programs, and `load` does not read it.
#[derive(Debug, Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    place: DatabaseArgument,
    #[command(flatten)]
    space: KeyspaceArgument,
    #[command(flatten)]
    encoding: Encoding,
}

impl Dump {
    /// Prints the records.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let database = self.place.open()?;
        let records = self.space.open(&database)?.records();
        let mut output = Output::new();
        if !self.place.json {
            output.line(&[&header::of(self.encoding)])?;
        }
        print_records(&mut output, records, self.encoding, self.place.json)?;
        output.finish()?;
        close(database)
    }
}
