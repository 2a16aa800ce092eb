//! Protects in-place page writes against torn pages: the changed sectors of a batch are first written to an area of
//! their own (commit-and-recovery.md, "Double-write"; `docs/format/double-write.md`).

mod area;
mod repair;
mod saved;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use ecotone_sys::{chunk::Block, primitive::Mutex};

use self::area::{AREA_BYTES, Area};
pub use self::{repair::Repaired, saved::SavedPages};
use crate::{
    Result,
    health::Health,
    limits::{DOUBLE_WRITE_PAGES, PAGE, SECTOR},
    memory::Memory,
    storage::{Access, Completion, File, FileId, Op, Queue, Request, Storage},
};

/// The only area so far.
const FILE: FileId = FileId::Double(0);

/// A page to write in place.
#[derive(Debug)]
pub struct PageWrite {
    /// Its file, opened for direct access.
    pub file: Arc<dyn File>,
    /// Its number in the file.
    pub page: u32,
    /// The 512-byte sectors that differ from the page in place, bit *i* for sector *i* ([`changed_sectors`]).
    pub sectors: u8,
    /// The new page: 4096 bytes, sealed.
    pub block: Block,
}

/// The sectors in which two pages differ, bit *i* for sector *i*.
pub fn changed_sectors(old: &[u8], new: &[u8]) -> u8 {
    let pairs = old.chunks(SECTOR).zip(new.chunks(SECTOR)).take(PAGE / SECTOR).enumerate();
    pairs.fold(0, |mask, (i, (old, new))| mask | (u8::from(old != new) << i))
}

/// The double-write area of a database. Holds memory for the largest batch, so that writing out never waits for memory.
pub struct DoubleWrite {
    file: Arc<dyn File>,
    memory: Arc<Memory>,
    health: Arc<Health>,
    area: Mutex<Area>,
    /// The pages of the batch whose in-place write failed. No other batch follows it.
    failed: OnceLock<BTreeMap<(FileId, u32), Block>>,
}

impl fmt::Debug for DoubleWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoubleWrite").field("file", &self.file).finish_non_exhaustive()
    }
}

impl DoubleWrite {
    /// Makes the area of a new database, durably. `NoSpace` if the disk is full.
    pub fn create(storage: &Arc<dyn Storage>, memory: &Arc<Memory>, health: &Arc<Health>) -> Result<Self> {
        let mut area = Area::new(memory)?;
        let file = storage.create(FILE, Access::Direct)?;
        file.preallocate(0, AREA_BYTES as u64)?;
        area.clear(&*file).map_err(|e| health.poison(e))?;
        file.sync().and_then(|()| storage.sync_dir()).map_err(|e| health.poison(e))?;
        Ok(Self::with(file, memory, health, area))
    }

    /// Opens the area of an existing database. [`repair`](Self::repair) comes next.
    pub fn open(storage: &Arc<dyn Storage>, memory: &Arc<Memory>, health: &Arc<Health>) -> Result<Self> {
        let file = storage.open(FILE, Access::Direct)?;
        let mut area = Area::new(memory)?;
        area.load(&*file)?;
        Ok(Self::with(file, memory, health, area))
    }

    fn with(file: Arc<dyn File>, memory: &Arc<Memory>, health: &Arc<Health>, area: Area) -> Self {
        let (memory, health) = (memory.clone(), health.clone());
        DoubleWrite { file, memory, health, area: Mutex::new(area), failed: OnceLock::new() }
    }

