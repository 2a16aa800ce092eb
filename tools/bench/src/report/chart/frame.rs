//! The frame of a chart, in a page and in a file, and the sizes of what it holds.

use maud::{Markup, PreEscaped, Render, html};

/// Width of a chart when two stand side by side on a wide screen.
pub(super) const WIDTH: f64 = 440.0;
/// Width of a chart when four stand side by side.
pub(super) const SMALL: f64 = 220.0;
/// Mean width of a letter, as a multiple of the font's size.
const GLYPH: f64 = 0.6;
/// Space around a chart in a file.
const MARGIN: f64 = 14.0;
/// The rules that charts need, in a page and in a file.
pub(crate) const STYLE: &str = include_str!("style.css");

/// A chart.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(super) size: (f64, f64),
    pub(crate) what: String,
    /// The measurement; empty if there are several that share nothing.
    pub(super) of: String,
    /// How to read the chart; empty if that is obvious.
    pub(crate) note: &'static str,
    /// The whole content in words, for screen readers.
    pub(super) description: String,
    pub(super) body: Markup,
}

/// A line above a chart in a file.
#[derive(Debug)]
struct Heading {
    class: &'static str,
    font: f64,
    baseline: f64,
    text: String,
}

/// The chart in a page, which has the style and a caption.
impl Render for Chart {
    fn render(&self) -> Markup {
        self.svg((0.0, 0.0), self.size, None, &self.body)
    }
}

impl Chart {
    /// The chart as a file of its own, with style, background and heading.
    pub(crate) fn file(&self) -> String {
        let heading = self.heading();
        let head = heading.last().map_or(0.0, |line| line.baseline) + 14.0;
        let origin = (-MARGIN, -head - MARGIN);
        let size = (self.size.0 + 2.0 * MARGIN, head + self.size.1 + 2.0 * MARGIN);
        let body = html! {
            style { (PreEscaped(STYLE)) }
            rect.background x=(px(origin.0)) y=(px(origin.1)) width=(px(size.0)) height=(px(size.1)) rx="8" {}
            @for line in &heading {
                text.(line.class) x="0" y=(px(line.baseline - head)) font-size=(line.font) { (line.text) }
            }
            (self.body)
        };
        self.svg(origin, size, Some(size), &body).into_string() + "\n"
    }

    /// The lines above the chart in a file.
    fn heading(&self) -> Vec<Heading> {
        let (mut baseline, mut lines) = (-3.0, Vec::new());
        for (class, font, words) in [("label", 13.0, &*self.what), ("tick", 12.0, &self.of), ("tick", 11.0, self.note)]
        {
            for text in wrapped(words, font, self.size.0) {
                baseline += font * 1.35;
                lines.push(Heading { class, font, baseline, text });
            }
        }
        lines
    }

    /// SVG of the part of the plane with this origin and size. Without a `shown` size it is as wide as its place.
    fn svg(&self, (x, y): (f64, f64), (width, height): (f64, f64), shown: Option<(f64, f64)>, body: &Markup) -> Markup {
        let [wide, high] = [shown.map(|shown| px(shown.0)), shown.map(|shown| px(shown.1))];
        let view = [x, y, width, height].map(px).join(" ");
        html! {
            svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox=(view) width=[wide] height=[high] {
                title { (self.title()) }
                desc { (self.description) }
                (body)
            }
        }
    }

    fn title(&self) -> String {
        if self.of.is_empty() { self.what.clone() } else { format!("{}: {}", self.what, self.of) }
    }
}

/// A coordinate to a tenth of a pixel.
pub(super) fn px(coordinate: f64) -> String {
    let tenths = (coordinate * 10.0).round() / 10.0;
    // Adding zero turns -0 into 0.
    format!("{}", tenths + 0.0)
}

/// The estimated width of a text. The browser chooses the font, so the estimate is high.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * GLYPH
}

/// The estimated width of a bold text, with the gap to its neighbour.
pub(super) fn label_width(text: &str, size: f64) -> f64 {
    text_width(text, size) * 1.12 + size / 2.0
}

/// Splits a text into lines that fit a width.
fn wrapped(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line, size) + text_width(word, size) + size <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(shortened(word, size, width)),
        }
    }
    lines
}

/// Shortens a text to fit a width.
pub(super) fn shortened(text: &str, size: f64, width: f64) -> String {
    let fits = (width / (size * GLYPH)).max(1.0) as usize;
    if text.chars().count() <= fits {
        return text.to_owned();
    }
    let kept: String = text.chars().take(fits.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_wrapped_or_shortened() {
        assert_eq!(wrapped("one two three", 10.0, 70.0), ["one two", "three"]);
        assert_eq!(wrapped("seventeen_letters a", 10.0, 60.0), ["seventeen…", "a"]);
        assert_eq!(wrapped("", 10.0, 60.0), [""; 0]);
        assert_eq!(shortened("ten letter", 10.0, 60.0), "ten letter");
    }
}
