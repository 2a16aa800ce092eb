//! Makes and opens lsm keyspaces.

use std::{sync::Arc, thread};

use ecotone_substrate::{Result, storage::FileId};
use ecotone_sys::primitive::Once;

use super::{
    base::Around, blob, install::Files, keyspace::LsmKeyspace, ledger::Ledger, options::LsmOptions, pool::Pool,
    structure::Structure, table_cache::TableCache,
};
use crate::{
    engine::{Context, Family, Made, Root, Shared},
    front::Fronts,
};

/// The lsm engine. A clone is of the same database.
#[derive(Debug, Default, Clone)]
pub struct LsmFamily {
    /// If not those that follow from options and budget.
    sizes: Option<Sizes>,
    /// Bytes of indexes and filters that it has at most.
    table_cache: Option<usize>,
    /// Who has a cache in front of them.
    fronts: Option<Arc<dyn Fronts>>,
    /// Whether reads are judged, if that is built.
    has_ledger: bool,
    commons: Arc<Commons>,
}

/// What the keyspaces of a database share.
#[derive(Debug, Default)]
struct Commons {
    /// Memory for memtables.
    pool: Once<Arc<Pool>>,
    /// Memory for indexes and filters of tables.
    cache: Once<Arc<TableCache>>,
}

/// How large the parts of a keyspace become.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sizes {
    /// Bytes of records with which a memtable is full.
    pub(super) memtable: usize,
    /// Bytes of blocks of a full table.
    pub(super) table: u64,
    /// Bytes of level 0 from which on it is compacted.
    pub(super) level_0: u64,
    /// Bytes that small runs of it have at most when they become one: those of a memtable, so that what was large is
    /// not written twice unless scans pay for it.
    pub(super) small: u64,
    /// Bytes of tables that a part of a compaction has at least.
    pub(super) part: u64,
    /// The same of an absorption, whose parts end with no table.
    pub(super) absorbed_part: u64,
    /// Threads that help with a compaction at most, and the part of the budget below which their memory stays.
    pub(super) helpers: usize,
    pub(super) helpers_part: usize,
    /// The lateness from which on they do.
    pub(super) late: f64,
    /// For tests: whether jobs are done in slices now and then, however much space there is.
    pub(super) slices: bool,
}

/// A part of a compaction has so many tables' bytes at least, since it ends with a table that is half full on average.
const PART_TABLES: u64 = 4;
/// Threads that help with a compaction at most, and processors that are left to others.
const MOST_HELPERS: usize = 3;
const OTHERS: usize = 1;
/// They have so much of the budget, all together.
pub(super) const HELPERS_PART: usize = 32;
/// Level 0 has so much of the budget.
const LEVEL_0_PART: u64 = 2;

impl Sizes {
    /// Memtables of one slab, tables of few blocks, and parts of few tables of whatever job has enough of them.
    pub(super) const TINY: Sizes = Sizes {
        memtable: 48 << 10,
        table: 16 << 10,
        // What threads do in a schedule of shuttle is a few flushes of a few records. A table has 16 KiB at least.
        level_0: if cfg!(feature = "shuttle") { 4 << 10 } else { 72 << 10 },
        small: 64 << 10,
        part: 32 << 10,
        absorbed_part: if cfg!(feature = "shuttle") { 1 } else { 16 << 10 },
        helpers: 2,
        helpers_part: 4,
        late: 0.0,
        slices: true,
    };

    fn of(options: &LsmOptions, budget: usize) -> Sizes {
        Sizes {
            memtable: options.memtable_bytes(budget) as usize,
            table: options.table_bytes(budget),
            level_0: budget as u64 / LEVEL_0_PART,
            small: options.memtable_bytes(budget),
            part: PART_TABLES * options.table_bytes(budget),
            absorbed_part: options.table_bytes(budget),
            helpers: MOST_HELPERS
                .min(thread::available_parallelism().map_or(0, |processors| processors.get() - OTHERS)),
            helpers_part: HELPERS_PART,
            late: 1.0,
            slices: false,
        }
    }
}

impl LsmFamily {
    /// For tests: an lsm engine that flushes where little is written, into small tables. Its reads are judged (decision
    /// 15, "The ledger").
    #[doc(hidden)]
    pub fn tiny() -> LsmFamily {
        LsmFamily { sizes: Some(Sizes::TINY), has_ledger: true, ..LsmFamily::default() }
    }

