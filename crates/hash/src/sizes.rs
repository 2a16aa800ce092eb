//! The sizes of a keyspace in memory, which follow from the memory budget.

use super::{index::Index, log::FRAME, options::HashOptions, structure::HashManifest};

/// The index of an empty keyspace has at least one part in this many of the memory budget. An index doubles at most
/// twelve times in a session.
const INDEX_PART: usize = 4096;
/// Bits of an index that fills one block of memory.
const LEAST_INDEX_BITS: u32 = 10;

/// The sizes of a keyspace in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// The index has two to the power of this many buckets.
    pub(crate) bucket_bits: u32,
    /// Maximum frames of hot log in memory, whatever its memory share is.
    pub(crate) frames: usize,
    /// Maximum frames of the read cache.
    pub(crate) copies: usize,
}

impl Sizes {
    /// The sizes in `wanted`, or the largest within a memory budget, for a keyspace with this manifest.
    pub(crate) fn of(budget: usize, wanted: Option<Sizes>, manifest: Option<&HashManifest>) -> Sizes {
        let sizes = wanted.unwrap_or_else(|| Sizes::within(budget));
        // Records on disk are in chains by as many hash bits as were chosen when they were written.
        let on_disk = manifest.filter(|manifest| manifest.begin < manifest.durable);
        let least = on_disk.map_or(0, |manifest| manifest.index_bits.into());
        Sizes { bucket_bits: sizes.bucket_bits.max(least), ..sizes }
    }

    fn within(budget: usize) -> Sizes {
        let bucket_bits = (budget / INDEX_PART / Index::bytes(0)).max(1).ilog2().max(LEAST_INDEX_BITS);
        let frames = budget / FRAME as usize;
        Sizes { bucket_bits, frames, copies: frames }
    }

    /// The sizes for a keyspace with these options.
    pub(crate) fn chosen(self, options: HashOptions) -> Sizes {
        Sizes { copies: if options.read_cache { self.copies } else { 0 }, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Address, PAGE};

    #[test]
    fn an_index_over_what_is_on_disk_has_no_fewer_bits_than_before() {
        fn chosen(budget: usize, manifest: Option<&HashManifest>) -> u32 {
            Sizes::of(budget, None, manifest).bucket_bits
        }
        let [little, much] = [16 << 20, 16 << 30].map(|budget| chosen(budget, None));
        assert!(little < much);
        let mut manifest = HashManifest::new(much as u8 - 1);
        assert_eq!(chosen(16 << 20, Some(&manifest)), little, "nothing is on disk");
        manifest.durable = Address::new(9 * PAGE);
        assert_eq!([16 << 20, 16 << 30].map(|budget| chosen(budget, Some(&manifest))), [much - 1, much]);
    }
}
