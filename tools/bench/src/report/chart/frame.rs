//! The frame of a chart, and the sizes of what it holds.

use maud::{Markup, html};

/// Width of a chart when two stand side by side on a wide screen.
pub(super) const WIDTH: f64 = 440.0;
/// Width of a chart when four stand side by side.
pub(super) const SMALL: f64 = 220.0;
/// Mean width of a letter, as a multiple of the font's size.
const GLYPH: f64 = 0.6;

/// A chart with a title and a description in words for screen readers.
pub(super) fn frame((width, height): (f64, f64), title: &str, description: &str, body: Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox={ "0 0 " (px(width)) " " (px(height)) } {
            title { (title) }
            desc { (description) }
            (body)
        }
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

/// Shortens a text to fit a width.
pub(super) fn shortened(text: &str, size: f64, width: f64) -> String {
    let fits = (width / (size * GLYPH)).max(1.0) as usize;
    if text.chars().count() <= fits {
        return text.to_owned();
    }
    let kept: String = text.chars().take(fits.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}
