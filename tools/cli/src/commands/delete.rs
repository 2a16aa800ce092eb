//! `ecotone delete`.

use clap::Args;
use serde_json::Map;

use crate::{
    failure::Failure,
    output::Output,
    target::{DatabaseArgument, KeyspaceArgument, close},
    text::Encoding,
};

/// Deletes a key, whether or not it is there
///
/// The deletion is durable when the command ends.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    place: DatabaseArgument,
    /// The key
    key: String,
    #[command(flatten)]
    space: KeyspaceArgument,
    #[command(flatten)]
    encoding: Encoding,
}

impl Delete {
    /// Deletes the key. With `--json`, prints it and whether it was there.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let key = self.encoding.key(&self.key)?;
        let database = self.place.open()?;
        let before = self.space.open(&database)?.take(&key)?;
        close(database)?;
        if !self.place.json {
            return Ok(());
        }
        let mut object = Map::new();
        self.encoding.json_key(&mut object, &key)?;
        object.insert("deleted".to_owned(), before.is_some().into());
        let mut output = Output::new();
        output.json(&object.into())?;
        output.finish()
    }
}
