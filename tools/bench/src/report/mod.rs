//! The subcommand `report`: a page and a Markdown file of all results below a directory.
//!
//! The charts are our own SVG. Plotting libraries bring their own fonts and colours; these charts must follow the page
//! into dark mode, scale with it, and describe their content for screen readers.

mod chart;
mod facts;
mod figures;
mod group;
mod machine;
mod markdown;
mod number;
mod page;
mod palette;
mod read;
mod section;
mod series;
mod table;
mod tables;

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;

use self::read::Results;
use crate::error::{Context, Result};

/// Options of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// Directory with results, as *.jsonl; report.html and report.md are written there.
    pub(crate) dir: PathBuf,
}

/// Runs `report`.
pub(crate) fn run(options: &ReportOptions) -> Result<()> {
    let results = Results::read(&options.dir)?;
    results.skipped.iter().for_each(|line| eprintln!("skipped {line}"));
    if results.rows.is_empty() {
        return Err(nothing(&options.dir, results.files.len()).into());
    }
    let sections = section::sections(&results);
    let facts = facts::facts(&results, &sections);
    for (name, text) in
        [("report.html", page::page(&facts, &sections)), ("report.md", markdown::markdown(&facts, &sections))]
    {
        let path = options.dir.join(name);
        fs::write(&path, text).context("write", &path)?;
        println!("{}", path.display());
    }
    Ok(())
}

fn nothing(directory: &Path, files: usize) -> String {
    let directory = directory.display();
    format!(
        "there is no row to report below {directory}, in {files} files named *.jsonl; keep results there first, with \
         ecotone-bench run ... --json > {directory}/NAME.jsonl"
    )
}
