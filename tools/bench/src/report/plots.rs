//! The charts as SVG files.

use super::{
    chart::{self, Chart},
    group,
    section::Section,
};
use crate::error::Result;

/// Every chart and the name of its file: suite, measurement and figure. With a store there are charts of the throughput
/// relative to it.
pub(super) fn plots(sections: &[Section], relative_to: Option<&str>) -> Result<Vec<(String, Chart)>> {
    let mut plots = Plots::default();
    if let Some(base) = relative_to {
        sections.iter().for_each(|section| plots.add(section, "", chart::ratios(&section.groups, base)));
        if plots.named.is_empty() {
            return Err(format!("no measurement has comparable rows of {base} and of another store").into());
        }
    }
    for section in sections {
        plots.add(section, "", chart::comparisons(&section.title(), &section.comparisons));
        for phases in group::phases(&section.groups) {
            let name = phases.first().map_or_else(String::new, |phase| phase.name());
            plots.add(section, &name, chart::phases(&phases));
        }
        for group in &section.groups {
            plots.add(section, &group.title(), chart::large(group).into_iter().chain(chart::small(group)));
        }
    }
    Ok(plots.named)
}

/// Charts with different names.
#[derive(Debug, Default)]
struct Plots {
    named: Vec<(String, Chart)>,
}

impl Plots {
    fn add(&mut self, section: &Section, of: &str, charts: impl IntoIterator<Item = Chart>) {
        for chart in charts {
            let words = file_name(&format!("{} {of} {}", section.suite.as_deref().unwrap_or_default(), chart.what));
            let mut name = format!("{words}.svg");
            let mut number = 1;
            while self.named.iter().any(|(other, _)| *other == name) {
                number += 1;
                name = format!("{words}-{number}.svg");
            }
            self.named.push((name, chart));
        }
    }
}

/// The words of a text in lower case, with hyphens between them.
fn file_name(text: &str) -> String {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_words_with_hyphens() {
        assert_eq!(file_name(" C zipfian 0.99 64 B, phase 1: e"), "c-zipfian-0-99-64-b-phase-1-e");
        assert_eq!(file_name("../<b>"), "b");
    }
}
