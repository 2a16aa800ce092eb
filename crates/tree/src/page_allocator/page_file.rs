//! The page file of one keyspace: creates and opens it, and reads and writes its pages.

use std::sync::Arc;

use ecotone_substrate::{
    Error, Result,
    environment::Environment,
    health::Health,
    limits::PAGE,
    memory::{Component, Memory},
    page::PageAddress,
    storage::{Access, Block, Completion, File, FileId, Op, Queue, Request, Storage},
};
use ecotone_sys::chunk::Size;

use super::{
    header::Header,
    traffic::{IoPurpose, PageIoStats},
};

/// Reads of pages that [`PageFile`] keeps in flight.
const DEPTH: usize = 64;
/// Most neighbouring pages that one request writes.
const RUN: usize = Size::Slab.bytes() / PAGE;
/// Least and most write requests in flight. With the least, one is filled while another is written.
const MIN_WRITES: usize = 2;
const MAX_WRITES: usize = 16;

/// The page file of one keyspace. Page 0 is its header.
#[derive(Debug, Clone)]
pub struct PageFile {
    storage: Arc<dyn Storage>,
    memory: Arc<Memory>,
    health: Arc<Health>,
    file: Arc<dyn File>,
    id: FileId,
    traffic: Arc<PageIoStats>,
}

impl PageFile {
    /// Creates the file with its header, and syncs it. Its name is durable after [`Storage::sync_dir`]. On failure the
    /// file is removed.
    pub fn create(environment: &Environment, keyspace: u32) -> Result<PageFile> {
        let id = FileId::Pages(keyspace);
        let made = Self::of(environment, environment.storage.create(id, Access::Direct)?);
        let written = made.write_header(Header { database: environment.database, keyspace });
        if written.is_err() {
            // The caller needs the first error.
            let _ = environment.storage.remove(id);
        }
        written.map(|()| made)
    }

    /// Opens the file and checks that it belongs to this keyspace of this database.
    pub fn open(environment: &Environment, keyspace: u32) -> Result<PageFile> {
        let file = environment.storage.open(FileId::Pages(keyspace), Access::Direct)?;
        let mut block = environment.memory.lease_essential(Component::Frames, Size::Frame)?;
        file.read(&mut block, 0)?;
        Header { database: environment.database, keyspace }.check(&block)?;
        Ok(Self::of(environment, file))
    }

    fn of(environment: &Environment, file: Arc<dyn File>) -> PageFile {
        let Environment { storage, memory, health, .. } = environment.clone();
        PageFile { storage, memory, health, id: file.id(), file, traffic: Arc::default() }
    }

    fn write_header(&self, header: Header) -> Result<()> {
        let mut block = self.memory.lease_essential(Component::Frames, Size::Frame)?;
        header.encode(&mut block);
        self.file.preallocate(0, PAGE as u64)?;
        let written = self.file.write(&block, 0).and_then(|()| self.file.sync());
        written.map_err(|e| self.health.poison(e))
    }

    /// The file itself.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Counters of the pages read and written, by purpose.
    pub(crate) fn traffic(&self) -> &PageIoStats {
        &self.traffic
    }

    /// The file's identifier.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The address of a page of this file.
    pub fn place(&self, page: u32) -> PageAddress {
        PageAddress { file: self.id.identity(), page }
    }

    /// The error for a damaged page.
    pub fn corruption(&self, page: u32, what: impl Into<String>) -> Error {
        Error::corruption(self.id, offset(page), what)
    }

    /// Reserves the memory and the queue that [`Writing::pages`] needs, so that a write can fail only by a failure of
    /// the disk.
    pub(crate) fn writing(&self) -> Result<Writing> {
        self.health.check()?;
        let slabs = self.memory.lease_in_turn(Component::Frames, MIN_WRITES)?;
        Ok(Writing { file: self.clone(), queue: self.storage.queue()?, slabs })
    }

