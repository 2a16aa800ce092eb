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
mod record;
mod series;
mod table;
mod tables;

use std::{fs, path::Path};

use self::{group::Group, read::Results, record::Comparison};
use crate::{
    cli::ReportOptions,
    error::{Context, Result},
};

/// The groups of a suite, or those outside of all suites.
#[derive(Debug)]
struct Section {
    suite: Option<String>,
    groups: Vec<Group>,
    comparisons: Vec<Comparison>,
}

/// Runs `report`.
pub(crate) fn run(options: &ReportOptions) -> Result<()> {
    let results = Results::read(&options.dir)?;
    results.skipped.iter().for_each(|line| eprintln!("skipped {line}"));
    if results.rows.is_empty() {
        return Err(nothing(&options.dir, results.files.len()).into());
    }
    let sections = sections(&results);
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

/// The results by suite: rows outside of suites first, then suites as they occur.
fn sections(results: &Results) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for group in group::groups(results) {
        let suite = group.parameters.suite.clone();
        section(&mut sections, suite).groups.push(group);
    }
    for comparison in &results.comparisons {
        section(&mut sections, comparison.suite.clone()).comparisons.push(comparison.clone());
    }
    sections.sort_by_key(|section| section.suite.is_some());
    sections
}

fn section(sections: &mut Vec<Section>, suite: Option<String>) -> &mut Section {
    let place = sections.iter().position(|section| section.suite == suite).unwrap_or_else(|| {
        sections.push(Section { suite, groups: Vec::new(), comparisons: Vec::new() });
        sections.len() - 1
    });
    &mut sections[place]
}

impl Section {
    fn title(&self) -> String {
        self.suite.as_ref().map_or("Runs".to_owned(), |suite| format!("Suite {suite}"))
    }

    /// The stores of all groups, each once, in the order of the charts.
    fn labels(&self) -> Vec<(String, String)> {
        let mut labels: Vec<(String, String)> = Vec::new();
        for series in self.groups.iter().flat_map(|group| &group.series) {
            if !labels.iter().any(|(label, _)| *label == series.label) {
                labels.push((series.label.clone(), series.store.clone()));
            }
        }
        labels.sort_by_key(|(_, store)| palette::rank(store));
        labels
    }
}
