//! The report as Markdown: the same tables as in the page.

use super::{
    facts::Fact,
    section::Section,
    table::{Table, escaped},
    tables,
};

/// The whole file.
pub(crate) fn markdown(facts: &[Fact], sections: &[Section]) -> String {
    let mut text = "# Ecotone benchmark\n\n".to_owned();
    text.extend(facts.iter().map(|(name, fact)| format!("- {name}: {}\n", escaped(fact))));
    text.extend(tables::troubles(sections).iter().map(paragraph));
    text.extend(sections.iter().map(section));
    text
}

fn section(section: &Section) -> String {
    let mut text = format!("\n## {}\n", escaped(&section.title()));
    if !section.groups.is_empty() {
        text += &paragraph(&tables::overview(section));
    }
    if !section.comparisons.is_empty() {
        text += &paragraph(&tables::comparisons(&section.comparisons));
    }
    for group in &section.groups {
        text += &format!("\n### {}\n\n{}\n", escaped(&group.title()), escaped(&group.description()));
        text.extend(tables::group(group).iter().map(paragraph));
    }
    text
}

fn paragraph(table: &Table) -> String {
    format!("\n{}", table.markdown())
}