    /// The same with tables of so many bytes.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn tiny_with_tables(table: u64) -> LsmFamily {
        LsmFamily { sizes: Some(Sizes { table, part: 2 * table, ..Sizes::TINY }), ..LsmFamily::tiny() }
    }

    /// The same whose reads are not judged, so that what they read can be counted.
    #[doc(hidden)]
    pub fn unjudged(self) -> LsmFamily {
        LsmFamily { has_ledger: false, ..self }
    }

    /// With so many bytes for indexes and filters of tables at most, which the memory budget has to have left besides.
    pub fn with_table_cache(bytes: usize) -> LsmFamily {
        LsmFamily { table_cache: Some(bytes), ..LsmFamily::default() }
    }

    /// The same with a cache of records in front of the tables of its keyspaces.
    pub fn behind(self, fronts: Arc<dyn Fronts>) -> LsmFamily {
        LsmFamily { fronts: Some(fronts), ..self }
    }

    /// What is around a keyspace that has nothing below its tables.
    fn around(&self, shared: &Shared) -> Result<Around> {
        let front = self.fronts.as_ref().map(|fronts| fronts.front(shared)).transpose()?;
        Ok(Around { front, ..Around::default() })
    }

    fn cache(&self, shared: &Shared) -> Arc<TableCache> {
        let new = || TableCache::new(&shared.memory, &shared.domain, self.table_cache.unwrap_or(usize::MAX));
        self.commons.cache.get_or_init(new).clone()
    }

    fn pool(&self, shared: &Shared) -> Arc<Pool> {
        self.commons.pool.get_or_init(|| Pool::new(&shared.memory)).clone()
    }

    fn sizes(&self, context: &Context, options: &LsmOptions) -> Sizes {
        self.sizes.unwrap_or_else(|| Sizes::of(options, context.shared.memory.budget()))
    }
}

impl LsmFamily {
    /// A keyspace that has this around its tables: an empty one, or one of an earlier life with this structure.
    pub(crate) fn part(
        &self,
        context: Context,
        options: LsmOptions,
        structure: Option<Structure>,
        around: Around,
    ) -> LsmKeyspace {
        let sizes = self.sizes(&context, &options);
        let (pool, cache) = (self.pool(&context.shared), self.cache(&context.shared));
        // Suites of several threads write no value twice.
        let (is_empty, repeats) = (structure.is_none(), !context.shared.scheduler.is_threaded());
        let around = Around { ledger: self.has_ledger.then(|| Arc::new(Ledger::new(is_empty, repeats))), ..around };
        let files = Files::new(context, options, structure.unwrap_or_default(), &cache);
        let make = if is_empty { LsmKeyspace::create } else { LsmKeyspace::open };
        make(files, sizes, pool, around)
    }
}

impl Family for LsmFamily {
    fn name(&self) -> &'static str {
        "lsm"
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        LsmOptions::parse(settings).map(drop)
    }

    fn files(&self, context: &Context, root: &Root) -> Result<Option<Vec<FileId>>> {
        let place = format!("the root of keyspace {} in the manifest", context.keyspace);
        let (_, structure) = blob::decode(&root.blob).map_err(|malformed| malformed.at(place, 0))?;
        let keyspace = context.keyspace;
        Ok(Some(structure.tables().map(|file| FileId::Table { keyspace, number: file.number }).collect()))
    }

    fn create(&self, context: Context) -> Result<(Made, Root)> {
        let options = LsmOptions::parse(&context.settings)?;
        let around = self.around(&context.shared)?;
        let keyspace = self.part(context, options, None, around);
        let root = keyspace.files().root();
        Ok((Made::Ordered(Arc::new(keyspace)), root))
    }

    fn open(&self, context: Context, root: &Root) -> Result<Made> {
        let place = format!("the root of keyspace {} in the manifest", context.keyspace);
        let (options, structure) = blob::decode(&root.blob).map_err(|malformed| malformed.at(place, 0))?;
        let around = self.around(&context.shared)?;
        Ok(Made::Ordered(Arc::new(self.part(context, options, Some(structure), around))))
    }
}
