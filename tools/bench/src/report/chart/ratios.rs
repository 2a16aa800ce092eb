//! A chart of throughput relative to one store: a panel for each measurement, side by side.

use maud::{Markup, html};

use super::{
    bars::{Bar, Bars},
    frame::{Chart, px, shortened, text_width},
    throughput::failed,
};
use crate::{
    report::{group::Group, number, palette, series::Series},
    row::record::RowRecord,
    statistics,
};

/// The largest number of panels side by side.
const COLUMNS: usize = 4;
/// Width of a panel, and the space between two.
const PANEL: f64 = 205.0;
const GAP: f64 = 26.0;
/// Height of a panel's heading, and its font sizes.
const HEAD: f64 = 34.0;
const FONT: f64 = 13.0;
const SMALL_FONT: f64 = 11.0;

/// A figure of a row.
type Figure = fn(&RowRecord) -> Option<f64>;

/// Draws the ratios to one store for each measurement that has them; `None` if there is none. The load before a
/// measurement has a panel of its own, unless loads were measured as a workload.
pub(crate) fn ratios(groups: &[Group], base: &str) -> Option<Chart> {
    let measured = groups.iter().filter_map(|group| Panel::new(workload(group), group, RowRecord::throughput, base));
    let mut panels: Vec<Panel> = measured.collect();
    if !groups.iter().any(|group| group.parameters.workload.as_deref() == Some("load")) {
        panels.extend(groups.iter().find_map(|group| Panel::new("load".to_owned(), group, load_rate, base)));
    }
    let reach = panels.iter().flat_map(|panel| &panel.bars.bars).filter_map(Bar::end).fold(1.0, f64::max);
    panels.iter_mut().for_each(|panel| panel.bars.reach = reach);
    (!panels.is_empty()).then(|| chart(&panels, base))
}

fn chart(panels: &[Panel], base: &str) -> Chart {
    let columns = panels.len().div_ceil(panels.len().div_ceil(COLUMNS)).max(2);
    let shared = shared(panels);
    let (mut top, mut rows) = (HEAD, Vec::new());
    for row in panels.chunks(columns) {
        rows.push((top, row));
        top += row.iter().map(|panel| panel.bars.size().1).fold(0.0, f64::max) + HEAD + 12.0;
    }
    let body = html! {
        @for (top, row) in &rows { @for (column, panel) in row.iter().enumerate() {
            g transform={ "translate(" (px((PANEL + GAP) * column as f64)) " " (px(*top)) ")" } {
                (panel.body(&shared))
            }
        } }
    };
    let words: Vec<String> = panels.iter().map(|panel| panel.in_words(&shared)).collect();
    Chart {
        size: ((PANEL + GAP) * columns as f64 - GAP, top - HEAD - 12.0),
        what: format!("Throughput relative to {base}"),
        of: shared.join(" · "),
        note: "medians, whiskers over the rounds; longer is faster",
        description: words.join(". "),
        body,
    }
}

/// The parameters that all panels have.
fn shared(panels: &[Panel]) -> Vec<String> {
    let (first, others) = panels.split_first().expect("a chart has a panel");
    first.labels.iter().filter(|label| others.iter().all(|panel| panel.labels.contains(label))).cloned().collect()
}

/// The ratios of one measurement.
struct Panel {
    name: String,
    /// The parameters, in words.
    labels: Vec<String>,
    bars: Bars,
}

impl Panel {
    /// `None` if the measurement does not have both this store and another one.
    fn new(name: String, group: &Group, figure: Figure, base: &str) -> Option<Self> {
        let divided = group.series.iter().find(|series| series.store == base && series.comparable())?;
        let divisor = divided.median(figure).filter(|value| *value > 0.0)?;
        let rivals = group.series.iter().filter(|series| series.store != palette::HARNESS);
        let bars: Vec<Bar> = rivals.map(|series| bar(series, figure, divisor)).collect();
        if bars.iter().filter(|bar| bar.value.is_some()).count() < 2 {
            return None;
        }
        let labels = labels(group, &name);
        Some(Panel {
            name,
            labels,
            bars: Bars { width: PANEL, bars, reach: 0.0, mark: Some((1.0, "1×".to_owned())), ticks: None },
        })
    }

    /// Draws the heading above the origin, the bars below.
    fn body(&self, shared: &[String]) -> Markup {
        html! {
            text.label x="1" y=(px(14.0 - HEAD)) font-size=(FONT) { (shortened(&self.name, FONT, PANEL)) }
            text.tick x="1" y=(px(29.0 - HEAD)) font-size=(SMALL_FONT) {
                (shortened(&self.own(shared), SMALL_FONT, PANEL)) }
            (self.bars.body())
        }
    }

    /// The parameters that other panels do not have.
    fn own(&self, shared: &[String]) -> String {
        let own = self.labels.iter().filter(|label| !shared.contains(label));
        own.map(String::as_str).collect::<Vec<_>>().join(" · ")
    }

    fn in_words(&self, shared: &[String]) -> String {
        let own = self.own(shared);
        let own = if own.is_empty() { own } else { format!(" ({own})") };
        format!("{}{own}: {}", self.name, self.bars.description())
    }
}

fn bar(series: &Series, figure: Figure, divisor: f64) -> Bar {
    if let Some(failed) = failed(series) {
        return failed;
    }
    let value = series.median(figure).filter(|_| series.comparable()).map(|value| value / divisor);
    let range = statistics::range(series.counted().into_iter().filter_map(figure))
        .map(|(low, high)| (low / divisor, high / divisor))
        .filter(|(low, high)| value.is_some() && low < high);
    let text = value.map_or("unknown".to_owned(), number::times);
    let ends =
        range.map_or(String::new(), |(low, high)| format!(", from {} to {}", number::times(low), number::times(high)));
    let label = shortened(&series.label, 11.5, PANEL - 12.0 - text_width(&text, 11.5));
    let tip = format!("{}: {text}{ends}", series.label);
    let doubt = series.trouble().map(str::to_owned);
    Bar { label, class: palette::class(&series.store), value, range, text, doubt, tip, ..Bar::default() }
}

fn load_rate(row: &RowRecord) -> Option<f64> {
    row.load.as_ref()?.ops_per_second
}

/// The workload in words.
fn workload(group: &Group) -> String {
    let name = match group.parameters.workload.as_deref().unwrap_or("(no workload)") {
        "a" => "A: half updates",
        "b" => "B: few updates",
        "c" => "C: reads",
        "d" => "D: reads of the newest",
        "e" => "E: scans",
        "f" => "F: half read-modify-writes",
        other => other,
    };
    name.to_owned()
}

/// The parameters in words. The distribution of a load says nothing.
fn labels(group: &Group, name: &str) -> Vec<String> {
    let first = match &group.parameters.cell {
        Some(_) => group.title(),
        None => group.distribution(),
    };
    let first = Some(first).filter(|first| name != "load" && !first.is_empty());
    first.into_iter().chain(group.labels()).collect()
}
