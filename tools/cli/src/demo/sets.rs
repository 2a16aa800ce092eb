//! The real keys that are embedded in the binary (`data/README.md` names their sources and licences).

use std::io::{BufRead, BufReader, Read};

use crate::{demo::key_bits::KeyBits, load::Zstd};

const TAXA: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/ncbi_taxids.du64.zst"));
const CITIES: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/geonames_cities.u64.zst"));
const PATHS: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/paths_debian_amd64_part.txt.zst"));

const DECODES: &str = "the embedded keys are whole";

/// How many keys of each set are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Taxonomy ids.
    pub(crate) taxa: usize,
    /// Towns.
    pub(crate) cities: usize,
    /// File paths.
    pub(crate) paths: usize,
}

impl Sizes {
    /// All keys: 275 MiB of records.
    pub(crate) const FULL: Sizes = Sizes { taxa: 2_609_295, cities: 199_441, paths: 100_000 };
    /// Enough for tests of a few seconds.
    pub(crate) const SMALL: Sizes = Sizes { taxa: 200_000, cities: 20_000, paths: 10_000 };
}

/// The first `count` taxonomy ids, ascending.
pub(crate) fn taxa(count: usize) -> KeyBits {
    let ascending = integers(TAXA).take(count).scan(0u64, |sum, gap| {
        *sum = sum.wrapping_add(gap);
        Some(*sum)
    });
    KeyBits::new(ascending)
}

/// The first `count` distinct towns in the order in which they were added to GeoNames.
pub(crate) fn cities(count: usize) -> Vec<u64> {
    let mut cities: Vec<(u64, u32)> = integers(CITIES).zip(0..).collect();
    cities.sort_unstable();
    // Sorted by arrival within a key, so the first arrival stays.
    cities.dedup_by_key(|&mut (key, _)| key);
    cities.sort_unstable_by_key(|&(_, arrival)| arrival);
    cities.into_iter().map(|(key, _)| key).take(count).collect()
}

/// The first `count` file paths, package after package.
pub(crate) fn paths(count: usize) -> impl Iterator<Item = Vec<u8>> {
    BufReader::with_capacity(1 << 16, Zstd::new(PATHS)).split(b'\n').take(count).map(|path| path.expect(DECODES))
}

fn integers(set: &'static [u8]) -> impl Iterator<Item = u64> {
    let mut input = BufReader::with_capacity(1 << 16, Zstd::new(set));
    std::iter::from_fn(move || {
        let mut bytes = [0; 8];
        // The sets hold whole integers, so an error here means the end.
        input.read_exact(&mut bytes).ok().map(|()| u64::from_le_bytes(bytes))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn sets_hold_what_the_papers_say() {
        assert_eq!(taxa(usize::MAX).len(), Sizes::FULL.taxa);
        assert_eq!(integers(CITIES).count(), 199_568);
        assert_eq!(cities(usize::MAX).len(), Sizes::FULL.cities);
        let mut seen = HashSet::new();
        assert!(
            integers(CITIES).filter(|&key| seen.insert(key)).eq(cities(usize::MAX)),
            "the order of arrival is lost"
        );
        assert_eq!(paths(usize::MAX).count(), Sizes::FULL.paths);
        assert_eq!(paths(usize::MAX).collect::<HashSet<_>>().len(), Sizes::FULL.paths);
        assert!(paths(usize::MAX).all(|path| !path.is_empty() && path.len() < 1024));
    }
}
