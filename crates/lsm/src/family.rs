//! The LSM engine factory: creates and opens keyspaces.

use std::sync::Arc;

use ecotone_engine::{
    contract::{AnyEngine, Context, EngineCheckpoint, EngineFactory, Shared},
    options::EngineOptions,
    record_cache::RecordCacheFactory,
    superseded::SupersededReports,
};
use ecotone_substrate::{Result, storage::FileId};
use ecotone_sys::primitive::Once;

use crate::{
    blob, cache::table_cache::TableCache, deps::LsmDeps, keyspace::LsmKeyspace, manifest::LevelManifest,
    memtable::pool::MemtablePool, options::LsmOptions, store::ReadObserver, tuning::Tuning,
    version::version_set::VersionSet,
};

/// The LSM engine. Clones belong to the same database.
#[derive(Debug, Default, Clone)]
pub struct LsmFamily {
    /// Fixed sizes, instead of those that follow from options and budget.
    pub(super) tuning: Option<Tuning>,
    /// Most bytes of indexes and filters in memory.
    table_cache: Option<usize>,
    /// Makes record caches in front of the tables.
    record_caches: Option<Arc<dyn RecordCacheFactory>>,
    /// Makes observers of reads and writes.
    pub(super) read_observers: Option<MakeReadObserver>,
    commons: Arc<Commons>,
}

/// Makes the observer of a keyspace: of an empty one or not, with several threads or not.
pub(super) type MakeReadObserver = fn(is_empty: bool, is_threaded: bool) -> Arc<dyn ReadObserver>;

/// What the keyspaces of a database share.
#[derive(Debug, Default)]
struct Commons {
    /// Memory for memtables.
    pool: Once<Arc<MemtablePool>>,
    /// Memory for indexes and filters of tables.
    cache: Once<Arc<TableCache>>,
}

impl LsmFamily {
    /// With at most so many bytes for indexes and filters of tables. The memory budget must have them left besides.
    pub fn with_table_cache(bytes: usize) -> LsmFamily {
        LsmFamily { table_cache: Some(bytes), ..LsmFamily::default() }
    }

    /// The same with a record cache in front of the tables of its keyspaces.
    pub fn behind(self, record_caches: Arc<dyn RecordCacheFactory>) -> LsmFamily {
        LsmFamily { record_caches: Some(record_caches), ..self }
    }

    /// The dependencies of a keyspace without a page tier.
    fn deps(&self, shared: &Shared) -> Result<LsmDeps> {
        let record_cache =
            self.record_caches.as_ref().map(|record_caches| record_caches.record_cache(shared)).transpose()?;
        Ok(LsmDeps { record_cache, ..LsmDeps::default() })
    }

    fn cache(&self, shared: &Shared) -> Arc<TableCache> {
        let new = || TableCache::new(&shared.memory, &shared.domain, self.table_cache.unwrap_or(usize::MAX));
        self.commons.cache.get_or_init(new).clone()
    }

    fn pool(&self, shared: &Shared) -> Arc<MemtablePool> {
        self.commons.pool.get_or_init(|| MemtablePool::new(&shared.memory)).clone()
    }

    fn tuning(&self, context: &Context, options: &LsmOptions) -> Tuning {
        self.tuning.unwrap_or_else(|| Tuning::of(options, context.shared.memory.budget()))
    }
}

impl LsmFamily {
    /// A keyspace with these dependencies: an empty one, or one of an earlier session with this manifest.
    pub fn part(
        &self,
        context: Context,
        options: LsmOptions,
        manifest: Option<LevelManifest>,
        deps: LsmDeps,
    ) -> LsmKeyspace {
        let tuning = self.tuning(&context, &options);
        let (pool, cache) = (self.pool(&context.shared), self.cache(&context.shared));
        let (is_empty, is_threaded) = (manifest.is_none(), context.shared.scheduler.is_threaded());
        let read_observer = self.read_observers.map(|observer| observer(is_empty, is_threaded));
        let deps = LsmDeps { reports: SupersededReports::new(&context, is_empty), ..deps };
        let files = VersionSet::new(context, options, manifest.unwrap_or_default(), &cache);
        let keyspace = LsmKeyspace::open(files, tuning, pool, deps, read_observer);
        if is_empty { keyspace.begin_empty() } else { keyspace }
    }
}

impl EngineFactory for LsmFamily {
    fn name(&self) -> &'static str {
        "lsm"
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        LsmOptions::parse(settings).map(drop)
    }

    fn files(&self, context: &Context, checkpoint: &EngineCheckpoint) -> Result<Option<Vec<FileId>>> {
        let place = format!("the root of keyspace {} in the manifest", context.keyspace);
        let (_, manifest) = blob::decode(&checkpoint.blob).map_err(|malformed| malformed.at(place, 0))?;
        let keyspace = context.keyspace;
        Ok(Some(manifest.tables().map(|file| FileId::Table { keyspace, number: file.number }).collect()))
    }

    fn create(&self, context: Context) -> Result<(AnyEngine, EngineCheckpoint)> {
        let options = LsmOptions::parse(&context.settings)?;
        let deps = self.deps(&context.shared)?;
        let keyspace = self.part(context, options, None, deps);
        let checkpoint = keyspace.files().checkpoint();
        Ok((AnyEngine::Ordered(Arc::new(keyspace)), checkpoint))
    }

    fn open(&self, context: Context, checkpoint: &EngineCheckpoint) -> Result<AnyEngine> {
        let place = format!("the root of keyspace {} in the manifest", context.keyspace);
        let (options, manifest) = blob::decode(&checkpoint.blob).map_err(|malformed| malformed.at(place, 0))?;
        let deps = self.deps(&context.shared)?;
        Ok(AnyEngine::Ordered(Arc::new(self.part(context, options, Some(manifest), deps))))
    }
}