    /// Writes a batch of at most [`DOUBLE_WRITE_PAGES`] different pages in place and syncs their files. Returns the
    /// batch in its order. The log must be synced up to the last record that the pages contain. Batches wait for one
    /// another. A failure poisons the database. The pages in place are then uncertain, so readers call
    /// [`amend`](Self::amend).
    ///
    /// # Panics
    /// If the batch is too large, a block is no page, or `queue` has requests of another caller.
    pub fn write(&self, queue: &mut dyn Queue, pages: Vec<PageWrite>) -> Result<Vec<PageWrite>> {
        assert!(pages.len() <= DOUBLE_WRITE_PAGES, "a batch has at most {DOUBLE_WRITE_PAGES} pages");
        assert!(pages.iter().all(|write| write.block.len() == PAGE), "a page has {PAGE} bytes");
        assert_eq!(queue.in_flight(), 0, "the queue is idle");
        let mut area = self.area.lock();
        self.health.check()?;
        if pages.is_empty() {
            return Ok(pages);
        }
        if !bug!(SkipDoubleWrite) {
            self.write_area(&mut area, queue, &pages).map_err(|e| self.health.poison(e))?;
        }
        let (pages, written) = write_in_place(queue, pages);
        // A failed sync of the same files elsewhere may have lost these pages too.
        match written.and_then(|()| self.health.check()) {
            Ok(()) => Ok(pages),
            Err(error) => {
                self.keep(pages);
                Err(self.health.poison(error))
            }
        }
    }

    /// Keeps a batch that failed, before another thread can read its pages.
    fn keep(&self, pages: Vec<PageWrite>) {
        let images = pages.into_iter().map(|write| ((write.file.id(), write.page), write.block));
        let first = self.failed.set(images.collect()).is_ok();
        debug_assert!(first, "nothing is written after a failure");
    }

    /// Replaces the bytes that were read by the page of a failed batch. All changes of that page are dirty in memory as
    /// well, so the old and the new page are the same to a reader; but the disk may hold neither.
    pub fn amend(&self, file: FileId, page: u32, bytes: &mut [u8]) {
        if let Some(image) = self.failed.get().and_then(|images| images.get(&(file, page))) {
            bytes.copy_from_slice(image);
        }
    }

    fn write_area(&self, area: &mut Area, queue: &mut dyn Queue, pages: &[PageWrite]) -> Result<()> {
        area.fill(pages);
        for (i, (block, len)) in area.take().into_iter().enumerate() {
            let offset = (i * area::BLOCK_BYTES) as u64;
            queue.submit(Request { file: self.file.clone(), op: Op::Write, offset, block, len, tag: i as u64 });
        }
        let (done, result) = drain(queue);
        area.put_back(done.into_iter().map(|completion| completion.request.block));
        result.and_then(|()| self.file.sync())
    }
}

/// Writes the pages in place, then syncs their files. Returns the batch in its order, whether they succeed or not. A
/// completion carries its request, and a tag with the position in the batch and the sectors, so that it can become its
/// `PageWrite` again.
fn write_in_place(queue: &mut dyn Queue, pages: Vec<PageWrite>) -> (Vec<PageWrite>, Result<()>) {
    let mut files = BTreeMap::new();
    for (i, write) in pages.into_iter().enumerate() {
        let PageWrite { file, page, sectors, block } = write;
        files.entry(file.id()).or_insert_with(|| file.clone());
        let (offset, tag) = (u64::from(page) * PAGE as u64, ((i as u64) << 8) | u64::from(sectors));
        queue.submit(Request { file, op: Op::Write, offset, block, len: PAGE, tag });
    }
    let (done, written) = drain(queue);
    let synced = written.and_then(|()| files.values().try_for_each(|file| file.sync()));
    (done.into_iter().map(|completion| page_write(completion.request)).collect(), synced)
}

fn page_write(request: Request) -> PageWrite {
    let Request { file, offset, block, tag, .. } = request;
    PageWrite { file, page: (offset / PAGE as u64) as u32, sectors: tag as u8, block }
}

/// Waits for all requests in flight. Returns the completions by tag, and the first failure.
fn drain(queue: &mut dyn Queue) -> (Vec<Completion>, Result<()>) {
    let mut done = Vec::new();
    queue.complete(queue.in_flight(), &mut done);
    done.sort_by_key(|completion| completion.request.tag);
    let result = done.iter().try_for_each(|completion| completion.result.clone());
    (done, result)
}
