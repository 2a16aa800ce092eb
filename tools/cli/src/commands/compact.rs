//! `ecotone compact`.

use clap::Args;
use ecotone::{Database, Error, KeyspaceInfo, KeyspaceStats};
use indicatif::ProgressBar;
use serde_json::json;

use crate::{
    failure::Failure,
    load::style,
    open_keyspace::OpenKeyspace,
    output::Output,
    target::{DatabaseArgument, close},
};

/// The name of the keyspace counter that holds the bytes of its tables.
const BYTES: &str = "table_bytes";

/// Merges tables until nothing is left that was deleted or replaced
///
/// That is for keyspaces with the engines lsm and adaptive, all of them or one; those with other engines have nothing
/// to merge and stay as they are.
#[derive(Debug, Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    place: DatabaseArgument,
    /// Name of the keyspace; without it all are compacted
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
}

impl Compact {
    /// Prints a line a keyspace.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let database = self.place.open()?;
        let mut output = Output::new();
        for info in self.chosen(&database)? {
            self.compact(&database, &info, &mut output)?;
        }
        output.finish()?;
        close(database)
    }

    fn chosen(&self, database: &Database) -> Result<Vec<KeyspaceInfo>, Failure> {
        let mut keyspaces = database.keyspaces();
        if let Some(name) = &self.keyspace {
            keyspaces.retain(|info| info.name == *name);
            if keyspaces.is_empty() {
                return Err(Error::UnknownKeyspace { name: name.clone() }.into());
            }
        }
        Ok(keyspaces)
    }

    fn compact(&self, database: &Database, info: &KeyspaceInfo, output: &mut Output) -> Result<(), Failure> {
        let keyspace = OpenKeyspace::open(database, info)?;
        let before = bytes(&keyspace.stats());
        let bar = ProgressBar::new(0)
            .with_style(style("{msg} {wide_bar} {bytes}/{total_bytes} ({bytes_per_sec}, {eta} left)"));
        bar.set_message(info.name.clone());
        let compacted = keyspace.compact(|moved, all| {
            bar.set_length(all);
            bar.set_position(moved);
        });
        bar.finish_and_clear();
        self.print(output, info, compacted?.then(|| (before, bytes(&keyspace.stats()))))
    }

    fn print(&self, output: &mut Output, info: &KeyspaceInfo, bytes: Option<(u64, u64)>) -> Result<(), Failure> {
        let (name, engine) = (&info.name, info.engine);
        if self.place.json {
            let (before, after) = bytes.unzip();
            return output.json(&json!({"keyspace": name, "engine": engine, "bytes_before": before, "bytes": after}));
        }
        let line = match bytes {
            Some((before, after)) => format!("{name}: {after} bytes of tables, {before} before"),
            None => format!("{name}: nothing to merge in a keyspace with the engine {engine}"),
        };
        output.line(&[line.as_bytes()])
    }
}

fn bytes(stats: &KeyspaceStats) -> u64 {
    stats.counter(BYTES).unwrap_or(0)
}
