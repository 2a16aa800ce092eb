//! Reads the files of results.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    error::{Context, Result},
    row::record::{ComparisonRecord, RowRecord, SummaryRecord},
};

/// Everything that was read, in the order of files and lines.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) files: Vec<Source>,
    pub(crate) rows: Vec<Found<RowRecord>>,
    pub(crate) summaries: Vec<Found<SummaryRecord>>,
    pub(crate) comparisons: Vec<ComparisonRecord>,
    /// Lines that were skipped, each with file, line and reason.
    pub(crate) skipped: Vec<String>,
}

/// A file of results.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path below the directory of the report.
    pub(crate) name: String,
    pub(crate) changed: Option<SystemTime>,
}

/// A record with the number of its file.
#[derive(Debug, Clone)]
pub(crate) struct Found<T> {
    pub(crate) file: usize,
    pub(crate) record: T,
}

impl Results {
    /// Reads every `*.jsonl` below a directory.
    pub(crate) fn read(directory: &Path) -> Result<Self> {
        let mut paths = Vec::new();
        collect(directory, &mut paths)?;
        paths.sort();
        let mut results = Results::default();
        for path in paths {
            let bytes = fs::read(&path).context("read", &path)?;
            let name = path.strip_prefix(directory).unwrap_or(&path).display().to_string();
            results.take_file(name, &path, &String::from_utf8_lossy(&bytes));
        }
        Ok(results)
    }

    fn take_file(&mut self, name: String, path: &Path, text: &str) {
        let changed = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        self.files.push(Source { name, changed });
        for (number, line) in (1..).zip(text.lines()) {
            if !line.trim().is_empty()
                && let Err(reason) = self.take_line(line)
            {
                self.skipped.push(format!("{}:{number}: {reason}", path.display()));
            }
        }
    }

    fn take_line(&mut self, line: &str) -> std::result::Result<(), String> {
        let value: Value = serde_json::from_str(line).map_err(|error| format!("no JSON: {error}"))?;
        let file = self.files.len() - 1;
        match value.get("kind").and_then(Value::as_str) {
            Some("row") => self.rows.push(Found { file, record: record(value, "row")? }),
            // Older rows have no kind.
            None if value.get("store").is_some() => self.rows.push(Found { file, record: record(value, "row")? }),
            Some("summary") => self.summaries.push(Found { file, record: record(value, "summary")? }),
            Some("comparison") => self.comparisons.push(record(value, "comparison")?),
            Some(kind) => return Err(format!("{kind:?} is no known kind")),
            None => return Err("it has no kind".to_owned()),
        }
        Ok(())
    }
}

fn record<T: DeserializeOwned>(value: Value, kind: &str) -> std::result::Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("no {kind}: {error}"))
}

/// The paths of all `*.jsonl` below a directory. Links to directories are not followed.
fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory).context("read", directory)? {
        let entry = entry.context("read", directory)?;
        let path = entry.path();
        if entry.file_type().context("look at", &path)?.is_dir() {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "jsonl") && path.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}
