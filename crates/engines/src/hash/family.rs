//! Makes and opens hash keyspaces.

use std::sync::Arc;

use ecotone_substrate::{Result, storage::FileId};

use super::{
    HashOptions, Sizes, blob, compact::Goals, index::Index, install::Files, keyspace::HashKeyspace, log::FRAME,
    structure::Structure,
};
use crate::engine::{Context, Family, Made, Root};

/// The part of the memory that the index of an empty keyspace has at least. It doubles twelve times at most in a life.
const INDEX_PART: usize = 4096;
/// Bits of the index with one block of memory.
const LEAST_INDEX_BITS: u32 = 10;
/// For tests, whatever the budget: an index of one bucket, which has to grow, few frames for copies, and as many for
/// the hot log as the batches of the crews need.
const SMALLEST: Sizes = Sizes { bucket_bits: 0, frames: 40, copies: 4 };

/// The hash engine.
#[derive(Debug, Default)]
pub struct HashFamily {
    /// What compaction and folds go by, if not by the budget.
    goals: Option<Goals>,
    /// How large keyspaces are made, if not by the budget.
    sizes: Option<Sizes>,
}

impl HashFamily {
    /// For tests: a hash engine that compacts, folds and merges where little is written.
    #[doc(hidden)]
    pub fn tiny() -> HashFamily {
        HashFamily { goals: Some(Goals::TINY), sizes: None }
    }

    /// For tests: one that does this with every few pages, evicts copies, and gives its index more buckets.
    #[doc(hidden)]
    pub fn busy() -> HashFamily {
        HashFamily { goals: Some(Goals::BUSY), sizes: Some(SMALLEST) }
    }

    fn goals(&self, context: &Context, options: HashOptions) -> Goals {
        self.goals.unwrap_or_else(|| Goals::within(context.shared.memory.budget() as u64)).chosen(options)
    }
}

/// What a root is called in errors.
fn place_of_root(context: &Context) -> String {
    format!("the root of keyspace {} in the manifest", context.keyspace)
}

impl Family for HashFamily {
    fn name(&self) -> &'static str {
        "hash"
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        HashOptions::parse(settings).map(drop)
    }

    fn files(&self, context: &Context, root: &Root) -> Result<Option<Vec<FileId>>> {
        let (_, structure) = blob::decode(&root.blob).map_err(|malformed| malformed.at(place_of_root(context), 0))?;
        let keyspace = context.keyspace;
        let segments =
            structure.segments.iter().map(|segment| FileId::Segment { keyspace, number: segment.file.number });
        let tables = structure.tables().map(|file| FileId::Table { keyspace, number: file.number });
        Ok(Some(segments.chain(tables).collect()))
    }

    fn create(&self, context: Context) -> Result<(Made, Root)> {
        let options = HashOptions::parse(&context.settings)?;
        let sizes = Sizes::of(context.shared.memory.budget(), self.sizes, None).chosen(options);
        let goals = self.goals(&context, options);
        let files = Arc::new(Files::new(context, options, Structure::new(sizes.bucket_bits as u8)));
        let keyspace = HashKeyspace::create(files, sizes, goals)?;
        let root = keyspace.root()?;
        Ok((Made::Hashed(Arc::new(keyspace)), root))
    }

    fn open(&self, context: Context, root: &Root) -> Result<Made> {
        let (options, structure) =
            blob::decode(&root.blob).map_err(|malformed| malformed.at(place_of_root(&context), 0))?;
        let goals = self.goals(&context, options);
        let files = Arc::new(Files::new(context, options, structure));
        Ok(Made::Hashed(Arc::new(HashKeyspace::open(files, self.sizes, goals))))
    }
}

impl Sizes {
    /// Those that are wanted, or the largest within a budget of memory, for a keyspace that consists of this.
    pub(super) fn of(budget: usize, wanted: Option<Sizes>, structure: Option<&Structure>) -> Sizes {
        let sizes = wanted.unwrap_or_else(|| Sizes::within(budget));
        // What lies on disk is in chains by as many bits as were chosen then.
        let on_disk = structure.filter(|structure| structure.begin < structure.durable);
        let least = on_disk.map_or(0, |structure| structure.index_bits.into());
        Sizes { bucket_bits: sizes.bucket_bits.max(least), ..sizes }
    }

    fn within(budget: usize) -> Sizes {
        let bucket_bits = (budget / INDEX_PART / Index::bytes(0)).max(1).ilog2().max(LEAST_INDEX_BITS);
        let frames = budget / FRAME as usize;
        Sizes { bucket_bits, frames, copies: frames }
    }

    /// The same for a keyspace of these options.
    pub(super) fn chosen(self, options: HashOptions) -> Sizes {
        Sizes { copies: if options.read_cache { self.copies } else { 0 }, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::log::{Address, PAGE};

    #[test]
    fn an_index_over_what_is_on_disk_has_no_fewer_bits_than_before() {
        fn chosen(budget: usize, structure: Option<&Structure>) -> u32 {
            Sizes::of(budget, None, structure).bucket_bits
        }
        let [little, much] = [16 << 20, 16 << 30].map(|budget| chosen(budget, None));
        assert!(little < much);
        let mut structure = Structure::new(much as u8 - 1);
        assert_eq!(chosen(16 << 20, Some(&structure)), little, "nothing is on disk");
        structure.durable = Address::new(9 * PAGE);
        assert_eq!([16 << 20, 16 << 30].map(|budget| chosen(budget, Some(&structure))), [much - 1, much]);
    }
}
