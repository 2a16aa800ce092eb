//! The subcommand `report`: a page and a Markdown file of all results below a directory, or its charts as SVG files.
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
mod plots;
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
    /// Write each chart as an SVG file into this directory, instead of report.html and report.md.
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Also draw the throughput of all stores relative to this one.
    #[arg(long, value_name = "STORE", requires = "plots")]
    pub(crate) relative_to: Option<String>,
}

/// Runs `report`.
pub(crate) fn run(options: &ReportOptions) -> Result<()> {
    let results = Results::read(&options.dir)?;
    results.skipped.iter().for_each(|line| eprintln!("skipped {line}"));
    if results.rows.is_empty() {
        return Err(nothing(&options.dir, results.files.len()).into());
    }
    let sections = section::sections(&results);
    if let Some(folder) = &options.plots {
        let plots = plots::plots(&sections, options.relative_to.as_deref())?;
        fs::create_dir_all(folder).context("create", folder)?;
        return plots.iter().try_for_each(|(name, chart)| write(folder, name, &chart.file()));
    }
    let facts = facts::facts(&results, &sections);
    write(&options.dir, "report.html", &page::page(&facts, &sections))?;
    write(&options.dir, "report.md", &markdown::markdown(&facts, &sections))
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, text).context("write", &path)?;
    println!("{}", path.display());
    Ok(())
}

fn nothing(directory: &Path, files: usize) -> String {
    let directory = directory.display();
    format!(
        "there is no row to report below {directory}, in {files} files named *.jsonl; keep results there first, with \
         ecotone-bench run ... --json > {directory}/NAME.jsonl"
    )
}
