//! Writes pages: fresh ones into free space, changed ones in place.
//!
//! 1. Before a record of the log is written into a page, the log is synced ([`sync_log`](PageWriter::sync_log)).
//! 2. A fresh page is written into free space and synced before a structural record names it.
//! 3. A changed page goes through the double-write area, since a crash may tear a write in place.
//! 4. After a write the page cache forgets the old content (tree-protocol.md, invariant 17).

use std::sync::Arc;

use ecotone_engine::{
    contract::Context,
    page_cache::{PageCache, PageId},
};
use ecotone_substrate::{
    Result, Seq, bug,
    double_write::{PageWrite, changed_sectors},
    limits::DOUBLE_WRITE_PAGES,
    memory::Component,
    page::PageAddress,
    storage::{Block, Queue},
    wal::Durability,
};
use ecotone_sys::chunk::Size;

use super::{page_allocator::IoPurpose, store::Store};

/// Least limit of the dirty bytes of one batch.
const LEAST_BYTES: usize = 16 << 10;
/// Greatest limit. The structural record must fit into a log record even if every page gets the longest fences.
const MOST_BYTES: usize = 1 << 20;

/// The writer of one keyspace's pages.
#[derive(Debug)]
pub(crate) struct PageWriter {
    context: Context,
    store: Arc<Store>,
    page_cache: Arc<PageCache>,
    /// The keyspace's number within the caches.
    number: u16,
}

impl PageWriter {
    pub(crate) fn new(context: Context, store: Arc<Store>, page_cache: Arc<PageCache>, number: u16) -> Self {
        PageWriter { context, store, page_cache, number }
    }

    /// Pages of one batch. Fewer if the memory budget is small, since a batch holds two frames a page for a while.
    pub(crate) fn batch_pages(&self) -> usize {
        (self.context.shared.memory.budget() >> 18).clamp(32, DOUBLE_WRITE_PAGES)
    }

    /// Bytes of dirty records that a batch takes.
    pub(crate) fn batch_bytes(&self) -> usize {
        (self.context.shared.memory.budget() >> 5).clamp(LEAST_BYTES, MOST_BYTES)
    }

    /// The sequence of a data page that is written now (repair.md, "Which page is current"). It never decreases, not
    /// even after a power failure, and every open raises it. The caller holds claims on the page or on the pages that
    /// it replaces.
    pub(crate) fn page_sequence(&self) -> Seq {
        self.context.shared.wal.synced().saturating_add(self.context.incarnation())
    }

    /// Memory for a page that is built now, in a session that has begun: the page's sequence has its incarnation.
    pub(crate) fn begin_page(&self) -> Result<Block> {
        self.context.begin_session()?;
        self.context.shared.memory.lease_essential(Component::Frames, Size::Frame)
    }

    /// Allocates runs of pages, including pages freed by syncs of the log meanwhile. Returns the first page of each
    /// run. Syncs the log to free all pending pages if many pages wait for a sync, which may not come without logged
    /// writes, or if the file cannot grow.
    pub(crate) fn allocate(&self, runs: &[u8]) -> Result<Vec<u32>> {
        let space = &self.store.space;
        space.release(self.context.shared.wal.synced());
        if space.has_many_pending_frees() {
            self.free_all()?;
        }
        match space.allocate_runs(runs) {
            Err(error) if error.is_no_space() => {
                self.free_all()?;
                space.allocate_runs(runs)
            }
            taken => taken,
        }
    }

    fn free_all(&self) -> Result<()> {
        let wal = &self.context.shared.wal;
        wal.commit(wal.tail(), Durability::Sync)?;
        self.store.space.release(wal.synced());
        Ok(())
    }

    /// The write-ahead rule: syncs the log up to its tail before any taken record is written to a page.
    pub(crate) fn sync_log(&self) -> Result<()> {
        if !self.context.logged || bug!(SkipWriteAhead) {
            return Ok(());
        }
        self.context.shared.wal.commit(self.context.shared.wal.tail(), Durability::Sync)
    }

    /// Writes pages into free space, in a session that has begun, and syncs them. Then drops what the page cache has of
    /// their former content.
    pub(crate) fn write_new(
        &self,
        cause: IoPurpose,
        pages: &[u32],
        fill: impl FnMut(usize, PageAddress, &mut [u8]),
    ) -> Result<()> {
        self.context.begin_session()?;
        self.store.file.writing()?.pages(cause, pages, fill)?;
        self.forget_pages(pages);
        Ok(())
    }

    /// The write of a changed page in place.
    pub(crate) fn page_write(&self, page: u32, old: &Block, block: Block) -> PageWrite {
        PageWrite { file: self.store.file.file().clone(), page, sectors: changed_sectors(old, &block), block }
    }

    /// A queue for [`write_in_place`](Self::write_in_place).
    pub(crate) fn queue(&self) -> Result<Box<dyn Queue>> {
        self.context.shared.storage.queue()
    }

    /// Writes changed pages through the double-write area.
    pub(crate) fn write_in_place(&self, mut queue: Box<dyn Queue>, mut writes: Vec<PageWrite>) -> Result<()> {
        let pages: Vec<u32> = writes.iter().map(|write| write.page).collect();
        self.store.file.traffic().written(IoPurpose::WriteOut, writes.len());
        while !writes.is_empty() {
            let rest = writes.split_off(writes.len().min(DOUBLE_WRITE_PAGES));
            self.context.shared.double_write.write(&mut *queue, writes)?;
            writes = rest;
        }
        self.forget_pages(&pages);
        Ok(())
    }

    /// Drops pages from the page cache. Must be called after pages are written, before anything relies on the new
    /// content (tree-protocol.md, invariant 17).
    fn forget_pages(&self, pages: &[u32]) {
        pages.iter().for_each(|page| self.page_cache.forget(PageId::of_tree(self.number, *page)));
    }
}
