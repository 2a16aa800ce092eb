//! A table, as HTML and as Markdown.

use maud::{Markup, html};

/// The text of an unknown value.
const UNKNOWN: &str = "–";

/// Rows and columns of text.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) heads: Vec<Head>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// The head of a column.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) text: String,
    /// Numbers are right-aligned.
    pub(crate) number: bool,
}

/// A cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// Secondary text: on a line of its own, or in brackets.
    pub(crate) detail: Option<String>,
    /// Classes in the style sheet.
    pub(crate) class: &'static str,
    /// The colour's class of the named store.
    pub(crate) swatch: Option<&'static str>,
    /// The anchor in the page that it links to.
    pub(crate) link: Option<String>,
}

impl Head {
    /// The head of a column of words.
    pub(crate) fn words(text: impl Into<String>) -> Self {
        Head { text: text.into(), number: false }
    }

    /// The head of a column of numbers.
    pub(crate) fn number(text: impl Into<String>) -> Self {
        Head { text: text.into(), number: true }
    }
}

impl Cell {
    /// A cell with this text; `None` for an unknown value.
    pub(crate) fn new(text: Option<String>) -> Self {
        let class = if text.is_some() { "" } else { "unknown" };
        Cell { text: text.unwrap_or_else(|| UNKNOWN.to_owned()), class, ..Cell::default() }
    }

    /// Adds a class.
    pub(crate) fn class(self, class: &'static str) -> Self {
        Cell { class, ..self }
    }
}

impl Table {
    /// Removes the columns without known values.
    pub(crate) fn without_unknown_columns(mut self) -> Self {
        for column in (0..self.heads.len()).rev() {
            if self.rows.iter().all(|row| row[column].text == UNKNOWN || row[column].text.is_empty()) {
                self.heads.remove(column);
                self.rows.iter_mut().for_each(|row| {
                    row.remove(column);
                });
            }
        }
        self
    }

    /// The table as HTML. The first cell of a row is its head.
    pub(crate) fn html(&self) -> Markup {
        html! {
            div.table { table {
                caption { (self.caption) }
                thead { tr { @for head in &self.heads { th scope="col" class=[head.number.then_some("number")] {
                    (head.text) } } } }
                tbody { @for row in &self.rows { tr {
                    @for (position, (cell, head)) in row.iter().zip(&self.heads).enumerate() {
                        @if position == 0 { th scope="row" { (cell.html()) } }
                        @else { td class={ (if head.number { "number " } else { "" }) (cell.class) } { (cell.html()) } }
                    }
                } } }
            } }
        }
    }

    /// The table as Markdown, with the caption above.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("**{}**\n\n", escaped(&self.caption));
        text += &line(self.heads.iter().map(|head| escaped(&head.text)).collect());
        text += &line(self.heads.iter().map(|head| if head.number { "---:" } else { "---" }.to_owned()).collect());
        for row in &self.rows {
            text += &line(row.iter().map(Cell::markdown).collect());
        }
        text
    }
}

impl Cell {
    fn html(&self) -> Markup {
        html! {
            @if let Some(class) = self.swatch { span.store { span class={ "swatch " (class) } {} (self.text) } }
            @else if let Some(link) = &self.link { a href=(link) { (self.text) } }
            @else { (self.text) }
            @if let Some(detail) = &self.detail { small { (detail) } }
        }
    }

    fn markdown(&self) -> String {
        let detail = self.detail.as_ref().map_or(String::new(), |detail| format!(" ({detail})"));
        escaped(&(self.text.clone() + &detail))
    }
}

/// Escapes the text for Markdown.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '\n' | '\r' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' => escaped.extend(['\\', character]),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let cells =
            |texts: [&str; 3]| texts.map(|text| Cell::new((!text.is_empty()).then(|| text.to_owned()))).to_vec();
        let heads = vec![Head::words("store"), Head::number("speed"), Head::number("nothing")];
        Table { caption: "A|B".to_owned(), heads, rows: vec![cells(["tree", "1", ""]), cells(["<b>|x", "", ""])] }
    }

    #[test]
    fn a_column_of_unknown_values_goes() {
        let table = table().without_unknown_columns();
        assert_eq!(table.heads.len(), 2);
        assert!(table.rows.iter().all(|row| row.len() == 2));
    }

    #[test]
    fn text_is_no_markup() {
        let html = table().html().into_string();
        assert!(html.contains("&lt;b&gt;|x") && !html.contains("<b>"), "{html}");
        let markdown = table().without_unknown_columns().markdown();
        assert_eq!(markdown, "**A\\|B**\n\n| store | speed |\n| --- | ---: |\n| tree | 1 |\n| &lt;b>\\|x | – |\n");
    }
}
