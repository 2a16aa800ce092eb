//! `ecotone list`.

use clap::Args;
use serde_json::json;

use crate::{
    failure::Failure,
    output::Output,
    target::{DatabaseArgument, close},
};

/// Lists the keyspaces
///
/// A line for each: name, engine, and `logged` or `unlogged`, with tabs between.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: DatabaseArgument,
}

impl List {
    /// Prints the keyspaces by name.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let database = self.place.open()?;
        let mut output = Output::new();
        for space in database.keyspaces() {
            if self.place.json {
                output.json(
                    &json!({"name": space.name, "id": space.id, "engine": space.engine, "logged": space.logged}),
                )?;
            } else {
                let logged = if space.logged { "logged" } else { "unlogged" };
                output.line(&[format!("{}\t{}\t{logged}", space.name, space.engine).as_bytes()])?;
            }
        }
        output.finish()?;
        close(database)
    }
}
