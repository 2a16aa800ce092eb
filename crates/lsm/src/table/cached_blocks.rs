//! The blocks of one table in the block cache (lsm.md, "Caches").

use std::sync::Arc;

use ecotone_engine::page_cache::{PageCache, PageId};
use ecotone_substrate::limits::PAGE;

/// Access to a table's blocks in the cache, each stored as numbered pages. Blocks are immutable, so a cached page is
/// always valid.
#[derive(Debug)]
pub(super) struct CachedBlocks {
    cache: Arc<PageCache>,
    table: u32,
}

impl CachedBlocks {
    /// Access for one more table; `None` if the cache has no table numbers left.
    pub(super) fn new(cache: &Arc<PageCache>) -> Option<CachedBlocks> {
        cache.number_of_table().map(|table| CachedBlocks { cache: cache.clone(), table })
    }

    /// The cache ids of the pages of a block of `len` bytes. Of a table above 256 MiB only the blocks of the first 256
    /// MiB can be cached.
    fn pages(&self, block: u32, len: usize) -> impl Iterator<Item = PageId> {
        let pages = len / PAGE;
        let first = u16::try_from(block as usize * pages + pages - 1).map(|last| last - (pages - 1) as u16);
        let numbers = first.into_iter().flat_map(move |first| first..=first + (pages - 1) as u16);
        numbers.map(|page| PageId::of_table(self.table, page))
    }

    /// Copies a block if all of it is cached. Counts as a cache access: a request that the cache saved, or that more
    /// memory would save.
    pub(super) fn copy(&self, block: u32, to: &mut [u8]) -> bool {
        self.cache.count(1);
        let mut pages = self.pages(block, to.len()).zip(to.chunks_exact_mut(PAGE)).peekable();
        pages.peek().is_some() && pages.all(|(id, page)| self.cache.read(id, page))
    }

    /// Whether all of a block of `len` bytes is cached. This does not count as an access.
    pub(super) fn has(&self, block: u32, len: usize) -> bool {
        let mut pages = self.pages(block, len).peekable();
        pages.peek().is_some() && pages.all(|id| self.cache.has(id))
    }

    /// Frees the memory of a block that no reader needs any more.
    pub(super) fn forget(&self, block: u32, len: usize) {
        self.pages(block, len).for_each(|id| self.cache.forget(id));
    }

    /// Admits a block that was read and checked.
    pub(super) fn admit(&self, block: u32, bytes: &[u8]) {
        for (id, page) in self.pages(block, bytes.len()).zip(bytes.chunks_exact(PAGE)) {
            self.cache.admit(id, page, self.cache.ticket(id));
        }
    }
}
