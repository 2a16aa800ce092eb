//! `ecotone load`.

mod format;
mod progress;
mod records;
mod tally;
mod target;
mod zstd;

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use ecotone::Database;
use serde_json::json;

use self::{
    format::{Content, Format},
    progress::Input,
    records::{Records, Values},
    tally::Tally,
};
pub(crate) use self::{progress::style, zstd::Zstd};
use crate::{
    failure::{Failure, warn},
    kept::Kept,
    output::Output,
    place::{NewSpace, Place, close},
    text::Encoding,
};

/// Loads records from a file or standard input; makes the database and the keyspace if they are missing
///
/// Integers become keys of 8 bytes, the highest first, so that they sort as numbers (see --u64 of the other commands).
///
/// A bad line (or integer) is reported on standard error with its number and the reason. By default the load goes on; the end
/// tells how many were bad, and the exit code is 0. With `--on-error stop` the load ends there with exit code 1; what came
/// before it stays.
#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    place: Place,
    /// The input; `-` is standard input
    #[arg(default_value = "-")]
    input: PathBuf,
    /// What the input holds. Without it the name decides: .u64, .du64, .tsv, each also with .zst; anything else is lines
    #[arg(long)]
    format: Option<Format>,
    /// Bytes of the value of an integer, made from the integer
    #[arg(long, value_name = "BYTES", default_value_t = 56)]
    values: usize,
    /// Value of each line of format lines; {line} stands for its number
    #[arg(long, value_name = "TEXT", default_value = "{line}")]
    value: String,
    /// The input ascends, all above what is in the keyspace: fill pages directly. Found out by itself for .du64 and an empty
    /// keyspace
    #[arg(long)]
    sorted: bool,
    /// What a bad line does
    #[arg(long, value_name = "WHAT", default_value = "continue")]
    on_error: OnError,
    #[command(flatten)]
    space: NewSpace,
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
    /// Loads everything and tells how much it was.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let format = self.format.unwrap_or_else(|| Format::of(&self.input));
        // Before the database is opened, so that a missing input leaves no empty database behind.
        let input = Input::open(&self.input)?;
        let database = self.place.open_or_create()?;
        let keyspace = self.space.open_or_create(&database)?;
        let mut tally = Tally::new(self.on_error == OnError::Stop, format.content, input.bar());
        let loaded = self.load(&database, &keyspace, format, input, &mut tally);
        tally.finish();
        if let Err(Failure::Database(error)) = &loaded
            && tally.loaded > 0
        {
            let advice = if error.is_no_space() { "; free some space, then load the input again" } else { "" };
            warn(&format!("{} records were loaded before the load failed, and stay{advice}", tally.loaded));
        }
        loaded?;
        close(database)?;
        self.tell(&tally)
    }

    fn load(&self, database: &Database, keyspace: &Kept, format: Format, input: Input, tally: &mut Tally) -> Result<(), Failure> {
        let input: Box<dyn BufRead> = match format.zstd {
            true => Box::new(BufReader::with_capacity(1 << 18, Zstd::new(BufReader::with_capacity(1 << 18, input)))),
            false => Box::new(BufReader::with_capacity(1 << 18, input)),
        };
        let values = Values { bytes: self.values, template: self.value.clone() };
        let records = Records::new(input, format.content, self.encoding, values);
        let ascends = match keyspace {
            Kept::Ordered(ordered) => format.content == Content::Differences && ordered.first_key_value()?.is_none(),
            Kept::Hashed(_) => false,
        };
        if self.sorted || ascends {
            target::bulk(keyspace.ordered("--sorted")?, records, tally)
        } else {
            target::insert(database, keyspace, records, tally)
        }
    }

    fn tell(&self, tally: &Tally) -> Result<(), Failure> {
        let (loaded, bad, entry) = (tally.loaded, tally.bad, tally.content.entry());
        let mut output = Output::new();
        if self.place.json {
            output.json(&json!({"keyspace": self.space.space.keyspace, "loaded": loaded, "bad": bad}))?;
        } else {
            let into = format!("loaded {loaded} records into {}", self.space.space.keyspace);
            output.line(&[into.as_bytes()])?;
        }
        output.finish()?;
        if bad > 0 {
            warn(&format!("{bad} bad {entry}s of {} were left out", display(&self.input)));
        }
        Ok(())
    }
}

/// An input in messages.
fn display(input: &Path) -> String {
    if input == Path::new("-") { "standard input".to_owned() } else { input.display().to_string() }
}
