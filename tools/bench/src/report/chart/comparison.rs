//! A chart of a paper's ratios beside the measured ones.

use maud::{Markup, html};

use super::{
    axis::Axis,
    frame::{Chart, px, shortened, text_width},
};
use crate::{report::number, row::record::ComparisonRecord, statistics};

/// Wider than other charts, because names of cells are long.
const WIDTH: f64 = 520.0;
const FONT: f64 = 12.0;
const ROW: f64 = 36.0;
/// Height of the legend.
const LEGEND: f64 = 24.0;
/// Width of a ratio and its name.
const COLUMN: f64 = 88.0;

/// Draws, for each comparison with a paper, a line from its ratio to ours on a logarithmic axis; `None` if there is no
/// comparison.
pub(crate) fn comparisons(section: &str, comparisons: &[ComparisonRecord]) -> Option<Chart> {
    let shown: Vec<&ComparisonRecord> =
        comparisons.iter().filter(|comparison| comparison.paper_ratio.is_some()).collect();
    let (low, high) = statistics::range(shown.iter().flat_map(|comparison| ratios(comparison)))?;
    let axis = Axis::logarithmic((low.min(1.0), high.max(1.0)), |ratio| format!("{}×", number::tick(ratio)));
    let bottom = LEGEND + ROW * shown.len() as f64;
    let body = html! {
        (legend())
        @for (value, text) in &axis.ticks { (tick(x(&axis, *value), text, *value == 0.0, bottom)) }
        @for (index, comparison) in shown.iter().enumerate() { (row(comparison, &axis, LEGEND + ROW * index as f64)) }
    };
    let words: Vec<String> = shown.iter().map(|comparison| in_words(comparison)).collect();
    Some(Chart {
        size: (WIDTH, bottom + 20.0),
        what: "Ratios in the paper and here".to_owned(),
        of: section.to_owned(),
        note: "ours divided by theirs, logarithmic",
        description: words.join("; "),
        body,
    })
}

fn legend() -> Markup {
    html! {
        circle.paper cx="6" cy="9" r="4.5" {}
        text x="16" y="13" { "paper" }
        circle.here cx="76" cy="9" r="4.5" {}
        text x="86" y="13" { "here" }
    }
}

/// The ratios that can be drawn.
fn ratios(comparison: &ComparisonRecord) -> impl Iterator<Item = f64> {
    [comparison.paper_ratio, comparison.our_ratio].into_iter().flatten().filter(|ratio| *ratio > 0.0)
}

fn x(axis: &Axis, logarithm: f64) -> f64 {
    axis.place(logarithm, 6.0, WIDTH - 6.0)
}

fn tick(x: f64, text: &str, even: bool, bottom: f64) -> Markup {
    let half = text_width(text, FONT) / 2.0;
    html! {
        line.grid.even[even] x1=(px(x)) x2=(px(x)) y1=(px(LEGEND)) y2=(px(bottom)) {}
        text.tick x=(px(x.clamp(half, WIDTH - half))) y=(px(bottom + 15.0)) text-anchor="middle" { (text) }
    }
}

fn row(comparison: &ComparisonRecord, axis: &Axis, top: f64) -> Markup {
    let cell = name(comparison);
    let words = [("paper", comparison.paper_ratio), ("here", comparison.our_ratio)]
        .map(|(name, ratio)| format!("{name} {}", ratio.map_or("–".to_owned(), number::times)));
    let place = |ratio: Option<f64>| ratio.filter(|ratio| *ratio > 0.0).map(|ratio| x(axis, ratio.log10()));
    let (paper, ours, middle) = (place(comparison.paper_ratio), place(comparison.our_ratio), px(top + 26.0));
    html! { g {
        title { (in_words(comparison)) }
        text.label x="0" y=(px(top + 13.0)) font-size=(FONT) { (shortened(&cell, FONT, WIDTH - 2.0 * COLUMN - 8.0)) }
        @for (value, right) in words.iter().zip([WIDTH - COLUMN, WIDTH]) {
            text x=(px(right)) y=(px(top + 13.0)) font-size=(FONT) text-anchor="end" { (value) }
        }
        @if let (Some(paper), Some(ours)) = (paper, ours) { line.span x1=(px(paper)) x2=(px(ours)) y1=(middle)
            y2=(middle) {} }
        @if let Some(paper) = paper { circle.paper cx=(px(paper)) cy=(middle) r="4.5" {} }
        @if let Some(ours) = ours { circle.here cx=(px(ours)) cy=(middle) r="4.5" {} }
    } }
}

fn in_words(comparison: &ComparisonRecord) -> String {
    let show = |ratio: Option<f64>| ratio.map_or("unknown".to_owned(), number::times);
    let cell = name(comparison);
    format!("{cell}: paper {}, here {}", show(comparison.paper_ratio), show(comparison.our_ratio))
}

fn name(comparison: &ComparisonRecord) -> String {
    let metric = comparison.metric();
    let metric = if metric == "throughput" { String::new() } else { format!(", {metric}") };
    format!("{}: {}{metric}", comparison.cell.as_deref().unwrap_or("(no cell)"), comparison.sides())
}
