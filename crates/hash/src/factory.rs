//! Makes and opens hash keyspaces.

use std::sync::Arc;

use ecotone_engine::{
    contract::{AnyEngine, Context, EngineCheckpoint, EngineFactory},
    options::EngineOptions,
};
use ecotone_substrate::{Result, storage::FileId};

use super::{
    HashOptions, Sizes, blob, compact::CompactionLimits, install::Files, keyspace::HashKeyspace,
    structure::HashManifest,
};

/// The hash engine.
#[derive(Debug, Default)]
pub struct HashFamily {
    /// Compaction limits that replace those of the budget.
    pub(super) limits: Option<CompactionLimits>,
    /// Sizes that replace those of the budget.
    pub(super) sizes: Option<Sizes>,
}

impl HashFamily {
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

    fn files(&self, context: &Context, checkpoint: &EngineCheckpoint) -> Result<Option<Vec<FileId>>> {
        let (_, manifest) =
            blob::decode(&checkpoint.blob).map_err(|malformed| malformed.at(place_of_root(context), 0))?;
        let keyspace = context.keyspace;
        let segments =
            manifest.segments.iter().map(|segment| FileId::Segment { keyspace, number: segment.file.number });
        let tables = manifest.tables().map(|file| FileId::Table { keyspace, number: file.number });
        Ok(Some(segments.chain(tables).collect()))
    }

    fn create(&self, context: Context) -> Result<(AnyEngine, EngineCheckpoint)> {
        let options = HashOptions::parse(&context.settings)?;
        let sizes = Sizes::of(context.shared.memory.budget(), self.sizes, None).chosen(options);
        let limits = self.limits(&context, options);
        let files = Arc::new(Files::new(context, options, HashManifest::new(sizes.bucket_bits as u8)));
        let keyspace = HashKeyspace::create(files, sizes, limits)?;
        let checkpoint = keyspace.take_checkpoint()?;
        Ok((AnyEngine::Hashed(Arc::new(keyspace)), checkpoint))
    }

    fn open(&self, context: Context, checkpoint: &EngineCheckpoint) -> Result<AnyEngine> {
        let (options, manifest) =
            blob::decode(&checkpoint.blob).map_err(|malformed| malformed.at(place_of_root(&context), 0))?;
        let limits = self.limits(&context, options);
        let files = Arc::new(Files::new(context, options, manifest));
        Ok(AnyEngine::Hashed(Arc::new(HashKeyspace::open(files, self.sizes, limits))))
    }
}
