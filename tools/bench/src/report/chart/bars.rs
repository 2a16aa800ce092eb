//! Horizontal bars, one for each store, with name and value above each.

use maud::{Markup, html};

use super::{
    axis::Axis,
    frame::{Chart, SMALL, label_width, px, shortened, text_width},
};
use crate::report::{
    figures::{Against, Figure},
    group::Group,
    palette,
    series::Series,
};

/// A mark beyond this many times the longest bar is written as text, not drawn.
const FAR: f64 = 3.0;
/// Space above the bars for the name of a mark.
const MARK: f64 = 18.0;

/// A chart of bars.
#[derive(Debug)]
pub(super) struct Bars {
    pub(super) width: f64,
    pub(super) bars: Vec<Bar>,
    /// The value that the axis reaches at least.
    pub(super) reach: f64,
    /// A reference value, drawn as a line, and its text.
    pub(super) mark: Option<(f64, String)>,
    /// Formats the tick labels, if there are ticks.
    pub(super) ticks: Option<fn(f64) -> String>,
}

/// A bar.
#[derive(Debug, Default)]
pub(super) struct Bar {
    pub(super) label: String,
    /// The colour's class.
    pub(super) class: &'static str,
    pub(super) value: Option<f64>,
    /// The smallest and largest value, if there are several.
    pub(super) range: Option<(f64, f64)>,
    /// The text at the right, and the text in the column beyond.
    pub(super) text: String,
    pub(super) aside: Option<String>,
    /// A short warning beside the label.
    pub(super) doubt: Option<String>,
    /// The text that replaces the bar.
    pub(super) instead: Option<String>,
    /// The whole content in words.
    pub(super) tip: String,
}

/// The measures of a chart: the font's size, the heights of a row and of its bar.
#[derive(Debug, Clone, Copy)]
struct Measures {
    font: f64,
    row: f64,
    bar: f64,
}

impl Bar {
    /// The largest value that is drawn.
    pub(super) fn end(&self) -> Option<f64> {
        self.range.map(|range| range.1).or(self.value)
    }
}

impl Bars {
    pub(super) fn size(&self) -> (f64, f64) {
        let foot = if self.ticks.is_some() { 18.0 } else { 2.0 };
        (self.width, self.top() + self.measures().row * self.bars.len() as f64 + foot)
    }

    /// The content in words.
    pub(super) fn description(&self) -> String {
        self.bars.iter().map(|bar| bar.tip.as_str()).collect::<Vec<_>>().join("; ")
    }

    /// Draws the bars.
    pub(super) fn body(&self) -> Markup {
        let axis = self.axis();
        let (measures, top) = (self.measures(), self.top());
        let bottom = top + measures.row * self.bars.len() as f64;
        html! {
            @if self.ticks.is_some() { (self.grid(&axis, top, bottom)) }
            @for (index, bar) in self.bars.iter().enumerate() {
                (self.bar(bar, &axis, top + measures.row * index as f64))
            }
            @if let Some((value, text)) = &self.mark { (self.mark(*value, text, &axis, bottom)) }
            @for (index, bar) in self.bars.iter().enumerate() { (self.words(bar, top + measures.row * index as f64)) }
        }
    }

    fn top(&self) -> f64 {
        if self.mark.is_some() { MARK } else { 0.0 }
    }

    fn measures(&self) -> Measures {
        if self.width > SMALL {
            Measures { font: 13.0, row: 40.0, bar: 13.0 }
        } else {
            Measures { font: 11.5, row: 31.0, bar: 8.0 }
        }
    }

    fn axis(&self) -> Axis {
        let longest = self.bars.iter().filter_map(Bar::end).fold(self.reach, f64::max);
        let mark = self.mark.as_ref().map(|mark| mark.0).filter(|mark| longest == 0.0 || *mark <= longest * FAR);
        Axis::linear(longest.max(mark.unwrap_or(0.0)), 4.0, self.ticks.unwrap_or(|_| String::new()))
    }

    /// The coordinate of a value; the last pixels are reserved for the caps of whiskers.
    fn x(&self, axis: &Axis, value: f64) -> f64 {
        axis.place(value, 1.0, self.width - 4.0)
    }

    fn grid(&self, axis: &Axis, top: f64, bottom: f64) -> Markup {
        html! { @for (value, text) in &axis.ticks {
            @let x = px(self.x(axis, *value));
            line.grid x1=(x) x2=(x) y1=(px(top)) y2=(px(bottom)) {}
            @let anchor = if *value == 0.0 { "start" }
                else if self.x(axis, *value) > self.width - 20.0 { "end" } else { "middle" };
            text.tick x=(x) y=(px(bottom + 14.0)) text-anchor=(anchor) { (text) }
        } }
    }

