//! `ecotone put`.

use clap::Args;

use crate::{
    failure::Failure,
    output::Output,
    target::{DatabaseArgument, NewKeyspaceArgument, close},
    text::{Encoding, check_record},
};

/// Stores a value under a key; makes the database and the keyspace if they are missing
///
/// The record is durable when the command ends.
#[derive(Debug, Args)]
pub(crate) struct Put {
    #[command(flatten)]
    place: DatabaseArgument,
    /// The key
    key: String,
    /// The value
    value: String,
    #[command(flatten)]
    space: NewKeyspaceArgument,
    #[command(flatten)]
    encoding: Encoding,
}

impl Put {
    /// Stores the record. With `--json`, prints it.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let key = self.encoding.key(&self.key)?;
        let value = self.encoding.value(&self.value)?;
        // The record is checked first, so that a bad record creates no database.
        check_record(&key, &value).map_err(Failure::Told)?;
        let database = self.place.open_or_create()?;
        self.space.open_or_create(&database)?.insert(&key, &value)?;
        close(database)?;
        if !self.place.json {
            return Ok(());
        }
        let mut output = Output::new();
        output.json(&self.encoding.json_record(&key, &value)?)?;
        output.finish()
    }
}
