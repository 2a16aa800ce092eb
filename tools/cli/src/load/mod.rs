//! `ecotone load`.

mod format;
mod progress;
mod records;
mod source;
mod tally;
mod target;
mod zstd;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ecotone::Database;
use serde_json::json;

use self::{
    format::{Content, Format},
    progress::Input,
    records::{Records, Values},
    source::Source,
    tally::Tally,
};
pub(crate) use self::{progress::style, zstd::Zstd};
use crate::{
    failure::{Failure, warn},
    open_keyspace::OpenKeyspace,
    output::Output,
    target::{DatabaseArgument, NewKeyspaceArgument, close},
    text::Encoding,
};

/// Loads records from a file or standard input; makes the database and the keyspace if they are missing
///
/// Integers become keys of 8 bytes, the highest first, so that they sort as numbers (see --u64 of the other commands).
///
/// `ecotone dump OLD | ecotone load NEW` copies a keyspace: the first line of a dump says how it is written. Nothing
/// else needs an option either if its name or its first bytes tell what it is.
///
/// A bad line (or integer) is left out. The first ten are reported on standard error with number and reason, the good
/// ones are loaded, and the end tells how many were bad, with exit code 1. With `--on-error stop` the load ends at the
/// first bad line; what came before it stays.
#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    place: DatabaseArgument,
    /// The input; `-` is standard input
    #[arg(default_value = "-")]
    input: PathBuf,
    /// What the input holds. Without it the first line of a dump decides, or else the name: .u64, .du64, .tsv, each
    /// also with .zst; anything else is lines
    #[arg(long)]
    format: Option<Format>,
    /// Bytes of the value of an integer, made from the integer
    #[arg(long, value_name = "BYTES", default_value_t = 56)]
    values: usize,
    /// Value of each line of format lines; {line} stands for its number
    #[arg(long, value_name = "TEXT", default_value = "{line}")]
    value: String,
    /// The input ascends, all above what is in the keyspace: fill pages directly. Found out by itself for .du64 and an
    /// empty keyspace
    #[arg(long)]
    sorted: bool,
    /// What a bad line does
    #[arg(long, value_name = "WHAT", default_value = "continue")]
    on_error: OnError,
    #[command(flatten)]
    space: NewKeyspaceArgument,
    #[command(flatten)]
    encoding: Encoding,
}

/// What a bad line does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// It is reported and left out
    Continue,
    /// It ends the load
    Stop,
}

impl Load {
    /// Loads everything and prints the number of records.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        // Before the database is opened, so that an input that cannot be loaded leaves no empty database behind.
        let input = Input::open(&self.input)?;
        let bar = input.bar();
        let source = Source::new(input, &self.input, self.format, self.encoding)?;
        let database = self.place.open_or_create()?;
        let keyspace = self.space.open_or_create(&database)?;
        let mut tally = Tally::new(self.on_error == OnError::Stop, source.content, display(&self.input), bar);
        let loaded = self.load(&database, &keyspace, source, &mut tally);
        tally.finish();
        if let Err(failure) = &loaded
            && tally.loaded > 0
        {
            let full = matches!(failure, Failure::Database(error) if error.is_no_space());
            let advice = if full { "; free some space, then load the input again" } else { "" };
            warn(&format!("{} records were loaded before the load failed, and stay{advice}", tally.loaded));
        }
        loaded?;
        close(database)?;
        self.tell(&tally)
    }

    fn load(
        &self,
        database: &Database,
        keyspace: &OpenKeyspace,
        source: Source,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let values = Values { bytes: self.values, template: self.value.clone() };
        let content = source.content;
        let records = Records::new(source, values);
        let ascends = match keyspace {
            OpenKeyspace::Ordered(ordered) => content == Content::Differences && ordered.first_key_value()?.is_none(),
            OpenKeyspace::Hashed(_) => false,
        };
        if self.sorted || ascends {
            target::bulk(keyspace.ordered("--sorted", "leave it out")?, records, tally)
        } else {
            target::insert(database, keyspace, records, tally)
        }
    }

    fn tell(&self, tally: &Tally) -> Result<(), Failure> {
        let (loaded, bad) = (tally.loaded, tally.bad);
        let mut output = Output::new();
        if self.place.json {
            output.json(&json!({"keyspace": self.space.space.keyspace, "loaded": loaded, "bad": bad}))?;
        } else {
            let into = format!("loaded {loaded} records into {}", self.space.space.keyspace);
            output.line(&[into.as_bytes()])?;
        }
        output.finish()?;
        tally.verdict()
    }
}

/// The name of an input in messages.
fn display(input: &Path) -> String {
    if input == Path::new("-") { "standard input".to_owned() } else { input.display().to_string() }
}
