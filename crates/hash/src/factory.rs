//! Makes and opens hash keyspaces.

use std::sync::Arc;

use ecotone_engine::contract::{AnyEngine, Context, EngineCheckpoint, EngineFactory};
use ecotone_substrate::{Result, storage::FileId};

use super::{
    HashOptions, Sizes, blob, compact::CompactionLimits, index::Index, install::Files, keyspace::HashKeyspace,
    log::FRAME, structure::HashManifest,
};

/// The index of an empty keyspace has at least one part in this many of the memory budget. An index doubles at most
/// twelve times in a session.
const INDEX_PART: usize = 4096;
/// Bits of an index that fills one block of memory.
const LEAST_INDEX_BITS: u32 = 10;
/// For tests, whatever the budget: an index of one bucket, which has to grow, few frames for the read cache, and enough
/// frames of hot log for the batches of concurrent test writers.
const SMALLEST: Sizes = Sizes { bucket_bits: 0, frames: 40, copies: 4 };

/// The hash engine.
#[derive(Debug, Default)]
pub struct HashFamily {
    /// Compaction limits that replace those of the budget.
    limits: Option<CompactionLimits>,
    /// Sizes that replace those of the budget.
    sizes: Option<Sizes>,
}

impl HashFamily {
    /// For tests: a hash engine that compacts and merges after few writes.
    #[doc(hidden)]
    pub fn tiny() -> HashFamily {
        HashFamily { limits: Some(CompactionLimits::TINY), sizes: None }
    }

    /// For tests: a hash engine that compacts and merges after a few pages, evicts read-cache entries, and grows its
    /// index.
    #[doc(hidden)]
    pub fn busy() -> HashFamily {
        HashFamily { limits: Some(CompactionLimits::BUSY), sizes: Some(SMALLEST) }
    }

    fn limits(&self, context: &Context, options: HashOptions) -> CompactionLimits {
        self.limits.unwrap_or_else(|| CompactionLimits::within(context.shared.memory.budget() as u64)).chosen(options)
    }
}

/// The name of a root in errors.
fn place_of_root(context: &Context) -> String {
    format!("the root of keyspace {} in the manifest", context.keyspace)
}

impl EngineFactory for HashFamily {
    fn name(&self) -> &'static str {
        "hash"
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        HashOptions::parse(settings).map(drop)
    }

    fn files(&self, context: &Context, root: &EngineCheckpoint) -> Result<Option<Vec<FileId>>> {
        let (_, structure) = blob::decode(&root.blob).map_err(|malformed| malformed.at(place_of_root(context), 0))?;
        let keyspace = context.keyspace;
        let segments =
            structure.segments.iter().map(|segment| FileId::Segment { keyspace, number: segment.file.number });
        let tables = structure.tables().map(|file| FileId::Table { keyspace, number: file.number });
        Ok(Some(segments.chain(tables).collect()))
    }

    fn create(&self, context: Context) -> Result<(AnyEngine, EngineCheckpoint)> {
        let options = HashOptions::parse(&context.settings)?;
        let sizes = Sizes::of(context.shared.memory.budget(), self.sizes, None).chosen(options);
        let limits = self.limits(&context, options);
        let files = Arc::new(Files::new(context, options, HashManifest::new(sizes.bucket_bits as u8)));
        let keyspace = HashKeyspace::create(files, sizes, limits)?;
        let root = keyspace.root()?;
        Ok((AnyEngine::Hashed(Arc::new(keyspace)), root))
    }

    fn open(&self, context: Context, root: &EngineCheckpoint) -> Result<AnyEngine> {
        let (options, structure) =
            blob::decode(&root.blob).map_err(|malformed| malformed.at(place_of_root(&context), 0))?;
        let limits = self.limits(&context, options);
        let files = Arc::new(Files::new(context, options, structure));
        Ok(AnyEngine::Hashed(Arc::new(HashKeyspace::open(files, self.sizes, limits))))
    }
}

impl Sizes {
    /// The sizes in `wanted`, or the largest within a memory budget, for a keyspace with this structure.
    pub(super) fn of(budget: usize, wanted: Option<Sizes>, structure: Option<&HashManifest>) -> Sizes {
        let sizes = wanted.unwrap_or_else(|| Sizes::within(budget));
        // Records on disk are in chains by as many hash bits as were chosen when they were written.
        let on_disk = structure.filter(|structure| structure.begin < structure.durable);
        let least = on_disk.map_or(0, |structure| structure.index_bits.into());
        Sizes { bucket_bits: sizes.bucket_bits.max(least), ..sizes }
    }

    fn within(budget: usize) -> Sizes {
        let bucket_bits = (budget / INDEX_PART / Index::bytes(0)).max(1).ilog2().max(LEAST_INDEX_BITS);
        let frames = budget / FRAME as usize;
        Sizes { bucket_bits, frames, copies: frames }
    }

    /// The sizes for a keyspace with these options.
    pub(super) fn chosen(self, options: HashOptions) -> Sizes {
        Sizes { copies: if options.read_cache { self.copies } else { 0 }, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Address, PAGE};

    #[test]
    fn an_index_over_what_is_on_disk_has_no_fewer_bits_than_before() {
        fn chosen(budget: usize, structure: Option<&HashManifest>) -> u32 {
            Sizes::of(budget, None, structure).bucket_bits
        }
        let [little, much] = [16 << 20, 16 << 30].map(|budget| chosen(budget, None));
        assert!(little < much);
        let mut structure = HashManifest::new(much as u8 - 1);
        assert_eq!(chosen(16 << 20, Some(&structure)), little, "nothing is on disk");
        structure.durable = Address::new(9 * PAGE);
        assert_eq!([16 << 20, 16 << 30].map(|budget| chosen(budget, Some(&structure))), [much - 1, much]);
    }
}
