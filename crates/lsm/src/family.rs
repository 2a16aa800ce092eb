//! The LSM engine factory: creates and opens keyspaces.

use std::sync::Arc;

use ecotone_engine::{
    contract::{AnyEngine, Context, EngineCheckpoint, EngineFactory, Shared},
    record_cache::RecordCacheFactory,
    superseded::SupersededReports,
};
use ecotone_substrate::{Result, storage::FileId};
use ecotone_sys::primitive::Once;

use crate::{
    blob, cache::table_cache::TableCache, checker::ReadChecker, deps::LsmDeps, keyspace::LsmKeyspace,
    manifest::LevelManifest, memtable::pool::MemtablePool, options::LsmOptions, tuning::Tuning,
    version::version_set::VersionSet,
};

/// The LSM engine. Clones belong to the same database.
#[derive(Debug, Default, Clone)]
pub struct LsmFamily {
    /// Fixed sizes, instead of those that follow from options and budget.
    tuning: Option<Tuning>,
    /// Most bytes of indexes and filters in memory.
    table_cache: Option<usize>,
    /// Makes record caches in front of the tables.
    record_caches: Option<Arc<dyn RecordCacheFactory>>,
    /// Whether reads are checked, in builds that can.
    has_read_checker: bool,
    commons: Arc<Commons>,
}

/// What the keyspaces of a database share.
#[derive(Debug, Default)]
struct Commons {
    /// Memory for memtables.
    pool: Once<Arc<MemtablePool>>,
    /// Memory for indexes and filters of tables.
    cache: Once<Arc<TableCache>>,
}

impl LsmFamily {
    /// For tests: an LSM engine that flushes often, into small tables, and checks its reads (adaptive-protocol.md, "The
    /// read checker").
    #[doc(hidden)]
    pub fn tiny() -> LsmFamily {
        LsmFamily { tuning: Some(Tuning::TINY), has_read_checker: true, ..LsmFamily::default() }
    }

    /// The same with tables of so many bytes.
    #[cfg(any(test, feature = "testing"))]
    pub fn tiny_with_tables(table: u64) -> LsmFamily {
        LsmFamily { tuning: Some(Tuning { table, part: 2 * table, ..Tuning::TINY }), ..LsmFamily::tiny() }
    }

    /// The same without the read checker, so that reads can be counted.
    #[doc(hidden)]
    pub fn unchecked(self) -> LsmFamily {
        LsmFamily { has_read_checker: false, ..self }
    }

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
        structure: Option<LevelManifest>,
        deps: LsmDeps,
    ) -> LsmKeyspace {
        let tuning = self.tuning(&context, &options);
        let (pool, cache) = (self.pool(&context.shared), self.cache(&context.shared));
        // Test suites with several threads write no value twice.
        let (is_empty, repeats) = (structure.is_none(), !context.shared.scheduler.is_threaded());
        let deps = LsmDeps {
            read_checker: self.has_read_checker.then(|| Arc::new(ReadChecker::new(is_empty, repeats))),
            reports: SupersededReports::new(&context, is_empty),
            ..deps
        };
        let files = VersionSet::new(context, options, structure.unwrap_or_default(), &cache);
        let make = if is_empty { LsmKeyspace::create } else { LsmKeyspace::open };
        make(files, tuning, pool, deps)
    }
}

impl EngineFactory for LsmFamily {
    fn name(&self) -> &'static str {
        "lsm"
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        LsmOptions::parse(settings).map(drop)
    }

    fn files(&self, context: &Context, root: &EngineCheckpoint) -> Result<Option<Vec<FileId>>> {
        let place = format!("the root of keyspace {} in the manifest", context.keyspace);
        let (_, structure) = blob::decode(&root.blob).map_err(|malformed| malformed.at(place, 0))?;
        let keyspace = context.keyspace;
        Ok(Some(structure.tables().map(|file| FileId::Table { keyspace, number: file.number }).collect()))
    }

    fn create(&self, context: Context) -> Result<(AnyEngine, EngineCheckpoint)> {
        let options = LsmOptions::parse(&context.settings)?;
        let deps = self.deps(&context.shared)?;
        let keyspace = self.part(context, options, None, deps);
        let root = keyspace.files().root();
        Ok((AnyEngine::Ordered(Arc::new(keyspace)), root))
    }

    fn open(&self, context: Context, root: &EngineCheckpoint) -> Result<AnyEngine> {
        let place = format!("the root of keyspace {} in the manifest", context.keyspace);
        let (options, structure) = blob::decode(&root.blob).map_err(|malformed| malformed.at(place, 0))?;
        let deps = self.deps(&context.shared)?;
        Ok(AnyEngine::Ordered(Arc::new(self.part(context, options, Some(structure), deps))))
    }
}
