//! A section of the report: a suite, or the rows outside of all suites.

use super::{
    group::{self, Group},
    palette,
    read::Results,
};
use crate::row::record::ComparisonRecord;

/// The groups of a suite, or those outside of all suites.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) suite: Option<String>,
    pub(super) groups: Vec<Group>,
    pub(super) comparisons: Vec<ComparisonRecord>,
}

impl Section {
    pub(super) fn title(&self) -> String {
        self.suite.as_ref().map_or("Runs".to_owned(), |suite| format!("Suite {suite}"))
    }

    /// The stores of all groups, each once, in the order of the charts.
    pub(super) fn labels(&self) -> Vec<(String, String)> {
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

/// The results by suite: rows outside of suites first, then suites as they occur.
pub(super) fn sections(results: &Results) -> Vec<Section> {
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
