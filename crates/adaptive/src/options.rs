//! Options of an adaptive keyspace: its own, and those of its tables and pages.

use ecotone_engine::options::{self, EngineOptions};
use ecotone_lsm::{LsmOptions, Split};
use ecotone_substrate::{Error, Result};
use ecotone_tree::{PageFill, TreeOptions};

use super::insert::Insert;

/// Options of the adaptive engine: tables in levels, and pages below them where scans pay for them. They are fixed when
/// a keyspace is created, and [`check`](Self::check)ed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct AdaptiveOptions {
    /// The most percent of time that is spent on converting ranges, without waits for a processor, 0 to 100. Default
    /// 66. 0 turns adaptation off, and hints may use all of the time.
    pub adapt: u8,
    /// How writes reach a range that has only pages. Default [`Insert::Auto`].
    pub insert: Insert,
    /// How full pages are. Default [`PageFill::Even`].
    pub page_fill: PageFill,
    /// How much of a range is converted to pages at once. Default [`Split::Side`].
    pub split: Split,
    /// The options of the tables.
    pub lsm: LsmOptions,
    /// The options of the pages and of the record cache.
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
    /// Sets [`adapt`](field@Self::adapt).
    pub fn adapt(self, percent: u8) -> Self {
        AdaptiveOptions { adapt: percent, ..self }
    }

    /// Sets [`insert`](field@Self::insert).
    pub fn insert(self, insert: Insert) -> Self {
        AdaptiveOptions { insert, ..self }
    }

    /// Sets [`page_fill`](field@Self::page_fill).
    pub fn page_fill(self, page_fill: PageFill) -> Self {
        AdaptiveOptions { page_fill, ..self }
    }

    /// Sets [`split`](field@Self::split).
    pub fn split(self, split: Split) -> Self {
        AdaptiveOptions { split, ..self }
    }

    /// Sets [`lsm`](field@Self::lsm).
    pub fn lsm(self, tables: LsmOptions) -> Self {
        AdaptiveOptions { lsm: tables, ..self }
    }

    /// Sets [`tree`](field@Self::tree).
    pub fn tree(self, pages: TreeOptions) -> Self {
        AdaptiveOptions { tree: pages, ..self }
    }

    /// Sets an option of the engine, of its tables or of its pages by its name, for tools. The names are those of the
    /// fields of the three option types.
    ///
    /// # Errors
    /// If there is no such option, or the value is out of its range.
    pub fn set(self, name: &str, value: &str) -> Result<Self> {
        EngineOptions::set(self, name, value)
    }

    /// Checks that each option is in its range.
    ///
    /// # Errors
    /// If one is not; the error names it and the range.
    pub fn check(&self) -> Result<()> {
        EngineOptions::check(self)
    }
}

impl EngineOptions for AdaptiveOptions {
    fn set(mut self, name: &str, value: &str) -> Result<Self> {
        let knows = |values: Vec<(&str, String)>| values.iter().any(|(known, _)| *known == name);
        match name {
            "adapt" => self.adapt = percent(value)?,
            "insert" => self.insert = value.parse()?,
            "page_fill" => self.page_fill = value.parse()?,
            "split" => self.split = value.parse()?,
            _ if knows(self.lsm.values()) => self.lsm = self.lsm.set(name, value)?,
            _ if knows(self.tree.values()) => self.tree = self.tree.set(name, value)?,
            _ => return Err(options::unknown("adaptive", name, &self.values())),
        }
        Ok(self)
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        let own = vec![
            ("adapt", self.adapt.to_string()),
            ("insert", self.insert.to_string()),
            ("page_fill", self.page_fill.to_string()),
            ("split", self.split.to_string()),
        ];
        [own, self.lsm.values(), self.tree.values()].concat()
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
        assert!(set("fill", "101").is_err());
        let unknown = set("speed", "9").unwrap_err().to_string();
        assert!(unknown.starts_with("the adaptive engine has no option \"speed\"; it has adapt,"), "{unknown}");
        assert!(unknown.contains("filter_bits") && unknown.ends_with("forecast and record_cache"), "{unknown}");
    }

    #[test]
    fn each_value_has_a_name_and_a_number_on_disk() {
        for (number, split) in Split::ALL.into_iter().enumerate() {
            assert_eq!((split.name().parse::<Split>().unwrap(), split as usize), (split, number));
        }
        for (number, page_fill) in PageFill::ALL.into_iter().enumerate() {
            assert_eq!((page_fill.name().parse::<PageFill>().unwrap(), page_fill as usize), (page_fill, number));
        }
        for (number, insert) in Insert::ALL.into_iter().enumerate() {
            assert_eq!((insert.name().parse::<Insert>().unwrap(), insert as usize), (insert, number));
        }
        assert!("".parse::<Split>().unwrap_err().to_string().contains("split is \"\", and must be side or down"));
    }
}
