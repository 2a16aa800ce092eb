//! The LSM engine factory: creates and opens keyspaces, and derives their sizes from options and memory budget.

use std::{sync::Arc, thread};

use ecotone_engine::{
    contract::{AnyEngine, Context, EngineCheckpoint, EngineFactory, Shared},
    record_cache::RecordCacheFactory,
};
use ecotone_substrate::{Result, storage::FileId};
use ecotone_sys::primitive::Once;

use crate::{
    blob, cache::table_cache::TableCache, checker::ReadChecker, keyspace::LsmKeyspace, manifest::LevelManifest,
    memtable::pool::MemtablePool, options::LsmOptions, pages::tier::LsmDeps, version::version_set::VersionSet,
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

/// Sizes of the parts of a keyspace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tuning {
    /// Bytes of records with which a memtable is full.
    pub(super) memtable: usize,
    /// Bytes of blocks of a full table.
    pub(super) table: u64,
    /// Bytes of L0 from which on it is compacted.
    pub(super) l0_target: u64,
    /// Most bytes of small runs of L0 that are merged within L0: those of a memtable, so that large runs are not
    /// written twice unless scans pay for it.
    pub(super) small: u64,
    /// Least bytes of tables of a subcompaction.
    pub(super) part: u64,
    /// The same for a part of a conversion, which ends with no table of its own.
    pub(super) conversion_part: u64,
    /// Most threads that help with a compaction, and the part of the budget below which their memory stays.
    pub(super) helpers: usize,
    pub(super) helpers_part: usize,
    /// The debt ratio from which on they help.
    pub(super) late: f64,
    /// For tests: whether compactions are done in slices now and then, however much space there is.
    pub(super) slices: bool,
}

/// Least tables of a subcompaction, by bytes: it ends with a table that is half full on average.
const PART_TABLES: u64 = 4;
/// Most threads that help with a compaction, and processors that are left to other work.
const MOST_HELPERS: usize = 3;
const OTHERS: usize = 1;
/// All helpers together have this part of the budget.
pub(super) const HELPERS_PART: usize = 32;
/// L0 has this part of the budget.
const LEVEL_0_PART: u64 = 2;

impl Tuning {
    /// Memtables of one slab, tables of few blocks, and subcompactions of few tables, if there are enough of them.
    pub(super) const TINY: Tuning = Tuning {
        memtable: 48 << 10,
        table: 16 << 10,
        // In a schedule of shuttle, threads do a few flushes of a few records. A table has 16 KiB at least.
        l0_target: if cfg!(feature = "shuttle") { 4 << 10 } else { 72 << 10 },
        small: 64 << 10,
        part: 32 << 10,
        conversion_part: if cfg!(feature = "shuttle") { 1 } else { 16 << 10 },
        helpers: 2,
        helpers_part: 4,
        late: 0.0,
        slices: true,
    };

    fn of(options: &LsmOptions, budget: usize) -> Tuning {
        Tuning {
            memtable: options.memtable_bytes(budget) as usize,
            table: options.table_bytes(budget),
            l0_target: budget as u64 / LEVEL_0_PART,
            small: options.memtable_bytes(budget),
            part: PART_TABLES * options.table_bytes(budget),
            conversion_part: options.table_bytes(budget),
            helpers: MOST_HELPERS
                .min(thread::available_parallelism().map_or(0, |processors| processors.get() - OTHERS)),
            helpers_part: HELPERS_PART,
            late: 1.0,
            slices: false,
        }
    }
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
