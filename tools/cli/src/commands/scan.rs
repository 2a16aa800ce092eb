//! `ecotone scan`.

use std::ops::Bound;

use clap::Args;
use ecotone::{Iter, Keyspace, Result as DatabaseResult};

use crate::{
    failure::Failure,
    output::Output,
    target::{DatabaseArgument, KeyspaceArgument, close},
    text::Encoding,
};

/// Prints the records of a range, a line each: key, tab, value
///
/// Keys and values have the escapes of `dump`.
#[derive(Debug, Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    place: DatabaseArgument,
    /// Only keys that begin with this (hexadecimal digits with --hex)
    #[arg(long, conflicts_with_all = ["from", "to", "u64"])]
    prefix: Option<String>,
    /// The first key, included
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// The last key, excluded
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// At most this many records
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// From the largest key down
    #[arg(long)]
    reverse: bool,
    #[command(flatten)]
    space: KeyspaceArgument,
    #[command(flatten)]
    encoding: Encoding,
}

impl Scan {
    /// Prints the records.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let database = self.place.open()?;
        let kept = self.space.open(&database)?;
        let records = self.records(kept.ordered("scan", "`ecotone dump` prints all its records")?)?;
        let limit = self.limit.unwrap_or(usize::MAX);
        let mut output = Output::new();
        if self.reverse {
            print_records(&mut output, records.rev().take(limit), self.encoding, self.place.json)?;
        } else {
            print_records(&mut output, records.take(limit), self.encoding, self.place.json)?;
        }
        output.finish()?;
        close(database)
    }

    fn records(&self, keyspace: &Keyspace) -> Result<Iter, Failure> {
        if let Some(prefix) = &self.prefix {
            return Ok(keyspace.prefix(self.encoding.key(prefix)?));
        }
        let key = |text: &Option<String>| text.as_ref().map(|text| self.encoding.key(text)).transpose();
        let from = key(&self.from)?.map_or(Bound::Unbounded, Bound::Included);
        let to = key(&self.to)?.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(keyspace.range::<Vec<u8>>((from, to)))
    }
}

/// Prints records, a line each.
pub(crate) fn print_records(
    output: &mut Output,
    records: impl Iterator<Item = DatabaseResult<(Vec<u8>, Vec<u8>)>>,
    encoding: Encoding,
    json: bool,
) -> Result<(), Failure> {
    for record in records {
        let (key, value) = record?;
        if json {
            output.json(&encoding.json_record(&key, &value)?)?;
        } else {
            output.line(&[&encoding.key_text(&key)?, b"\t", &encoding.value_text(&value)])?;
        }
    }
    Ok(())
}
