//! The report as one self-contained page: style and charts are inline, and there are no scripts.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    chart::{self, Chart},
    facts::Fact,
    group::{self, Group},
    section::Section,
    tables,
};

/// The whole page.
pub(crate) fn page(facts: &[Fact], sections: &[Section]) -> String {
    let measurements: usize = sections.iter().map(|section| section.groups.len()).sum();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Ecotone benchmark" }
                style { (PreEscaped(chart::STYLE)) (PreEscaped(include_str!("style.css"))) }
            }
            body {
                header { h1 { "Ecotone benchmark" } (head(facts)) }
                main {
                    @if let Some(troubles) = tables::troubles(sections) { section.card.trouble {
                        h2 { "Not everything went well" } (troubles.html())
                    } }
                    @for section in sections { (self::section(section, measurements == 1)) }
                }
                footer { (notes()) }
            }
        }
    };
    page.into_string()
}

fn head(facts: &[Fact]) -> Markup {
    html! { dl { @for (name, fact) in facts { div { dt { (name) } dd { (fact) } } } } }
}

fn section(section: &Section, open: bool) -> Markup {
    html! {
        section {
            h2 { (section.title()) }
            @if !section.groups.is_empty() { div.card { (tables::overview(section).html()) } }
            @if !section.comparisons.is_empty() { (comparisons(section)) }
            @for phases in &group::phases(&section.groups) { (self::phases(phases)) }
            @for group in &section.groups { (self::group(group, open)) }
        }
    }
}

fn phases(phases: &[&Group]) -> Markup {
    let name = phases.first().map_or_else(String::new, |phase| phase.name());
    html! {
        @if let Some(chart) = chart::phases(phases) {
            div.card {
                h3 { (name) }
                p.about { "Workloads that follow each other in stores that stay open: " (words(phases)) "." }
                figure.wide { (captioned(&chart)) }
            }
        }
    }
}

fn words(phases: &[&Group]) -> String {
    phases.iter().filter_map(|phase| phase.parameters.workload.as_deref()).collect::<Vec<_>>().join(", ")
}

fn comparisons(section: &Section) -> Markup {
    html! {
        div.card {
            h3 { "Against the paper" }
            p.about { "Ratios are ours divided by theirs, over a logarithmic axis. Of throughput more is better, of \
                everything else less." }
            @if let Some(chart) = chart::comparisons(&section.title(), &section.comparisons) {
                figure.wide { (captioned(&chart)) }
            }
            (tables::comparisons(&section.comparisons).html())
        }
    }
}

fn group(group: &Group, open: bool) -> Markup {
    let mut tables = tables::group(group);
    let rounds = tables.pop();
    html! {
        article.card id=(group.id()) {
            h3 { (group.title()) }
            p.about { (group.description()) }
            (remarks(group))
            div.charts { @for chart in &chart::large(group) { figure { (captioned(chart)) } } }
            (panels(group))
            details open[open] { summary { "Tables" } @for table in &tables { (table.html()) } }
            @if let Some(rounds) = &rounds { details { summary { "Every round" } (rounds.html()) } }
        }
    }
}

fn captioned(chart: &Chart) -> Markup {
    html! {
        figcaption { (chart.what) @if !chart.note.is_empty() { small { (chart.note) } } }
        (chart)
    }
}

/// The warnings about the stores, shown before the charts.
fn remarks(group: &Group) -> Markup {
    let doubtful: Vec<(&str, Vec<String>)> = group
        .series
        .iter()
        .map(|series| (series.label.as_str(), series.doubts()))
        .filter(|(_, doubts)| !doubts.is_empty())
        .collect();
    html! { @if !doubtful.is_empty() { ul.remarks {
    @for (label, doubts) in &doubtful { li { strong { (label) } " " (doubts.join("; ")) } } } } }
}

fn panels(group: &Group) -> Markup {
    let panels = chart::small(group);
    html! { @if !panels.is_empty() { div.panels { @for panel in &panels { figure { (captioned(panel)) } } } } }
}

fn notes() -> Markup {
    html! {
        p {
            "Medians are over the rounds that ended well while the machine was in the state of most rows of the \
                measurement; rounds in another state are left out, "
            "and a store that was only measured in another state gets no ratio. Rounds that differ by more than 5% are \
                called noisy. "
            "Device figures are the kernel's where it counts, else the store's own. "
            "The ideal is the smaller of what the disk and what the processors allow to a cache that keeps the hottest \
                records in all of the budget. "
            "What each figure means stands in docs/benchmark.md."
        }
    }
}