    fn bar(&self, bar: &Bar, axis: &Axis, top: f64) -> Markup {
        let Measures { row, bar: height, .. } = self.measures();
        let upper = top + row - height - 5.0;
        html! { g {
            title { (bar.tip) }
            @if let Some(value) = bar.value {
                @let width = self.x(axis, value) - 1.0;
                rect.bar.doubtful[bar.doubt.is_some()].(bar.class) x="1" y=(px(upper)) rx="1.5" width=(px(width))
                    height=(px(height)) {}
            }
            @if let Some(range) = bar.range { (self.whisker(range, axis, upper + height / 2.0)) }
        } }
    }

    /// Draws names and values above bars and marks.
    fn words(&self, bar: &Bar, top: f64) -> Markup {
        let Measures { font, row, .. } = self.measures();
        let (line, below) = (px(top + font + 1.0), px(top + row - 6.0));
        let after = 2.0 + label_width(&bar.label, font);
        let right = if self.bars.iter().any(|bar| bar.aside.is_some()) { self.width - 5.0 * font } else { self.width };
        let room = right - after - text_width(&bar.text, font) - 8.0;
        html! { g {
            title { (bar.tip) }
            text.label x="1" y=(line) font-size=(font) { (bar.label) }
            @if let Some(doubt) = &bar.doubt { text.doubt x=(px(after)) y=(line) font-size=(font - 2.0) {
                (shortened(doubt, font - 2.0, room)) } }
            text x=(px(right)) y=(line) font-size=(font) text-anchor="end" { (bar.text) }
            @if let Some(aside) = &bar.aside { text.label x=(px(self.width)) y=(line) font-size=(font)
                text-anchor="end" { (aside) } }
            @if let Some(instead) = &bar.instead { text.instead x="1" y=(below) font-size=(font - 1.5) {
                (shortened(instead, font - 1.5, self.width)) } }
        } }
    }

    fn whisker(&self, (low, high): (f64, f64), axis: &Axis, middle: f64) -> Markup {
        let (low, high) = (px(self.x(axis, low)), px(self.x(axis, high)));
        let cap = |x: &str| html! { line.whisker x1=(x) x2=(x) y1=(px(middle - 3.5)) y2=(px(middle + 3.5)) {} };
        html! { line.whisker x1=(low) x2=(high) y1=(px(middle)) y2=(px(middle)) {} (cap(&low)) (cap(&high)) }
    }

    /// Draws the mark across each bar. One line through all would cross the text.
    fn mark(&self, value: f64, text: &str, axis: &Axis, bottom: f64) -> Markup {
        let Measures { font, row, bar: height } = self.measures();
        let font = font - 1.0;
        if value > axis.high {
            return html! { text.mark x=(px(self.width)) y="11" font-size=(font) text-anchor="end" { (text) " →" } };
        }
        let (x, half) = (self.x(axis, value), text_width(text, font) / 2.0);
        let (at, anchor) = match x {
            x if x < half => (0.0, "start"),
            x if x + half > self.width => (self.width, "end"),
            x => (x, "middle"),
        };
        let drawn = self.bars.iter().rev().enumerate().filter(|(_, bar)| bar.instead.is_none());
        let rows = drawn.map(|(index, _)| bottom - row * index as f64 - 5.0);
        html! {
            @for lower in rows {
                rect.mark x=(px(x - 1.5)) width="3" y=(px(lower - height - 3.0)) height=(px(height + 6.0)) {}
            }
            text.mark x=(px(at)) y="11" font-size=(font) text-anchor=(anchor) { (text) }
        }
    }
}

/// A small chart of one figure, or nothing if no store of the group has it.
pub(super) fn panel(group: &Group, figure: &Figure, against: Against) -> Option<Chart> {
    let rivals = group.series.iter().filter(|series| series.store != palette::HARNESS && !series.counted().is_empty());
    let bars: Vec<Bar> = rivals.map(|series| small(series, figure)).collect();
    if bars.iter().all(|bar| bar.value.is_none()) {
        return None;
    }
    let mark = against(group).map(|(name, value)| (value, format!("{name} {}", (figure.show)(value))));
    let bars = Bars { width: SMALL, bars, reach: 0.0, mark, ticks: None };
    Some(Chart {
        size: bars.size(),
        what: figure.name.to_owned(),
        of: group.title(),
        note: "",
        description: bars.description(),
        body: bars.body(),
    })
}

fn small(series: &Series, figure: &Figure) -> Bar {
    let value = series.median(figure.value);
    let text = value.map_or("unknown".to_owned(), figure.show);
    let label = shortened(&series.label, 11.5, SMALL - 12.0 - text_width(&text, 11.5));
    let tip = format!("{}: {text}", series.label);
    Bar { label, class: palette::class(&series.store), value, text, tip, ..Bar::default() }
}
