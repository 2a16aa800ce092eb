//! Options of a tree keyspace.

use std::ops::RangeInclusive;

use ecotone_substrate::{Error, Result};

const FILL: RangeInclusive<u8> = 50..=100;
const NEIGHBOURS: RangeInclusive<u8> = 0..=16;

/// What can be chosen when a tree is made; kept in its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeOptions {
    /// Percent of a page that reorganisation and bulk load fill, 50..=100. Less leaves room for inserts, more packs cold data. Default 90.
    pub fill: u8,
    /// Segments that a reorganisation may take along on each side, 0..=16 (r of TreeLine). Default 5.
    pub neighbours: u8,
}

impl Default for TreeOptions {
    fn default() -> Self {
        TreeOptions { fill: 90, neighbours: 5 }
    }
}

impl TreeOptions {
    /// Whether they are within their ranges, also when they come from disk.
    pub(crate) fn are_valid(self) -> bool {
        FILL.contains(&self.fill) && NEIGHBOURS.contains(&self.neighbours)
    }

    /// The options that settings by name ask for; what they do not name keeps its default.
    pub fn parse(settings: &[(String, String)]) -> Result<Self> {
        let mut options = TreeOptions::default();
        for (name, value) in settings {
            match name.as_str() {
                "fill" => options.fill = number(name, value, FILL)?,
                "neighbours" => options.neighbours = number(name, value, NEIGHBOURS)?,
                _ => return Err(Error::Invalid(format!("the tree engine has no option {name:?}; it has fill and neighbours"))),
            }
        }
        Ok(options)
    }
}

fn number(name: &str, value: &str, range: RangeInclusive<u8>) -> Result<u8> {
    let (least, most) = (*range.start(), *range.end());
    let parsed = value.parse().ok().filter(|number| range.contains(number));
    parsed.ok_or_else(|| Error::Invalid(format!("the option {name} is {value:?}, and must be a number from {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use super::TreeOptions;

    #[test]
    fn settings_are_read_and_checked() {
        let set = |name: &str, value: &str| TreeOptions::parse(&[(name.to_owned(), value.to_owned())]);
        assert_eq!(set("fill", "75").unwrap().fill, 75);
        assert_eq!(set("neighbours", "0").unwrap().neighbours, 0);
        for (name, value) in [("fill", "101"), ("fill", "x"), ("neighbours", "-1"), ("speed", "9")] {
            assert!(set(name, value).unwrap_err().to_string().contains(name));
        }
    }
}
