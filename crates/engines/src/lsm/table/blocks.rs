//! The part of one table in the block cache (decision 11, "Caches").

use std::sync::Arc;

use ecotone_substrate::limits::PAGE;

use crate::page_cache::{PageCache, PageId};

/// Its blocks, each as pages by their numbers. They never change, so whatever is there is right.
#[derive(Debug)]
pub(super) struct Blocks {
    cache: Arc<PageCache>,
    table: u32,
}

impl Blocks {
    /// Those of one more table, unless there are no numbers left.
    pub(super) fn new(cache: &Arc<PageCache>) -> Option<Blocks> {
        cache.number_of_table().map(|table| Blocks { cache: cache.clone(), table })
    }

    /// The names of the pages of a block of so many bytes. Tables of more than 256 MiB keep blocks of their first part.
    fn pages(&self, block: u32, len: usize) -> impl Iterator<Item = PageId> {
        let pages = len / PAGE;
        let first = u16::try_from(block as usize * pages + pages - 1).map(|last| last - (pages - 1) as u16);
        let numbers = first.into_iter().flat_map(move |first| first..=first + (pages - 1) as u16);
        numbers.map(|page| PageId::of_table(self.table, page))
    }

    /// Copies a block, if all of it is there. That counts as a request that was saved, or that more memory would save.
    pub(super) fn copy(&self, block: u32, to: &mut [u8]) -> bool {
        self.cache.count(1);
        let mut pages = self.pages(block, to.len()).zip(to.chunks_exact_mut(PAGE)).peekable();
        pages.peek().is_some() && pages.all(|(id, page)| self.cache.read(id, page))
    }

    /// Whether all of a block of so many bytes is there. That is no access.
    pub(super) fn has(&self, block: u32, len: usize) -> bool {
        let mut pages = self.pages(block, len).peekable();
        pages.peek().is_some() && pages.all(|id| self.cache.has(id))
    }

    /// Gives the memory of a block back, for which nobody asks any more.
    pub(super) fn forget(&self, block: u32, len: usize) {
        self.pages(block, len).for_each(|id| self.cache.forget(id));
    }

    /// Takes a block in that was read and checked.
    pub(super) fn admit(&self, block: u32, bytes: &[u8]) {
        for (id, page) in self.pages(block, bytes.len()).zip(bytes.chunks_exact(PAGE)) {
            self.cache.admit(id, page, self.cache.ticket(id));
        }
    }
}
