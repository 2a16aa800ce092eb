//! Creates and opens tree keyspaces, and holds the caches and the writeback that all trees of a database share.

use std::sync::Arc;

use ecotone_engine::{
    contract::{AnyEngine, Context, Engine, EngineCheckpoint, EngineFactory, Shared},
    options::EngineOptions,
    page_cache::PageCache,
    read_ahead::ScanLengths,
    record_cache::{RecordCache, RecordCacheFactory},
    superseded::SupersededReports,
};
use ecotone_substrate::{Error, Result, page::PageKind, storage::FileId};
use ecotone_sys::primitive::{Mutex, Once};

use super::{
    PageFill, Tree, TreeOptions,
    blob::Blob,
    cache::{Cache, CacheKeyspace},
    fill_policy::SegmentPlanner,
    forecast::{EpochSchedule, Forecast},
    index::{Index, Segment},
    keyspace_cache::KeyspaceCache,
    merge::{self, PageSpec},
    page_allocator::{IoPurpose, PageAllocator, PageFile},
    page_reader::PageReader,
    page_writer::PageWriter,
    reorganise::Reorganiser,
    store::Store,
    structure_log::StructureLog,
    write_out::WriteOut,
    writeback::Writeback,
};

/// Pages of the first read of a scan while no scan lengths are known.
const FIRST_READ: u8 = 4;

/// The tree engine's factory. Clones share the same database.
#[derive(Debug, Default, Clone)]
pub struct TreeFamily {
    commons: Arc<Once<SharedCaches>>,
    making: Arc<Mutex<()>>,
}

/// Caches and writeback that the trees of a database share.
#[derive(Debug)]
struct SharedCaches {
    cache: Arc<Cache>,
    pages: Arc<PageCache>,
    writeback: Arc<Writeback>,
    /// The next keyspace's number within the caches. A number is never reused in a process, so a late reader of a
    /// dropped keyspace cannot see another keyspace's entries.
    next: Mutex<u16>,
}

/// The base page of the first segment of a new tree.
const FIRST_PAGE: u32 = 1;

impl TreeFamily {
    fn commons(&self, shared: &Shared) -> &SharedCaches {
        self.commons.get_or_init(|| {
            let cache = Cache::new(shared.memory.clone(), shared.clock.random(), shared.wal.longest());
            let (writeback, pages) = (Writeback::new(cache.clone()), PageCache::of_pages(shared.memory.clone()));
            SharedCaches { cache, pages, writeback, next: Mutex::new(0) }
        })
    }

    /// The record cache of a new keyspace.
    fn keyspace_cache(
        &self,
        shared: &Shared,
        (logged, keeps_clean): (bool, bool),
        reports: SupersededReports,
    ) -> Result<Arc<KeyspaceCache>> {
        let commons = self.commons(shared);
        let mut next = commons.next.lock();
        let number = *next;
        *next = number.checked_add(1).ok_or_else(|| {
            Error::Invalid("65,535 ordered keyspaces were opened since the database was; reopen it to open more".into())
        })?;
        let keyspace = CacheKeyspace { number, logged };
        Ok(Arc::new(KeyspaceCache::new(commons.cache.clone(), keyspace, keeps_clean, reports)))
    }

    fn tree(
        &self,
        context: Context,
        (options, page_fill): (TreeOptions, PageFill),
        (store, is_created): (Store, bool),
    ) -> Result<Arc<Tree>> {
        let commons = self.commons(&context.shared);
        let reports = SupersededReports::new(&context, is_created);
        let cache = self.keyspace_cache(&context.shared, (context.logged, options.record_cache), reports)?;
        let store = Arc::new(store);
        let Shared { memory, clock, .. } = &context.shared;
        let forecast = Forecast::new(memory.clone(), options.forecast, EpochSchedule::default(), clock.random());
        let forecast = Arc::new(forecast);
        let structure_log = Arc::new(StructureLog::new(context.clone(), store.clone(), options));
        let writer = Arc::new(PageWriter::new(context.clone(), store.clone(), commons.pages.clone(), cache.number()));
        let reorganiser = Arc::new(Reorganiser::new(
            cache.clone(),
            store.clone(),
            writer.clone(),
            structure_log.clone(),
            forecast.clone(),
            SegmentPlanner::new(store.clone(), forecast.clone(), options, page_fill),
        ));
        let write_out = Arc::new(WriteOut::new(
            context.keyspace,
            cache.clone(),
            store.clone(),
            writer,
            structure_log.clone(),
            reorganiser.clone(),
            forecast,
        ));
        commons.writeback.join(&write_out);
        Ok(Arc::new(Tree {
            cache,
            pages: commons.pages.clone(),
            reader: PageReader::new(store.clone(), &context.shared),
            store,
            structure_log,
            reorganiser,
            write_out,
            writeback: commons.writeback.clone(),
            lengths: ScanLengths::new(FIRST_READ),
            context,
        }))
    }
}

