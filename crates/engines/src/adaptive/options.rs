//! Options of an adaptive keyspace: those of its parts.

use ecotone_substrate::Result;

use crate::{lsm::LsmOptions, tree::TreeOptions};

/// Settings that are the pages'. All others are the tables'.
const OF_PAGES: [&str; 6] = ["fill", "neighbours", "segment_pages", "model", "forecast", "record_cache"];

/// What can be chosen when an adaptive keyspace is made; kept in its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdaptiveOptions {
    /// Of the tables.
    pub lsm: LsmOptions,
    /// Of the pages, and whether records are kept in the record cache.
    pub tree: TreeOptions,
}

impl AdaptiveOptions {
    /// The options that settings by name ask for; what they do not name keeps its default.
    ///
    /// # Errors
    /// If there is no such option, or it cannot have that value.
    pub fn parse(settings: &[(String, String)]) -> Result<Self> {
        let (tree, lsm): (Vec<_>, Vec<_>) = settings.iter().cloned().partition(|(name, _)| OF_PAGES.contains(&name.as_str()));
        Ok(AdaptiveOptions { lsm: LsmOptions::parse(&lsm)?, tree: TreeOptions::parse(&tree)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_go_to_the_part_that_knows_them() {
        let set = |name: &str, value: &str| AdaptiveOptions::parse(&[(name.to_owned(), value.to_owned())]);
        assert_eq!(set("fill", "75").unwrap().tree.fill, 75);
        assert_eq!(set("filter_bits", "4").unwrap().lsm.filter_bits, 4);
        assert!(set("fill", "101").is_err() && set("speed", "9").is_err());
    }
}
