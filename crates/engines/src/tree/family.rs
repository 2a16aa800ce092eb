//! Makes and opens tree keyspaces; holds what they share within a database.

use std::sync::Arc;

use ecotone_substrate::{Error, Result, held::Kind, page::PageKind, storage::FileId};
use ecotone_sys::primitive::{
    Mutex, Once,
    atomic::{AtomicBool, AtomicU64},
};

use super::{
    PageFill, Tree, TreeOptions,
    blob::Blob,
    cache::Cache,
    counters::Counters,
    forecast::{Forecast, Pace},
    index::{Index, Segment},
    merge::{self, Shape},
    space::{Cause, PageFile, Space},
    store::Store,
    writeback::Writeback,
};
use crate::{
    engine::{Context, Family, Made, Root, Shared},
    lengths::Lengths,
    page_cache::PageCache,
    turn::Turn,
};

/// Pages of the first read of a scan as long as nothing is known.
const FIRST_READ: u8 = 4;

/// The tree engine. A clone is of the same database.
#[derive(Debug, Default, Clone)]
pub struct TreeFamily {
    commons: Arc<Once<Commons>>,
    making: Arc<Mutex<()>>,
}

/// What the trees of a database share.
#[derive(Debug)]
struct Commons {
    cache: Arc<Cache>,
    pages: Arc<PageCache>,
    writeback: Arc<Writeback>,
    /// The next keyspace's number within the caches. Never given twice in a process, so that a late reader of a dropped
    /// keyspace harms no other.
    next: Mutex<u16>,
}

/// The base page of the first segment of a new tree.
const FIRST_PAGE: u32 = 1;

impl TreeFamily {
    fn commons(&self, shared: &Shared) -> &Commons {
        self.commons.get_or_init(|| {
            let cache = Cache::new(shared.memory.clone(), shared.clock.random(), shared.wal.longest());
            let (writeback, pages) = (Writeback::new(cache.clone()), PageCache::of_pages(shared.memory.clone()));
            Commons { cache, pages, writeback, next: Mutex::new(0) }
        })
    }

    /// The record cache, and a number within it for one more keyspace.
    pub(super) fn part_of_cache(&self, shared: &Shared) -> Result<(Arc<Cache>, u16)> {
        let commons = self.commons(shared);
        let mut next = commons.next.lock();
        let number = *next;
        *next = number.checked_add(1).ok_or_else(|| {
            Error::Invalid("65,535 ordered keyspaces were opened since the database was; reopen it to open more".into())
        })?;
        Ok((commons.cache.clone(), number))
    }

    fn tree(&self, context: Context, (options, page_fill): (TreeOptions, PageFill), store: Store) -> Result<Arc<Tree>> {
        let commons = self.commons(&context.shared);
        let (cache, number) = self.part_of_cache(&context.shared)?;
        let tree = Arc::new(Tree {
            number,
            cache,
            pages: commons.pages.clone(),
            store,
            options,
            page_fill,
            writeback: commons.writeback.clone(),
            sweeping: Turn::of(Kind::FlushTurn),
            counters: Counters::default(),
            lengths: Lengths::new(FIRST_READ),
            forecast: Forecast::new(
                context.shared.memory.clone(),
                options.forecast,
                Pace::default(),
                context.shared.clock.random(),
            ),
            newest: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            context,
        });
        commons.writeback.join(&tree);
        Ok(tree)
    }
}

impl TreeFamily {
    /// A tree without records, in a file that was just made.
    pub(crate) fn empty(
        &self,
        context: &Context,
        options: (TreeOptions, PageFill),
        file: &PageFile,
    ) -> Result<Arc<Tree>> {
        let Shared { storage, memory, double_write, .. } = &context.shared;
        let space = Space::new(file)?;
        let pages = space.allocate(1)?;
        debug_assert_eq!(pages, [FIRST_PAGE]);
        file.writing()?.pages(Cause::Reorganise, &pages, |_, place, block| {
            let shape = Shape { kind: PageKind::Base, related: 0, lower: &[], upper: None };
            merge::build(block, place, shape, std::iter::empty(), 0);
        })?;
        let index = Index::create(memory, Segment::new(FIRST_PAGE))?;
        storage.sync_dir()?;
        self.tree(context.clone(), options, Store::new(file.clone(), space, index, 0, double_write))
    }
}

impl TreeFamily {
    /// A tree of an earlier life, whose pages are filled so from now on.
    pub(crate) fn part(&self, context: Context, root: &[u8], page_fill: PageFill) -> Result<Arc<Tree>> {
        let Shared { memory, double_write, .. } = &context.shared;
        let file = PageFile::open(&context.shared.environment(), context.keyspace)?;
        let blob = Blob::decode(root).map_err(|malformed| malformed.at(place_of_root(&context), 0))?;
        let space = Space::new(&file)?;
        let index = Index::open(memory, &blob.index, &space)?;
        let store = Store::new(file, space, index, blob.production, double_write);
        self.tree(context, (blob.options, page_fill), store)
    }
}

/// What a root is called in errors.
fn place_of_root(context: &Context) -> String {
    format!("the root of keyspace {} in the manifest", context.keyspace)
}

impl Family for TreeFamily {
    fn name(&self) -> &'static str {
        "tree"
    }

    fn check(&self, settings: &[(String, String)]) -> Result<()> {
        TreeOptions::parse(settings).map(drop)
    }

    fn files(&self, context: &Context, root: &Root) -> Result<Option<Vec<FileId>>> {
        Blob::decode(&root.blob).map_err(|malformed| malformed.at(place_of_root(context), 0))?;
        Ok(Some(vec![FileId::Pages(context.keyspace)]))
    }

    fn create(&self, context: Context) -> Result<(Made, Root)> {
        let _turn = self.making.lock();
        let options = TreeOptions::parse(&context.settings)?;
        let file = PageFile::create(&context.shared.environment(), context.keyspace)?;
        let made = || {
            let tree = self.empty(&context, (options, PageFill::Even), &file)?;
            let root = tree.take_checkpoint()?;
            Ok((Made::Ordered(tree), root))
        };
        made().inspect_err(|_| {
            // What went wrong first is what the caller needs to know; a file that stays is removed at the next open.
            let _ = context.shared.storage.remove(file.id());
        })
    }

    fn open(&self, context: Context, root: &Root) -> Result<Made> {
        Ok(Made::Ordered(self.part(context, &root.blob, PageFill::Even)?))
    }
}