    /// Reads pages into frames of `component`, with many requests in flight. Returns them in the order requested,
    /// unparsed.
    pub(crate) fn read_pages(&self, pages: &[u32], component: Component, cause: IoPurpose) -> Result<Vec<Block>> {
        self.traffic.read(cause, pages.len());
        let mut queue = self.storage.queue()?;
        let mut frames: Vec<Option<Block>> = pages.iter().map(|_| None).collect();
        let read = self.read_into(&mut *queue, pages, component, &mut frames);
        // No request may outlive the call, even if another one failed.
        queue.complete(queue.in_flight(), &mut Vec::new());
        read?;
        Ok(frames.into_iter().flatten().collect())
    }

    fn read_into(
        &self,
        queue: &mut dyn Queue,
        pages: &[u32],
        component: Component,
        frames: &mut [Option<Block>],
    ) -> Result<()> {
        let mut done = Vec::new();
        for (tag, &page) in pages.iter().enumerate() {
            let block = self.memory.lease_essential(component, Size::Frame)?;
            queue.submit(self.request(Op::Read, page, block, tag as u64));
            if queue.in_flight() >= DEPTH {
                queue.complete(1, &mut done);
            }
            keep(&mut done, frames)?;
        }
        queue.complete(queue.in_flight(), &mut done);
        keep(&mut done, frames)
    }

    fn request(&self, op: Op, page: u32, block: Block, tag: u64) -> Request {
        Request { file: self.file.clone(), op, offset: offset(page), block, len: PAGE, tag }
    }
}

/// Puts finished reads at their positions.
fn keep(done: &mut Vec<Completion>, frames: &mut [Option<Block>]) -> Result<()> {
    for completion in done.drain(..) {
        completion.result?;
        frames[completion.request.tag as usize] = Some(completion.request.block);
    }
    Ok(())
}

fn offset(page: u32) -> u64 {
    u64::from(page) * PAGE as u64
}

/// A prepared write of many pages, with its memory and its queue.
#[derive(Debug)]
pub(crate) struct Writing {
    file: PageFile,
    queue: Box<dyn Queue>,
    slabs: Vec<Block>,
}

impl Writing {
    /// Writes pages and syncs the file. Neighbouring pages share a request, and many requests are in flight. `fill`
    /// produces the content of the i-th page for its address. A failure poisons.
    pub(crate) fn pages(
        mut self,
        cause: IoPurpose,
        pages: &[u32],
        mut fill: impl FnMut(usize, PageAddress, &mut [u8]),
    ) -> Result<()> {
        self.file.traffic.written(cause, pages.len());
        let written = self.write(pages, &mut fill).and_then(|()| self.file.file.sync());
        written.map_err(|e| self.file.health.poison(e))
    }

    fn write(&mut self, pages: &[u32], fill: &mut dyn FnMut(usize, PageAddress, &mut [u8])) -> Result<()> {
        let (mut result, mut filled) = (Ok(()), 0);
        for run in pages.chunk_by(|page, next| page + 1 == *next).flat_map(|run| run.chunks(RUN)) {
            if result.is_ok() && self.slabs.is_empty() {
                result = self.make_room();
            }
            let (Ok(()), Some(mut slab)) = (&result, self.slabs.pop()) else { break };
            for (page, bytes) in run.iter().zip(slab.chunks_exact_mut(PAGE)) {
                fill(filled, self.file.place(*page), bytes);
                filled += 1;
            }
            let request = self.file.request(Op::Write, run[0], slab, 0);
            self.queue.submit(Request { len: run.len() * PAGE, ..request });
            // This starts the request without waiting for it.
            result = self.queue.take_back(0, &mut self.slabs);
        }
        // All requests are waited for, even if one failed: the queue goes back to its pool.
        let in_flight = self.queue.in_flight();
        self.queue.take_back(in_flight, &mut self.slabs).and(result)
    }

    /// Gets one more slab if there is memory for it, or else waits for a slab of a finished request.
    fn make_room(&mut self) -> Result<()> {
        let more = if self.queue.in_flight() < MAX_WRITES {
            self.file.memory.lease(Component::Frames, Size::Slab)
        } else {
            None
        };
        match more {
            Some(slab) => self.slabs.push(slab),
            None => self.queue.take_back(1, &mut self.slabs)?,
        }
        Ok(())
    }
}
