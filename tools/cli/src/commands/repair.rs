//! `ecotone repair`.

use std::path::PathBuf;

use clap::Args;
use ecotone::{KeyRange, Ranges, Repair, RepairProgress, RepairReport, RepairStep, RepairedKeyspace};
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};

use crate::{failure::Failure, load::style, output::Output, target::DatabaseArgument, text::Encoding};

/// Makes a new database from what can be read of a damaged one
///
/// The damaged database stays as it is. What could not be restored, or may be old, is listed by key range, and the exit
/// code is 3 then; it is 0 if nothing is missing or doubtful.
#[derive(Debug, Args)]
pub(crate) struct RepairCommand {
    #[command(flatten)]
    place: DatabaseArgument,
    /// Directory of the new database: a new path, or an empty directory
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    #[command(flatten)]
    encoding: Encoding,
}

impl RepairCommand {
    /// Repairs the database, and prints the outcome for every keyspace.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut bar = Bar::new();
        let repair = Repair::new(&self.place.path, &self.to).memory_budget(self.place.memory);
        let report = repair.run(&mut |progress| bar.show(progress));
        bar.bar.finish_and_clear();
        let report = report?;
        let mut output = Output::new();
        match self.place.json {
            true => output.json(&self.json(&report)?)?,
            false => self.print(&mut output, &report)?,
        }
        output.finish()?;
        match report.is_complete() {
            true => Ok(()),
            false => Err(Failure::Incomplete(format!(
                "{} does not hold all that {} held; the list says what is missing or doubtful",
                self.to.display(),
                self.place.path.display()
            ))),
        }
    }

    fn print(&self, output: &mut Output, report: &RepairReport) -> Result<(), Failure> {
        for keyspace in &report.keyspaces {
            let RepairedKeyspace { name, records, pages, damaged_pages, missing, doubtful, .. } = keyspace;
            let (missing_count, doubtful_count) = (missing.count, doubtful.count);
            let line = format!(
                "{name}: {records} records from {pages} pages and blocks, {damaged_pages} of them damaged; \
                {missing_count} ranges missing, {doubtful_count} \
                 doubtful"
            );
            output.line(&[line.as_bytes()])?;
            self.print_ranges(output, "missing", missing)?;
            self.print_ranges(output, "doubtful", doubtful)?;
        }
        output.line(&[format!("the log: {} operations", report.log_operations).as_bytes()])?;
        let lines = report.log_gaps.iter().chain(&report.problems);
        lines.map(String::as_bytes).try_for_each(|line| output.line(&[b"  ", line]))
    }

    fn print_ranges(&self, output: &mut Output, what: &str, ranges: &Ranges) -> Result<(), Failure> {
        for (start, end) in &ranges.listed {
            let start = if start.is_empty() { b"the beginning".to_vec() } else { self.key(start) };
            let end = end.as_ref().map_or(b"the end".to_vec(), |end| self.key(end));
            output.line(&[b"  ", what.as_bytes(), b" from ", &start, b" to before ", &end])?;
        }
        match ranges.count.saturating_sub(ranges.listed.len() as u64) {
            0 => Ok(()),
            more => output.line(&[format!("  and {more} more ranges {what}").as_bytes()]),
        }
    }

    /// A bound of a range; a bound may be shorter than a whole key.
    fn key(&self, key: &[u8]) -> Vec<u8> {
        self.encoding.key_text(key).unwrap_or_else(|_| Encoding::default().key_text(key).unwrap_or_default())
    }

    fn json(&self, report: &RepairReport) -> Result<Value, Failure> {
        let keyspaces: Vec<Value> = report.keyspaces.iter().map(|keyspace| self.json_keyspace(keyspace)).collect();
        Ok(json!({
            "complete": report.is_complete(),
            "keyspaces": keyspaces,
            "log_operations": report.log_operations,
            "log_gaps": report.log_gaps,
            "problems": report.problems,
        }))
    }

    fn json_keyspace(&self, keyspace: &RepairedKeyspace) -> Value {
        let ranges = |ranges: &Ranges| -> Value { ranges.listed.iter().map(|range| self.json_range(range)).collect() };
        json!({
            "name": keyspace.name,
            "id": keyspace.id,
            "indexed": keyspace.indexed,
            "records": keyspace.records,
            "pages": keyspace.pages,
            "damaged_pages": keyspace.damaged_pages,
            "missing_ranges": keyspace.missing.count,
            "missing": ranges(&keyspace.missing),
            "doubtful_ranges": keyspace.doubtful.count,
            "doubtful": ranges(&keyspace.doubtful),
        })
    }

    fn json_range(&self, (start, end): &KeyRange) -> Value {
        let mut object = Map::new();
        self.encoding.json_bytes(&mut object, "from", start);
        if let Some(end) = end {
            self.encoding.json_bytes(&mut object, "to", end);
        }
        Value::Object(object)
    }
}

/// The progress on standard error, while that is a terminal.
struct Bar {
    bar: ProgressBar,
    step: Option<RepairStep>,
}

impl Bar {
    fn new() -> Self {
        Bar { bar: ProgressBar::no_length(), step: None }
    }

    fn show(&mut self, RepairProgress { step, done, total, .. }: RepairProgress) {
        if self.step != Some(step) {
            self.step = Some(step);
            let what = match step {
                RepairStep::Pages => "pages read: {wide_bar} {pos}/{len} ({eta} left)",
                RepairStep::Records => "{spinner} records restored: {pos}",
                _ => "{spinner} operations of the log: {pos}",
            };
            self.bar.set_style(style(what));
        }
        self.bar.set_length(total.unwrap_or(done));
        self.bar.set_position(done);
    }
}
