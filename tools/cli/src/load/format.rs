//! The formats that `load` reads, chosen by the name of the input or by `--format`.

use std::path::Path;

use clap::{ValueEnum, builder::PossibleValue};

/// What the input holds, and whether it is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    /// What it holds.
    pub(crate) content: Content,
    /// Whether it is compressed with Zstandard, whatever its first bytes say.
    pub(crate) zstd: bool,
}

/// What the input holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Integers of 8 bytes, little-endian.
    Integers,
    /// Ascending integers as differences, summed modulo 2^64.
    Differences,
    /// A key a line.
    Lines,
    /// Key, tab, value, with the escapes of `dump`.
    Tsv,
}

impl Content {
    /// What one entry of the input is called in messages.
    pub(crate) fn entry(self) -> &'static str {
        match self {
            Content::Integers | Content::Differences => "integer",
            Content::Lines | Content::Tsv => "line",
        }
    }

    /// Whether it comes in lines.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Content::Lines | Content::Tsv)
    }
}

const ALL: [(&str, Format); 8] = [
    ("u64", Format { content: Content::Integers, zstd: false }),
    ("u64.zst", Format { content: Content::Integers, zstd: true }),
    ("du64", Format { content: Content::Differences, zstd: false }),
    ("du64.zst", Format { content: Content::Differences, zstd: true }),
    ("lines", Format { content: Content::Lines, zstd: false }),
    ("lines.zst", Format { content: Content::Lines, zstd: true }),
    ("tsv", Format { content: Content::Tsv, zstd: false }),
    ("tsv.zst", Format { content: Content::Tsv, zstd: true }),
];

impl Format {
    /// The format by the file extension; an unknown extension means lines.
    pub(crate) fn of(input: &Path) -> Self {
        let name = input.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let (stem, zstd) = name.strip_suffix(".zst").map_or((name.as_str(), false), |stem| (stem, true));
        let content = match Path::new(stem).extension().and_then(|extension| extension.to_str()) {
            Some("u64") => Content::Integers,
            Some("du64") => Content::Differences,
            Some("tsv") => Content::Tsv,
            _ => Content::Lines,
        };
        Format { content, zstd }
    }
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        const VARIANTS: [Format; 8] = [ALL[0].1, ALL[1].1, ALL[2].1, ALL[3].1, ALL[4].1, ALL[5].1, ALL[6].1, ALL[7].1];
        &VARIANTS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        ALL.iter().find(|(_, format)| format == self).map(|(name, _)| PossibleValue::new(*name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_formats() {
        let format =
            |name: &str| Format::of(Path::new(name)).to_possible_value().map(|value| value.get_name().to_owned());
        let cases = [
            ("a.u64", "u64"),
            ("a/b.u64.zst", "u64.zst"),
            ("a.du64.zst", "du64.zst"),
            ("a.TSV", "tsv"),
            ("a.tsv.zst", "tsv.zst"),
            ("a.txt", "lines"),
            ("a.zst", "lines.zst"),
            ("-", "lines"),
        ];
        for (name, wanted) in cases {
            assert_eq!(format(name).as_deref(), Some(wanted), "{name}");
        }
    }
}
