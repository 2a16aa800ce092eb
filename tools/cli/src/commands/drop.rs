//! `ecotone drop`.

use clap::Args;
use serde_json::json;

use crate::{
    failure::Failure,
    output::Output,
    target::{DatabaseArgument, close},
};

/// Drops a keyspace with everything in it
///
/// Its space returns to the file system. There is no way back.
#[derive(Debug, Args)]
pub(crate) struct Drop {
    #[command(flatten)]
    place: DatabaseArgument,
    /// Name of the keyspace
    name: String,
}

impl Drop {
    /// Drops the keyspace, durably. With `--json`, prints its name.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let database = self.place.open()?;
        database.drop_keyspace(&self.name)?;
        close(database)?;
        if !self.place.json {
            return Ok(());
        }
        let mut output = Output::new();
        output.json(&json!({"dropped": self.name}))?;
        output.finish()
    }
}
