//! Options of an adaptive keyspace: its own, and those of its tables and pages.

use ecotone_lsm::{LsmOptions, Split};
use ecotone_substrate::{Error, Result};
use ecotone_tree::{PageFill, TreeOptions};

use super::{choice::Choice, insert::Insert};

/// Settings of the adaptive engine itself.
const OWN: [&str; 4] = ["adapt", "insert", "page_fill", "split"];
/// Settings of the pages. All others are settings of the tables.
const OF_PAGES: [&str; 6] = ["fill", "neighbours", "segment_pages", "model", "forecast", "record_cache"];

/// Options chosen when an adaptive keyspace is made, and kept in its checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdaptiveOptions {
    /// Percent of the time in which ranges are converted at most, without waits for a processor; 0 to follow hints
    /// only.
    pub adapt: u8,
    /// How records written to a range that is pages get into the pages.
    pub insert: Insert,
    /// How full its pages are.
    pub page_fill: PageFill,
    /// Whether one conversion to pages takes all visible table records of a range, or those of one run or level.
    pub split: Split,
    /// Options of the tables.
    pub lsm: LsmOptions,
    /// Options of the pages and of the record cache.
    pub tree: TreeOptions,
}

/// Percent of the time: default and maximum.
const ADAPT: u8 = 66;
pub(super) const MOST_ADAPT: u8 = 100;

impl Default for AdaptiveOptions {
    fn default() -> AdaptiveOptions {
        AdaptiveOptions {
            adapt: ADAPT,
            insert: Insert::default(),
            page_fill: PageFill::default(),
            split: Split::default(),
            lsm: LsmOptions::default(),
            tree: TreeOptions::default(),
        }
    }
}

impl AdaptiveOptions {
    /// Parses the settings by name; options that they do not name keep their defaults.
    ///
    /// # Errors
    /// If there is no such option, or it cannot have that value.
    pub fn parse(settings: &[(String, String)]) -> Result<Self> {
        let (own, others): (Vec<_>, Vec<_>) =
            settings.iter().cloned().partition(|(name, _)| OWN.contains(&name.as_str()));
        let (tree, lsm): (Vec<_>, Vec<_>) = others.into_iter().partition(|(name, _)| OF_PAGES.contains(&name.as_str()));
        let parts =
            AdaptiveOptions { lsm: LsmOptions::parse(&lsm)?, tree: TreeOptions::parse(&tree)?, ..Self::default() };
        own.iter().try_fold(parts, |options, (name, value)| match name.as_str() {
            "adapt" => Ok(AdaptiveOptions { adapt: percent(value)?, ..options }),
            "page_fill" => Ok(AdaptiveOptions { page_fill: PageFill::parse(value)?, ..options }),
            "split" => Ok(AdaptiveOptions { split: Split::parse(value)?, ..options }),
            _ => Ok(AdaptiveOptions { insert: Insert::parse(value)?, ..options }),
        })
    }
}

fn percent(value: &str) -> Result<u8> {
    let percent = value.parse().ok().filter(|percent| *percent <= MOST_ADAPT);
    percent.ok_or_else(|| {
        Error::Invalid(format!("the option adapt is a percentage from 0 to {MOST_ADAPT}, not {value:?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_go_to_the_part_that_knows_them() {
        let set = |name: &str, value: &str| AdaptiveOptions::parse(&[(name.to_owned(), value.to_owned())]);
        assert_eq!(set("fill", "75").unwrap().tree.fill, 75);
        assert_eq!(set("filter_bits", "4").unwrap().lsm.filter_bits, 4);
        assert_eq!((set("adapt", "0").unwrap().adapt, set("fill", "75").unwrap().adapt), (0, 66));
        let insert = |value| set("insert", value).map(|options| options.insert);
        assert_eq!((insert("tree").unwrap(), set("fill", "75").unwrap().insert), (Insert::Tree, Insert::Auto));
        assert!(insert("pages").is_err() && set("split", "up").is_err() && set("page_fill", "90").is_err());
        let ways = |options: AdaptiveOptions| (options.split, options.page_fill);
        assert_eq!(ways(set("split", "down").unwrap()), (Split::Down, PageFill::Even));
        assert_eq!(ways(set("page_fill", "spread").unwrap()), (Split::Side, PageFill::Spread));
        assert!(["101", "x", "-1"].iter().all(|value| set("adapt", value).is_err()));
        assert!(set("fill", "101").is_err() && set("speed", "9").is_err());
    }
}
