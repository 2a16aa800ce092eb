//! Lines over two axes, each with its name beside its end.

use std::fmt::Write;

use maud::{Markup, html};

use super::{
    axis::Axis,
    frame::{Chart, WIDTH, label_width, px, text_width},
    spread::spread,
};

const HEIGHT: f64 = 290.0;
const FONT: f64 = 12.0;
/// Height of the horizontal axis.
const FOOT: f64 = 24.0;
/// Space for the labels at the upper end of lines.
const HEAD: f64 = 38.0;
/// Height of a row of the legend, and the width of its piece of a line.
const ROW: f64 = 18.0;
const PIECE: f64 = 22.0;

/// A chart of lines.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) what: &'static str,
    pub(super) of: String,
    pub(super) note: &'static str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
    /// A reference level, and its text.
    pub(super) level: Option<(f64, String)>,
    pub(super) ends: Ends,
}

/// The side of the chart at which lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Top,
    Right,
}

/// A line.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) label: String,
    /// The colour's class.
    pub(super) class: &'static str,
    /// In the coordinates of the axes; not empty.
    pub(super) points: Vec<(f64, f64)>,
    /// The content in words.
    pub(super) tip: String,
}

/// The edges of the area in which lines are drawn.
#[derive(Debug, Clone, Copy)]
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Plot {
    /// Draws the chart, with a legend below if the names do not fit beside the lines.
    pub(super) fn chart(&self) -> Chart {
        let area = self.area();
        let (names, foot) = self.labels(area).map_or_else(|| self.legend(), |labels| (labels, 0.0));
        let tips: Vec<&str> = self.lines.iter().map(|line| line.tip.as_str()).collect();
        let body = html! {
            (self.grid(area))
            @for (index, line) in self.lines.iter().enumerate() { (self.line(index, line, area)) }
            @if let Some((level, text)) = &self.level { (self.level(*level, text, area)) }
            (names)
        };
        Chart {
            size: (WIDTH, HEIGHT + foot),
            what: self.what.to_owned(),
            of: self.of.clone(),
            note: self.note,
            description: tips.join("; "),
            body,
        }
    }

    fn area(&self) -> Area {
        let widest =
            |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| text_width(text, FONT)).fold(0.0, f64::max);
        let left = widest(&mut self.y.ticks.iter().map(|tick| &tick.1)) + 6.0;
        let (top, right) = match self.ends {
            Ends::Top => (HEAD, 8.0),
            Ends::Right => {
                (10.0, self.lines.iter().map(|line| label_width(&line.label, FONT)).fold(0.0, f64::max) + 12.0)
            }
        };
        Area { left, right: WIDTH - right, top, bottom: HEIGHT - FOOT }
    }

    fn place(&self, (x, y): (f64, f64), area: Area) -> (f64, f64) {
        (self.x.place(x, area.left, area.right), self.y.place(y, area.bottom, area.top))
    }

    fn grid(&self, area: Area) -> Markup {
        html! {
            @for (value, text) in &self.y.ticks {
                @let y = self.place((0.0, *value), area).1;
                line.grid x1=(px(area.left)) x2=(px(area.right)) y1=(px(y)) y2=(px(y)) {}
                text.tick x=(px(area.left - 6.0)) y=(px(y + 4.0)) text-anchor="end" { (text) }
            }
            @for (value, text) in &self.x.ticks {
                @let x = self.place((*value, 0.0), area).0;
                line.grid x1=(px(x)) x2=(px(x)) y1=(px(area.top)) y2=(px(area.bottom)) {}
                @let half = text_width(text, FONT) / 2.0;
                text.tick x=(px(x.min(WIDTH - half))) y=(px(area.bottom + 17.0)) text-anchor="middle" { (text) }
            }
        }
    }

    fn level(&self, level: f64, text: &str, area: Area) -> Markup {
        let y = self.place((0.0, level), area).1;
        html! {
            line.mark.level x1=(px(area.left)) x2=(px(area.right)) y1=(px(y)) y2=(px(y)) {}
            text.mark x=(px(area.left + 6.0)) y=(px(y - 5.0)) font-size=(FONT) { (text) }
        }
    }

    fn line(&self, index: usize, line: &Line, area: Area) -> Markup {
        let mut path = String::new();
        for (number, point) in line.points.iter().enumerate() {
            let (x, y) = self.place(*point, area);
            // Writing into a string cannot fail.
            let _ = write!(path, "{}{} {}", if number == 0 { "M" } else { "L" }, px(x), px(y));
        }
        html! { path.line.(line.class) d=(path) stroke-dasharray=[self.dash(index)] { title { (line.tip) } } }
    }

    /// Lines of the same colour differ in their dashes.
    fn dash(&self, index: usize) -> Option<&'static str> {
        let before = self.lines[..index].iter().filter(|other| other.class == self.lines[index].class).count();
        let dashes = ["", "6 3", "2 3", "8 3 2 3"];
        (before > 0).then(|| dashes[before % dashes.len()])
    }

    /// Draws the names beside the ends of the lines; `None` if they do not all fit.
    fn labels(&self, area: Area) -> Option<Markup> {
        let ends: Vec<(f64, f64)> =
            self.lines.iter().map(|line| self.place(*line.points.last().unwrap_or(&(0.0, 0.0)), area)).collect();
        let wanted = ends.iter().zip(&self.lines);
        let places = match self.ends {
            Ends::Top => {
                let sizes: Vec<(f64, f64)> =
                    wanted.map(|(end, line)| (end.0, label_width(&line.label, FONT))).collect();
                spread(&sizes, 0.0, WIDTH)?
            }
            Ends::Right => spread(&wanted.map(|(end, _)| (end.1, FONT + 2.0)).collect::<Vec<_>>(), 0.0, area.bottom)?,
        };
        let labels = self.lines.iter().zip(ends).zip(places);
        Some(html! { @for ((line, end), place) in labels { (self.label(line, end, place, area)) } })
    }

    /// Draws a name, and a thin line that connects it with the end of its line.
    fn label(&self, line: &Line, (x, y): (f64, f64), place: f64, area: Area) -> Markup {
        let (to, at, anchor) = match self.ends {
            Ends::Top => ((place, area.top - 21.0), (place, area.top - 25.0), "middle"),
            Ends::Right => ((area.right + 10.0, place), (area.right + 13.0, place + 4.0), "start"),
        };
        html! {
            path.leader.(line.class) d={ "M" (px(x)) " " (px(y)) "L" (px(to.0)) " " (px(to.1)) } {}
            text.label x=(px(at.0)) y=(px(at.1)) font-size=(FONT) text-anchor=(anchor) { (line.label) }
        }
    }

    /// Draws the names in rows below the chart, each behind a piece of its line; also gives the height of the rows.
    fn legend(&self) -> (Markup, f64) {
        let (mut x, mut row, mut places) = (0.0, 1.0, Vec::new());
        for line in &self.lines {
            let width = PIECE + label_width(&line.label, FONT) + 10.0;
            if x > 0.0 && x + width > WIDTH {
                (x, row) = (0.0, row + 1.0);
            }
            places.push((x, HEIGHT + ROW * row));
            x += width;
        }
        let names = html! { @for (index, (line, (x, y))) in self.lines.iter().zip(places).enumerate() {
            path.line.(line.class) d={ "M" (px(x)) " " (px(y - 4.0)) "h" (px(PIECE - 6.0)) }
                stroke-dasharray=[self.dash(index)] {}
            text.label x=(px(x + PIECE)) y=(px(y)) font-size=(FONT) { (line.label) }
        } };
        (names, ROW * row + 4.0)
    }
}