impl TreeFamily {
    /// Creates an empty tree in a new file.
    pub fn empty(&self, context: &Context, options: (TreeOptions, PageFill), file: &PageFile) -> Result<Arc<Tree>> {
        let Shared { storage, memory, double_write, .. } = &context.shared;
        let space = PageAllocator::new(file)?;
        let pages = space.allocate(1)?;
        debug_assert_eq!(pages, [FIRST_PAGE]);
        file.writing()?.pages(IoPurpose::Reorganise, &pages, |_, place, block| {
            let shape = PageSpec { kind: PageKind::Base, related: 0, lower: &[], upper: None };
            merge::build(block, place, shape, std::iter::empty(), 0);
        })?;
        let index = Index::create(memory, Segment::new(FIRST_PAGE))?;
        storage.sync_dir()?;
        self.tree(context.clone(), options, (Store::new(file.clone(), space, index, 0, double_write), true))
    }
}

impl TreeFamily {
    /// Opens a tree of an earlier session. `page_fill` applies to pages planned from now on.
    pub fn open_tree(&self, context: Context, root: &[u8], page_fill: PageFill) -> Result<Arc<Tree>> {
        let Shared { memory, double_write, .. } = &context.shared;
        let file = PageFile::open(&context.shared.environment(), context.keyspace)?;
        let blob = Blob::decode(root).map_err(|malformed| malformed.at(describe_checkpoint(&context), 0))?;
        let space = PageAllocator::new(&file)?;
        let index = Index::open(memory, &blob.index, &space)?;
        let store = Store::new(file, space, index, blob.production, double_write);
        self.tree(context, (blob.options, page_fill), (store, false))
    }
}

/// The name of a checkpoint's root in errors.
fn describe_checkpoint(context: &Context) -> String {
    format!("the root of keyspace {} in the manifest", context.keyspace)
}

impl EngineFactory for TreeFamily {
    fn name(&self) -> &'static str {
        "tree"
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        TreeOptions::parse(settings).map(drop)
    }

    fn files(&self, context: &Context, root: &EngineCheckpoint) -> Result<Option<Vec<FileId>>> {
        Blob::decode(&root.blob).map_err(|malformed| malformed.at(describe_checkpoint(context), 0))?;
        Ok(Some(vec![FileId::Pages(context.keyspace)]))
    }

    fn create(&self, context: Context) -> Result<(AnyEngine, EngineCheckpoint)> {
        let _guard = self.making.lock();
        let options = TreeOptions::parse(&context.settings)?;
        let file = PageFile::create(&context.shared.environment(), context.keyspace)?;
        let made = || {
            let tree = self.empty(&context, (options, PageFill::Even), &file)?;
            let root = tree.checkpoint()?;
            Ok((AnyEngine::Ordered(tree), root))
        };
        made().inspect_err(|_| {
            // The caller needs the first error. A file that stays is removed at the next open.
            let _ = context.shared.storage.remove(file.id());
        })
    }

    fn open(&self, context: Context, root: &EngineCheckpoint) -> Result<AnyEngine> {
        Ok(AnyEngine::Ordered(self.open_tree(context, &root.blob, PageFill::Even)?))
    }
}

impl RecordCacheFactory for TreeFamily {
    fn record_cache(&self, shared: &Shared) -> Result<Arc<dyn RecordCache>> {
        Ok(self.keyspace_cache(shared, (true, true), SupersededReports::default())?)
    }
}
